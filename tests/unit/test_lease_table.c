#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "dice.h"
#include "lease_table.h"
#include "lease_wheel.h"

static struct policy policy[2] = {{.name = "api"}, {.name = "ap"}};
static struct lease_terms api = {.policy = &policy[0]}, ap = {.policy = &policy[1]};

static struct lease_entry *make(unsigned p, unsigned long number)
{
	struct lease_entry *e = calloc(1, offsetof(struct lease_entry, key) + 24);

	cr_assert_not_null(e);
	e->terms = p == 0 ? &api : &ap;
	e->key_len = (uint16_t)snprintf(e->key, 24, "k%lu", number);
	return e;
}

static uint64_t hash_of(const struct lease_entry *e)
{
	return lease_hash(lease_entry_policy(e), lease_entry_key(e));
}

static struct lease_entry *find(const struct lease_table *t, const struct lease_entry *e)
{
	return lease_table_find(t, hash_of(e), lease_entry_policy(e), lease_entry_key(e));
}

Test(lease_table, nothing_is_in_an_empty_one)
{
	struct lease_table t = {0};
	struct lease_entry *e = make(0, 1);

	cr_assert_null(find(&t, e));
	free(e);
	lease_table_release(&t);
}

Test(lease_table, keys_of_two_policies_that_read_alike_are_two)
{
	struct lease_table t = {0};
	struct lease_entry *a = make(0, 1), *b = make(1, 1);

	cr_assert(lease_table_add(&t, hash_of(a), a));
	cr_assert_null(find(&t, b));
	cr_assert(lease_table_add(&t, hash_of(b), b));
	cr_assert_eq(find(&t, a), a);
	cr_assert_eq(find(&t, b), b);
	free(a);
	free(b);
	lease_table_release(&t);
}

enum { KEYS = 5000 };

static void check_all(const struct lease_table *t, struct lease_entry *const *e, const bool *in)
{
	size_t n = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		cr_assert_eq(find(t, e[i]), in[i] ? e[i] : NULL, "key %u", i);
		n += in[i];
	}
	cr_assert_eq(t->n, n);
}

Test(lease_table, finds_what_was_added_and_not_removed)
{
	static struct lease_entry *e[KEYS];
	static bool in[KEYS];
	struct lease_table t = {0};
	struct dice d = {1};

	for (unsigned i = 0; i < KEYS; i++)
		e[i] = make(0, i);
	for (unsigned step = 1; step <= 60000; step++) {
		unsigned i = (unsigned)dice_below(&d, KEYS);

		if (in[i])
			lease_table_remove(&t, e[i]);
		else
			cr_assert(lease_table_add(&t, hash_of(e[i]), e[i]));
		in[i] = !in[i];
		if (step % 6000 == 0)
			check_all(&t, e, in);
	}
	for (unsigned i = 0; i < KEYS; i++)
		free(e[i]);
	lease_table_release(&t);
}

/* The allocator's pieces and the table's places; names of all lengths, for pieces come in sizes. */
Test(lease_table, a_key_takes_at_most_96_bytes_beyond_its_name)
{
	enum { MANY = 100000 };
	static struct lease_entry *e[MANY];
	struct lease_table t = {0};
	size_t bytes = 0, names = 0;

	for (unsigned i = 0; i < MANY; i++) {
		size_t len = 6 + i % 16;

		e[i] = calloc(1, offsetof(struct lease_entry, key) + len);
		cr_assert_not_null(e[i]);
		e[i]->terms = &api;
		e[i]->key_len = (uint16_t)len;
		memcpy(e[i]->key, &i, sizeof i);
		cr_assert(lease_table_add(&t, hash_of(e[i]), e[i]));
		bytes += malloc_usable_size(e[i]) + sizeof(size_t);
		names += len;
	}
	bytes += t.cap * (sizeof *t.entries + sizeof *t.tags);
	cr_assert_leq(bytes - names, MANY * (size_t)96, "%zu a key", (bytes - names) / MANY);
	for (unsigned i = 0; i < MANY; i++)
		free(e[i]);
	lease_table_release(&t);
}

/* ---- The wheel ---- */

#define SLOT ((uint64_t)LEASE_WHEEL_SLOT_US)

Test(lease_wheel, each_is_due_once_at_its_time_or_a_slot_before)
{
	struct lease_wheel w = {0};
	struct dice d = {1};
	struct lease_entry *e[200];
	uint64_t now_us = 123456789, at_us[200];
	unsigned n = 0;

	for (unsigned i = 0; i < 200; i++) {
		e[i] = make(0, i);
		at_us[i] = now_us + 1 + dice_below(&d, (LEASE_WHEEL_SLOTS - 2) * SLOT);
		lease_wheel_add(&w, e[i], now_us, at_us[i]);
	}
	for (uint64_t end_us = now_us + LEASE_WHEEL_SLOTS * SLOT; now_us < end_us; now_us += 1000) {
		struct lease_entry *due;

		while ((due = lease_wheel_take(&w, now_us)) != NULL) {
			unsigned i = (unsigned)strtoul(due->key + 1, NULL, 10);

			cr_assert_lt(now_us, at_us[i] + SLOT);
			cr_assert(now_us + SLOT > at_us[i] - SLOT);
			n++;
		}
	}
	cr_assert_eq(n, 200);
	cr_assert_eq(w.n, 0);
	for (unsigned i = 0; i < 200; i++)
		free(e[i]);
}

Test(lease_wheel, who_is_put_back_while_others_are_taken_waits_for_the_next_time)
{
	struct lease_wheel w = {0};
	struct lease_entry *e[50], *due;
	uint64_t now_us = 5 * SLOT;
	unsigned taken = 0;

	for (unsigned i = 0; i < 50; i++) {
		e[i] = make(0, i);
		lease_wheel_add(&w, e[i], now_us, now_us + i * SLOT);
	}
	now_us += 3600 * SLOT; /* we were stopped for long */
	while ((due = lease_wheel_take(&w, now_us)) != NULL && taken++ < 1000)
		lease_wheel_add(&w, due, now_us, now_us);
	cr_assert(taken == 49 || taken == 50, "one may share the slot of those put back");
	cr_assert_eq(w.n, 50);
	cr_assert_not_null(lease_wheel_take(&w, now_us + SLOT));
	for (unsigned i = 0; i < 50; i++)
		free(e[i]);
}

Test(lease_wheel, what_is_far_away_comes_early)
{
	struct lease_wheel w = {0};
	struct lease_entry *e = make(0, 1);

	lease_wheel_add(&w, e, 0, 1000 * SLOT);
	cr_assert_null(lease_wheel_take(&w, (LEASE_WHEEL_SLOTS - 1) * SLOT));
	cr_assert_eq(lease_wheel_take(&w, (LEASE_WHEEL_SLOTS + 1) * SLOT), e);
	free(e);
}
