/*
 * Decisions in memory for keys that are asked for often: permits leased in one call of the region are spent here, and
 * a refusal is remembered until it can change. Exact by the rules of docs/leases.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

struct check_ref;
struct engine;
struct leases;
struct policy;
struct request_pair;
struct request_state;
struct script_answer;

struct leases *leases_new(struct engine *e); /* NULL: out of memory */
/* Does nothing by itself any more; answers of the region may still come. */
void leases_stop(struct leases *w);
/* Nothing may be pending or in flight; what was not given back comes back by time. The memory goes with its timer. */
void leases_free(struct leases *w);

/* Requests were read from a socket: the next decision reads the clock anew. */
void leases_new_batch(struct leases *w);

enum lease_verdict {
	LEASE_NONE,    /* ask the region */
	LEASE_DECIDED, /* the answer is filled in */
	LEASE_PENDING, /* a lease is being asked for: leases_join() it */
};

/*
 * For a take without id and receipt, checked; its slices may be borrowed. Nobody may be waiting for its keys. Of several
 * pairs all are taken from or none. Counts the decision.
 */
enum lease_verdict leases_try(struct request_state *s);

/* Right after LEASE_PENDING, once the request owns its bytes. It is answered when the lease is there, or starts over. */
void leases_join(struct request_state *s);
/* Its caller is gone. Nothing, if it did not join. */
void leases_leave(struct request_state *s);

/* The region refused the request `s`, resolved, on its check `ref`, and `said` so: remembered if the key is asked for often. */
void leases_refused(const struct request_state *s, const struct check_ref *ref,
		    const struct script_answer *said);
/* The region admitted the pair beside the leases. */
void leases_took(struct leases *w, const struct request_pair *q);

/* Something came back to the key: what was remembered is forgotten. */
void leases_forget(struct leases *w, struct slice policy, struct slice key);
/* Nothing is decided in memory any more for the key path, and those below it: what is leased goes back. */
void leases_drop(struct leases *w, const struct policy *policy, struct slice key);
/* Permits of the key that are leased and not spent. */
uint64_t leases_left(struct leases *w, struct slice policy, struct slice key);
/* How often permits went back so far. */
uint64_t leases_returns(const struct leases *w);
/*
 * The region refused a request for the key, which it was asked when leases_returns() was `returns`. Whether that may be due
 * to permits that were leased here: what is left of them is on its way back, so that who asks now finds it.
 */
bool leases_give_up(struct leases *w, struct slice policy, struct slice key, uint64_t returns);
/* Brings what was decided here for the key to the engine's usage. */
void leases_count(struct leases *w, struct slice policy, struct slice key);
/* The same of every key, where usage is reported. */
void leases_count_all(struct leases *w);

/* The catalogue changed, or the agent ends: gives back what is leased and forgets what is remembered. */
void leases_return_all(struct leases *w);

struct leases_counters {
	uint64_t decisions; /* made here, refusals included */
	uint64_t far;       /* of those, for which another region was asked */
	uint64_t granted;   /* leases */
	uint64_t returned;  /* leases of which something went back */
	uint64_t in_flight; /* calls without an answer */
	uint64_t keys;      /* that are asked for often now */
};
struct leases_counters leases_counters(const struct leases *w);
