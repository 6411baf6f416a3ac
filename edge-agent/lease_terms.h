/* What keys that are resolved alike share: the policy and the limits that bind them, and whether they have leases. */
#pragma once

#include "engine.h"

enum { LEASE_TERMS_LISTS = 256 };

struct lease_terms {
	struct lease_terms *next;    /* in its list */
	struct catalogue *catalogue; /* referenced; the rest points into it */
	const struct policy *policy;
	const struct site *site; /* where the limits are */
	size_t refs;
	bool leases;    /* may be decided from a lease ... */
	bool only_busy; /* ... if it is busy: lease_demand_is_busy(); */
	bool warm; /* or, while no feedback comes for the policy, if it is warm: lease_warm() */
	uint64_t
		ttl_max_us; /* of a lease in another region: a window's permits count until its end and longer */
	uint16_t n_checks;
	struct lease_check {
		const struct limit *limit;
		const char *level_name;
	} checks[]; /* as a request of such a key has them */
};

/* All zeros: none are in use. */
struct lease_terms_table {
	struct lease_terms *list[LEASE_TERMS_LISTS];
};

/* Whether something can be leased of the check's limit at all, wherever it is spent then. */
bool lease_terms_fit(const struct check_ref *ref);
/* Whether keys of the policy may have leases when they are warm, as far as the policy alone says. */
bool lease_terms_may_be_warm(const struct policy *p);
/* The terms of the key of `s`, a resolved take of one pair; referenced for the caller. NULL: out of memory. */
struct lease_terms *lease_terms_get(struct lease_terms_table *t, const struct request_state *s);
/* Ends a reference, of terms of this table. */
void lease_terms_unref(struct lease_terms_table *t, struct lease_terms *terms);
