/* The interval in which a peer's clock is: that it always holds the truth, that a delay is no skew, and that what was set is seen. */
#include <criterion/criterion.h>

#include "core/clock_offset.h"
#include "core/limit.h"
#include "dice.h"

#define MS INT64_C(1000)
#define SECOND (1000 * MS)
#define START INT64_C(1796000000123457)
#define SKEW_US UINT64_C(250000)

/* Two wall clocks over a true time. */
struct world {
	int64_t true_us, ours_us, peers_us; /* the clocks: true time plus these */
	struct clock_offset offset;
};

static struct clock_reading ours(const struct world *w)
{
	return (struct clock_reading){.wall_us = (uint64_t)(w->true_us + w->ours_us),
				      .boot_us = (uint64_t)(w->true_us - START + SECOND)};
}

/* A call that takes `there_us` and `back_us`. */
static bool call(struct world *w, int64_t there_us, int64_t back_us)
{
	struct clock_reading sent = ours(w), received;
	uint64_t peer_us;

	w->true_us += there_us;
	peer_us = (uint64_t)(w->true_us + w->peers_us);
	w->true_us += back_us;
	received = ours(w);
	return clock_offset_hear(&w->offset, &sent, &received, peer_us);
}

static bool differs(const struct world *w)
{
	struct clock_reading now = ours(w);

	return clock_offset_differs(&w->offset, &now, SKEW_US);
}

/* Whether the script would trust a call that is carried out in `there_us`. */
static bool trusted(const struct world *w, int64_t there_us)
{
	struct clock_reading now = ours(w);
	struct clock_bounds b = clock_offset_bounds(&w->offset, &now, SKEW_US, (uint64_t)(50 * MS));
	uint64_t peer_us = (uint64_t)(w->true_us + there_us + w->peers_us);

	cr_assert(b.earliest_us <= LIMIT_FOREVER_US && b.latest_us <= LIMIT_FOREVER_US);
	return peer_us >= b.earliest_us && peer_us <= b.latest_us;
}

/* Whether a call that is carried out in `there_us` finds the peer's clock as one that nobody set. */
static bool is_unset(const struct world *w, int64_t there_us)
{
	struct clock_reading now = ours(w);
	struct clock_bounds b =
		clock_offset_expected(&w->offset, &now, SKEW_US, (uint64_t)(50 * MS));
	uint64_t peer_us = (uint64_t)(w->true_us + there_us + w->peers_us);

	return peer_us >= b.earliest_us && peer_us <= b.latest_us;
}

Test(clock_offset, a_peer_that_is_set_is_found_whether_it_agreed_or_not)
{
	struct world w = {.true_us = START, .peers_us = -600 * SECOND};

	for (int i = 0; i < 20; i++, w.true_us += SECOND / 10)
		cr_assert(call(&w, 2 * MS, 3 * MS));
	cr_expect(differs(&w));
	cr_expect(is_unset(&w, 0) && is_unset(&w, 50 * MS));
	cr_expect_not(is_unset(&w, SECOND), "as if it had been set to later");
	w.peers_us += 200 * MS;
	cr_expect(is_unset(&w, 0), "by less than max_skew");
	w.peers_us += 400 * MS;
	cr_expect_not(is_unset(&w, 0));
	w.peers_us -= 1000 * MS;
	cr_expect_not(is_unset(&w, 0));
	w.true_us += 100 * SECOND;
	cr_expect(is_unset(&w, 0), "after so long they may have drifted");
}

