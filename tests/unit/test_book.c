/* The books: sums by policy and region are those of their ledgers, and what was kept begins another book of the same sums. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "book.h"
#include "dice.h"
#include "records.h"

static void use(struct book *b, const char *policy, const char *region, const char *root,
		const char *agent, uint64_t epoch, uint64_t admitted)
{
	const struct book_key key = {slice_of(policy), slice_of(region), slice_of(root), false};
	const struct usage_record r = {
		slice_of(agent), epoch, 1, epoch, {admitted, 2 * admitted, 0}};

	cr_assert_eq(book_read(b, &key, &r), KOVA_OK);
}

static size_t count_changed(const struct book *b)
{
	size_t n = 0;

	for (const struct book_quota *q = b->changed; q != NULL; q = q->next_changed)
		n++;
	return n;
}

/* Writes what has changed and reads it into `to`, as one that takes over does. */
static void take_over(const struct book *from, struct book *to)
{
	for (const struct book_quota *q = from->changed; q != NULL; q = q->next_changed) {
		const struct book_key key = book_key_of(from, q);
		struct ledger_message m;
		struct buf bytes = {0};

		cr_assert_eq(ledger_value_write(&key, &q->ledger, &bytes), KOVA_OK);
		cr_assert_eq(ledger_message_parse(buf_slice(&bytes), &m), KOVA_OK);
		cr_assert_eq(book_restore(to, &m.key, &m.ledger), KOVA_OK);
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
	struct book b = {0};

	use(&b, "p", "eu", "a", "n", 1, 5);
	use(&b, "p", "us", "a", "n", 1, 7);
	use(&b, "q", "eu", "a", "n", 1, 1);
	use(&b, "p", "eu", "b", "n", 1, 2);
	use(&b, "p", "eu", "a", "n", 1, 4); /* again, from before */
	use(&b, "p", "eu", "a", "n", 2, 1);
	cr_expect_eq(total_of(&b, "p", "eu"), 8);
	cr_expect_eq(total_of(&b, "p", "us"), 7);
	cr_expect_eq(total_of(&b, "q", "eu"), 1);
	cr_expect_eq(b.n_quotas, 4);
	cr_expect_eq(count_changed(&b), 4);
	book_settle(&b);
	cr_expect_eq(count_changed(&b), 0);
	use(&b, "p", "eu", "b", "n", 1, 3);
	cr_expect_eq(count_changed(&b), 1);
	book_release(&b);
}

Test(book, what_was_kept_goes_on)
{
	struct book b = {0}, next = {0};
	struct dice dice = {7};
	char policy[8], root[16], agent[8];

	for (uint64_t i = 0; i < 20000; i++) {
		snprintf(policy, sizeof policy, "p%lu", dice_below(&dice, 100));
		snprintf(root, sizeof root, "r%lu", dice_below(&dice, 50));
		snprintf(agent, sizeof agent, "n%lu", dice_below(&dice, 3));
		use(&b, policy, "eu", root, agent, 1 + dice_below(&dice, 2), i);
	}
	take_over(&b, &next);
	cr_expect_eq(next.n_quotas, b.n_quotas);
	cr_expect_eq(count_changed(&next), 0);
	cr_expect_eq(next.n_series, b.n_series);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(policy, sizeof policy, "p%u", i);
		cr_expect_eq(total_of(&next, policy, "eu"), total_of(&b, policy, "eu"));
	}
	use(&next, "p1", "eu", "r1", "n1", 1, 1);
	cr_expect_eq(total_of(&next, "p1", "eu"), total_of(&b, "p1", "eu"), "it was counted");
	book_release(&b);
	book_release(&next);
}

Test(book, processes_that_are_over_are_retired_and_their_ledgers_kept_again)
{
	struct book b = {0};

	use(&b, "p", "eu", "a", "n", 1, 5);
	use(&b, "p", "eu", "a", "n", 2, 6);
	use(&b, "p", "eu", "b", "n", 1, 1);
	book_settle(&b);
	book_retire(&b, b.n_slots, 2);
	cr_assert_eq(count_changed(&b), 1);
	cr_expect_eq(b.changed->ledger.n, 1);
	cr_expect_eq(b.changed->ledger.final.admitted, 5);
	cr_expect_eq(total_of(&b, "p", "eu"), 12);
	book_release(&b);
}
