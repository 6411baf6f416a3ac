/*
 * The engine's inside: a request's state while it is in progress, and the parts that move it on. Only the
 * engine's own files include this; everybody else sees request.h.
 *
 *   request.c  a request by itself: pool, bounds, ownership of its bytes
 *   decide.c   the steps of a request, from its check to on_done
 *   aside.c    a request that another script's call carries
 *   resolve.c  policies and overrides → checks, grouped by Cluster slot; checks → operations of the script
 *   waiters.c, wait_*.c  who waits, in which order, and when they are tried again
 *   leases.c   what is decided in memory, from permits that were leased
 *   outage.c   the verdict when the store can't be asked
 *   usage.c    what each key consumed
 *   request_trace.c  what is said of a request in its trace
 *   site.c     each region's Redis
 *   handover.c keys that had another home before
 *   durables.c, durable.c, confirm.c  regions whose answers count only when what they wrote is safe
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "control/catalogue.h"
#include "control/policy_stats.h"
#include "core/buf.h"
#include "core/rendezvous.h"
#include "core/script.h"
#include "core/timer_heap.h"
#include "io/random_pool.h"
#include "receipt.h"
#include "request.h"
#include "site.h"

struct control;
struct usage;
struct usage_feed;
struct agent;
struct edge_regions;
struct handover;
struct heartbeat;
struct lease_entry;
struct leases;
struct outage;
struct span;
struct waiters;

enum { PERMIT_BYTES = 16, PERMIT_CHARS = 22, CHECKS_INLINE = 4, TEXT_INLINE = 224 };

/* One check of a request, in the order of its operations. */
struct check_ref {
	const struct policy *policy; /* NULL: CL.THROTTLE */
	const struct level *level;   /* of the policy or of an override; NULL: CL.THROTTLE */
	const struct limit *limit;
	const char *level_name;
	uint64_t cost;
	uint8_t pair;
	uint8_t level_index;
	bool ledger;                          /* what it takes is added up in Redis */
	const struct breaker_rule *breaker;   /* NULL: none looks at this check */
	const struct adaptive_rule *adaptive; /* NULL: its limit is as it says */
	struct share_claim share;             /* for which child; weight 0: none */
};

/* The pairs of one Cluster slot (all pairs, without a Cluster): one operation of the script. */
struct group {
	struct request_state *state; /* back reference for the answer's callback */
	uint16_t slot;
	uint16_t first_check, n_checks;
	uint8_t first_pair;          /* names the root of the receipt's key */
	kova_status status;          /* of the operation */
	struct span *span;           /* of the call that is out; NULL: it is not traced */
	struct script_answer answer; /* without its echo */
};

/* A place in one key's queue; a waiter has one in the queue of each of its pairs. */
struct wait_place {
	struct request_state *state;
	struct wait_queue *queue;
	struct wait_place *prev, *next;
	uint64_t cost;
	struct wait_line *
		asked_by; /* whose turn brought it to ask; NULL: it is not asking, or as another pair */
	uint64_t start; /* its virtual time then */
	uint8_t pair;   /* of the request: the first with this key */
};

struct waiter {
	struct timer_entry deadline; /* loop ms */
	struct wait_place *places;   /* owned, one a pair; NULL: not waiting */
	uint8_t n_places;
	bool joins;          /* Redis does not know of him yet, ... */
	bool behind;         /* ... and is told that others are before him here */
	bool told;           /* Redis was asked for him, and may know of him since */
	uint64_t arrival_us; /* when he came, by Redis's clock */
};

struct request_state {
	struct request request; /* first: the two convert into each other */
	struct engine *engine;
	struct request_state *next_free;

	struct site *site;       /* whose limits they are: where its keys are at home, or here */
	struct durable *durable; /* NULL: the site's region answers */
	struct catalogue *catalogue; /* referenced while checks point into it */
	struct check_ref *checks;    /* owned unless checks_inline */
	uint16_t n_checks, cap_checks;
	struct level *own_levels; /* owned; of the pairs that bring a limit; NULL: none does */
	struct group *groups;     /* owned unless group_inline */
	uint8_t n_groups;
	uint8_t groups_asked; /* operations without an answer yet */
	bool asking_first; /* several groups: all others were granted, the first is being asked */
	bool looking_up; /* the first group is being asked for the id: another refused, or others wait */
	bool in_progress, abandoned, has_waited, wants_permit;
	bool is_repeat; /* of an id: it is answered as before */
	bool is_aside;  /* another script's call carries it (aside.h): it can't be asked again */
	bool asked_far; /* another region was asked for it */
	uint8_t edge_tries;

