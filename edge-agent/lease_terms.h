/* Which requests may be decided from a lease. */
#pragma once

#include "engine.h"

enum { LEASE_CHECKS_MAX = 8 }; /* levels of a policy */

/* Whether all checks of `s`, resolved, are of keys that have leases. */
bool lease_terms_allow(const struct request_state *s);
