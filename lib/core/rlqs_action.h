/*
 * What Envoy's rate limit quota filter is told of a bucket: envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse
 * (proto/). Messages are written side by side: a response of several actions is theirs, one behind the other.
 */
#pragma once

#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"

enum rlqs_kind {
	RLQS_ALLOWANCE, /* `amount` requests, and no more; whatever was assigned before is over */
	RLQS_ALLOW,     /* all requests */
	RLQS_DENY,      /* none */
	RLQS_ABANDON,   /* the bucket is to be forgotten */
};

struct rlqs_action {
	enum rlqs_kind kind;
	uint32_t amount; /* RLQS_ALLOWANCE: 1..LIMIT_MAX */
	uint32_t ttl_s;  /* how long it holds; not of RLQS_ABANDON */
};

/* `id`: the bucket's, as it was reported (struct rlqs_id). */
void rlqs_action_write(struct buf *out, struct slice id, const struct rlqs_action *a);
