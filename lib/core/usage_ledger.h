/*
 * What one region has used of one quota (policy and key root) in all, from the cumulative records of kova.usage.v1
 * (proto/kova_usage.proto): what is read again, or was lost before a later one, changes nothing.
 *
 * A counter is named by its agent, the epoch of that agent's process, and a window, which only grows in an epoch. The records that
 * one process writes of a root are in one partition, in their order. So once a record of a later window was read, what was
 * known of the one before is final, and whatever comes of it is a repetition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum { USAGE_AGENT_MAX = 255 }; /* bytes of an agent's name */

struct usage_counts {
	uint64_t admitted, refused, waited; /* sums of costs */
};

/* One record. The name is borrowed for the call. */
struct usage_record {
	struct slice agent; /* 1..USAGE_AGENT_MAX bytes */
	uint64_t epoch, window, hlc;
	struct usage_counts counts;
};

struct usage_agent;

/* All zeros: nothing was used. Owns its agents: usage_ledger_release(). */
struct usage_ledger {
	struct usage_counts final;   /* of counters that are over */
	struct usage_agent **agents; /* one an agent and epoch */
	uint32_t n, room;
};

void usage_ledger_release(struct usage_ledger *l);

/* Reads a record. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status usage_ledger_read(struct usage_ledger *l, const struct usage_record *r);

/* All that was used. */
struct usage_counts usage_ledger_total(const struct usage_ledger *l);

/* The i-th agent's counter as it is known (i < l->n), to be kept elsewhere. Borrowed until the ledger changes. */
struct usage_record usage_ledger_agent(const struct usage_ledger *l, size_t i);

/*
 * Forgets the processes that are over: a later epoch of the same agent was read, and all that was read of the process is from before this stamp
 * of the hybrid logical clock. Such records must be older than any that can be read again (the topic's retention). What they
 * used stays in the total. A process without a successor is kept however long it is silent: it may only have been idle, and
 * its counters go on. Returns whether there were any.
 */
bool usage_ledger_forget(struct usage_ledger *l, uint64_t before_hlc);
