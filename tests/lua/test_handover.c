/* Keys leave a home and arrive at another, under every algorithm: the script's MOVE_OUT and MOVE_IN. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "script_fixture.h"

TestSuite(handover, .init = start, .fini = stop);

static uint64_t edges[4];

static const struct kind {
	enum algorithm algorithm;
	const char *old_home, *new_home; /* two keys of one Redis stand for two Redises */
} kinds[] = {
	{ALGORITHM_TOKEN_BUCKET, "k:b{a}", "k:b{b}"},
	{ALGORITHM_GCRA, "k:g{a}", "k:g{b}"},
	{ALGORITHM_SLIDING_WINDOW, "k:w{a}", "k:w{b}"},
	{ALGORITHM_SLIDING_COUNTER, "k:s{a}", "k:s{b}"},
	{ALGORITHM_CALENDAR, "k:d{a}", "k:d{b}"},
	{ALGORITHM_CONCURRENCY, "k:c{a}", "k:c{b}"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* Ten an hour, ten at once. */
static struct limit limit_of(enum algorithm a)
{
	return a == ALGORITHM_CALENDAR ? calendar(10, edges) : make(a, 10, 3600 * SECOND, 10);
}

static struct script_answer ask_for(enum script_op_kind kind, const struct limit *l,
				    const char *key, uint64_t number, uint64_t amount)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1};
	struct script_op op = {.kind = kind, .checks = &check, .n_checks = 1};
	char permit[24];
	struct script_answer a;

	if (kind == SCRIPT_TAKE)
		check.cost = number;
	else
		op.stamp_us = number;
	op.amount = amount;
	snprintf(permit, sizeof permit, "p%lu", (unsigned long)rig.stamp);
	if (l->algorithm == ALGORITHM_CONCURRENCY && kind == SCRIPT_TAKE)
		op.permit = slice_of(permit);
	script_rig_run(&rig, &op, 1, &a);
	return a;
}

static void takes(const struct limit *l, const char *key, uint64_t cost)
{
	cr_assert_eq(ask_for(SCRIPT_TAKE, l, key, cost, 0).status, SCRIPT_ALLOWED, "%s", key);
}

static void refuses(const struct limit *l, const char *key, enum script_refusal why)
{
	struct script_answer a = ask_for(SCRIPT_TAKE, l, key, 1, 0);

	cr_assert_eq(a.status, SCRIPT_REFUSED, "%s", key);
	cr_assert_eq(a.why, why, "%s", key);
}

static uint64_t left_by(const struct limit *l, const char *key, uint64_t version)
{
	struct script_answer a = ask_for(SCRIPT_MOVE_OUT, l, key, version, 0);

	cr_assert_eq(a.status, SCRIPT_ALLOWED, "%s", key);
	cr_assert_eq(a.amount, 0, "%s: no lease is outstanding", key);
	return a.remaining;
}

static enum script_status arrives(const struct limit *l, const char *key, uint64_t version,
				  uint64_t amount)
{
	return ask_for(SCRIPT_MOVE_IN, l, key, version, amount).status;
}

Test(handover, what_is_left_is_what_there_is)
{
	for (unsigned i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		struct limit l = limit_of(k->algorithm);

		takes(&l, k->old_home, 3);
		takes(&l, k->old_home, 3);
		cr_assert_eq(left_by(&l, k->old_home, 2), 4, "%s", k->old_home);
		refuses(&l, k->old_home, SCRIPT_HELD);
		cr_assert_eq(left_by(&l, k->old_home, 2), 4, "%s: once more", k->old_home);
		cr_assert_eq(arrives(&l, k->new_home, 2, 4), SCRIPT_ALLOWED);
		takes(&l, k->new_home, 3);
		cr_assert_eq(arrives(&l, k->new_home, 2, 4), SCRIPT_ALLOWED, "%s: by another",
			     k->new_home);
		takes(&l, k->new_home, 1);
		refuses(&l, k->new_home, SCRIPT_LIMITED);
	}
}

