/*
 * What providers say in their responses about how much a key may still do: each by its own dialect, which its pool declares. None is
 * guessed from how a number looks: 300 is seconds here, and an instant there.
 */
#pragma once

#include "core/pool.h"
#include "core/status.h"

struct pool_header {
	struct slice name, value;
};

/* What a response said. */
struct pool_said {
	struct pool_quota quotas[POOL_QUOTAS_MAX];
	size_t n_quotas;
	uint64_t hint_us; /* how long to stay away; 0: nothing said so */
	bool unknown_key; /* the provider does not know the key */
	unsigned
		bad; /* numbers that are none, negative waits, resets of more than a day: left aside */
};

/*
 * Reads the headers (names in any case) of a response of `status` (0: not known), which came at `now_us` (wall clock, since the epoch).
 */
void pool_dialect_read(enum pool_dialect dialect, const struct pool_header *headers, size_t n,
		       uint16_t status, uint64_t now_us, struct pool_said *ret_said);

/*
 * A duration as Go writes it: `17ms`, `6m0s`, `2m59.56s`, `23h47m36.648s`; in µs, rounded up. KOVA_EPROTO: it is none. KOVA_ERANGE:
 * negative, or more than a day.
 */
KOVA_MUST_CHECK kova_status pool_go_duration(struct slice text, uint64_t *ret_us);
