/* Queues and lines are found by what they are called; lines by the root of that as well. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "waiters_own.h"

enum { ROOTS = 3000, LINES_OF_ROOT = 4, TRIED = 8 };

static struct slice path_of(char text[static 32], unsigned root, unsigned i)
{
	snprintf(text, 32, i == 0 ? "r%u" : "r%u/u%u", root, i);
	return slice_of(text);
}

static unsigned count(const struct waiters *w, const char *policy, unsigned root)
{
	struct wait_line *l = NULL;
	char text[32];
	unsigned n = 0;

	path_of(text, root, 0);
	while ((l = line_of_root(w, slice_of(policy), slice_of(text), l)) != NULL) {
		struct slice path = named_path(&l->named);

		cr_assert(slice_equal(named_policy(&l->named), slice_of(policy)));
		cr_assert(slice_equal(slice_cut(&path, '/'), slice_of(text)));
		n++;
	}
	return n;
}

static struct wait_line *get(struct waiters *w, const char *policy, unsigned root, unsigned i)
{
	char text[32];

	/* The first is the root's own line, and one that others share. */
	return line_get(w, slice_of(policy), path_of(text, root, i), i % 2 == 1);
}

static struct waiters *filled(void)
{
	struct waiters *w = calloc(1, sizeof *w);

	for (unsigned root = 0; root < ROOTS; root++)
		for (unsigned i = 0; i < LINES_OF_ROOT; i++) {
			get(w, "a", root, i);
			if (root % 2 == 0)
				get(w, "b", root, i);
		}
	return w;
}

static void release(struct waiters *w)
{
	for (unsigned root = 0; root < ROOTS; root++)
		for (unsigned i = 0; i < LINES_OF_ROOT; i++) {
			line_free_if_idle(w, get(w, "a", root, i));
			line_free_if_idle(w, get(w, "b", root, i));
		}
	for (unsigned i = 0; i < WAIT_BUCKETS; i++)
		cr_assert_null(w->roots[i]);
	free(w);
}

Test(wait_names, lines_are_found_by_their_root)
{
	struct waiters *w = filled();

	for (unsigned root = 0; root < ROOTS; root++) {
		cr_assert_eq(count(w, "a", root), LINES_OF_ROOT);
		cr_assert_eq(count(w, "b", root), root % 2 == 0 ? LINES_OF_ROOT : 0);
	}
	cr_assert_eq(count(w, "a", ROOTS), 0);
	cr_assert_eq(count(w, "c", 0), 0);
	cr_assert_eq(get(w, "a", 7, 2), get(w, "a", 7, 2), "a line that is there is found");
	cr_assert_eq(count(w, "a", 7), LINES_OF_ROOT);
	release(w);
}

/* What is looked at for one root does not grow with the number of the others: as many as share its bucket. */
Test(wait_names, other_roots_are_not_looked_at)
{
	struct waiters *w = filled();
	unsigned most = 0, n = 0;

	for (unsigned i = 0; i < WAIT_BUCKETS; i++) {
		unsigned here = 0;

		for (const struct wait_line *l = w->roots[i]; l != NULL; l = l->next_of_root)
			here++;
		n += here;
		most = here > most ? here : most;
	}
	cr_assert_eq(n, ROOTS * LINES_OF_ROOT * 3 / 2);
	cr_assert_leq(most, TRIED * LINES_OF_ROOT);
	release(w);
}

Test(wait_names, lines_that_are_gone_are_not_found)
{
	struct waiters *w = filled();

	line_free_if_idle(w, get(w, "a", 5, 0));
	line_free_if_idle(w, get(w, "a", 5, 3));
	cr_assert_eq(count(w, "a", 5), LINES_OF_ROOT - 2);
	line_free_if_idle(w, get(w, "a", 5, 1));
	line_free_if_idle(w, get(w, "a", 5, 2));
	cr_assert_eq(count(w, "a", 5), 0);
	cr_assert_eq(count(w, "b", 4), LINES_OF_ROOT);
	release(w);
}
