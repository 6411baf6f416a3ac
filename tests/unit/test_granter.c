/* The allocators of a partition: who is told what, which of them have news, and what one that takes over is told. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "granter.h"

#define SECOND UINT64_C(1000000)

static struct global_terms terms_new(unsigned n_policies)
{
	struct global_terms t = {.n_regions = 2, .n = n_policies};

	t.policies = calloc(n_policies, sizeof *t.policies);
	strcpy(t.region[0].name, "eu");
	strcpy(t.region[1].name, "us");
	for (unsigned i = 0; i < n_policies; i++) {
		snprintf(t.policies[i].name, sizeof t.policies[i].name, "p%u", i);
		t.policies[i].terms = (struct allocator_terms){
			.kind = SHARE_RATE,
			.n_regions = 2,
			.whole = 1000,
			.duration_us = 5 * SECOND,
			.margin_us = 600000,
			.max_skew_us = 250000,
			.floors = 1,
			.region = {{100, 100, 1}, {100, 100, 1}},
		};
	}
	return t;
}

static struct share_quota quota(const char *region, const char *policy, const char *root)
{
	return (struct share_quota){slice_of(region), slice_of(policy), slice_of(root)};
}

static kova_status report(struct granter *g, struct share_quota q, uint64_t t0_us, uint32_t demand,
			  uint64_t now_us)
{
	const struct share_report r = {.clock = 1, .t0_us = t0_us, .whole = 1000, .demand = demand};

	return granter_report(g, &q, &r, now_us);
}

/* The grants as they came. */
struct given {
	struct {
		char name[200];
		struct share_grant grant;
	} grant[64];
	unsigned n, most;
};

static bool give(const struct share_quota *q, const struct share_grant *grant, void *data)
{
	struct given *g = data;

	snprintf(g->grant[g->n].name, sizeof g->grant[g->n].name, "%.*s/%.*s/%.*s",
		 (int)q->policy.len, q->policy.ptr, (int)q->root.len, q->root.ptr,
		 (int)q->region.len, q->region.ptr);
	g->grant[g->n++].grant = *grant;
	return g->n < g->most;
}

static const struct share_grant *given_to(const struct given *g, const char *name)
{
	for (unsigned i = g->n; i-- > 0;)
		if (strcmp(g->grant[i].name, name) == 0)
			return &g->grant[i].grant;
	return NULL;
}

