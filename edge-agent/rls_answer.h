/* What Envoy's rate limit service answers: from the verdicts on pairs of a policy and a key. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "request.h"

struct grpc_task;

/* What was heard of a pair. */
struct rls_pair {
	uint8_t descriptor; /* whose it is */
	bool is_known, is_over, is_unlimited;
	char policy[NAME_BYTES_MAX + 1];
	uint64_t limit, remaining, rate, per_us, window_s; /* as in struct answer */
	int64_t reset_after_ms, retry_after_ms, more_after_ms;
};

struct rls_answer {
	uint8_t n_descriptors, n_pairs;
	struct rls_pair pair[REQUEST_PAIRS_MAX];
};

/* The verdict on pair number `i`; whether it is why the request is refused, or would be. */
void rls_answer_hear(struct rls_answer *a, uint8_t i, const struct answer *said, bool is_over);
bool rls_answer_is_over(const struct rls_answer *a);
/* Answers the call: a descriptor is over if one of its pairs is. Pairs that are not known are left out. */
void rls_answer_send(const struct rls_answer *a, struct grpc_task *t);
