/*
 * What a provider says of the account of a key: a hold, and quotas with their resets. Keys of one group share it. Times are µs of
 * one clock. The twin of lua/pool_account.lua.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/pool.h"

/* All zeros: nothing was said. */
struct pool_account {
	uint64_t held_us;                          /* until then */
	struct pool_quota quotas[POOL_QUOTAS_MAX]; /* their resets are absolute */
	unsigned n;
};

/* Nobody gets a key of it for so long; 0 holds nothing. Never ends what is held earlier. */
void pool_account_hold(struct pool_account *a, uint64_t now_us, uint64_t us);
/* In one window (the same reset, ±1 s) what is left never grows. A reset that is past, or more than a day off, says nothing. */
void pool_account_learn(struct pool_account *a, uint64_t now_us, const struct pool_quota *said);
/* µs until a key of it can be given; 0: now. */
uint64_t pool_account_wait_us(const struct pool_account *a, uint64_t now_us);
/* One request more is on its way, or it was not made. */
void pool_account_use(struct pool_account *a, uint64_t now_us, bool undone);
