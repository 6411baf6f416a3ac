/* Replays tests/vectors/limits.json through the twins in C and through the script in a real Redis. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/limiter.h"
#include "script_rig.h"

enum { EDGES_MAX = 16 };

static const char *const algorithm_names[ALGORITHM_N] = {
	"token-bucket", "gcra", "sliding-window", "sliding-counter", "calendar", "concurrency"};

struct vector {
	struct limit limit;
	uint64_t edge[EDGES_MAX];
	const char *name;
	const json_t *steps;
};

struct step {
	uint64_t at_us, cost;
	struct limiter_verdict expected;
};

static json_t *document;
static uint64_t start_us;

static void load(void)
{
	const char *directory = getenv("KOVA_SOURCE_DIR");
	char path[4096];
	json_error_t error;

	snprintf(path, sizeof path, "%s/tests/vectors/limits.json",
		 directory == NULL ? "." : directory);
	document = json_load_file(path, 0, &error);
	cr_assert_not_null(document, "%s:%d: %s", path, error.line, error.text);
	start_us = ((uint64_t)time(NULL) / (7 * 86400) + 15) * 7 * 86400 * 1000000;
}

static void unload(void)
{
	json_decref(document);
}

TestSuite(vectors, .init = load, .fini = unload);

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void vector_read(const json_t *v, struct vector *ret_vector)
{
	struct vector r = {.name = json_string_value(json_object_get(v, "name")),
			   .steps = json_object_get(v, "steps")};
	const char *algorithm = json_string_value(json_object_get(v, "algorithm"));
	const json_t *edges = json_object_get(v, "edges");

	r.limit = (struct limit){.algorithm = ALGORITHM_N,
				 .limit = number(v, "limit"),
				 .per_us = number(v, "per"),
				 .burst = number(v, "burst"),
				 .hold_us = number(v, "hold")};
	for (int a = 0; a < ALGORITHM_N; a++)
		if (strcmp(algorithm, algorithm_names[a]) == 0)
			r.limit.algorithm = (enum algorithm)a;
	cr_assert_leq(json_array_size(edges), EDGES_MAX);
	for (size_t i = 0; i < json_array_size(edges); i++)
		r.edge[i] = start_us + (uint64_t)json_integer_value(json_array_get(edges, i));
	r.limit.edges.n = (uint32_t)json_array_size(edges);
	cr_assert_eq(limit_init(&r.limit), KOVA_OK, "%s", r.name);
	*ret_vector = r;
	ret_vector->limit.edges.edge_us = ret_vector->edge;
}

static struct step step_at(const struct vector *v, size_t i)
{
	const json_t *s = json_array_get(v->steps, i);
	struct step r = {.at_us = start_us + (uint64_t)json_integer_value(json_array_get(s, 0)),
			 .cost = (uint64_t)json_integer_value(json_array_get(s, 1))};

	cr_assert_eq(json_array_size(s), 6, "%s, step %zu", v->name, i);
	r.expected.allowed = json_is_true(json_array_get(s, 2));
	r.expected.remaining = (uint64_t)json_integer_value(json_array_get(s, 3));
	r.expected.wait_us = json_integer_value(json_array_get(s, 4));
	r.expected.reset_us = (uint64_t)json_integer_value(json_array_get(s, 5));
	return r;
}

static void compare(const struct vector *v, size_t i, const struct limiter_verdict *got,
		    const struct limiter_verdict *expected)
{
	cr_assert(got->allowed == expected->allowed && got->remaining == expected->remaining &&
			  got->wait_us == expected->wait_us && got->reset_us == expected->reset_us,
		  "%s, step %zu: %s, %lu, %ld, %lu", v->name, i, got->allowed ? "true" : "false",
		  (unsigned long)got->remaining, (long)got->wait_us, (unsigned long)got->reset_us);
}

Test(vectors, in_c)
{
	const json_t *each;
	size_t n;

	json_array_foreach(json_object_get(document, "vectors"), n, each) {
		struct limiter_state state;
		struct limiter_verdict got;
		struct vector v;

		vector_read(each, &v);
		cr_assert(limiter_init(&state, &v.limit, start_us, false));
		for (size_t i = 0; i < json_array_size(v.steps); i++) {
			struct step s = step_at(&v, i);

			limiter_admit(&v.limit, &state, s.at_us, s.cost, &got);
			compare(&v, i, &got, &s.expected);
		}
		limiter_release(&state);
	}
	cr_assert_geq(n, 12);
}

/* Plain batches take another path through the script than those with anything else in them. */
static void replay_in_lua(bool plain)
{
	struct script_rig rig;
	const json_t *each;
	size_t n;

	script_rig_start(&rig);
	json_array_foreach(json_object_get(document, "vectors"), n, each) {
		struct vector v;
		char key[32];

		vector_read(each, &v);
		snprintf(key, sizeof key, "k:x{t}%zu", n);
		for (size_t i = 0; i < json_array_size(v.steps); i++) {
			struct step s = step_at(&v, i);
			struct script_check c = {
				.limit = &v.limit, .key = slice_of(key), .cost = s.cost};
			struct script_op op[2] = {
				{.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1},
				{.kind = SCRIPT_PEEK, .checks = &c, .n_checks = 1}};
			struct script_answer a[2];
			struct limiter_verdict got;

			rig.virtual_us = rig.clock_us = s.at_us;
			script_rig_run(&rig, op, plain ? 1 : 2, a);
			got = (struct limiter_verdict){a[0].status == SCRIPT_ALLOWED,
						       a[0].remaining, a[0].wait_us, a[0].reset_us};
			compare(&v, i, &got, &s.expected);
		}
	}
	script_rig_stop(&rig);
}

Test(vectors, in_lua_plain)
{
	replay_in_lua(true);
}

Test(vectors, in_lua_with_others)
{
	replay_in_lua(false);
}
