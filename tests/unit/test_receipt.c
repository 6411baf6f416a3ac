#include <criterion/criterion.h>

#include "receipt.h"

static struct receipt sample(void)
{
	return (struct receipt){
		.random = {1, 2, 3, 255},
		.n_pairs = 2,
		.pairs = {{.policy = SLICE("api"), .key = SLICE("acme/bob"), .cost = 3},
			  {.policy = SLICE("p"), .key = SLICE("\0{x}"), .cost = 1000000000}},
	};
}

Test(receipt, parses_what_it_writes)
{
	struct receipt in = sample(), out;
	struct buf text = {0}, bytes = {0};

	receipt_write(&text, &in);
	cr_assert_eq(receipt_parse(buf_slice(&text), &bytes, &out), KOVA_OK);
	cr_assert_arr_eq(out.random, in.random, sizeof in.random);
	cr_assert_eq(out.n_pairs, 2);
	for (int i = 0; i < 2; i++) {
		cr_assert(slice_equal(out.pairs[i].policy, in.pairs[i].policy));
		cr_assert(slice_equal(out.pairs[i].key, in.pairs[i].key));
		cr_assert_eq(out.pairs[i].cost, in.pairs[i].cost);
	}
	buf_release(&text);
	buf_release(&bytes);
}

Test(receipt, every_prefix_and_every_longer_text_is_refused)
{
	struct receipt in = sample(), out = {0};
	struct buf text = {0}, bytes = {0};

	receipt_write(&text, &in);
	for (size_t i = 0; i < text.len; i++)
		cr_assert_eq(receipt_parse((struct slice){text.ptr, i}, &bytes, &out), KOVA_EPROTO);
	buf_add_text(&text, "AAAA");
	cr_assert_eq(receipt_parse(buf_slice(&text), &bytes, &out), KOVA_EPROTO);
	cr_assert_eq(out.n_pairs, 0, "the output was touched on failure");
	buf_release(&text);
	buf_release(&bytes);
}
