/*
 * What one region has used of one quota (policy and key root) in all, from the cumulative records of kova.usage.v1
 * (proto/kova_usage.proto): what is read again, or was lost before a later one, changes nothing.
 *
 * A counter is named by its agent, the epoch of that agent's process, and a window, which only grows in an epoch. The records that
 * one process writes of a root are in one partition, in their order. So once a record of a later window was read, what was
 * known of the one before is final, and whatever comes of it is a repetition.
 *
 * There may be millions of them. So they are kept as few bytes, and are worked upon one after the other in one struct.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/intern.h"
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

/* Of one process. */
struct usage_counter {
	uint32_t process; /* its number among those of all ledgers that are kept together */
	uint64_t window, hlc;
	struct usage_counts counts;
};

/* All zeros: nothing was used. Each of its counters uses its process once. */
struct usage_ledger {
	struct usage_counts final; /* of counters that are over */
	struct usage_counter *counters;
	uint32_t n, room;
};

/* Frees the memory, and leaves the processes used: whoever keeps its bytes uses them. */
void usage_ledger_release(struct usage_ledger *l);

/* Nothing was used. */
void usage_ledger_clear(struct usage_ledger *l, struct intern *processes);

/* Appends it. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status usage_ledger_pack(const struct usage_ledger *l, struct buf *out);
/* What these bytes say takes the place of what `l` was, whose memory it goes on with. KOVA_ENOMEM: `l` is as it was. */
KOVA_MUST_CHECK kova_status usage_ledger_unpack(struct usage_ledger *l, struct slice bytes);

/* Reads a record. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status usage_ledger_read(struct usage_ledger *l, struct intern *processes,
					      const struct usage_record *r);

/* All that was used. */
struct usage_counts usage_ledger_total(const struct usage_ledger *l);

/* The i-th counter as it is known (i < l->n), to be kept elsewhere. The name is borrowed while the process is used. */
struct usage_record usage_ledger_agent(const struct usage_ledger *l, const struct intern *processes,
				       size_t i);

/*
 * Forgets the processes that are over: a later epoch of the same agent was read, and all that was read of the process is from before this stamp
 * of the hybrid logical clock. Such records must be older than any that can be read again (the topic's retention). What they
 * used stays in the total. A process without a successor is kept however long it is silent: it may only have been idle, and
 * its counters go on. Returns whether there were any.
 */
bool usage_ledger_forget(struct usage_ledger *l, struct intern *processes, uint64_t before_hlc);