	char *text; /* owned unless text_inline: the bytes that the request's slices point to */
	struct limit throttle_limit;
	unsigned char random[RECEIPT_RANDOM_BYTES]; /* of the receipt */
	char permit[PERMIT_CHARS];
	struct lease_entry *lease_entry; /* pending on a lease of this key, in its list: */
	struct request_state *lease_prev, *lease_next;
	uint64_t lease_asked_us; /* when leases were tried, by their clock; 0: they were not */
	uint64_t refused_ms;     /* loop ms, when it was refused last */
	uint64_t lease_returns;  /* leases_returns() when the region was asked */
	uint8_t leases_missed;   /* that it was pending on, and others had spent */
	uint8_t leases_given_up; /* it was refused so often beside permits that were leased here */
	bool was_asked;          /* traced: a region was */
	struct span *span;       /* traced: of its waiting */
	struct buf receipt;      /* text of the receipt; or, for REFUND, the decoded bytes */
	struct waiter waiter;

	struct check_ref checks_inline[CHECKS_INLINE];
	struct group group_inline;
	char text_inline[TEXT_INLINE];
};

struct engine {
	uv_loop_t *loop;
	unsigned index, loops; /* which loop of how many, from 0 on */
	struct control *control;
	struct site *sites;                 /* owned; of all regions, in the order of their names */
	unsigned n_sites;                   /* 1: there are no others */
	const struct edge_regions *regions; /* borrowed; NULL: there are none */
	struct site *own;
	struct waiters *waiters;
	struct usage *usage;
	struct usage_feed *feed;     /* NULL: usage is not reported */
	struct agent *agent;         /* of its events; NULL: nobody hears of them */
	const struct engine *first;  /* NULL: this is it. The first owns: */
	struct outage *outage;       /* shared by all loops */
	struct heartbeat *heartbeat; /* likewise; of the agents of this region */
	struct leases *leases;
	struct handover *handover; /* NULL: there are no `regions` */
	struct request_state *free_states;
	unsigned n_states, n_states_max; /* made so far; the bound */
	unsigned n_in_progress;
	struct home_counters home;
	uint64_t newer_logged_ms; /* loop ms, of states that a later version wrote; 0: never */
	bool draining;            /* nobody may begin, or begin to wait */
	bool closing;             /* the store can't be asked any more */
	unsigned parts_open;      /* closing: of the sites */
	void (*on_closed)(void *data);
	void *closed_data;

	struct script_check scratch[SCRIPT_CHECKS_MAX]; /* of the operation being built */
	struct script_quota quotas[SCRIPT_CHECKS_MAX];  /* theirs */
	struct buf names;                               /* their key names */
	struct random_pool random;
};

static inline struct request_state *state_of(struct request *r)
{
	return (struct request_state *)r;
}

/* What this loop counts of `p`. */
static inline struct policy_counts *engine_counts(const struct engine *e, const struct policy *p)
{
	return policy_counts_of(p->stats, e->index);
}

/* Unguessable bytes. */
void engine_random(struct engine *e, unsigned char *ret_bytes, size_t len);

/* ---- request.c ---- */

static inline bool request_takes(const struct request *r)
{
	return r->kind == REQUEST_TAKE || r->kind == REQUEST_ACQUIRE;
}

/* Whether all numbers and lengths are in their ranges; else *ret_message says what is allowed. */
bool request_check(const struct request *r, const char **ret_message);
/* Copies what the request's slices point to, so that it can outlive the caller's buffer. False: out of memory. */
bool request_own(struct request_state *s);

/* Whether other agents say that keys are, or were, at home elsewhere than by the `regions` here. */
bool engine_is_contradicted(const struct engine *e);

/* Has a permit ready for what it takes of a plan. */
void request_make_permit(struct request_state *s);

/* ---- decide.c ---- */

/* Asks again for a waiter (all of its checks anew, from the catalogue in force). */
void request_try_again(struct request_state *s, bool chained, unsigned n_after);
/* The ordinary way: resolves it and asks the region, or has it wait. */
void request_start(struct request_state *s);
/* Ends one whose answer is there and counted. */
void request_decided(struct request_state *s);
/* Ends one whose question to the region was lost: its policies decide. */
void request_in_doubt(struct request_state *s);
/* Tells a refusal of `passed_ms` ago as it is now. */
void answer_age(struct answer *a, uint64_t passed_ms);
/* Whether the region can be asked for the group's keys now. */
bool request_can_ask(const struct request_state *s, const struct group *g);
/* Has the region carry out what nobody waits for. */
void request_submit_aside(struct request_state *s, const struct group *g,
			  const struct script_op *op);
