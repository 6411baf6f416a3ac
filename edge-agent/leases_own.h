/*
 * The inside of leases.h:
 *
 *   leases.c         decisions: from a lease, from a remembered refusal, for those who stand by
 *   lease_calls.c    what is asked of the region: leases, and their return
 *   lease_entries.c  keys come and go; all of them; the timer
 */
#pragma once

#include "core/lease.h"
#include "engine.h"
#include "lease_clock.h"
#include "lease_heat.h"
#include "lease_refusal.h"
#include "lease_table.h"
#include "lease_terms.h"
#include "lease_wheel.h"
#include "leases.h"

enum { UNCOUNTED_MAX = 4096 };

struct leases {
	struct engine *engine;
	struct lease_entry **uncounted; /* a ring of UNCOUNTED_MAX; NULL: usage is not reported */
	unsigned first_uncounted, n_uncounted;
	uv_timer_t timer;
	bool timer_runs, stopped;
	struct lease_clock clock;
	uint64_t leaps; /* of clocks, when last looked */
	uint32_t random;
	uint64_t first_id;
	uint64_t returns; /* of permits */
	struct leases_counters counters;
	struct lease_table table;
	struct lease_rare
		*spare; /* kept for others: freed, they would leave holes between entries */
	unsigned n_spare;
	struct lease_wheel
		wheel; /* every entry is in it, those that are gone from the table as well */
	struct lease_terms_table terms;
	struct lease_heat heat;
	struct lease_warmth warmth;
	unsigned with_feedback; /* policies, when last looked */
};

static inline uint64_t leases_now_us(struct leases *w)
{
	return lease_clock_now_us(&w->clock);
}

static inline struct lease_instant leases_instant(struct leases *w)
{
	return (struct lease_instant){lease_clock_now_us(&w->clock),
				      lease_clock_wall_us(&w->clock)};
}

static inline bool entry_asks(const struct lease_entry *e)
{
	return e->rare != NULL && e->rare->asking;
}

/* How long a lease lasts, unless it is a warm key's. */
static inline uint64_t terms_ttl_us(const struct lease_terms *t)
{
	uint64_t us = t->policy->lease.ttl_us;

	if (t->policy->lease.automatic && t->site->is_far) {
		us = site_lease_ttl_us(t->site);
		us = us < t->ttl_max_us ? us : t->ttl_max_us;
	}
	return us;
}

/* How long the lease of it lasts. */
static inline uint64_t lease_ttl_us(const struct lease_entry *e)
{
	return e->warm ? lease_warm_ttl_us(e->span) : terms_ttl_us(e->terms);
}

/* Whether the lease is good for `cost` now. */
static inline bool entry_has(struct leases *w, const struct lease_entry *e, uint64_t cost)
{
	return e->left >= cost && e->ends_us > leases_now_us(w);
}

/* ---- lease_entries.c ---- */

/* The entry of the pair's key, made if it is asked for often; the cost is counted as asked. NULL: there is none. */
struct lease_entry *entry_asked(struct leases *w, const struct request_pair *q);
/* Brings what was decided to the engine's usage. */
void entry_count(struct leases *w, struct lease_entry *e);
/* Something was decided: entry_count() comes before the next report at the latest. */
void entry_uncounted(struct leases *w, struct lease_entry *e);
/* NULL: out of memory. */
struct lease_rare *entry_rare(struct leases *w, struct lease_entry *e);
/* Frees `rare`, if there is no more use for it. */
void entry_settle(struct leases *w, struct lease_entry *e);
void entry_forget_refusal(struct lease_entry *e);
/* A request that stands for the key, resolved: its checks are those of a take of `cost`. NULL: it has none. */
struct request_state *leases_key_request(struct leases *w, struct slice policy, struct slice key,
					 uint64_t cost);
/* Everything known of the key is forgotten, and what is leased goes back. */
void entry_reset(struct leases *w, struct lease_entry *e);

/* ---- lease_calls.c ---- */

/* Uniform. */
uint32_t leases_random(struct leases *w);

/*
 * Ends the lease: there is none afterwards. What is left goes back; one that is spent is returned as well, since what
 * is outstanding keeps the bucket from refilling.
 */
void entry_return(struct leases *w, struct lease_entry *e);
/* Asks for a lease that is good for `cost` at least. False: none is worth it, or the region can't be asked. */
bool entry_ask(struct leases *w, struct lease_entry *e, uint64_t cost);

/* ---- leases.c ---- */

/* The region answered: those who are pending are, or go the ordinary way. */
void entry_serve(struct leases *w, struct lease_entry *e);
/* Nobody knows: each pending request is in doubt. */
void entry_fail(struct lease_entry *e);
/* Answers the first pending request by an ordinary take of `amount`. False: nobody is there that it is good for. */
bool entry_serve_first(struct leases *w, struct lease_entry *e, uint64_t amount);
