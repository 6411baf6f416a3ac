/* Who is served when, over loops in virtual time: the promises of docs/fairness.md. */
#include "core/turns.h"

#include <criterion/criterion.h>

#include "dice.h"

#define START UINT64_C(1800000000000000)
#define UNIT UINT64_C(1000000)

enum { LOOPS = 5, CALLERS = 200 };

struct caller {
	uint64_t arrival_us, flow;
	unsigned loop;
	bool served;
};

/* Loops that each ask for the oldest caller of theirs, when they were told to. */
struct world {
	struct turns turns;
	struct bucket bucket;
	struct limit limit;
	uint64_t now_us, ask_us[LOOPS];
	struct caller caller[CALLERS];
	bool is_gone[LOOPS];
	unsigned asked, order[CALLERS], n_served;
};

static struct limit ten_a_second(uint64_t burst)
{
	struct limit l = {.limit = 10, .per_us = 1000000, .burst = burst};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static void world_init(struct world *w, uint64_t burst)
{
	*w = (struct world){.limit = ten_a_second(burst), .now_us = START};
	bucket_init_empty(&w->bucket, &w->limit, START);
}

static struct turn_claim claim_of(const struct caller *c)
{
	return (struct turn_claim){.loop = c->loop + 1,
				   .flow = c->flow,
				   .arrival_us = c->arrival_us,
				   .size = UNIT,
				   .n = 1,
				   .left_us = 100 * UNIT,
				   .retry_us = TURN_DUE_MAX_US,
				   .is_new = true};
}

static struct caller *oldest(struct world *w, unsigned loop)
{
	for (unsigned i = 0; i < CALLERS; i++) {
		struct caller *c = &w->caller[i];

		if (c->loop == loop && !c->served && c->arrival_us > 0 &&
		    c->arrival_us <= w->now_us)
			return c;
	}
	return NULL;
}

static enum turn_outcome ask(struct world *w, const struct turn_claim *claim, int64_t *ret_wait_us)
{
	struct limiter_verdict v;
	struct turn_place place;
	enum turn_outcome outcome;

	turns_begin(&w->turns, w->now_us);
	outcome = turns_take(&w->turns, &w->bucket, &w->limit, w->now_us, claim, 1, &v, &place);
	turns_end(&w->turns);
	*ret_wait_us = v.wait_us;
	return outcome;
}

static void loop_asks(struct world *w, unsigned loop)
{
	struct caller *c;

	while ((c = oldest(w, loop)) != NULL) {
		struct turn_claim claim = claim_of(c);
		int64_t wait_us;

		w->asked++;
		if (ask(w, &claim, &wait_us) != TURN_TAKEN) {
			w->ask_us[loop] = w->now_us + (uint64_t)wait_us;
			return;
		}
		c->served = true;
		w->order[w->n_served++] = (unsigned)(c - w->caller);
	}
	w->ask_us[loop] = w->now_us + 10000; /* somebody may have come */
}

static void run(struct world *w, uint64_t until_us)
{
	for (; w->now_us < until_us; w->now_us += 500)
		for (unsigned i = 0; i < LOOPS; i++)
			if (!w->is_gone[i] && w->ask_us[i] <= w->now_us)
				loop_asks(w, i);
}

Test(turns, a_flow_is_served_as_it_came_at_whichever_loop)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct dice dice = {seed};
		struct world w;

		world_init(&w, 1);
		for (unsigned i = 0; i < CALLERS; i++)
			w.caller[i] = (struct caller){.arrival_us = START + 1 + 20000 * i,
						      .flow = 7,
						      .loop = (unsigned)dice_below(&dice, LOOPS)};
		run(&w, START + 21 * UNIT);
		cr_assert_geq(w.n_served, 205 * 98 / 100 - 1, "%u", w.n_served);
		for (unsigned i = 0; i < w.n_served; i++)
			cr_assert_eq(w.order[i], i, "seed %u: %u was %u", seed, w.order[i], i);
		cr_assert_lt(w.asked, 5 * CALLERS, "nobody polls");
	}
}

Test(turns, flows_have_equal_parts_however_many_wait)
{
	struct world w;
	unsigned n[3] = {0};

	world_init(&w, 1);
	for (unsigned i = 0; i < CALLERS; i++) /* the third has few, and came last */
		w.caller[i] = (struct caller){
			.arrival_us = START + 1 + i, .flow = i < 180 ? i % 2 : 2, .loop = i % 2};
	for (unsigned i = 180; i < CALLERS; i++)
		w.caller[i].loop = 3;
	run(&w, START + 4 * UNIT);
	for (unsigned i = 0; i < w.n_served; i++)
		n[w.caller[w.order[i]].flow]++;
	cr_assert_geq(w.n_served, 39);
	for (unsigned i = 0; i < 3; i++)
		cr_assert(n[i] >= 12 && n[i] <= 14, "%u: %u", i, n[i]);
}