Test(granter, each_quota_is_shared_by_itself)
{
	struct global_terms t = terms_new(2);
	struct given got = {.most = 64};
	struct keys keys = {0};
	struct granter g;

	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	cr_assert_eq(report(&g, quota("eu", "p0", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_assert_eq(report(&g, quota("us", "p0", "b"), 1, 2000, SECOND), KOVA_OK);
	cr_assert_eq(report(&g, quota("us", "p1", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_expect_eq(report(&g, quota("us", "p2", "a"), 1, 2000, SECOND), KOVA_ENOTFOUND);
	cr_expect_eq(report(&g, quota("ap", "p0", "a"), 1, 2000, SECOND), KOVA_ENOTFOUND);
	cr_expect_eq(g.n_quotas, 3);
	cr_assert(granter_decide(&g, SECOND, give, &got));
	cr_assert_eq(got.n, 3);
	cr_expect_eq(given_to(&got, "p0/a/eu")->parts, 900);
	cr_expect_eq(given_to(&got, "p0/b/us")->parts, 900);
	cr_expect_eq(given_to(&got, "p1/a/us")->parts, 900);
	cr_expect_eq(given_to(&got, "p1/a/us")->epoch, 5);
	cr_assert(granter_decide(&g, 9 * SECOND, give, &got));
	cr_expect_eq(got.n, 3, "nothing is new");
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

Test(granter, a_thousand_quotas_are_found_again)
{
	struct global_terms t = terms_new(3);
	struct given got = {.most = 1};
	struct keys keys = {0};
	struct granter g;
	char root[16], policy[8];

	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	for (unsigned round = 1; round <= 2; round++)
		for (unsigned i = 0; i < 3000; i++) {
			snprintf(root, sizeof root, "r%u", i / 3);
			snprintf(policy, sizeof policy, "p%u", i % 3);
			cr_assert_eq(report(&g, quota("eu", policy, root), round, 500, SECOND),
				     KOVA_OK);
		}
	cr_expect_eq(g.n_quotas, 3000);
	cr_expect_not(granter_decide(&g, SECOND, give, &got), "that was enough");
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

static struct share_grant before(uint32_t parts)
{
	return (struct share_grant){.seq = 9,
				    .clock = 1,
				    .t0_us = 1,
				    .duration_us = 5 * SECOND,
				    .whole = 1000,
				    .parts = parts,
				    .floor = 100,
				    .floors = 1,
				    .epoch = 4};
}

Test(granter, who_takes_over_counts_what_was_granted)
{
	struct global_terms t = terms_new(1);
	const struct share_grant first = before(300), newest = before(700);
	const struct share_quota eu = quota("eu", "p0", "a"), other = quota("eu", "q", "a");
	struct given got = {.most = 64};
	struct keys keys = {0};
	struct granter g;

	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	cr_assert_eq(granter_restore(&g, &eu, &first, SECOND), KOVA_OK);
	cr_assert_eq(granter_restore(&g, &eu, &newest, SECOND), KOVA_OK);
	cr_expect_eq(granter_restore(&g, &other, &newest, SECOND), KOVA_ENOTFOUND);
	cr_assert_eq(report(&g, quota("us", "p0", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, SECOND, give, &got));
	cr_assert_eq(got.n, 1);
	cr_expect_eq(got.grant[0].grant.parts, 300);
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

/* As partition.c does with what a thread has read: the partition has other keys, under other numbers. */
Test(granter, who_moves_has_counted_what_was_granted)
{
	struct global_terms t = terms_new(2);
	const struct share_grant newest = before(700);
	const struct share_quota eu = quota("eu", "p1", "a");
	struct given got = {.most = 64};
	struct keys keys = {0}, own = {0};
	struct granter g;
	uint32_t number;

	for (unsigned i = 0; i < 9; i++) {
		char root[2] = {(char)('z' - i), '\0'};
		const struct keys_name name = {.root = slice_of(root)};

		cr_assert_eq(keys_policy(&keys, SLICE("another"), &number), KOVA_OK);
		cr_assert_eq(keys_make(&keys, &name, &number), KOVA_OK);
	}
	cr_assert_eq(granter_init(&g, &t, &own, 5, 1), KOVA_OK);
	cr_assert_eq(granter_restore(&g, &eu, &newest, SECOND), KOVA_OK);
	cr_assert_eq(granter_move(&g, &keys), KOVA_OK);
	keys_release(&own);
	cr_expect_eq(g.n_quotas, 1);
	cr_assert_eq(report(&g, quota("us", "p1", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_assert_eq(report(&g, quota("us", "p0", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, SECOND, give, &got));
	cr_assert_eq(got.n, 2);
	cr_expect_eq(given_to(&got, "p1/a/us")->parts, 300);
	cr_expect_eq(given_to(&got, "p0/a/us")->parts, 900);
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

Test(granter, what_a_region_has_that_is_none_any_more_is_waited_for)
{
	struct global_terms t = terms_new(1);
	const struct share_grant grant = before(700);
	const struct share_quota gone = quota("gone", "p0", "a");
	struct given got = {.most = 64};
	struct keys keys = {0};
	struct granter g;

	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	cr_assert_eq(granter_restore(&g, &gone, &grant, SECOND), KOVA_OK);
	cr_assert_eq(report(&g, quota("us", "p0", "b"), 1, 2000, SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, 6 * SECOND, give, &got));
	cr_expect_eq(got.n, 0);
	cr_assert(granter_decide(&g, 8 * SECOND, give, &got));
	cr_expect_eq(got.n, 1);
	granter_release(&g);
	strcpy(t.region[1].name, "gone");
	t.region[1].is_dead = true;
	cr_assert_eq(granter_init(&g, &t, &keys, 6, 1), KOVA_OK);
	cr_assert_eq(granter_restore(&g, &gone, &grant, SECOND), KOVA_OK);
	cr_expect_eq(report(&g, gone, 2, 2000, SECOND), KOVA_ENOTFOUND);
	cr_assert_eq(report(&g, quota("eu", "p0", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, SECOND, give, &got));
	cr_assert_eq(got.n, 2);
	cr_expect_eq(got.grant[1].grant.parts, 900, "the operator's word: it has nothing");
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

static bool forget(const struct share_quota *q, void *data)
{
	struct given *g = data;
	const struct share_grant none = {0};

	give(q, &none, g);
	return true;
}

Test(granter, what_is_idle_is_given_up_with_its_records_and_numbers_go_on)
{
	enum { QUOTAS = 40 };
	const uint64_t later = 700 * SECOND;
	struct global_terms t = terms_new(2);
	struct given got = {.most = 64}, gone = {.most = 64};
	struct share_report r = {.clock = 1, .t0_us = 9, .whole = 1000, .demand = 500, .seq = 7};
	char root[8];
	struct keys keys = {0};
	struct granter g;

	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	for (unsigned i = 0; i < QUOTAS; i++) {
		snprintf(root, sizeof root, "r%u", i);
		cr_assert_eq(report(&g, quota("eu", "p0", root), 1, 500, SECOND), KOVA_OK);
	}
	cr_assert(granter_decide(&g, SECOND, give, &got));
	cr_assert_eq(got.n, QUOTAS);
	cr_assert(granter_sweep(&g, 2 * SECOND, 1000, forget, &gone));
	cr_expect_eq(gone.n, 0);
	cr_expect_eq(g.sums[0].n_active, QUOTAS);
	cr_expect_eq(g.sums[0].region[0].share_ppm, QUOTAS * UINT64_C(763000));
	cr_expect_eq(g.sums[0].region[1].share_ppm, QUOTAS * UINT64_C(100000));
	cr_assert_eq(report(&g, quota("eu", "p0", "r3"), 2, 500, later - SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, later - SECOND, give, &got));
	cr_assert(granter_sweep(&g, later, 1000, forget, &gone));
	cr_expect_eq(g.n_quotas, 1, "the others are at rest");
	cr_expect_eq(gone.n, QUOTAS - 1);
	cr_expect_eq(g.sums[0].n_active, 1);
	/* What is left is found, and what comes again begins after what its region has read. */
	cr_assert_eq(report(&g, quota("eu", "p0", "r3"), 3, 500, later), KOVA_OK);
	cr_expect_eq(g.n_quotas, 1);
	cr_assert_eq(granter_report(&g,
				    &(struct share_quota){SLICE("eu"), SLICE("p0"), SLICE("r4")},
				    &r, later),
		     KOVA_OK);
	got.n = 0;
	cr_assert(granter_decide(&g, later, give, &got));
	cr_expect_eq(given_to(&got, "p0/r4/eu")->seq, 8);
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

Test(granter, times_are_of_the_ownership_and_promises_echo_the_record)
{
	const uint64_t base = 400 * 86400 * SECOND;
	struct global_terms t = terms_new(1);
	struct given got = {.most = 64};
	struct share_report lends = {
		.clock = 1, .t0_us = 5, .whole = 1000, .floors = 1, .lent = 100};
	struct keys keys = {0};
	struct share_grant us;
	struct granter g;

	t.policies[0].terms.lend_us = 30 * SECOND;
	cr_assert_eq(granter_init(&g, &t, &keys, 5, base), KOVA_OK);
	cr_assert_eq(report(&g, quota("us", "p0", "a"), 1, 0, base + SECOND), KOVA_OK);
	cr_assert_eq(report(&g, quota("eu", "p0", "a"), 1, 10, base + SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, base + SECOND, give, &got));
	cr_assert_eq(got.n, 2);
	us = *given_to(&got, "p0/a/us");
	cr_expect_eq(us.c0_us, base + SECOND);
	lends.seq = us.seq;
	lends.lent_epoch = 5;
	lends.lent_c0_us = us.c0_us;
	cr_assert_eq(granter_report(&g, &(struct share_quota){SLICE("us"), SLICE("p0"), SLICE("a")},
				    &lends, base + 2 * SECOND),
		     KOVA_OK);
	cr_assert_eq(report(&g, quota("eu", "p0", "a"), 2, 2000, base + 2 * SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, base + 2 * SECOND, give, &got));
	cr_expect_eq(given_to(&got, "p0/a/eu")->parts, 1000);
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

Test(granter, while_a_region_has_another_floor_nothing_is_granted)
{
	struct global_terms t = terms_new(1);
	struct share_report r = {
		.clock = 1, .t0_us = 1, .whole = 1000, .demand = 500, .floors = 1, .floor = 200001};
	const struct share_quota us = quota("us", "p0", "b");
	struct given got = {.most = 64};
	struct keys keys = {0};
	struct granter g;

	t.region[1].floor_ppm = 100000;
	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	cr_assert_eq(report(&g, quota("eu", "p0", "a"), 1, 2000, SECOND), KOVA_OK);
	cr_expect_eq(granter_report(&g, &us, &r, SECOND), KOVA_ECONFIG);
	cr_assert_eq(report(&g, quota("eu", "p0", "a"), 2, 2000, 120 * SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, 121 * SECOND, give, &got));
	cr_expect_eq(got.n, 0,
		     "to nobody, though the region reports once a minute and one was lost");
	r.floors = 2;
	cr_expect_eq(granter_report(&g, &us, &r, 150 * SECOND), KOVA_OK, "another version");
	r.floors = 1;
	r.floor = 100001;
	cr_expect_eq(granter_report(&g, &us, &r, 151 * SECOND), KOVA_OK);
	cr_assert(granter_decide(&g, 152 * SECOND, give, &got));
	cr_expect_eq(got.n, 2);
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}

/* Regions as agents are: each reports while it was asked for, or another was granted something, in the last minute. */
static uint64_t given_last_us[2], asked_last_us;

static bool note_given(const struct share_quota *q, const struct share_grant *grant, void *data)
{
	const struct given *now = data;

	(void)grant;
	given_last_us[slice_equal(q->region, SLICE("us"))] = now->n * SECOND;
	return true;
}

static bool reports(unsigned region, uint64_t now_us)
{
	uint64_t asked_us = region == 0 ? asked_last_us : 0;
	uint64_t last_us =
		asked_us > given_last_us[1 - region] ? asked_us : given_last_us[1 - region];

	return last_us > 0 && now_us <= last_us + 60 * SECOND;
}

Test(granter, idle_regions_that_follow_each_other_come_to_an_end)
{
	static const char *const names[] = {"eu", "us"};
	struct global_terms t = terms_new(1);
	struct given now = {0}, gone = {.most = 64};
	struct keys keys = {0};
	struct granter g;
	unsigned heard_last = 0;

	asked_last_us = 100 * SECOND;
	cr_assert_eq(granter_init(&g, &t, &keys, 5, 1), KOVA_OK);
	for (now.n = 1; now.n < 1500; now.n++) {
		uint64_t now_us = now.n * SECOND;

		for (unsigned r = 0; r < 2; r++)
			if ((r == 0 && now_us <= asked_last_us) || reports(r, now_us)) {
				uint32_t demand = r == 0 && now_us <= asked_last_us ? 500 : 0;

				cr_assert_eq(report(&g, quota(names[r], "p0", "a"), now_us, demand,
						    now_us),
					     KOVA_OK);
				heard_last = now.n;
			}
		cr_assert(granter_decide(&g, now_us, note_given, &now));
		cr_assert(granter_sweep(&g, now_us, 10, forget, &gone));
	}
	cr_expect_eq(heard_last, 100 + 60 + 60, "it was %u", heard_last);
	cr_expect_eq(g.n_quotas, 0);
	cr_expect_eq(gone.n, 2, "each had a record");
	granter_release(&g);
	keys_release(&keys);
	global_terms_release(&t);
}
