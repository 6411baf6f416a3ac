#include "core/pool.h"

#include <strings.h>

const char *const pool_outcome_names[POOL_OUTCOMES] = {
	[POOL_OK] = "ok",           [POOL_REFUSED] = "refused",
	[POOL_AUTH] = "auth",       [POOL_TUNNEL] = "tunnel",
	[POOL_TIMEOUT] = "timeout", [POOL_TARGET] = "target",
	[POOL_BLOCKED] = "blocked", [POOL_CAPTCHA] = "captcha",
	[POOL_EMPTY] = "empty",     [POOL_CANCELLED] = "cancelled",
};

const char *const pool_pause_names[POOL_PAUSES] = {
	[POOL_NOT_PAUSED] = "",   [POOL_FLOOR] = "floor",     [POOL_COOLING] = "cooling",
	[POOL_SLOTS] = "slots",   [POOL_HELD] = "held",       [POOL_NOTHING] = "empty",
	[POOL_OUTAGE] = "outage", [POOL_LIMITED] = "limited",
};

bool pool_outcome_find(struct slice word, enum pool_outcome *ret_outcome)
{
	for (unsigned i = 0; i < POOL_OUTCOMES; i++)
		if (word.len == strlen(pool_outcome_names[i]) &&
		    strncasecmp(word.ptr, pool_outcome_names[i], word.len) == 0) {
			*ret_outcome = (enum pool_outcome)i;
			return true;
		}
	return false;
}
