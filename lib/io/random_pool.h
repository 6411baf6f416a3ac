/* Unguessable bytes, a few at a time: the kernel is asked for many at once. Of one thread. */
#pragma once

#include <stddef.h>

enum { RANDOM_POOL_BYTES = 1024 };

/* All zeros at first. */
struct random_pool {
	unsigned char bytes[RANDOM_POOL_BYTES];
	size_t left;
};

/* `len` 0..RANDOM_POOL_BYTES. */
void random_take(struct random_pool *p, unsigned char *ret_bytes, size_t len);