Test(clock_offset, holds_the_truth_whatever_the_delays_and_the_drift)
{
	struct dice d = {3};
	struct world w = {.true_us = START, .ours_us = 0, .peers_us = 120 * MS};

	for (int i = 0; i < 200000; i++) {
		int64_t pause_us = (int64_t)dice_below(&d, UINT64_C(1) << dice_below(&d, 25));
		int64_t truth_us;

		w.true_us += pause_us;
		w.peers_us += (i / 20000 % 2 == 0 ? 1 : -1) * pause_us / 51; /* it is slewed */
		cr_assert(call(&w, (int64_t)dice_below(&d, 3000), (int64_t)dice_below(&d, 3000)),
			  "call %d", i);
		truth_us = w.peers_us - w.ours_us;
		cr_assert(w.offset.least_us <= truth_us && truth_us <= w.offset.most_us);
		cr_assert_leq(w.offset.most_us - w.offset.least_us, 6 * MS);
		cr_assert_not(differs(&w) && truth_us < (int64_t)SKEW_US &&
			      truth_us > -(int64_t)SKEW_US);
	}
}

Test(clock_offset, a_long_link_is_no_skew)
{
	struct world w = {.true_us = START, .peers_us = 0};

	for (int i = 0; i < 10; i++) {
		cr_assert(call(&w, 300 * MS, 300 * MS));
		cr_assert_not(differs(&w));
	}
	cr_assert(trusted(&w, 40 * MS));
	cr_assert(call(&w, 1 * MS, 5 * SECOND), "nor is an answer that comes late");
	cr_assert_not(differs(&w));
}

Test(clock_offset, a_clock_that_is_off_is_known_after_a_call)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		struct world w = {.true_us = START, .peers_us = sign * 251 * MS};

		cr_assert(call(&w, 100, 100));
		cr_assert(differs(&w));
		cr_assert_not(trusted(&w, 100));
		w.peers_us = sign * 249 * MS;
		cr_assert_not(call(&w, 100, 100), "it was set");
		cr_assert_not(differs(&w));
		cr_assert(trusted(&w, 100));
		cr_assert_leq(sign * clock_offset_us(&w.offset), 250 * MS);
	}
}

/* Known or not: by the bounds of the call itself. */
Test(clock_offset, a_leap_is_seen_in_the_first_call)
{
	for (int known = 0; known <= 1; known++) {
		for (int sign = -1; sign <= 1; sign += 2) {
			struct world w = {.true_us = START};

			if (known)
				cr_assert(call(&w, 100, 100));
			cr_assert(trusted(&w, 49 * MS));
			w.peers_us = sign * 10 * SECOND;
			cr_assert_not(trusted(&w, 100));
			cr_assert_eq(call(&w, 100, 100), !known);
			cr_assert(differs(&w));
		}
	}
}

/* It may be the peer's clock as well: nothing is known until the next call. */
Test(clock_offset, our_own_clock_set_makes_nothing_certain)
{
	struct world w = {.true_us = START};

	cr_assert(call(&w, 100, 100));
	w.ours_us = w.peers_us = 3600 * SECOND;
	cr_assert_not(differs(&w));
	cr_assert(trusted(&w, 100), "both were set");
	cr_assert_not(call(&w, 100, 100));
	cr_assert(call(&w, 100, 100));
	w.ours_us -= 10 * SECOND;
	cr_assert_not(trusted(&w, 100), "only ours");
	w.ours_us += 20 * SECOND;
	cr_assert_not(trusted(&w, 100));
}

Test(clock_offset, a_clock_that_is_set_during_a_call_tells_nothing)
{
	struct world w = {.true_us = START};
	struct clock_reading sent = ours(&w), received;

	w.ours_us = 5 * SECOND;
	received = ours(&w);
	cr_assert_not(clock_offset_hear(&w.offset, &sent, &received, (uint64_t)START));
	cr_assert_not(w.offset.known);
	cr_assert_eq(clock_offset_us(&w.offset), 0);
}

Test(clock_offset, what_is_old_is_worth_less)
{
	struct world w = {.true_us = START, .peers_us = 260 * MS};

	cr_assert(call(&w, 100, 100));
	cr_assert(differs(&w));
	w.true_us += 60 * SECOND;
	cr_assert_not(differs(&w), "they may have been brought together since");
}
