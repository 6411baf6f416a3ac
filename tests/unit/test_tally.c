#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/tally.h"
#include "dice.h"

static const struct tally_counts one = {1, 0, 0};

static struct tally_key key(const char *policy, const char *root)
{
	return (struct tally_key){slice_of(policy), slice_of(root), false};
}

static void add(struct tally *t, const char *policy, const char *root, uint64_t stamp)
{
	const struct tally_key k = key(policy, root);

	cr_assert(tally_add(t, &k, &one, stamp));
}

static bool is(const struct tally_entry *e, const char *policy, const char *root)
{
	const struct tally_key k = tally_entry_key(e);

	return slice_equal(k.policy, slice_of(policy)) && slice_equal(k.root, slice_of(root)) &&
	       k.other == (root[0] == '\0');
}

Test(tally, what_changed_is_sent_once)
{
	struct tally *t = tally_new(4);
	const struct tally_counts more = {2, 3, 1};
	const struct tally_key k = key("p", "a");

	add(t, "p", "a", 7);
	add(t, "p", "b", 8);
	cr_assert(tally_add(t, &k, &more, 9));
	cr_expect_eq(tally_unsettled(t), 2);

	struct tally_entry *a = tally_next(t), *b = tally_next(t);

	cr_assert(is(a, "p", "a") && is(b, "p", "b"));
	cr_expect_eq(tally_entry_window(a), 7);
	cr_expect_eq(tally_entry_counts(a).admitted, 3);
	cr_expect_eq(tally_entry_counts(a).refused, 3);
	cr_expect_eq(tally_entry_counts(a).waited, 1);
	cr_expect_null(tally_next(t));
	cr_expect_eq(tally_unsettled(t), 2);
	tally_done(t, a, true);
	tally_done(t, b, true);
	cr_expect_eq(tally_unsettled(t), 0);
	cr_expect_null(tally_next(t));
	tally_free(t);
}

Test(tally, what_changes_while_it_is_sent_or_does_not_arrive_is_sent_again)
{
	struct tally *t = tally_new(4);

	add(t, "p", "a", 1);
	struct tally_entry *e = tally_next(t);

	add(t, "p", "a", 2);
	cr_expect_eq(tally_entry_counts(e).admitted, 1);
	cr_expect_null(tally_next(t), "it is sent already");
	tally_done(t, e, true);
	e = tally_next(t);
	cr_assert_not_null(e);
	cr_expect_eq(tally_entry_counts(e).admitted, 2);
	tally_done(t, e, false);
	e = tally_next(t);
	cr_assert_not_null(e);
	cr_expect_eq(tally_entry_counts(e).admitted, 2);
	cr_expect_eq(tally_entry_window(e), 1);
	tally_done(t, e, true);
	cr_expect_null(tally_next(t));
	tally_free(t);
}

Test(tally, only_what_has_arrived_makes_room)
{
	struct tally *t = tally_new(2);

	add(t, "p", "a", 1);
	add(t, "p", "b", 2);
	add(t, "p", "c", 3);
	add(t, "p", "d", 4);
	cr_expect_eq(tally_overflows(t), 2);
	for (int i = 0; i < 2; i++)
		tally_done(t, tally_next(t), true);
	struct tally_entry *other = tally_next(t);

	cr_assert(is(other, "p", ""));
	cr_expect_eq(tally_entry_counts(other).admitted, 2);
	tally_done(t, other, true);

	add(t, "p", "c", 5); /* in place of `a` */
	add(t, "p", "a", 6); /* in place of `b`: it begins anew */
	cr_expect_eq(tally_overflows(t), 2);
	tally_done(t, tally_next(t), true);
	struct tally_entry *a = tally_next(t);

	cr_assert(is(a, "p", "a"));
	cr_expect_eq(tally_entry_counts(a).admitted, 1);
	cr_expect_eq(tally_entry_window(a), 6);
	tally_free(t);
}

Test(tally, names_do_not_meet)
{
	struct tally *t = tally_new(8);

	add(t, "a", "bc", 1);
	add(t, "ab", "c", 1);
	add(t, "abc", "", 1);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(tally_entry_counts(tally_next(t)).admitted, 1);
	cr_expect_null(tally_next(t));
	tally_free(t);
}

Test(tally, taking_leaves_nothing)
{
	struct tally *t = tally_new(2);
	struct tally_key k;
	struct tally_counts counts;

	cr_expect_not(tally_take(t, &k, &counts));
	add(t, "p", "a", 1);
	add(t, "p", "a", 2);
	cr_assert(tally_take(t, &k, &counts));
	cr_expect(slice_equal(k.root, SLICE("a")));
	cr_expect_eq(counts.admitted, 2);
	cr_expect_not(tally_take(t, &k, &counts));
	add(t, "p", "a", 3);
	cr_assert(tally_take(t, &k, &counts));
	cr_expect_eq(counts.admitted, 1);
	tally_free(t);
}

/* ---- A reader who keeps the maxima, with whatever happens to what is sent ---- */

enum { ROOTS = 40, ROOM = 8, WINDOWS = 16384, STEPS = 20000 };

struct reader {
	uint64_t max[ROOTS + 1][WINDOWS]; /* by root (the last: others) and window */
};

static unsigned number_of(const struct tally_entry *e)
{
	const struct tally_key k = tally_entry_key(e);

	return k.other ? ROOTS : (unsigned)atoi(k.root.ptr);
}

static void read_record(struct reader *r, const struct tally_entry *e)
{
	uint64_t *max = &r->max[number_of(e)][tally_entry_window(e)];

	if (tally_entry_counts(e).admitted > *max)
		*max = tally_entry_counts(e).admitted;
}

static void run(uint64_t seed)
{
	struct dice dice = {seed};
	struct reader *r = calloc(1, sizeof *r);
	struct tally *t = tally_new(ROOM);
	struct tally_entry *sent[ROOTS + 1];
	uint64_t added = 0, read = 0, stamp = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < STEPS || tally_unsettled(t) > 0; i++) {
		bool ends = i >= STEPS, away = !ends && i / 1000 % 3 == 1;

		if (!ends && dice_below(&dice, 2) == 0) {
			char name[8];

			snprintf(name, sizeof name, "%02u", (unsigned)dice_below(&dice, ROOTS));
			add(t, "p", name, ++stamp);
			added++;
		} else if (n > 0 && dice_below(&dice, 2) == 0) {
			unsigned at = (unsigned)dice_below(&dice, n);
			bool arrived = !away && (ends || dice_below(&dice, 4) > 0);

			/* It may have arrived though it is thought to be lost. */
			if (arrived || dice_below(&dice, 2) == 0)
				read_record(r, sent[at]);
			tally_done(t, sent[at], arrived);
			sent[at] = sent[--n];
		} else if (n < ROOTS && (sent[n] = tally_next(t)) != NULL) {
			n++;
		}
	}
	for (unsigned i = 0; i <= ROOTS; i++)
		for (unsigned w = 0; w < WINDOWS; w++)
			read += r->max[i][w];
	cr_assert_eq(read, added, "seed %llu: read %llu of %llu", (unsigned long long)seed,
		     (unsigned long long)read, (unsigned long long)added);
	tally_free(t);
	free(r);
}

Test(tally, a_reader_of_maxima_misses_nothing)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		run(seed);
}
