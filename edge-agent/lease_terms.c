#include "lease_terms.h"

#include <stdlib.h>

#include "core/hash.h"
#include "core/lease.h"

enum {
	CHECKS_MAX = 8, /* of a lease */
	BUSY_LIMIT =
		1000, /* a second, and at once: less, and a limit has leases only where its policy asks for them */
};

bool lease_terms_fit(const struct check_ref *ref)
{
	enum algorithm a = ref->limit->algorithm;

	return !ref->policy->shadow && !ref->policy->has_breaker && !ref->policy->has_adaptive &&
	       !ref->level->has_slots && ref->share.weight == 0 &&
	       (a == ALGORITHM_TOKEN_BUCKET || a == ALGORITHM_SLIDING_WINDOW ||
		a == ALGORITHM_CALENDAR);
}

/* Where nobody asked for leases, ordinary limits have none: what is shown of them stays what Redis says. */
static bool is_large(const struct limit *l)
{
	return l->algorithm != ALGORITHM_CALENDAR && limit_capacity(l) >= BUSY_LIMIT &&
	       l->limit * 1000000 / l->per_us >= BUSY_LIMIT;
}

static bool may_lease(const struct request_state *s)
{
	if (s->n_checks > CHECKS_MAX || s->durable != NULL || s->site->region == NULL)
		return false;
	for (uint16_t i = 0; i < s->n_checks; i++) {
		const struct check_ref *ref = &s->checks[i];

		if (!lease_terms_fit(ref) || ref->policy->lease.off ||
		    (ref->policy->lease.automatic && !s->site->is_far && !is_large(ref->limit)))
			return false;
	}
	return true;
}

/* One bucket, of which a few permits may be away for seconds, and which nobody needs to move meanwhile. */
static bool may_be_warm(const struct request_state *s)
{
	const struct policy *p = s->checks[0].policy;

	return may_lease(s) && p->lease.automatic && p->scope == SCOPE_REGION && !s->site->is_far &&
	       s->n_checks == 1 && s->checks[0].limit->algorithm == ALGORITHM_TOKEN_BUCKET;
}

bool lease_terms_may_be_warm(const struct policy *p)
{
	const struct level *level = &p->levels[0];

	return p->lease.automatic && !p->lease.off && !p->shadow && !p->has_breaker &&
	       !p->has_adaptive && p->scope == SCOPE_REGION && p->n_levels == 1 &&
	       !level->has_slots && level->limit.algorithm == ALGORITHM_TOKEN_BUCKET &&
	       (p->has_overrides || is_large(&level->limit));
}

static uint64_t ttl_max_us(const struct request_state *s)
{
	uint64_t least_us = UINT64_MAX;

	for (uint16_t i = 0; i < s->n_checks; i++) {
		const struct limit *l = s->checks[i].limit;

		if (l->algorithm == ALGORITHM_SLIDING_WINDOW && l->per_us / 2 < least_us)
			least_us = l->per_us / 2;
	}
	return least_us;
}

static struct lease_terms **list_of(struct lease_terms_table *t, const struct limit *last)
{
	return &t->list[hash_mix((uintptr_t)last) % LEASE_TERMS_LISTS];
}

static bool are_those_of(const struct lease_terms *terms, const struct request_state *s)
{
	if (terms->catalogue != s->catalogue || terms->policy != s->checks[0].policy ||
	    terms->site != s->site || terms->n_checks != s->n_checks)
		return false;
	for (uint16_t i = 0; i < s->n_checks; i++)
		if (terms->checks[i].limit != s->checks[i].limit)
			return false;
	return true;
}

static struct lease_terms *terms_new(const struct request_state *s)
{
	struct lease_terms *terms = calloc(1, sizeof *terms + s->n_checks * sizeof *terms->checks);

	if (terms == NULL)
		return NULL;
	terms->catalogue = catalogue_ref(s->catalogue);
	terms->policy = s->checks[0].policy;
	terms->site = s->site;
	terms->leases = may_lease(s);
	terms->only_busy = terms->policy->lease.automatic && !s->site->is_far;
	terms->warm = may_be_warm(s);
	terms->ttl_max_us = ttl_max_us(s);
	terms->n_checks = s->n_checks;
	for (uint16_t i = 0; i < s->n_checks; i++)
		terms->checks[i] =
			(struct lease_check){s->checks[i].limit, s->checks[i].level_name};
	return terms;
}

struct lease_terms *lease_terms_get(struct lease_terms_table *t, const struct request_state *s)
{
	struct lease_terms **list = list_of(t, s->checks[s->n_checks - 1].limit);
	struct lease_terms *terms = *list;

	while (terms != NULL && !are_those_of(terms, s))
		terms = terms->next;
	if (terms == NULL) {
		terms = terms_new(s);
		if (terms == NULL)
			return NULL;
		terms->next = *list;
		*list = terms;
	}
	terms->refs++;
	return terms;
}

void lease_terms_unref(struct lease_terms_table *t, struct lease_terms *terms)
{
	struct lease_terms **at;

	if (--terms->refs > 0)
		return;
	at = list_of(t, terms->checks[terms->n_checks - 1].limit);
	while (*at != terms)
		at = &(*at)->next;
	*at = terms->next;
	catalogue_unref(terms->catalogue);
	free(terms);
}
