#include "io/random_pool.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

/* getrandom(2) promises no more at once. */
enum { ATOMIC_BYTES = 256 };

static void fill(struct random_pool *p)
{
	for (size_t at = 0; at < sizeof p->bytes; at += ATOMIC_BYTES) {
		ssize_t n = getrandom(p->bytes + at, ATOMIC_BYTES, 0);

		assert(n == ATOMIC_BYTES);
	}
	p->left = sizeof p->bytes;
}

void random_take(struct random_pool *p, unsigned char *ret_bytes, size_t len)
{
	if (p->left < len)
		fill(p);
	p->left -= len;
	memcpy(ret_bytes, p->bytes + p->left, len);
}