Test(handover, by_the_later_version)
{
	for (unsigned i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		struct limit l = limit_of(k->algorithm);

		cr_assert_eq(left_by(&l, k->old_home, 2), 10);
		cr_assert_eq(arrives(&l, k->old_home, 2, 10), SCRIPT_UNKNOWN, "%s", k->old_home);
		cr_assert_eq(left_by(&l, k->old_home, 4), 10);
		cr_assert_eq(left_by(&l, k->old_home, 3), 10, "an earlier one changes nothing");
		cr_assert_eq(arrives(&l, k->old_home, 4, 10), SCRIPT_UNKNOWN, "%s", k->old_home);
		refuses(&l, k->old_home, SCRIPT_HELD);
		cr_assert_eq(arrives(&l, k->old_home, 5, 7), SCRIPT_ALLOWED);
		takes(&l, k->old_home, 7);
		refuses(&l, k->old_home, SCRIPT_LIMITED);
	}
}

Test(handover, an_ordinary_hold_stays_where_it_is)
{
	struct limit l = limit_of(ALGORITHM_TOKEN_BUCKET);
	struct script_check check = {.limit = &l, .key = slice_of("k:b{a}"), .cost = 1};
	struct script_op op = {.kind = SCRIPT_FEEDBACK,
			       .checks = &check,
			       .n_checks = 1,
			       .ok = true,
			       .hold_us = 60 * SECOND,
			       .amount = UINT64_MAX};
	struct script_answer a;

	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(arrives(&l, "k:b{a}", 2, 10), SCRIPT_ALLOWED);
	refuses(&l, "k:b{a}", SCRIPT_HELD);
}

Test(handover, leases_are_waited_for)
{
	static const enum algorithm leased[] = {ALGORITHM_TOKEN_BUCKET, ALGORITHM_SLIDING_WINDOW,
						ALGORITHM_CALENDAR};

	for (unsigned i = 0; i < 3; i++) {
		struct limit l = limit_of(leased[i]);
		const char *key = kinds[leased[i]].old_home;
		struct script_check check = {.limit = &l, .key = slice_of(key), .cost = 1};
		struct script_op op = {.kind = SCRIPT_LEASE,
				       .checks = &check,
				       .n_checks = 1,
				       .amount = 4,
				       .ttl_us = 10 * SECOND,
				       .sharers = 1,
				       .lease = {1}};
		struct script_answer a;

		script_rig_run(&rig, &op, 1, &a);
		cr_assert_eq(a.status, SCRIPT_ALLOWED);
		cr_assert_gt(a.lease_us, 0, "%s", key);
		a = ask_for(SCRIPT_MOVE_OUT, &l, key, 2, 0);
		cr_assert_geq(a.amount, 10 * SECOND, "%s", key);
		cr_assert_leq(a.amount, 11 * SECOND, "%s", key);
		cr_assert_eq(a.remaining, 6, "%s", key);
		rig.virtual_us = rig.clock_us + a.amount + 1;
		cr_assert_eq(ask_for(SCRIPT_MOVE_OUT, &l, key, 2, 0).amount, 0, "%s: they are over",
			     key);
	}
}

static struct script_answer hold_for(const struct limit *l, const char *key, uint64_t us)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1};
	struct script_op op = {.kind = SCRIPT_FEEDBACK,
			       .checks = &check,
			       .n_checks = 1,
			       .ok = true,
			       .hold_us = us,
			       .amount = UINT64_MAX};
	struct script_answer a;

	script_rig_run(&rig, &op, 1, &a);
	return a;
}

static void is_held_for(const struct limit *l, const char *key, uint64_t us)
{
	uint64_t amount = ask_for(SCRIPT_MOVE_OUT, l, key, 2, 0).amount;

	cr_assert_gt(amount, us - 5 * SECOND, "%s", key);
	cr_assert_leq(amount, us, "%s", key);
}

