/* The books: sums by policy and region are those of their ledgers, and what was kept begins another book of the same sums. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "book.h"
#include "dice.h"
#include "records.h"
#include "rows.h"

static void use(struct book *b, const char *policy, const char *region, const char *root,
		const char *agent, uint64_t epoch, uint64_t admitted)
{
	const struct book_key key = {slice_of(policy), slice_of(region), slice_of(root), false};
	const struct usage_record r = {
		slice_of(agent), epoch, 1, epoch, {admitted, 2 * admitted, 0}};

	cr_assert_eq(book_read(b, &key, &r), KOVA_OK);
}

/* Writes what has changed and reads it into `to`, as one that takes over does. */
static void take_over(struct book *from, struct book *to)
{
	for (size_t i = 0; i < from->n_changed; i++) {
		struct book_key key;
		struct ledger_message m;
		struct buf bytes = {0};

		cr_assert_eq(book_changed(from, i, &key), KOVA_OK);
		cr_assert_eq(ledger_value_write(&key, &from->ledger, &from->processes, &bytes),
			     KOVA_OK);
		cr_assert_eq(ledger_message_parse(buf_slice(&bytes), &m), KOVA_OK);
		cr_assert_eq(book_restore(to, &m.key, &m.kept), KOVA_OK);
		ledger_message_release(&m);
		buf_release(&bytes);
	}
}

static uint64_t total_of(const struct book *b, const char *policy, const char *region)
{
	for (size_t i = 0; i < b->n_series; i++)
		if (strcmp(b->series[i].policy, policy) == 0 &&
		    strcmp(b->series[i].region, region) == 0)
			return b->series[i].total.admitted;
	return 0;
}

Test(book, each_quota_has_a_ledger_and_each_policy_and_region_a_sum)
{
	struct keys keys = {0};
	struct book b;

	book_init(&b, &keys);
	use(&b, "p", "eu", "a", "n", 1, 5);
	use(&b, "p", "us", "a", "n", 1, 7);
	use(&b, "q", "eu", "a", "n", 1, 1);
	use(&b, "p", "eu", "b", "n", 1, 2);
	use(&b, "p", "eu", "a", "n", 1, 4); /* again, from before */
	use(&b, "p", "eu", "a", "n", 2, 1);
	cr_expect_eq(total_of(&b, "p", "eu"), 8);
	cr_expect_eq(total_of(&b, "p", "us"), 7);
	cr_expect_eq(total_of(&b, "q", "eu"), 1);
	cr_expect_eq(b.n_ledgers, 4);
	cr_expect_eq(b.n_changed, 4);
	book_settle(&b);
	cr_expect_eq(b.n_changed, 0);
	use(&b, "p", "eu", "b", "n", 1, 3);
	cr_expect_eq(b.n_changed, 1);
	book_release(&b);
	keys_release(&keys);
}

Test(book, what_was_kept_goes_on)
{
	struct keys keys = {0}, next_keys = {0};
	struct book b, next;
	struct dice dice = {7};
	char policy[8], root[16], agent[8];

	book_init(&b, &keys);
	book_init(&next, &next_keys);
	for (uint64_t i = 0; i < 20000; i++) {
		snprintf(policy, sizeof policy, "p%lu", dice_below(&dice, 100));
		snprintf(root, sizeof root, "r%lu", dice_below(&dice, 50));
		snprintf(agent, sizeof agent, "n%lu", dice_below(&dice, 3));
		use(&b, policy, "eu", root, agent, 1 + dice_below(&dice, 2), i);
	}
	take_over(&b, &next);
	cr_expect_eq(next.n_ledgers, b.n_ledgers);
	cr_expect_eq(next.n_changed, 0);
	cr_expect_eq(next.n_series, b.n_series);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(policy, sizeof policy, "p%u", i);
		cr_expect_eq(total_of(&next, policy, "eu"), total_of(&b, policy, "eu"));
	}
	use(&next, "p1", "eu", "r1", "n1", 1, 1);
	cr_expect_eq(total_of(&next, "p1", "eu"), total_of(&b, "p1", "eu"), "it was counted");
	book_release(&b);
	keys_release(&keys);
	book_release(&next);
	keys_release(&next_keys);
}

Test(book, processes_that_are_over_are_retired_and_their_ledgers_kept_again)
{
	struct keys keys = {0};
	struct book_key key;
	struct book b;

	book_init(&b, &keys);
	use(&b, "p", "eu", "a", "n", 1, 5);
	use(&b, "p", "eu", "a", "n", 2, 6);
	use(&b, "p", "eu", "b", "n", 1, 1);
	book_settle(&b);
	cr_assert_eq(book_retire(&b, 2 * keys.n, 2), KOVA_OK);
	cr_assert_eq(b.n_changed, 1);
	cr_assert_eq(book_changed(&b, 0, &key), KOVA_OK);
	cr_expect(slice_equal(key.root, SLICE("a")));
	cr_expect_eq(b.ledger.n, 1);
	cr_expect_eq(b.ledger.final.admitted, 5);
	cr_expect_eq(total_of(&b, "p", "eu"), 12);
	book_release(&b);
	keys_release(&keys);
}

static uint64_t used(struct book *b, const char *policy, const char *root, const char *region)
{
	struct usage_counts counts;

	cr_assert_eq(book_used(b, slice_of(policy), slice_of(root), region, &counts), KOVA_OK);
	return counts.admitted;
}

static bool count_told(const char *topic, struct slice key, struct slice value, void *data)
{
	(void)topic;
	(void)key;
	(void)value;
	++*(unsigned *)data;
	return true;
}

Test(book, who_takes_over_tells_once_that_nothing_is_shared_there)
{
	struct keys keys = {0};
	unsigned told = 0;
	struct book b;

	book_init(&b, &keys);
	cr_assert_eq(book_set_shares(&b, SLICE("p"), SLICE("eu"), (struct share_sum){0}), KOVA_OK);
	cr_assert(rows_tell(&b, 0, count_told, &told));
	cr_expect_eq(told, 1, "the one before may have told something");
	book_settle(&b);
	cr_assert(rows_tell(&b, 0, count_told, &told));
	cr_expect_eq(told, 1);
	book_release(&b);
	keys_release(&keys);
}

Test(book, what_a_root_has_used_in_a_region_or_in_all)
{
	struct keys keys = {0};
	struct book b;

	book_init(&b, &keys);
	cr_expect_eq(used(&b, "p", "a", NULL), 0);
	use(&b, "p", "eu", "a", "n", 1, 5);
	use(&b, "p", "us", "a", "n", 1, 7);
	use(&b, "q", "us", "a", "n", 1, 70);
	use(&b, "p", "us", "b", "n", 1, 700);
	cr_expect_eq(used(&b, "p", "a", NULL), 12);
	cr_expect_eq(used(&b, "p", "a", "us"), 7);
	cr_expect_eq(used(&b, "p", "c", NULL), 0);
	cr_expect_eq(used(&b, "r", "a", NULL), 0);
	book_release(&b);
	keys_release(&keys);
}
