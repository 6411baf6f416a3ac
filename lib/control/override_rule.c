/* What an override says, and what it makes of its policy. */
#include <stdlib.h>
#include <string.h>

#include "control/policy_rule.h"
#include "control/weights.h"
#include "core/shares.h"
#include "io/policy_fields.h"

static bool has_rate(enum algorithm a)
{
	return a != ALGORITHM_CALENDAR && a != ALGORITHM_CONCURRENCY;
}

static bool has_burst(enum algorithm a)
{
	return a == ALGORITHM_TOKEN_BUCKET || a == ALGORITHM_GCRA;
}

static void override_check(struct conf_reader *r, const struct conf_path *path,
			   const struct override_fields *f)
{
	bool limited = f->limit != CONF_ABSENT, weighted = f->weight != CONF_ABSENT;
	int kinds = limited + f->unlimited + f->banned;

	if ((f->key.ptr != NULL) == (f->prefix.ptr != NULL))
		conf_fail(r, path, f->key.ptr != NULL ? "prefix" : NULL,
			  f->key.ptr != NULL ? CONF_AT_KEY : CONF_AT_VALUE,
			  "an override has one of `key` and `prefix`");
	if (kinds > 1 || (kinds == 0 && !weighted))
		conf_fail(r, path, NULL, CONF_AT_VALUE,
			  "an override has one of `limit`, `\"unlimited\": true` and "
			  "`\"banned\": true`, or `weight`");
	if (weighted && (f->unlimited || f->banned))
		conf_fail(r, path, "weight", CONF_AT_KEY,
			  "`weight` goes with `limit`, or by itself");
	if (!limited && f->per != CONF_ABSENT)
		conf_fail(r, path, "per", CONF_AT_KEY, "`per` goes with `limit`");
	if (!limited && f->burst != CONF_ABSENT)
		conf_fail(r, path, "burst", CONF_AT_KEY, "`burst` goes with `limit`");
}

struct override_rule *override_rule_read(struct conf_reader *r, const struct conf_path *path,
					 const json_t *value)
{
	struct override_fields f;
	size_t errors = r->n_errors;

	if (!json_is_object(value)) {
		conf_fail(r, path, NULL, CONF_AT_VALUE, "an override must be an object");
		return NULL;
	}
	conf_read(r, path, value, &override_table, &f);
	if (r->n_errors == errors)
		override_check(r, path, &f);
	if (r->n_errors != errors)
		return NULL;
	struct slice key = f.key.ptr != NULL ? f.key : f.prefix;
	struct override_rule *o = malloc(sizeof *o + key.len);

	if (o == NULL)
		return NULL;
	*o = (struct override_rule){
		.is_prefix = f.prefix.ptr != NULL,
		.banned = f.banned,
		.unlimited = f.unlimited,
		.until_ms = f.until != CONF_ABSENT ? f.until : INT64_MAX,
		.limit = f.limit,
		.per_ms = f.per,
		.burst = f.burst,
		.weight = f.weight,
		.key = {o->bytes, key.len},
	};
	atomic_init(&o->refs, 1);
	strcpy(o->policy, f.policy);
	memcpy(o->bytes, key.ptr, key.len);
	return o;
}

struct override_rule *override_rule_ref(struct override_rule *rule)
{
	atomic_fetch_add_explicit(&rule->refs, 1, memory_order_relaxed);
	return rule;
}

void override_rule_unref(struct override_rule *rule)
{
	if (rule != NULL && atomic_fetch_sub_explicit(&rule->refs, 1, memory_order_acq_rel) == 1)
		free(rule);
}

unsigned override_rule_level(const struct override_rule *o, const struct policy *p)
{
	unsigned level = 0;

	for (size_t i = 0; i < o->key.len && level + 1 < p->n_levels; i++)
		level += o->key.ptr[i] == '/';
	return level;
}

/*
 * Of a global limit what was used in a window counts, for the other regions, for as long as the longest window of the policy: none may be
 * longer.
 */
