/*
 * The response fields RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-10:
 * Lists of Structured Fields (RFC 9651), and the Retry-After that goes with them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

/* A policy and where its caller stands. */
struct ratelimit {
	struct slice policy;   /* printable ASCII */
	uint64_t quota;        /* q */
	uint64_t window_s;     /* w; 0: none */
	bool concurrent;       /* qu="concurrent-requests": q counts what is held at once */
	uint64_t remaining;    /* r */
	int64_t more_after_ms; /* t, until there is more; <= 0: not said (full, or never) */
};

/* Append the value of RateLimit-Policy, of RateLimit, for n >= 1 items. */
void ratelimit_policy_write(struct buf *out, const struct ratelimit *items, size_t n);
void ratelimit_write(struct buf *out, const struct ratelimit *items, size_t n);

/* `ms` >= 0 in whole seconds, rounded up: who waits them has waited long enough. */
uint64_t ratelimit_seconds(int64_t ms);

/*
 * Retry-After of a refusal in whole seconds: at least 1, never before RateLimit's t. 0: the field
 * is left out, as waiting never helps (`retry_after_ms` < 0).
 */
uint64_t ratelimit_retry_after_s(int64_t retry_after_ms, int64_t more_after_ms);