/* Ends a waiter: `reason` is REASON_WAIT_TIMEOUT or REASON_QUEUE_FULL. */
void request_refuse(struct request_state *s, enum reason reason);

/* The answer to the operation of `g`; NULL unless `status` is KOVA_OK. */
void request_heard(struct group *g, kova_status status, const struct script_answer *answer);

/* ---- decide_counts.c ---- */

/* Counts what was answered: an admission for each pair, a refusal for the pairs of the policy that refused. */
void request_count(struct request_state *s);
/* Counts one that nobody heard of. `charged`: its charge stays, and who asks again by its id is not counted. */
void request_count_abandoned(struct request_state *s, bool charged);

/* ---- resolve.c ---- */

enum resolution {
	RESOLVED,
	RESOLVED_AT_ONCE, /* the answer is filled in: banned, unlimited, or an error */
};

/* Takes the catalogue in force and finds the checks and groups of the request. */
enum resolution resolve(struct request_state *s);
void resolve_release(struct request_state *s);

/* Whether the key of a pair is at home in another region, and its policy has its limits kept there. */
bool resolve_is_far(const struct engine *e, const struct request_pair *q);
/* Where its limits are kept. */
const struct site *resolve_home(const struct engine *e, const struct request_pair *q);

/* Builds the operation of `g`; its checks and names are the engine's scratch until the next call.
 * false: out of memory. */
bool resolve_operation(struct request_state *s, struct group *g, struct script_op *ret_op);
/* The same for the undoing of `g`, which was granted. */
bool resolve_give_back(struct request_state *s, struct group *g, struct script_op *ret_op);

/* The name of a check's key, at most KEYSPACE_NAME_MAX bytes; returns its length. */
size_t resolve_name(const struct request_state *s, const struct check_ref *ref, char *ret_name);

/* Fills the answer's numbers from what the script said of check `ref`. */
void resolve_answer(struct answer *a, const struct check_ref *ref, const struct script_answer *said,
		    bool allowed);

/* ---- waiters.c ---- */

struct waiters *waiters_new(struct engine *e);
void waiters_free(struct waiters *w);
/* Somebody waits for one of the request's keys: it must not overtake. */
bool waiters_ahead(const struct request_state *s);
/* The same of one key. */
bool waiters_has(const struct waiters *w, struct slice policy, struct slice key);
/* Joins the queues of its keys, behind the others; false: one of them is full (or memory is). */
bool waiters_join(struct request_state *s, uint64_t deadline_ms);
bool waiters_is_waiting(const struct request_state *s);
/* Of one who waits: how many come before him in the queue of his first key, and he. */
unsigned waiters_position(const struct request_state *s);
/* Leaves them (it was answered, or its caller is gone); the next in line is tried at once if `granted`. */
void waiters_leave(struct request_state *s, bool granted);
/* It has joined and is going to ask: known in Redis from then on, and served at once if it is its turn. */
void waiters_enter(struct request_state *s);
/* For the operation of `g`, in the engine's scratch, of one who waits: whose turn it would be. */
void waiters_claim(struct request_state *s, const struct group *g);
/* `by` refused it and `said` so: its queues are tried again when there can be room, or its turn. */
void waiters_refused(struct request_state *s, const struct script_answer *said,
		     const struct check_ref *by);
/* Something came back to this key, or (policy NULL) the catalogue changed: try now. */
void waiters_wake(struct waiters *w, struct slice policy, struct slice key);
/* There may be more for all keys of a root. */
void waiters_wake_root(struct waiters *w, struct slice policy, struct slice root);
/* Fills a refusal for a newcomer who may not wait. */
void waiters_refusal(const struct request_state *s, struct answer *a);
/* Ends all of them with REASON_WAIT_TIMEOUT (drain). */
void waiters_drain(struct waiters *w);
unsigned waiters_count(const struct waiters *w);

/* ---- outage.c ---- */

/* One for all loops of an agent: its part of a limit is a part of the agent, on whichever loop it is asked for. */
struct outage *outage_new(void);
void outage_free(struct outage *o);
/* Fills the answer by the policies' on_outage, without asking the store. */
void outage_decide(struct request_state *s);
/* An adaptive limit of the check is `limit` now, Redis says. From any loop. */
void outage_learn(struct outage *o, const struct request_state *s, const struct check_ref *ref,
		  uint64_t limit);
/* How often a key was refused because OUTAGE_KEYS others were in use. */
uint64_t outage_full(struct outage *o);
/* The store of `site` answers again: the next outage begins anew. */
void outage_ended(struct outage *o, const struct site *site);