static bool outlasts(const struct override_rule *o, const struct policy *p)
{
	uint64_t longest_us = 0;

	if (p->scope != SCOPE_GLOBAL || p->levels[0].limit.algorithm != ALGORITHM_SLIDING_WINDOW ||
	    o->per_ms == CONF_ABSENT)
		return false;
	for (uint8_t i = 0; i < p->n_levels; i++)
		if (p->levels[i].limit.per_us > longest_us)
			longest_us = p->levels[i].limit.per_us;
	return (uint64_t)o->per_ms * 1000 > longest_us;
}

/* The level that `o` makes of `base`. KOVA_ERANGE: it cannot be. */
static kova_status level_bind(const struct override_rule *o, const struct policy *p,
			      const struct level *base, struct level *ret_level)
{
	struct limit *l = &ret_level->limit;

	if (outlasts(o, p))
		return KOVA_ERANGE;

	*ret_level = *base;
	if (o->weight != CONF_ABSENT && base->weight > 0)
		ret_level->weight = (uint32_t)o->weight * (p->weighs_history ? WEIGHTS_ONE : 1);
	if (o->limit == CONF_ABSENT)
		return KOVA_OK;
	if (base->has_slots)
		return policy_set_plan(ret_level, o->limit, (int64_t)(base->slots.hold_us / 1000));
	l->limit = (uint64_t)o->limit;
	if (has_rate(l->algorithm))
		policy_set_rate(l, o->limit,
				o->per_ms != CONF_ABSENT ? o->per_ms : (int64_t)(l->per_us / 1000),
				o->burst);
	return limit_init(l);
}

static void fail_misfit(struct conf_reader *r, const struct conf_path *path, const char *field,
			const struct policy *p, const struct level *base)
{
	conf_fail(r, path, field, CONF_AT_KEY, "`%s` cannot be overridden: policy `%s` is %s%s%s",
		  field, p->name, base->has_slots ? "a plan" : "`",
		  base->has_slots ? "" : policy_algorithm_names[base->limit.algorithm],
		  base->has_slots ? "" : "`");
}

bool override_rule_fits(const struct override_rule *o, const struct policy *p,
			struct conf_reader *r, const struct conf_path *path)
{
	const struct level *base = &p->levels[override_rule_level(o, p)];
	size_t errors = r->n_errors;
	struct level bound;

	if (o->banned || o->unlimited)
		return true;
	if (o->weight != CONF_ABSENT && base->weight == 0)
		conf_fail(r, path, "weight", CONF_AT_KEY,
			  "`weight` cannot be overridden: level `%s` of policy `%s` has none",
			  base->name, p->name);
	if (o->weight > SHARE_WEIGHT_MAX / WEIGHTS_ONE && p->weighs_history)
		conf_fail(
			r, path, "weight", CONF_AT_VALUE,
			"`weight` must be from 1 to %d: the `weights` of policy `%s` are `history`",
			SHARE_WEIGHT_MAX / WEIGHTS_ONE, p->name);
	if (o->per_ms != CONF_ABSENT && (base->has_slots || !has_rate(base->limit.algorithm)))
		fail_misfit(r, path, "per", p, base);
	if (o->burst != CONF_ABSENT && (base->has_slots || !has_burst(base->limit.algorithm)))
		fail_misfit(r, path, "burst", p, base);
	if (outlasts(o, p))
		conf_fail(r, path, "per", CONF_AT_VALUE,
			  "policy `%s` is global: `per` must be at most that of its levels",
			  p->name);
	if (r->n_errors == errors && level_bind(o, p, base, &bound) != KOVA_OK)
		conf_fail(r, path, NULL, CONF_AT_VALUE,
			  "burst × per ÷ limit is more than 100 years: `burst` or `per` must be "
			  "smaller, or `limit` larger");
	return r->n_errors == errors;
}

void override_rule_bind(const struct override_rule *o, const struct policy *p,
			struct override *ret_override)
{
	const struct level *base = &p->levels[override_rule_level(o, p)];

	*ret_override = (struct override){.banned = o->banned,
					  .unlimited = o->unlimited,
					  .until_ms = o->until_ms,
					  .weighted = o->weight != CONF_ABSENT};
	if (o->banned || o->unlimited)
		return;
	if (level_bind(o, p, base, &ret_override->level) != KOVA_OK)
		ret_override->banned = true;
}
