/* The sum of what was used: exact whatever is read twice, again from earlier on, or left out before a later record. */
#include <criterion/criterion.h>

#include <stdio.h>

#include "core/usage_ledger.h"
#include "dice.h"

static struct usage_record record(const char *agent, uint64_t epoch, uint64_t window,
				  uint64_t admitted)
{
	return (struct usage_record){slice_of(agent), epoch, window, window, {admitted, 0, 0}};
}

/* A ledger, and how it is kept. */
struct kept {
	struct usage_ledger ledger;
	struct intern processes;
	struct buf bytes;
};

/* As bytes, and from them again. */
static void keep(struct kept *k)
{
	struct buf again = {0};

	buf_clear(&k->bytes);
	cr_assert_eq(usage_ledger_pack(&k->ledger, &k->bytes), KOVA_OK);
	cr_assert_eq(usage_ledger_unpack(&k->ledger, buf_slice(&k->bytes)), KOVA_OK);
	cr_assert_eq(usage_ledger_pack(&k->ledger, &again), KOVA_OK);
	cr_assert(slice_equal(buf_slice(&again), buf_slice(&k->bytes)));
	buf_release(&again);
}

static void release(struct kept *k)
{
	usage_ledger_release(&k->ledger);
	intern_release(&k->processes);
	buf_release(&k->bytes);
}

static uint64_t read_of(struct kept *k, struct usage_record r)
{
	cr_assert_eq(usage_ledger_read(&k->ledger, &k->processes, &r), KOVA_OK);
	keep(k);
	return usage_ledger_total(&k->ledger).admitted;
}

Test(usage_ledger, a_counter_is_its_maximum)
{
	struct kept l = {0};

	cr_expect_eq(read_of(&l, record("a", 1, 10, 5)), 5);
	cr_expect_eq(read_of(&l, record("a", 1, 10, 8)), 8);
	cr_expect_eq(read_of(&l, record("a", 1, 10, 5)), 8);
	release(&l);
}

Test(usage_ledger, counters_add_up)
{
	struct kept l = {0};

	read_of(&l, record("a", 1, 10, 5));
	cr_expect_eq(read_of(&l, record("a", 1, 11, 2)), 7, "a later window");
	cr_expect_eq(read_of(&l, record("a", 1, 10, 5)), 7, "the one before, again");
	cr_expect_eq(read_of(&l, record("a", 2, 1, 3)), 10, "a restart");
	cr_expect_eq(read_of(&l, record("a", 1, 11, 4)), 12, "the process before still counts");
	cr_expect_eq(read_of(&l, record("b", 1, 10, 1)), 13);
	release(&l);
}

Test(usage_ledger, what_is_forgotten_stays_in_the_sum)
{
	struct kept l = {0};

	read_of(&l, record("a", 1, 10, 5));
	read_of(&l, record("b", 1, 11, 7));
	read_of(&l, record("a", 2, 20, 1));
	cr_expect_not(usage_ledger_forget(&l.ledger, &l.processes, 10), "it may be read again");
	cr_expect(usage_ledger_forget(&l.ledger, &l.processes, 20));
	cr_expect_eq(l.ledger.n, 2, "b may only be idle");
	for (size_t i = 0; i < l.ledger.n; i++) {
		const struct usage_record r = usage_ledger_agent(&l.ledger, &l.processes, i);

		cr_expect(slice_equal(r.agent, SLICE("b")) || r.epoch == 2);
	}
	cr_expect_eq(usage_ledger_total(&l.ledger).admitted, 13);
	cr_expect_eq(read_of(&l, record("b", 1, 11, 9)), 15);
	release(&l);
}

