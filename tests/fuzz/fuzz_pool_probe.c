/* Any bytes as the body of a service that says from where it is asked: nothing is read beyond it, and what is found is an address. */
#include <assert.h>
#include <stdlib.h>

#include "core/pool_probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char none[12];
	char *body =
		malloc(size > 0 ? size : 1); /* of that size, so that a sanitizer sees its end */
	struct pool_exit_address address;

	assert(body != NULL);
	if (size > 0)
		memcpy(body, data, size);
	if (pool_exit_address_find((struct slice){body, size}, &address))
		assert(address.is_v6 || memcmp(address.bytes + 4, none, sizeof none) == 0);
	free(body);
	return 0;
}