Test(handover, an_ordinary_hold_is_waited_for)
{
	for (unsigned i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		struct limit l = limit_of(k->algorithm);

		hold_for(&l, k->old_home, 60 * SECOND);
		is_held_for(&l, k->old_home, 60 * SECOND);
		is_held_for(&l, k->old_home, 60 * SECOND);
		hold_for(&l, k->old_home, 90 * SECOND);
		is_held_for(&l, k->old_home, 90 * SECOND);
		hold_for(&l, k->old_home, 30 * SECOND);
		is_held_for(&l, k->old_home, 90 * SECOND);
		cr_assert_eq(arrives(&l, k->old_home, 3, 10), SCRIPT_ALLOWED);
		cr_assert_gt(ask_for(SCRIPT_TAKE, &l, k->old_home, 1, 0).wait_us,
			     (int64_t)(80 * SECOND), "%s: it came back", k->old_home);
	}
}

Test(handover, an_open_breaker_is_waited_for)
{
	const struct breaker_rule rule = {
		.failures = 1, .of = 1, .trials = 1, .open_us = 60 * SECOND};

	for (unsigned i = 0; i < KINDS; i++) {
		const char *key = kinds[i].old_home;
		struct limit l = limit_of(kinds[i].algorithm);
		struct script_check check = {
			.limit = &l, .key = slice_of(key), .cost = 1, .breaker = &rule};
		struct script_op op = {.kind = SCRIPT_FEEDBACK,
				       .checks = &check,
				       .n_checks = 1,
				       .amount = UINT64_MAX};
		struct script_answer a;

		script_rig_run(&rig, &op, 1, &a);
		op.kind = SCRIPT_MOVE_OUT;
		op.stamp_us = 2;
		script_rig_run(&rig, &op, 1, &a);
		cr_assert_gt(a.amount, 55 * SECOND, "%s", key);
		cr_assert_leq(a.amount, 60 * SECOND, "%s", key);
		rig.virtual_us = rig.clock_us + a.amount;
		script_rig_run(&rig, &op, 1, &a);
		cr_assert_eq(a.amount, 0, "%s: it is half-open", key);
	}
}

Test(handover, a_question_opens_nothing)
{
	for (unsigned i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		struct limit l = limit_of(k->algorithm);

		cr_assert_eq(left_by(&l, k->old_home, 2), 10);
		cr_assert_eq(arrives(&l, k->old_home, 2, UINT64_MAX), SCRIPT_UNKNOWN);
		cr_assert_eq(arrives(&l, k->old_home, 3, UINT64_MAX), SCRIPT_ALLOWED);
		refuses(&l, k->old_home, SCRIPT_HELD);
	}
}

Test(handover, ids_are_remembered_for_a_minute)
{
	for (unsigned i = 0; i < KINDS; i++) {
		const char *key = kinds[i].old_home;
		struct limit l = limit_of(kinds[i].algorithm);
		int64_t wait;

		cr_assert_eq(ask_for(SCRIPT_MOVE_OUT, &l, key, 2, 0).wait_us, 60 * SECOND);
		wait = ask_for(SCRIPT_MOVE_OUT, &l, key, 2, 0).wait_us;
		cr_assert_leq(wait, (int64_t)(60 * SECOND), "%s", key);
		cr_assert_gt(wait, (int64_t)(50 * SECOND), "%s", key);
		cr_assert_eq(ask_for(SCRIPT_MOVE_OUT, &l, key, 3, 0).wait_us, 60 * SECOND,
			     "%s: ids of a home that opened again", key);
	}
}

/* Renewed for ever at the earlier home, a permit would outlive what stands for it at the next one. */
Test(handover, a_permit_is_not_renewed_where_its_key_has_left)
{
	struct limit l = limit_of(ALGORITHM_CONCURRENCY);
	struct script_check check = {.limit = &l, .key = slice_of("k:c{a}"), .cost = 1};
	struct script_op op = {
		.kind = SCRIPT_TAKE, .checks = &check, .n_checks = 1, .permit = SLICE("p")};
	struct script_answer a;

	script_rig_run(&rig, &op, 1, &a);
	op.kind = SCRIPT_RENEW;
	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(a.status, SCRIPT_ALLOWED);
	cr_assert_eq(left_by(&l, "k:c{a}", 2), 9);
	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(a.status, SCRIPT_UNKNOWN);
	cr_assert_eq(arrives(&l, "k:c{a}", 3, 10), SCRIPT_ALLOWED);
	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(a.status, SCRIPT_ALLOWED);
}
