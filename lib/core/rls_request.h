/*
 * What Envoy's rate limit service is asked: envoy.service.ratelimit.v3.RateLimitRequest (proto/), read where it lies, as
 * its strings may hold any byte.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum { RLS_DESCRIPTORS_MAX = 64 };

struct rls_descriptor {
	struct slice bytes; /* of the message, for rls_entry_next() */
	size_t n_entries;
	bool has_limit, has_hits, gives_back;
	uint32_t requests_per_unit; /* of its limit */
	uint64_t unit;
	uint64_t hits; /* its own */
};

/* All slices are in the message. */
struct rls_request {
	struct slice domain;
	size_t n_descriptors; /* may be more than RLS_DESCRIPTORS_MAX: those beyond were not read */
	struct rls_descriptor descriptor[RLS_DESCRIPTORS_MAX];
	uint32_t hits;
};

/* KOVA_EPROTO: it is no such message; *ret_request is undefined then. */
KOVA_MUST_CHECK kova_status rls_request_parse(struct slice message,
					      struct rls_request *ret_request);

/* Takes the next entry off *rest, at first the descriptor's bytes. False: there are no more. */
bool rls_entry_next(struct slice *rest, struct slice *ret_key, struct slice *ret_value);