Test(usage_ledger, every_number_is_kept_whole)
{
	const uint64_t odd[] = {0, 1, 127, 128, UINT64_C(1) << 62, UINT64_MAX};
	struct kept l = {0};

	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		const struct usage_record r = {
			SLICE("a"), i, odd[i], odd[5 - i], {odd[i], odd[5 - i], odd[i] / 3}};

		cr_assert_eq(usage_ledger_read(&l.ledger, &l.processes, &r), KOVA_OK);
		keep(&l);
		const struct usage_record is = usage_ledger_agent(&l.ledger, &l.processes, i);

		cr_expect(slice_equal(is.agent, r.agent));
		cr_expect_eq(is.epoch, i);
		cr_expect_eq(is.window, odd[i]);
		cr_expect_eq(is.hlc, odd[5 - i]);
		cr_expect_eq(is.counts.admitted, odd[i]);
		cr_expect_eq(is.counts.refused, odd[5 - i]);
		cr_expect_eq(is.counts.waited, odd[i] / 3);
	}
	usage_ledger_clear(&l.ledger, &l.processes);
	cr_expect_eq(usage_ledger_total(&l.ledger).admitted, 0);
	cr_expect_eq(intern_find(&l.processes, SLICE("\0\0\0\0\0\0\0\0a")), UINT32_MAX);
	release(&l);
}

/* ---- Agents that count, restart and give counters up; a reader that begins again and again ---- */

enum { AGENTS = 4, RECORDS = 400, REWINDS = 10, NAME_BYTES = 8 };

struct topic {
	char names[AGENTS][NAME_BYTES];
	struct usage_record records[RECORDS];
	struct usage_counts truth;
};

static void write_topic(struct topic *t, struct dice *d)
{
	struct usage_record now[AGENTS] = {0};

	t->truth = (struct usage_counts){0};
	for (unsigned i = 0; i < AGENTS; i++) {
		snprintf(t->names[i], NAME_BYTES, "agent%u", i);
		now[i] = (struct usage_record){slice_of(t->names[i]), 1, 1, 1, {0}};
	}
	for (uint64_t i = 0; i < RECORDS; i++) {
		struct usage_record *r = &now[dice_below(d, AGENTS)];
		uint64_t admitted = dice_below(d, 100), refused = dice_below(d, 10);

		if (dice_below(d, 20) == 0) {
			r->epoch++;
			r->window = dice_below(d, 3);
			r->counts = (struct usage_counts){0};
		} else if (dice_below(d, 8) == 0) {
			r->window++;
			r->counts = (struct usage_counts){0};
		}
		r->counts.admitted += admitted;
		r->counts.refused += refused;
		r->counts.waited += admitted / 2;
		r->hlc = i + 1;
		t->truth.admitted += admitted;
		t->truth.refused += refused;
		t->truth.waited += admitted / 2;
		t->records[i] = *r;
	}
}

/* Whether a later record says all that this one does: it may be missing. */
static bool is_repeated(const struct topic *t, unsigned i)
{
	const struct usage_record *r = &t->records[i];

	for (unsigned j = i + 1; j < RECORDS; j++) {
		const struct usage_record *later = &t->records[j];

		if (slice_equal(later->agent, r->agent) && later->epoch == r->epoch)
			return later->window == r->window;
	}
	return false;
}

Test(usage_ledger, redelivery_changes_nothing)
{
	static struct topic t;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct dice d = {seed};
		struct kept l = {0};
		struct usage_counts total;
		unsigned rewinds = REWINDS;

		write_topic(&t, &d);
		for (unsigned i = 0; i < RECORDS; i++) {
			if (rewinds > 0 && dice_below(&d, RECORDS / REWINDS) == 0) {
				i -= (unsigned)dice_below(&d, i + 1);
				rewinds--;
			}
			if (dice_below(&d, 3) > 0 || !is_repeated(&t, i))
				read_of(&l, t.records[i]);
		}
		total = usage_ledger_total(&l.ledger);
		cr_assert_eq(total.admitted, t.truth.admitted, "seed %lu", seed);
		cr_assert_eq(total.refused, t.truth.refused, "seed %lu", seed);
		cr_assert_eq(total.waited, t.truth.waited, "seed %lu", seed);
		release(&l);
	}
}
