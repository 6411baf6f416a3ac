/* Weights from history: what a catalogue makes of them, and what children are counted for them. */
#include <criterion/criterion.h>

#include "control/catalogue_build.h"
#include "control/rule_set.h"
#include "core/shares.h"
#include "usage_children.h"

static const char levels[] = "\"levels\":[{\"name\":\"t\",\"limit\":100,\"per\":\"1s\"},"
			     "{\"name\":\"u\",\"limit\":10,\"per\":\"1s\",\"weight\":2},"
			     "{\"name\":\"e\",\"limit\":10,\"per\":\"1s\",\"weight\":1}]";

static struct weights_rule *weights(const char *json)
{
	json_t *value = json_loads(json, 0, NULL);
	struct conf_reader r = {0};
	struct weights_rule *rule = weights_rule_read(&r, value);

	cr_assert_not_null(rule, "%s: %s", json, r.errors[0].text);
	json_decref(value);
	return rule;
}

/* Of policies `h` (history) and `f` (fixed), with these overrides and weights. */
static struct catalogue *build(const char *overrides, const char *const *items, size_t n)
{
	struct weights_rule *rules[8];
	struct conf_reader r = {0};
	struct rule_set set;
	json_t *o = json_loads(overrides, 0, NULL);
	json_t *p = json_loads(
		"[{\"name\":\"h\",\"weights\":\"history\",\"levels\":[]},{\"name\":\"f\"}]", 0,
		NULL);
	char text[512];

	snprintf(text, sizeof text, "{%s}", levels);
	json_t *some = json_loads(text, 0, NULL);

	for (size_t i = 0; i < 2; i++)
		json_object_update(json_array_get(p, i), some);
	cr_assert_eq(rule_set_read(&r, &(struct rule_lists){p, o, NULL}, &set), KOVA_OK, "%s",
		     r.errors[0].text);
	for (size_t i = 0; i < n; i++)
		rules[i] = weights(items[i]);
	struct catalogue *c =
		catalogue_new(set.policies, set.n_policies, set.overrides, set.n_overrides);

	cr_assert(c != NULL && catalogue_set_weights(c, rules, n));

	for (size_t i = 0; i < n; i++)
		weights_rule_unref(rules[i]);
	rule_set_release(&set);
	json_decref(o);
	json_decref(p);
	json_decref(some);
	return c;
}

Test(weights, history_is_found_by_path_and_level)
{
	static const char *const items[] = {
		"{\"policy\":\"h\",\"parent\":\"acme\",\"weights\":{\"gold\":3000,\"iron\":500}}",
		"{\"policy\":\"h\",\"parent\":\"acme/gold\",\"weights\":{\"x/y\":7}}",
		"{\"policy\":\"h\",\"parent\":\"\",\"weights\":{\"a\":9}}",
		"{\"policy\":\"f\",\"parent\":\"acme\",\"weights\":{\"gold\":3000}}",
		"{\"policy\":\"none\",\"parent\":\"acme\",\"weights\":{\"gold\":3000}}",
		"{\"policy\":\"h\",\"parent\":\"a/b/c/d\",\"weights\":{\"gold\":3000}}"};
	struct catalogue *c = build("[]", items, sizeof items / sizeof items[0]);
	const struct policy *h = catalogue_policy(c, SLICE("h")),
			    *f = catalogue_policy(c, SLICE("f"));

	cr_expect_eq(catalogue_weight(c, h, 1, SLICE("acme/gold")), 3000);
	cr_expect_eq(catalogue_weight(c, h, 1, SLICE("acme/iron")), 500);
	cr_expect_eq(catalogue_weight(c, h, 1, SLICE("acme/other")), 0);
	cr_expect_eq(catalogue_weight(c, h, 2, SLICE("acme/gold")), 0);
	cr_expect_eq(catalogue_weight(c, h, 2, SLICE("acme/gold/x/y")), 7);
	cr_expect_eq(catalogue_weight(c, h, 1, SLICE("/a")), 9);
	cr_expect_eq(catalogue_weight(c, f, 1, SLICE("acme/gold")), 0, "its weights are fixed");
	catalogue_unref(c);
}

