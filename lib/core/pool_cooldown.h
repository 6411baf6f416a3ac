/*
 * Whether an endpoint may be used, or one as a target sees it: too many failures in its window begin a cooldown, each longer than
 * the one before until it does well, and after it one request tells whether it works again (half-open; Nygard: Release It!,
 * circuit breaker). A cooldown began after a ticket: what is reported of that one or an earlier one is late. No clock is
 * compared for that.
 *
 * Times are µs of one clock; serials of tickets count from 1. The twin of lua/pool_health.lua.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/pool.h"
#include "core/pool_window.h"

/* All zeros: as good as any other. */
struct pool_cooldown {
	struct pool_window window; /* 1: a failure */
	bool cooling;
	bool probed;   /* a probe since it began has passed */
	bool judged;   /* it began by what a target said */
	bool warned;   /* it was said once that it does not begin */
	uint8_t level; /* cooldowns in a row; 0: there was none yet */
	uint8_t good;  /* successes since the last one ended, at most 255 */
	uint64_t stop_us;
	uint64_t began; /* the last ticket before it; 0: none began */
	uint64_t trial; /* the ticket that tells; 0: none is out */
	uint64_t trial_stop_us;
	uint64_t since_us; /* so far its time is counted */
};

/* The next of a row of numbers from 0 to 1, evenly spread whatever the first one was. */
double pool_luck_next(double *luck);

/* µs until it may be used; 0: now. `probes`: only a probe makes it due. */
uint64_t pool_cooldown_wait_us(const struct pool_cooldown *c, const struct pool_rule *rule,
			       uint64_t now_us, bool probes);

/*
 * Begins one, or the next. `serial`: of the last ticket that was issued. `hint_us`: what a Retry-After says, 0: none.
 * Returns how long it is.
 */
uint64_t pool_cooldown_begin(struct pool_cooldown *c, const struct pool_rule *rule, uint64_t now_us,
			     uint64_t serial, uint64_t hint_us, double *luck);
/* It is over. */
void pool_cooldown_end(struct pool_cooldown *c);
/* The Retry-After of a ticket from before it began makes it longer, never shorter. True: it did. */
bool pool_cooldown_late(struct pool_cooldown *c, const struct pool_rule *rule, uint64_t now_us,
			uint64_t hint_us);

enum pool_mark { POOL_GOOD, POOL_BAD, POOL_NEUTRAL };
enum pool_effect {
	POOL_IGNORED, /* it was late, or not the trial */
	POOL_KEPT,    /* it is in the window, if it is not neutral */
	POOL_PASSED,  /* the trial */
	POOL_FAILED,  /* the trial, or the window is full of failures */
};

/* What the outcome of a ticket means. The caller begins or ends the cooldown. */
enum pool_effect pool_cooldown_take(struct pool_cooldown *c, const struct pool_rule *rule,
				    uint64_t serial, enum pool_mark mark);
void pool_cooldown_try(struct pool_cooldown *c, const struct pool_rule *rule, uint64_t now_us,
		       uint64_t serial);
/* Nobody knows how the trial went. False: that ticket was none. */
bool pool_cooldown_free(struct pool_cooldown *c, uint64_t serial);
