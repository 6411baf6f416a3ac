/*
 * A log of weighted admissions, in the order in which they stop to count: what sliding windows and
 * concurrency limits keep. Twin of the log in lua/sliding_window.lua.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/limit.h"
#include "core/verdict.h"

/* Were there more, the two latest entries become one at the later's time: counted longer, never shorter. */
enum { ADMISSION_LOG_MAX = 65536 };

struct admission {
	uint64_t at_us;  /* counts until at_us + span */
	uint64_t weight; /* >= 1 */
	uint64_t name;   /* of a permit; 0: none */
};

/* All zeros: empty. Owns its entries: admission_log_release(). */
struct admission_log {
	struct admission *entry; /* [first, first + n), ascending by at_us */
	size_t first, n, room;
	uint64_t total; /* the sum of the weights */
};

void admission_log_release(struct admission_log *g);

/* The weight of the entries that are younger than `span_us`; of all, if the clock is doubted (lua/prelude.lua). Nothing is
 * forgotten: the next limit may look further back. */
uint64_t admission_log_used(const struct admission_log *g, uint64_t now_us, uint64_t span_us,
			    bool doubted);

/* Forgets entries that at `now_us` are `span_us` old or older. */
void admission_log_expire(struct admission_log *g, uint64_t now_us, uint64_t span_us);

/* False: out of memory, nothing added. Entries without a name of the same instant become one. */
bool admission_log_add(struct admission_log *g, uint64_t at_us, uint64_t weight, uint64_t name);

/* The entry `name`, NULL if it isn't there. Borrowed until the log changes. */
struct admission *admission_log_find(struct admission_log *g, uint64_t name);
void admission_log_remove(struct admission_log *g, struct admission *entry);

/* Takes back `weight`, which was added at `at_us` and counts still. */
void admission_log_untake(struct admission_log *g, uint64_t at_us, uint64_t weight);

/* Fills in what an answer says of a log with `limit` places: `cost` was `allowed` or would have to wait. */
void admission_log_verdict(const struct admission_log *g, uint64_t limit, uint64_t now_us,
			   uint64_t span_us, uint64_t cost, bool allowed, bool doubted,
			   struct limiter_verdict *ret_verdict);
