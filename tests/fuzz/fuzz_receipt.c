/*
 * Any bytes as a receipt, as its text and as what its text says: refused, or read as what is written to the same text.
 */
#include <assert.h>

#include "core/base64url.h"
#include "core/limit.h"
#include "receipt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct slice text)
{
	struct buf bytes = {0}, again = {0};
	struct receipt receipt;

	if (receipt_parse(text, &bytes, &receipt) == KOVA_OK) {
		assert(receipt.n_pairs >= 1 && receipt.n_pairs <= REQUEST_PAIRS_MAX);
		for (unsigned i = 0; i < receipt.n_pairs; i++) {
			const struct request_pair *p = &receipt.pairs[i];

			assert(p->key.len >= 1 && p->key.len <= REQUEST_KEY_MAX);
			assert(p->cost >= 1 && p->cost <= LIMIT_MAX);
		}
		receipt_write(&again, &receipt);
		assert(slice_equal(buf_slice(&again), text));
	}
	buf_release(&bytes);
	buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice input = {(const char *)data, size};
	struct buf text = {0};

	check(input);
	base64url_write(&text, input);
	check(buf_slice(&text));
	buf_release(&text);
	return 0;
}
