/*
 * The table of global quotas against a plain list: which are there, whose turn is next, which one makes room; and demand, which is
 * measured over whole rounds.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/quota_table.h"
#include "dice.h"

enum { MAX = 20, NAMES = 60, STEPS = 200000 };

/* Every name that there can be; of those in the table, by use and by turn, the first first. */
static struct {
	char root[NAMES][16];
	int by_use[MAX], by_turn[MAX], n;
	bool busy[NAMES];
} model;

static void forget(int *list, int name)
{
	int at = 0;

	while (list[at] != name)
		at++;
	memmove(&list[at], &list[at + 1], (size_t)(MAX - 1 - at) * sizeof *list);
}

static void model_remove(int name)
{
	forget(model.by_use, name);
	forget(model.by_turn, name);
	model.n--;
}

static bool model_has(int name)
{
	for (int i = 0; i < model.n; i++)
		if (model.by_use[i] == name)
			return true;
	return false;
}

/* Whether there is room for it then. */
static bool model_get(int name)
{
	int i = 0;

	if (model_has(name))
		return true;
	while (model.n == MAX && i < MAX && model.busy[model.by_use[i]])
		i++;
	if (i == MAX)
		return false;
	if (model.n == MAX)
		model_remove(model.by_use[i]);
	memmove(&model.by_turn[1], &model.by_turn[0], (size_t)model.n * sizeof *model.by_turn);
	model.by_turn[0] = name;
	model.by_use[model.n++] = name;
	return true;
}

static struct slice policy_of(int name)
{
	return name % 2 == 0 ? SLICE("p") : SLICE("pq");
}

/* Of `p` the roots begin with q, so that names of both kinds are alike when they stand together. */
static struct slice root_of(int name)
{
	snprintf(model.root[name], sizeof model.root[name], "%s%d", name % 2 == 0 ? "q" : "",
		 name / 2);
	return slice_of(model.root[name]);
}

static void expect_alike(const struct quota_table *t)
{
	int i = 0;

	cr_assert_eq(quota_table_count(t), (size_t)model.n);
	for (const struct quota *q = quota_table_next(t); q != NULL; q = q->later, i++)
		cr_assert(slice_equal(quota_root(q), root_of(model.by_turn[i])));
	cr_assert_eq(i, model.n);
	for (int name = 0; name < NAMES; name++) {
		const struct quota *q = quota_table_find(t, policy_of(name), root_of(name));

		cr_assert_eq(q != NULL, model_has(name));
		cr_assert(q == NULL || slice_equal(quota_policy(q), policy_of(name)));
	}
}

static void step(struct quota_table *t, struct dice *d, uint64_t now_ms)
{
	int name = (int)dice_below(d, NAMES);
	struct quota *q = quota_table_find(t, policy_of(name), root_of(name));

	switch (dice_below(d, 6)) {
	case 0:
	case 1:
		q = quota_table_get(t, policy_of(name), root_of(name));
		cr_assert_eq(q != NULL, model_get(name));
		break;
	case 2:
		if (q == NULL)
			break;
		quota_table_use(t, q);
		forget(model.by_use, name);
		model.by_use[model.n - 1] = name;
		break;
	case 3:
		q = quota_table_next(t);
		if (q == NULL)
			break;
		quota_table_turn(t, q, now_ms);
		cr_assert_eq(q->turn_ms, now_ms);
		name = model.by_turn[0];
		forget(model.by_turn, name);
		model.by_turn[model.n - 1] = name;
		break;
	case 4:
		if (q == NULL || q->busy)
			break;
		quota_table_remove(t, q);
		model_remove(name);
		break;
	default:
		if (q == NULL)
			break;
		q->busy = !q->busy && dice_below(d, 3) > 0;
		model.busy[name] = q->busy;
	}
}

Test(quota_table, as_a_list_would_have_it)
{
	struct quota_table *t = quota_table_new(MAX);
	struct dice d = {7};

	cr_assert_not_null(t);
	for (int i = 0; i < STEPS; i++) {
		step(t, &d, (uint64_t)i);
		if (i % 16 == 0)
			expect_alike(t);
	}
	quota_table_free(t);
}

Test(quota_table, no_room_while_all_are_busy)
{
	struct quota_table *t = quota_table_new(2);
	struct quota *a = quota_table_get(t, SLICE("p"), SLICE("a"));
	struct quota *b = quota_table_get(t, SLICE("p"), SLICE(""));

	a->busy = b->busy = true;
	cr_expect_null(quota_table_get(t, SLICE("p"), SLICE("c")));
	cr_expect_eq(quota_table_get(t, SLICE("p"), SLICE("a")), a);
	b->busy = false;
	cr_expect_not_null(quota_table_get(t, SLICE("p"), SLICE("c")));
	cr_expect_null(quota_table_find(t, SLICE("p"), SLICE("")));
	quota_table_free(t);
}

Test(quota_table, demand_is_that_of_whole_rounds)
{
	struct quota_table *t = quota_table_new(2);
	uint64_t asked = 0;

	quota_table_round(t, 1000000);
	struct quota *q = quota_table_get(t, SLICE("p"), SLICE("a"));

	quota_table_asked(t, q, 100);
	cr_expect_not(quota_table_measure(t, q, &asked), "the round goes on");
	quota_table_round(t, 1500000);
	quota_table_asked(t, q, 7); /* of the next */
	cr_assert(quota_table_measure(t, q, &asked));
	cr_expect_eq(asked, 100);
	cr_expect_float_eq(q->rate, 200, 1e-9);
	cr_expect_not(quota_table_measure(t, q, &asked));
	quota_table_asked(t, q, 3);
	quota_table_round(t, 2000000);
	quota_table_round(t, 3500000);
	cr_assert(quota_table_measure(t, q, &asked));
	cr_expect_eq(asked, 10);
	cr_expect_float_eq(q->rate, 5, 1e-9);
	quota_table_round(t, 4500000);
	cr_assert(quota_table_measure(t, q, &asked));
	cr_expect_eq(asked, 0);
	cr_expect_float_eq(q->rate, 0, 1e-9);
	quota_table_free(t);
}
