/* An allocator's bytes say all of it, and are few where all regions are in touch. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/allocator_bytes.h"
#include "dice.h"

enum { REGIONS = ALLOCATOR_REGIONS_MAX };

/* Of every length, and 0 often. */
static uint64_t any(struct dice *d)
{
	uint64_t bits = dice_below(d, 65);

	return bits == 0 ? 0 : dice_next(d) >> (64 - bits);
}

static struct allocator_region any_region(struct dice *d)
{
	struct allocator_region r = {
		.clock = any(d),
		.t0_us = any(d),
		.seq = (uint32_t)any(d),
		.heard = (uint32_t)any(d),
		.granted_until = (uint32_t)any(d),
		.granted = (uint32_t)any(d),
		.before = (uint32_t)any(d),
		.used = (uint32_t)any(d),
		.floor = (uint32_t)any(d),
		.demand = (uint32_t)any(d),
		.lent = (uint32_t)any(d),
		.lent_until = (uint32_t)any(d),
		.confirmed = (uint32_t)any(d) & 0xffffff,
		.answered = (uint32_t)dice_below(d, 2) & 1,
		.restored = (uint32_t)dice_below(d, 2) & 1,
		.cut = (uint32_t)dice_below(d, 2) & 1,
	};

	return r;
}

static void expect_same(const struct allocator_region *a, const struct allocator_region *b)
{
	cr_assert_eq(a->clock, b->clock);
	cr_assert_eq(a->t0_us, b->t0_us);
	cr_assert_eq(a->seq, b->seq);
	cr_assert_eq(a->heard, b->heard);
	cr_assert_eq(a->granted_until, b->granted_until);
	cr_assert_eq(a->granted, b->granted);
	cr_assert_eq(a->before, b->before);
	cr_assert_eq(a->used, b->used);
	cr_assert_eq(a->floor, b->floor);
	cr_assert_eq(a->demand, b->demand);
	cr_assert_eq(a->lent, b->lent);
	cr_assert_eq(a->lent_until, b->lent_until);
	cr_assert_eq(a->confirmed, b->confirmed);
	cr_assert_eq(a->answered, b->answered);
	cr_assert_eq(a->restored, b->restored);
	cr_assert_eq(a->cut, b->cut);
}

Test(allocator_bytes, say_all_of_it)
{
	unsigned char bytes[ALLOCATOR_PACKED_MAX(REGIONS)];
	struct allocator *a = malloc(ALLOCATOR_BYTES(REGIONS)),
			 *b = malloc(ALLOCATOR_BYTES(REGIONS));
	struct dice d = {3};

	for (unsigned round = 0; round < 20000; round++) {
		unsigned n = 1 + (unsigned)dice_below(&d, REGIONS);
		size_t len;

		a->confirmed = (uint32_t)any(&d);
		a->newest = (uint32_t)any(&d);
		a->wanted = (uint32_t)any(&d);
		for (unsigned i = 0; i < n; i++)
			a->region[i] = any_region(&d);
		len = allocator_pack(a, n, bytes);
		cr_assert_leq(len, ALLOCATOR_PACKED_MAX(n));
		allocator_unpack(b, n, (struct slice){(const char *)bytes, len});
		cr_assert_eq(a->confirmed, b->confirmed);
		cr_assert_eq(a->newest, b->newest);
		cr_assert_eq(a->wanted, b->wanted);
		for (unsigned i = 0; i < n; i++)
			expect_same(&a->region[i], &b->region[i]);
	}
	free(a);
	free(b);
}
