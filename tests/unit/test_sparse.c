/* Memory that is mostly zero: packed and unpacked it is the same, and packed it is no longer than it says. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/sparse.h"

enum { GROUPS = 7, LEN = GROUPS * SPARSE_GROUP_BYTES };

static unsigned char bytes[LEN], back[LEN];
static uint64_t packed[SPARSE_WORDS_MAX(LEN)];

/* Returns how many words it took. */
static size_t there_and_back(void)
{
	size_t n = sparse_pack(bytes, LEN, packed);
	uint64_t *exact = malloc(n * sizeof *exact); /* of its own, for AddressSanitizer */

	cr_assert_not_null(exact);
	memcpy(exact, packed, n * sizeof *exact);
	memset(back, 0, sizeof back);
	sparse_unpack(exact, back, LEN);
	free(exact);
	cr_expect_arr_eq(back, bytes, LEN);
	return n;
}

Test(sparse, zeros_take_a_bitmap_a_group)
{
	cr_expect_eq(there_and_back(), GROUPS);
}

Test(sparse, full_takes_all_and_the_bitmaps)
{
	memset(bytes, 0xff, sizeof bytes);
	cr_expect_eq(there_and_back(), SPARSE_WORDS_MAX(LEN));
}

Test(sparse, each_byte_alone)
{
	for (size_t i = 0; i < LEN; i++) {
		bytes[i] = (unsigned char)(i | 1);
		cr_assert_eq(there_and_back(), GROUPS + 1);
		bytes[i] = 0;
	}
}

Test(sparse, any_number_of_bytes)
{
	srand(1);
	for (int round = 0; round < 500; round++) {
		memset(bytes, 0, sizeof bytes);
		for (int i = rand() % 600; i > 0; i--)
			bytes[rand() % LEN] = (unsigned char)rand();
		there_and_back();
	}
}
