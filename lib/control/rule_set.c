#include "control/rule_set.h"

#include <stdlib.h>
#include <string.h>

#include "control/catalogue_build.h"
#include "core/nearest.h"

static const struct conf_path policies_path = {.key = "policies"};
static const struct conf_path overrides_path = {.key = "overrides"};
static const struct conf_path pools_path = {.key = "pools"};

/* An item of the file for the search for equals: sorted, equals are neighbours. */
struct item {
	const void *rule;
	size_t index;
};

static int compare_policies(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	const struct policy_rule *p = x->rule, *q = y->rule;
	int order = strcmp(p->policy.name, q->policy.name);

	return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_keys(const struct override_rule *p, const struct override_rule *q)
{
	size_t n = p->key.len < q->key.len ? p->key.len : q->key.len;
	int order = strcmp(p->policy, q->policy);

	if (order == 0)
		order = p->is_prefix - q->is_prefix;
	if (order == 0)
		order = memcmp(p->key.ptr, q->key.ptr, n);
	return order != 0 ? order : (p->key.len > q->key.len) - (p->key.len < q->key.len);
}

static int compare_overrides(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = compare_keys(x->rule, y->rule);

	return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static bool policies_equal(const struct item *a, const struct item *b)
{
	const struct policy_rule *p = a->rule, *q = b->rule;

	return strcmp(p->policy.name, q->policy.name) == 0;
}

static bool overrides_equal(const struct item *a, const struct item *b)
{
	return compare_keys(a->rule, b->rule) == 0;
}

static void fail_twice(struct conf_reader *r, const struct conf_path *list,
		       const struct item *first, const struct item *again)
{
	const struct conf_path path = {.up = list, .index = again->index};

	if (list == &policies_path) {
		const struct policy_rule *p = again->rule;

		conf_fail(r, &path, "name", CONF_AT_VALUE,
			  "a policy `%s` is there already, as item %zu of the list", p->policy.name,
			  first->index + 1);
	} else {
		const struct override_rule *o = again->rule;

		conf_fail(r, &path, o->is_prefix ? "prefix" : "key", CONF_AT_VALUE,
			  "an override of this %s is there already, as item %zu of the list",
			  o->is_prefix ? "prefix" : "key", first->index + 1);
	}
}

/* An error for each rule that says again what an earlier one says. */
static bool fail_equals(struct conf_reader *r, const struct conf_path *list, void *const *rules,
			size_t n)
{
	bool policies = list == &policies_path;
	struct item *items = malloc((n + 1) * sizeof *items);
	size_t count = 0;

	if (items == NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (rules[i] != NULL)
			items[count++] = (struct item){rules[i], i};
	qsort(items, count, sizeof *items, policies ? compare_policies : compare_overrides);
	for (size_t i = 1, first = 0; i < count; i++) {
		if (policies ? policies_equal(&items[first], &items[i])
			     : overrides_equal(&items[first], &items[i]))
			fail_twice(r, list, &items[first], &items[i]);
		else
			first = i;
	}
	free(items);
	return true;
}

static bool policies_read(struct conf_reader *r, const json_t *list, struct rule_set *s)
{
	size_t n = json_array_size(list);

	s->policies = calloc(n + 1, sizeof(struct policy_rule *));
	if (s->policies == NULL)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct conf_path path = {.up = &policies_path, .index = i};
		size_t errors = r->n_errors;

		s->n_policies = i + 1;
		s->policies[i] = policy_rule_read(r, &path, json_array_get(list, i));
		if (s->policies[i] == NULL && r->n_errors == errors)
			return false;
	}
	return fail_equals(r, &policies_path, (void *const *)s->policies, n);
}

static bool overrides_read(struct conf_reader *r, const json_t *list, struct rule_set *s)
{
	size_t n = json_array_size(list);

	s->overrides = calloc(n + 1, sizeof(struct override_rule *));
	if (s->overrides == NULL)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct conf_path path = {.up = &overrides_path, .index = i};
		size_t errors = r->n_errors;

		s->n_overrides = i + 1;
		s->overrides[i] = override_rule_read(r, &path, json_array_get(list, i));
		if (s->overrides[i] == NULL && r->n_errors == errors)
			return false;
	}
	return fail_equals(r, &overrides_path, (void *const *)s->overrides, n);
}

static void fail_same_pool(struct conf_reader *r, const struct rule_set *s, size_t again)
{
	const struct conf_path path = {.up = &pools_path, .index = again};

	for (size_t i = 0; i < again; i++)
		if (s->pools[i] != NULL && strcmp(s->pools[i]->name, s->pools[again]->name) == 0) {
			conf_fail(r, &path, "name", CONF_AT_VALUE,
				  "a pool `%s` is there already, as item %zu of the list",
				  s->pools[again]->name, i + 1);
			return;
		}
}

static bool pools_read(struct conf_reader *r, const json_t *list, struct rule_set *s)
{
	size_t n = json_array_size(list);

	s->pools = calloc(n + 1, sizeof(struct pool_def *));
	if (s->pools == NULL)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct conf_path path = {.up = &pools_path, .index = i};
		size_t errors = r->n_errors;

		s->n_pools = i + 1;
		s->pools[i] = pool_def_read(r, &path, json_array_get(list, i));
		if (s->pools[i] == NULL && r->n_errors == errors)
			return false;
		if (s->pools[i] != NULL)
			fail_same_pool(r, s, i);
	}
	return true;
}

