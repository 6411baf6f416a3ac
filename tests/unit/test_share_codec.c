/* Reports and grants come back from their bytes as they were, and what nobody would say is no message. */
#include <criterion/criterion.h>

#include "core/limit.h"
#include "dice.h"
#include "io/share_codec.h"

static const struct share_quota quota = {{"eu-west", 7}, {"api", 3}, {"a\0/b", 4}};

static void expect_quota(const struct share_quota *q)
{
	cr_expect(slice_equal(q->region, quota.region));
	cr_expect(slice_equal(q->policy, quota.policy));
	cr_expect(slice_equal(q->root, quota.root));
}

static struct share_grant some_grant(struct dice *d)
{
	uint32_t whole = 1 + (uint32_t)dice_below(d, LIMIT_MAX);

	return (struct share_grant){.seq = 1 + dice_below(d, UINT64_MAX - 1),
				    .clock = 1 + dice_below(d, UINT64_MAX - 1),
				    .t0_us = dice_below(d, LIMIT_FOREVER_US + 1),
				    .duration_us = dice_below(d, LIMIT_FOREVER_US + 1),
				    .whole = whole,
				    .parts = (uint32_t)dice_below(d, whole + 1),
				    .before = (uint32_t)dice_below(d, whole + 1),
				    .window = (uint32_t)dice_below(d, UINT32_MAX),
				    .floor = (uint32_t)dice_below(d, whole + 1),
				    .floors = (uint32_t)dice_below(d, UINT32_MAX),
				    .epoch = 1 + dice_below(d, UINT64_MAX - 1),
				    .c0_us = dice_below(d, LIMIT_FOREVER_US + 1)};
}

static struct share_report some_report(struct dice *d)
{
	uint32_t whole = 1 + (uint32_t)dice_below(d, LIMIT_MAX);

	return (struct share_report){.clock = 1 + dice_below(d, UINT64_MAX - 1),
				     .t0_us = dice_below(d, LIMIT_FOREVER_US + 1),
				     .seq = dice_below(d, UINT64_MAX),
				     .live = dice_below(d, 2) == 1,
				     .whole = whole,
				     .demand = (uint32_t)dice_below(d, UINT32_MAX),
				     .used = (uint32_t)dice_below(d, UINT32_MAX),
				     .window = (uint32_t)dice_below(d, UINT32_MAX),
				     .floors = (uint32_t)dice_below(d, UINT32_MAX),
				     .lent = (uint32_t)dice_below(d, whole + 1),
				     .lent_epoch = dice_below(d, UINT64_MAX),
				     .lent_c0_us = dice_below(d, LIMIT_FOREVER_US + 1),
				     .floor = (uint32_t)dice_next(d)};
}

Test(share_codec, a_grant_is_what_it_was)
{
	struct dice d = {1};

	for (int i = 0; i < 1000; i++) {
		const struct share_grant g = some_grant(&d);
		struct share_grant_message m;
		struct buf bytes = {0};

		share_grant_write(&quota, &g, &bytes);
		cr_assert(bytes.len <= SHARE_GRANT_BYTES_MAX);
		cr_assert_eq(share_grant_parse(buf_slice(&bytes), &m), KOVA_OK);
		expect_quota(&m.quota);
		cr_expect_eq(m.grant.seq, g.seq);
		cr_expect_eq(m.grant.clock, g.clock);
		cr_expect_eq(m.grant.t0_us, g.t0_us);
		cr_expect_eq(m.grant.duration_us, g.duration_us);
		cr_expect_eq(m.grant.whole, g.whole);
		cr_expect_eq(m.grant.parts, g.parts);
		cr_expect_eq(m.grant.before, g.before);
		cr_expect_eq(m.grant.window, g.window);
		cr_expect_eq(m.grant.floor, g.floor);
		cr_expect_eq(m.grant.floors, g.floors);
		cr_expect_eq(m.grant.epoch, g.epoch);
		cr_expect_eq(m.grant.c0_us, g.c0_us);
		share_grant_release(&m);
		buf_release(&bytes);
	}
}

