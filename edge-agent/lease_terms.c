#include "lease_terms.h"

bool lease_terms_allow(const struct request_state *s)
{
	if (s->n_checks > LEASE_CHECKS_MAX || s->durable != NULL)
		return false;
	for (uint16_t i = 0; i < s->n_checks; i++) {
		const struct check_ref *ref = &s->checks[i];
		enum algorithm a = ref->limit->algorithm;

		if (ref->policy->shadow || ref->policy->lease.off || ref->policy->has_breaker ||
		    ref->policy->has_adaptive || ref->level->has_slots ||
		    (a != ALGORITHM_TOKEN_BUCKET && a != ALGORITHM_SLIDING_WINDOW &&
		     a != ALGORITHM_CALENDAR))
			return false;
	}
	return true;
}