Test(turns, a_loop_that_is_gone_holds_others_up_for_a_bounded_time)
{
	struct world w;

	world_init(&w, 20);
	for (unsigned i = 0; i < 10; i++)
		w.caller[i] = (struct caller){
			.arrival_us = START + 1 + i, .flow = 7, .loop = i < 5 ? 0 : 1};
	run(&w, START + 50000);
	w.is_gone[0] = true;
	run(&w, START + TURN_DUE_MAX_US + TURN_GRACE_US + 10000);
	cr_assert_eq(w.n_served, 5);
	cr_assert_eq(w.order[0], 5, "those of the other loop, in their order");
}

/* A limit that is full would lose what comes in: those who are there have it, though others are before them. */
Test(turns, nobody_waits_for_who_is_late_where_permits_would_be_lost)
{
	struct world w;

	world_init(&w, 1);
	w.caller[0] = (struct caller){.arrival_us = START + 1, .flow = 7, .loop = 0};
	w.caller[1] = (struct caller){.arrival_us = START + 2, .flow = 7, .loop = 1};
	run(&w, START + 50000);
	w.is_gone[0] = true;
	run(&w, START + 101000 + TURN_LATE_US);
	cr_assert_eq(w.n_served, 0);
	w.ask_us[1] = 0;
	run(&w, START + 103000 + TURN_LATE_US);
	cr_assert_eq(w.n_served, 1);
}

Test(turns, a_newcomer_is_refused_while_somebody_waits)
{
	struct caller c = {.arrival_us = START, .flow = 7, .loop = 0};
	struct turn_claim claim = claim_of(&c);
	struct world w;
	int64_t wait_us;

	world_init(&w, 20);
	cr_assert_eq(ask(&w, &claim, &wait_us), TURN_REFUSED);
	cr_assert_eq(wait_us, 100000);
	w.now_us += 300000;
	cr_assert_eq(ask(&w, NULL, &wait_us), TURN_REFUSED, "three are there");
	cr_assert_eq(wait_us, TURN_SOON_US);
	cr_assert_eq(ask(&w, &claim, &wait_us), TURN_TAKEN);
	cr_assert_eq(ask(&w, NULL, &wait_us), TURN_TAKEN, "and now nobody waits");
}

Test(turns, who_leaves_takes_his_ticket_along)
{
	struct caller c = {.arrival_us = START, .flow = 7, .loop = 0};
	struct turn_claim claim = claim_of(&c);
	struct world w;
	int64_t wait_us;

	world_init(&w, 20);
	cr_assert_eq(ask(&w, &claim, &wait_us), TURN_REFUSED);
	turns_leave(&w.turns, w.now_us, &claim);
	w.now_us += 100000;
	cr_assert_eq(ask(&w, NULL, &wait_us), TURN_TAKEN);
}

Test(turns, a_queue_is_full_over_all_loops)
{
	struct world w;
	int64_t wait_us;

	world_init(&w, 1);
	for (unsigned i = 0; i < 12; i++) {
		struct caller c = {.arrival_us = START + i, .flow = 7, .loop = i % 3};
		struct turn_claim claim = claim_of(&c);

		claim.n = 1 + i / 3;
		claim.most = 10;
		claim.joins = true;
		cr_assert_eq(ask(&w, &claim, &wait_us), i < 10 ? TURN_REFUSED : TURN_QUEUE_FULL,
			     "%u", i);
	}
}

/* Callers of two loops who came by turns, and loops that ask once a ms: one after the other they could not take ten. */
Test(turns, a_fast_limit_is_used)
{
	struct world w;
	uint64_t next[2] = {0, 1}, n_served = 0;
	int64_t wait_us;

	world_init(&w, 20);
	w.limit.limit = 10000;
	cr_assert_eq(limit_init(&w.limit), KOVA_OK);
	for (unsigned ms = 0; ms < 100; ms++, w.now_us += 1000)
		for (unsigned loop = 0; loop < 2; loop++)
			for (;;) {
				struct caller c = {.arrival_us = START - 10000 + next[loop],
						   .flow = 7,
						   .loop = loop};
				struct turn_claim claim = claim_of(&c);

				if (ask(&w, &claim, &wait_us) != TURN_TAKEN)
					break;
				next[loop] += 2;
				n_served++;
			}
	cr_assert_geq(n_served, 950, "%lu", (unsigned long)n_served);
	cr_assert(next[0] < next[1] + 400 && next[1] < next[0] + 400, "%lu, %lu",
		  (unsigned long)next[0], (unsigned long)next[1]);
}