static const char *policy_name_at(const void *set, size_t i)
{
	const struct rule_set *s = set;

	return i < s->n_policies ? s->policies[i]->policy.name : NULL;
}

static void fail_no_policy(struct conf_reader *r, const struct conf_path *path, const char *field,
			   const char *name, const struct rule_set *s)
{
	const char *nearest = nearest_find(name, policy_name_at, s);

	conf_fail(r, path, field, CONF_AT_VALUE, "no policy `%s` in this file%s%s%s", name,
		  nearest != NULL ? "; did you mean `" : "", nearest != NULL ? nearest : "",
		  nearest != NULL ? "`?" : "");
}

static void pools_check(struct conf_reader *r, const struct rule_set *s, const struct catalogue *c)
{
	for (size_t i = 0; i < s->n_pools; i++) {
		const struct conf_path path = {.up = &pools_path, .index = i};
		const struct pool_def *p = s->pools[i];

		if (p->permit[0] != '\0' && catalogue_policy(c, slice_of(p->permit)) == NULL)
			fail_no_policy(r, &path, "permit", p->permit, s);
		if (p->target_policy[0] != '\0' &&
		    catalogue_policy(c, slice_of(p->target_policy)) == NULL)
			fail_no_policy(r, &path, "target_policy", p->target_policy, s);
	}
}

/* Each override and pool against the policies; only when all are without errors. */
static bool policies_check(struct conf_reader *r, const struct rule_set *s)
{
	struct catalogue *c = catalogue_new(s->policies, s->n_policies, NULL, 0);

	if (c == NULL)
		return false;
	pools_check(r, s, c);
	for (size_t i = 0; i < s->n_overrides && r->n_errors < CONF_ERRORS_MAX; i++) {
		const struct conf_path path = {.up = &overrides_path, .index = i};
		const struct override_rule *o = s->overrides[i];
		const struct policy *p = catalogue_policy(c, slice_of(o->policy));

		if (p == NULL)
			fail_no_policy(r, &path, "policy", o->policy, s);
		else
			override_rule_fits(o, p, r, &path);
	}
	catalogue_unref(c);
	return true;
}

kova_status rule_set_read(struct conf_reader *r, const struct rule_lists *lists,
			  struct rule_set *ret_set)
{
	struct rule_set s = {0};
	size_t errors = r->n_errors;
	bool memory = policies_read(r, lists->policies, &s) &&
		      overrides_read(r, lists->overrides, &s) && pools_read(r, lists->pools, &s) &&
		      (r->n_errors != errors || policies_check(r, &s));

	if (!memory || r->n_errors != errors) {
		rule_set_release(&s);
		return memory ? KOVA_ECONFIG : KOVA_ENOMEM;
	}
	*ret_set = s;
	return KOVA_OK;
}

void rule_set_release(struct rule_set *s)
{
	for (size_t i = 0; i < s->n_policies; i++)
		policy_rule_unref(s->policies[i]);
	for (size_t i = 0; i < s->n_overrides; i++)
		override_rule_unref(s->overrides[i]);
	for (size_t i = 0; i < s->n_pools; i++)
		pool_def_unref(s->pools[i]);
	free(s->pools);
	free(s->policies);
	free(s->overrides);
	*s = (struct rule_set){0};
}
