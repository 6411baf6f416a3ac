/*
 * What Envoy's rate limit quota filter reports: envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports (proto/), read
 * where it lies, as its strings may hold any byte.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"

enum { RLQS_ENTRIES_MAX = 16 }; /* of a bucket's id; as many as a policy's `descriptors` can name */

/* What a bucket is told apart by: its entries, by key. All slices are in the message. */
struct rlqs_id {
	struct slice bytes; /* as it came, to be sent back so */
	unsigned
		n_entries; /* 0: it has none, or more than RLQS_ENTRIES_MAX: no id that there can be */
	struct rlqs_entry {
		struct slice key, value;
	} entry[RLQS_ENTRIES_MAX]; /* in the order of the keys' bytes */
};

struct rlqs_usage {
	struct rlqs_id id;
	uint64_t allowed, denied; /* requests since the last report of the bucket */
};

struct rlqs_report {
	struct slice domain; /* empty: that of an earlier report */
	size_t n_usages;
	struct slice bytes; /* of the message, for rlqs_usage_next() */
};

/* KOVA_EPROTO: it is no such message; *ret_report is undefined then. */
KOVA_MUST_CHECK kova_status rlqs_report_parse(struct slice message, struct rlqs_report *ret_report);
/* Takes the next usage off *rest, at first the report's bytes. False: there are no more. */
bool rlqs_usage_next(struct slice *rest, struct rlqs_usage *ret_usage);
/* Adds what only this bucket of this domain has, whatever the order of its entries (rls_name_add() of each text). */
void rlqs_id_write(struct buf *out, struct slice domain, const struct rlqs_id *id);
/* The value of the entry `key`. False: there is none. */
bool rlqs_id_find(const struct rlqs_id *id, struct slice key, struct slice *ret_value);