Test(share_codec, a_report_is_what_it_was)
{
	struct dice d = {2};

	for (int i = 0; i < 1000; i++) {
		const struct share_report r = some_report(&d);
		struct share_report_message m;
		struct buf bytes = {0};

		share_report_write(&quota, &r, &bytes);
		cr_assert_eq(share_report_parse(buf_slice(&bytes), &m), KOVA_OK);
		expect_quota(&m.quota);
		cr_expect_eq(m.report.clock, r.clock);
		cr_expect_eq(m.report.t0_us, r.t0_us);
		cr_expect_eq(m.report.seq, r.seq);
		cr_expect_eq(m.report.live, r.live);
		cr_expect_eq(m.report.whole, r.whole);
		cr_expect_eq(m.report.demand, r.demand);
		cr_expect_eq(m.report.used, r.used);
		cr_expect_eq(m.report.window, r.window);
		cr_expect_eq(m.report.floors, r.floors);
		cr_expect_eq(m.report.lent, r.lent);
		cr_expect_eq(m.report.lent_epoch, r.lent_epoch);
		cr_expect_eq(m.report.lent_c0_us, r.lent_c0_us);
		cr_expect_eq(m.report.floor, r.floor);
		share_report_release(&m);
		buf_release(&bytes);
	}
}

static kova_status parse_grant(const struct share_quota *q, const struct share_grant *g)
{
	struct share_grant_message m;
	struct buf bytes = {0};

	share_grant_write(q, g, &bytes);
	kova_status status = share_grant_parse(buf_slice(&bytes), &m);

	if (status == KOVA_OK)
		share_grant_release(&m);
	buf_release(&bytes);
	return status;
}

Test(share_codec, what_nobody_grants_is_no_grant)
{
	const struct share_grant good = {.seq = 1,
					 .clock = 1,
					 .whole = 10,
					 .parts = 10,
					 .before = 10,
					 .floor = 10,
					 .epoch = 1};
	const struct share_quota nameless = {SLICE("eu"), SLICE("a b"), SLICE("r")};
	struct share_grant g;

	cr_expect_eq(parse_grant(&quota, &good), KOVA_OK);
	cr_expect_eq(parse_grant(&nameless, &good), KOVA_EPROTO);
#define BAD(field, value)                                                              \
	do {                                                                           \
		g = good;                                                              \
		g.field = (value);                                                     \
		cr_expect_eq(parse_grant(&quota, &g), KOVA_EPROTO, #field " " #value); \
	} while (0)
	BAD(seq, 0);
	BAD(clock, 0);
	BAD(whole, 0);
	BAD(whole, LIMIT_MAX + 1);
	BAD(parts, 11);
	BAD(before, 11);
	BAD(floor, 11);
	BAD(epoch, 0);
	BAD(t0_us, LIMIT_FOREVER_US + 1);
	BAD(duration_us, LIMIT_FOREVER_US + 1);
	BAD(c0_us, LIMIT_FOREVER_US + 1);
#undef BAD
}

static kova_status parse_report(const struct share_report *r)
{
	struct share_report_message m;
	struct buf bytes = {0};

	share_report_write(&quota, r, &bytes);
	kova_status status = share_report_parse(buf_slice(&bytes), &m);

	if (status == KOVA_OK)
		share_report_release(&m);
	buf_release(&bytes);
	return status;
}

Test(share_codec, what_no_region_says_is_no_report)
{
	const struct share_report good = {.clock = 1, .whole = 10, .lent = 10};
	struct share_report r;

	cr_expect_eq(parse_report(&good), KOVA_OK);
#define BAD(field, value)                                                       \
	do {                                                                    \
		r = good;                                                       \
		r.field = (value);                                              \
		cr_expect_eq(parse_report(&r), KOVA_EPROTO, #field " " #value); \
	} while (0)
	BAD(clock, 0);
	BAD(whole, 0);
	BAD(whole, LIMIT_MAX + 1);
	BAD(lent, 11);
	BAD(t0_us, LIMIT_FOREVER_US + 1);
	BAD(lent_c0_us, LIMIT_FOREVER_US + 1);
#undef BAD
}

Test(share_codec, bytes_of_something_else)
{
	struct share_grant_message g;
	struct share_report_message r;
	struct dice d = {3};
	unsigned char bytes[64];

	cr_expect_eq(share_grant_parse((struct slice){NULL, 0}, &g), KOVA_EPROTO);
	cr_expect_eq(share_report_parse((struct slice){NULL, 0}, &r), KOVA_EPROTO);
	for (int i = 0; i < 20000; i++) {
		size_t n = dice_below(&d, sizeof bytes);

		for (size_t k = 0; k < n; k++)
			bytes[k] = (unsigned char)dice_below(&d, 256);
		if (share_grant_parse((struct slice){(char *)bytes, n}, &g) == KOVA_OK)
			share_grant_release(&g);
		if (share_report_parse((struct slice){(char *)bytes, n}, &r) == KOVA_OK)
			share_report_release(&r);
	}
}
