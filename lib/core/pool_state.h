/* The state of a pool, for the files that pool_policy.h is made of. Times are µs, `_ms` those at which names lapse. */
#pragma once

#include "core/pool_account.h"
#include "core/pool_blame.h"
#include "core/pool_cooldown.h"
#include "core/pool_policy.h"

#define POOL_HOUR_US UINT64_C(3600000000)

enum { POOL_NAME_MAX = 1024, POOL_OUTCOMES_AFTER = 10 };

struct pool_name {
	char text[POOL_NAME_MAX];
	size_t len;
};

struct pool_member {
	struct pool_name id;
	double tag;                    /* core/pool_choice.h */
	uint64_t last;                 /* ticket; 0: none */
	uint64_t in_flight, tickets;   /* tickets: since the numbers were told */
	uint64_t excluded_us;          /* a session has it to itself until then */
	uint64_t returned_us;          /* from its last cooldown; 0: never */
	uint8_t auths;                 /* unknown keys in a row */
	bool disabled;                 /* for that */
	uint8_t outcomes;              /* since the last cooldown, up to POOL_OUTCOMES_AFTER */
	struct pool_cooldown cooldown; /* as a whole */
	struct pool_recent recent;     /* on no target in particular */
	struct {
		uint64_t began; /* the cooldown in which it was */
		uint64_t due_us, over_us;
		enum pool_probe found;
	} probe; /* the last */
};

/* How a member does at a target. */
struct pool_seen {
	struct pool_cooldown cooldown;
	struct pool_recent recent;
	bool touched; /* in this batch */
};

struct pool_target {
	struct pool_name name;
	uint64_t held_us;                             /* until then */
	unsigned tier;                                /* where it starts, until ... */
	uint64_t stop_us;                             /* ... this */
	struct pool_window signs;                     /* of recognition, in that tier */
	uint64_t told_us;                             /* there is something to tell until then */
	uint64_t lapses_ms;                           /* 0: nothing is known of it */
	bool touched, is_told_now;                    /* in this batch */
	struct pool_seen seen[POOL_POLICY_ENDPOINTS]; /* by member */
};

struct pool_session {
	struct pool_name name;
	struct pool_member *member; /* NULL: none */
	unsigned moves;
	uint64_t bound; /* the last ticket with which it was used; 0: it has to move */
	uint64_t lapses_ms;
};

struct pool_ticket {
	uint64_t serial; /* 0: none */
	bool is_kept;    /* neither reported nor undone */
	bool is_over;    /* its lease */
	bool is_first;   /* of its session */
	unsigned tier;
	uint64_t stop_us;
	double tag;    /* what it added to the member's */
	uint64_t last; /* the member's before */
	struct pool_member *member;
	struct pool_target *target;
	struct pool_session *session; /* which it has bound; NULL: none */
};

/* Who waits for a place in a tier. */
struct pool_line {
	struct pool_waiter {
		uint64_t id, arrival_us, asked_us;
	} waiter[POOL_POLICY_WAITERS];
	unsigned n;
	uint64_t lapses_ms;
};

struct pool_policy {
	/* Of the batch. */
	const struct pool_rule *rule;
	const struct pool_endpoint *endpoints;
	struct pool_member *member_of[POOL_POLICY_ENDPOINTS]; /* of each endpoint */
	size_t n;
	uint64_t now_us;
	double luck;
	struct pool_event event[POOL_POLICY_EVENTS];
	size_t n_events;

	/* Of the pool. */
	bool is_known;
	uint64_t seq;      /* of the last ticket */
	uint64_t oldest;   /* no earlier one is out */
	bool below;        /* the floor */
	size_t mark;       /* the most that were there since it was */
	uint64_t pause_us; /* until then; 0: it is over */
	struct pool_numbers numbers;
	uint64_t all_cooldowns, all_cooled_us;
	double tag[POOL_TIER_MAX + 1]; /* virtual time of each tier */
	char prober[POOL_AGENT_BYTES];
	uint64_t prober_lapses_ms;

	struct pool_member member[POOL_POLICY_ENDPOINTS];
	struct {
		struct pool_name name;
		struct pool_account account;
	} account[POOL_POLICY_ENDPOINTS];
	struct pool_target target[POOL_POLICY_TARGETS + 1]; /* the first is no target: '' */
	struct pool_session session[POOL_POLICY_SESSIONS];
	size_t n_members, n_accounts, n_targets, n_sessions;
	struct pool_line line[POOL_TIER_MAX + 1];
	struct pool_ticket ticket[POOL_POLICY_TICKETS]; /* by serial, modulo */
};

/* ---- pool_state.c: what is there ---- */

void pool_tell(struct pool_policy *p, enum pool_event_kind kind, size_t endpoint, uint64_t amount,
	       enum pool_outcome why, const struct pool_target *t);

/* The names are made when they are first asked for. */
struct pool_member *pool_member_named(struct pool_policy *p, struct slice id);
struct pool_target *pool_target_named(struct pool_policy *p, struct slice name);
struct pool_session *pool_session_named(struct pool_policy *p, struct slice name);
/* Of the key of the endpoint. */
struct pool_account *pool_account_of(struct pool_policy *p, size_t endpoint);

/* The member's endpoint; p->n: the definition has none. */
size_t pool_endpoint_of(const struct pool_policy *p, const struct pool_member *m);
/* NULL: it is of no target in particular. */
struct pool_seen *pool_seen_of(const struct pool_policy *p, struct pool_target *t, size_t endpoint);
bool pool_has_name(const struct pool_target *t);
/* Whether the operator, or three unknown keys in a row, have taken it out. */
bool pool_is_off(const struct pool_policy *p, size_t endpoint);
/* The lowest tier from `tier` on in which there is something to choose from; 0: none. */
unsigned pool_tier_from(const struct pool_policy *p, unsigned tier);
/* Where the target starts. */
unsigned pool_tier_now(const struct pool_policy *p, const struct pool_target *t);

/* NULL: it was never issued, or is reported, undone or forgotten. */
struct pool_ticket *pool_ticket_kept(struct pool_policy *p, uint64_t serial);
/* Neither it nor its lease is over. */
bool pool_ticket_is_out(const struct pool_policy *p, uint64_t serial);
/* It is no longer in flight. */
void pool_ticket_drop(struct pool_ticket *ticket);

/* The time in cooldown up to now is counted. */
void pool_settle(struct pool_policy *p, struct pool_cooldown *c);
void pool_member_returns(struct pool_policy *p, size_t endpoint);
/* Without half-open, time alone ends what cools at a target. */
void pool_seen_advance(struct pool_policy *p, struct pool_target *t, size_t endpoint);
/* The target is shown until then. */
void pool_target_tell_until(struct pool_target *t, uint64_t us);

/* ---- pool_floor.c ---- */

/* So few are active or due for a trial that those which are left are spared for a while, or are no longer. */
void pool_floor_check(struct pool_policy *p);
/* µs that the pause still lasts: its time, or until enough cooldowns are over; 0: there is none. */
uint64_t pool_floor_wait_us(const struct pool_policy *p);

/* ---- pool_next.c ---- */

/* Why a call without target and session gets nothing now, and until when; POOL_NOT_PAUSED: it gets something. */
enum pool_pause pool_pause_now(struct pool_policy *p, int64_t *ret_retry_us);