Test(weights, those_of_policies_and_overrides_are_on_its_scale)
{
	struct catalogue *c = build("[{\"policy\":\"h\",\"key\":\"a/b\",\"weight\":5},"
				    "{\"policy\":\"h\",\"key\":\"a/c\",\"limit\":4},"
				    "{\"policy\":\"f\",\"key\":\"a/b\",\"weight\":5}]",
				    NULL, 0);
	const struct policy *h = catalogue_policy(c, SLICE("h")),
			    *f = catalogue_policy(c, SLICE("f"));
	const struct override *o;

	cr_expect_eq(h->levels[1].weight, 2 * WEIGHTS_ONE);
	cr_expect_eq(f->levels[1].weight, 2);
	o = catalogue_override(c, h, 1, SLICE("a/b"), 0);
	cr_expect(o->weighted && o->level.weight == 5 * WEIGHTS_ONE);
	o = catalogue_override(c, h, 1, SLICE("a/c"), 0);
	cr_expect(!o->weighted && o->level.weight == 2 * WEIGHTS_ONE);
	o = catalogue_override(c, f, 1, SLICE("a/b"), 0);
	cr_expect(o->weighted && o->level.weight == 5);
	catalogue_unref(c);
}

static void expect_error(const char *policies, const char *overrides, const char *said)
{
	json_t *p = json_loads(policies, 0, NULL), *o = json_loads(overrides, 0, NULL);
	struct conf_reader r = {0};
	struct rule_set set;

	cr_assert(p != NULL && o != NULL);
	cr_assert_neq(rule_set_read(&r, &(struct rule_lists){p, o, NULL}, &set), KOVA_OK, "%s",
		      policies);
	cr_expect_not_null(strstr(r.errors[0].text, said), "%s", r.errors[0].text);
	json_decref(p);
	json_decref(o);
}

Test(weights, what_can_not_be)
{
	expect_error("[{\"name\":\"p\",\"weights\":\"history\",\"limit\":1,\"per\":\"1s\"}]", "[]",
		     "a level that has a `weight`");
	expect_error("[{\"name\":\"p\",\"weights\":\"history\",\"levels\":["
		     "{\"name\":\"t\",\"limit\":1,\"per\":\"1s\"},"
		     "{\"name\":\"u\",\"limit\":1,\"per\":\"1s\",\"weight\":1001}]}]",
		     "[]", "1 to 1000");
	expect_error("[{\"name\":\"p\",\"weights\":\"history\",\"levels\":["
		     "{\"name\":\"t\",\"limit\":1,\"per\":\"1s\"},"
		     "{\"name\":\"u\",\"limit\":1,\"per\":\"1s\",\"weight\":1}]}]",
		     "[{\"policy\":\"p\",\"key\":\"a/b\",\"weight\":1001}]", "1 to 1000");
}

/* ---- What is counted ---- */

static uint64_t admitted(struct tally *t, const char *parent, const char *child)
{
	struct tally_key key;
	struct tally_counts counts;
	uint64_t found = 0;

	while (tally_take(t, &key, &counts)) {
		struct slice p, c;

		usage_children_split(&key, &p, &c);
		if (slice_equal(p, slice_of(parent)) && slice_equal(c, slice_of(child)))
			found = counts.admitted;
	}
	return found;
}

Test(weights, children_of_each_weighted_level_are_counted)
{
	struct catalogue *c = build("[]", NULL, 0);
	static const struct {
		const char *policy, *key, *parent, *child;
		uint64_t admitted;
	} cases[] = {{"h", "acme/gold/x/y", "acme", "gold", 3},
		     {"h", "acme/gold/x/y", "acme/gold", "x/y", 3},
		     {"h", "acme/gold", "acme", "gold", 3},
		     {"h", "acme/gold/", "acme/gold", "", 3},
		     {"h", "/gold", "", "gold", 3},
		     {"h", "//x", "/", "x", 3},
		     {"h", "acme", "acme", "", 0},
		     {"f", "acme/gold", "acme", "gold", 0},
		     {"none", "acme/gold", "acme", "gold", 0}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct tally *t = tally_new(8);

		usage_children_add(t, c, slice_of(cases[i].policy), slice_of(cases[i].key), 2);
		usage_children_add(t, c, slice_of(cases[i].policy), slice_of(cases[i].key), 1);
		cr_expect_eq(admitted(t, cases[i].parent, cases[i].child), cases[i].admitted,
			     "%s: %s", cases[i].key, cases[i].parent);
		tally_free(t);
	}
	catalogue_unref(c);
}
