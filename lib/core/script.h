/*
 * The decide script's wire format: a batch of operations goes to Redis as one packed argument and
 * comes back as one packed string (layout: lua/README.md). Pure: builds bytes, reads bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/adaptive.h"
#include "core/breaker.h"
#include "core/bytes.h"
#include "core/limit.h"
#include "core/script_quota.h"
#include "core/share_record.h"
#include "core/shares.h"
#include "core/status.h"
#include "core/turns.h"

enum {
	SCRIPT_CHECKS_MAX = 16 * 8 * 2, /* pairs x levels x (bucket and slots of a plan) */
	SCRIPT_OPS_MAX = 128,           /* of one call */
};

struct script_check {
	const struct limit *limit; /* borrowed until the batch is written */
	struct slice key;          /* Redis key of this check's state (keyspace.h) */
	uint64_t cost;             /* 1..LIMIT_MAX */
	bool shadow;               /* never refuses; takes only if it fits */
	const struct breaker_rule
		*breaker; /* TAKE, PEEK, GIVE, FEEDBACK: of this key; borrowed; NULL: none */
	/* Token bucket: `limit` is adapted between `min` and `max`, or limit's own where these are more; borrowed; NULL:
	 * it is not. The same for every operation on the key, or its bucket would be filled by several limits */
	const struct adaptive_rule *adaptive;
	/* What is taken by TAKE, LEASE and CHARGE, less what GIVE and UNLEASE bring back, is added up in the ledger of
	 * the key's policy and root, keyspace_ledger() of `key`. Of a pair's levels one has it */
	bool ledger;
	const struct script_quota
		*quota; /* its limit is one of all regions; borrowed; NULL: of this one */
	struct share_claim
		share; /* TAKE, PEEK of a token bucket: for which of its children; weight 0: none */
	struct turn_claim
		turn; /* TAKE, LEAVE: of a caller who waits; loop 0: of one who does not */
};

enum script_op_kind {
	SCRIPT_TAKE, /* all checks or none; concurrency checks get `permit` (or a member of its own) */
	SCRIPT_PEEK, /* as TAKE, nothing written */
	SCRIPT_GIVE, /* undo of a TAKE answered at stamp_us: gives each check's cost back, forgets `id_key` */
	SCRIPT_REFUND,   /* by receipt: brings what it gave back to `amount` in all */
	SCRIPT_RELEASE,  /* concurrency: ends `permit` */
	SCRIPT_RENEW,    /* concurrency: `permit` lives for hold again */
	SCRIPT_LEASE,    /* takes from all checks or none, for `lease` to spend later: see below */
	SCRIPT_UNLEASE,  /* ends `lease`; `amount`, what was not spent of it, goes back */
	SCRIPT_FEEDBACK, /* one check: the outcome `ok` for its breaker, `congested` and `latency_us` for its limit; nothing is taken for `hold_us`, unless it is held
			  * for longer; no more than `amount` is left of it (UINT64_MAX: as it is) */
	SCRIPT_CHARGE, /* takes each check's cost as far as it is there: it was admitted while nobody could ask */
	SCRIPT_LEAVE,    /* the caller of the checks' turns waits no more */
	SCRIPT_MOVE_OUT, /* one check: by version `stamp_us` of the regions the key is at home elsewhere: nothing is taken here any
			  * more. The answer's `amount`: µs until no lease is outstanding, a hold is over and the breaker not open; if 0, what remains is what
			  * there may be there. `wait_us`: until no id is remembered here */
	SCRIPT_MOVE_IN, /* one check: by version `stamp_us` the key is at home here, and at most `amount` remains; UINT64_MAX: may
			 * it be? SCRIPT_UNKNOWN: it has left, by a version that is not earlier */
	SCRIPT_SHARE_READ, /* one check of a quota: `grant`, a committed one, was read. SCRIPT_UNKNOWN: it is one of before.
			    * The answer has a script_share() */
	SCRIPT_SHARE_REPORT, /* one check of a quota: what an agent was `asked`. The answer has a script_share() */
};

/* SHARE_REPORT: what an agent's callers could have used lately. A region's demand is the sum over its agents. */
struct script_asked {
	uint64_t agent;   /* that asks; each has another */
	uint32_t demand;  /* parts */
	uint64_t keep_us; /* it counts for so long */
};

/*
 * A lease (docs/leases.md has the proof that no interval is exceeded). The least that must be granted is the checks'
 * cost; up to `amount` is granted, but no more than what is there divided by `sharers`, rounded down, at least the cost.
 * If the cost doesn't fit it is refused as a take is. The holder may spend it until `ttl_us` after it sent the operation,
 * on its own clock; Redis frees it script_lease_hold_us() after it granted it, on its own. So no two clocks are
 * compared. Until then refill is capped by what is outstanding. UNLEASE is sent after the last permit was spent, not
 * before; its checks name the keys, their cost says nothing. A lease that has ended or was returned, or that is
 * outstanding on none of the keys, is SCRIPT_UNKNOWN and changes nothing.
 * Buckets, sliding windows (log) and calendars have leases; with a check of another algorithm script_batch_add() refuses
 * with KOVA_ERANGE and the batch is as before. Granted as an ordinary take of the cost, to be spent at once, with lease_us
 * 0: a calendar's lease that would outlive its window, one of a quota that would outlive the grant that it rests on, one more than SCRIPT_LEASES_MAX of a key or with the id of one
 * outstanding, and one whose checks don't all take alike: costs that differ, a key named twice, a shadow check.
 */
enum { SCRIPT_LEASE_ID_BYTES = 8, SCRIPT_LEASES_MAX = 32, SCRIPT_LEASE_MARGIN_US = 20000 };
#define SCRIPT_LEASE_TTL_MIN_US UINT64_C(1000)
#define SCRIPT_LEASE_TTL_MAX_US UINT64_C(16000000)

/* From the grant until Redis frees it: ttl_us, 1/64 of it for clocks that run unevenly, and the margin. */
static inline uint64_t script_lease_hold_us(uint64_t ttl_us)
{
	return ttl_us + ttl_us / 64 + SCRIPT_LEASE_MARGIN_US;
}

struct script_op {
	enum script_op_kind kind;
	bool chained; /* refused if the operation before it in the batch was */
	const struct script_check *checks;
	uint16_t n_checks;
	struct slice id_key; /* TAKE, GIVE; empty: not idempotent */
	struct slice
		receipt_key; /* TAKE: remember what was taken; REFUND: look it up; else empty */
	struct slice echo; /* TAKE with id_key: stored with the id and answered again on a repeat */
	struct slice
		permit; /* concurrency: at most 65535 bytes, without ':', not "n"; empty: none */
	uint64_t
		stamp_us; /* GIVE: script_answer.now_us of the TAKE. MOVE_OUT, MOVE_IN: a version of the regions */
	uint64_t
		amount; /* REFUND: total to be given back; UINT64_MAX: all. LEASE, UNLEASE: see above,
				   * 0..LIMIT_MAX */
	unsigned char lease[SCRIPT_LEASE_ID_BYTES]; /* LEASE, UNLEASE: unique among the leases of a
						     * key, and not all zeros */
	uint64_t ttl_us;     /* LEASE: SCRIPT_LEASE_TTL_MIN_US .. SCRIPT_LEASE_TTL_MAX_US */
	uint32_t sharers;    /* LEASE: at least 1 */
	bool ok, congested;  /* FEEDBACK */
	uint64_t latency_us; /* FEEDBACK, 0..ADAPTIVE_LATENCY_MAX_US; 0: not known */
	uint64_t hold_us;    /* FEEDBACK; 0: no hold */
	const struct share_grant *grant; /* SHARE_READ; borrowed until the operation is added */
	struct script_asked asked;       /* SHARE_REPORT */
};

struct script_batch;
struct script_plain;

struct script_batch *script_batch_new(void);
void script_batch_free(struct script_batch *b);
void script_batch_clear(struct script_batch *b);
uint32_t script_batch_ops(const struct script_batch *b);

/*
 * Appends one operation; copies what it needs. `now_us` is the agent's wall clock, for the choice
 * of a calendar's edges. KOVA_ETOOBIG: SCRIPT_OPS_MAX reached. KOVA_ERANGE: a LEASE or UNLEASE of an
 * algorithm that has none, or a grant that can't be one. KOVA_ENOMEM: the batch can only be cleared. Checks of one operation that name the same key count as one, with the sum of their costs.
 */
KOVA_MUST_CHECK kova_status script_batch_add(struct script_batch *b, const struct script_op *op,
					     uint64_t now_us);

/*
 * What goes with every call. The script refuses to refill anything, and says so, if Redis's clock is not between
 * earliest_us and latest_us (µs since the epoch, at most LIMIT_FOREVER_US): what is there may still
 * be taken, and each algorithm's file in lua/ says what else that means.
 */
struct script_call {
	uint64_t stamp; /* of the agent's hybrid logical clock (core/hlc.h); echoed by the script */
	uint64_t earliest_us, latest_us;
	/* When Redis's clock can be by the agent's steady clock, if nobody sets it: shares of quotas begin anew where it is
	 * not. Where nothing is known of it: as above. */
	uint64_t steady_earliest_us, steady_latest_us;
};

/*
 * The whole RESP command, EVALSHA or (`with_body`) EVAL, as bytes that stay valid until the batch
 * is changed; {NULL, 0} when memory is short.
 */
struct slice script_batch_command(struct script_batch *b, bool with_body,
				  const struct script_call *call);

/* The same for a script that has this one as a function (lua/pool_limiter_begin.lua): its program, and KEYS in their order. As
 * the command. */
struct slice script_batch_program(struct script_batch *b, const struct script_call *call);

struct script_keys {
	size_t n; /* of all */
	struct slice strings, others;
};
struct script_keys script_batch_keys(const struct script_batch *b);
/* False: that was the last one. */
bool script_keys_next(struct script_keys *k, struct slice *ret_key);

/* What the short reply to this batch, as its command was last written, is read by: valid until the batch is changed. NULL: it has none. */
const struct script_plain *script_batch_plain(struct script_batch *b);

enum script_status {
	SCRIPT_REFUSED,
	SCRIPT_ALLOWED,
	SCRIPT_SHADOWED, /* allowed, but a shadow check would have refused */
	SCRIPT_REPEATED, /* allowed before under this id; `echo` is what was stored then */
	SCRIPT_EDGES,    /* now_us is outside the calendar edges sent: send again with others */
	SCRIPT_UNKNOWN, /* REFUND: no such receipt; RELEASE, RENEW: no such permit; UNLEASE: no such lease
			  * (amount 0) */
	SCRIPT_NEWER, /* a state of `check` is in the form of a later version: nothing was done */
};

/* What refused. */
enum {
	SCRIPT_FENCED_US = 1000000
}; /* the wait of one who is SCRIPT_HELD since the key's home is elsewhere */

enum script_refusal { SCRIPT_LIMITED, SCRIPT_HELD, SCRIPT_BREAKER_OPEN, SCRIPT_QUEUE_FULL };

struct script_answer {
	enum script_status status;
	enum script_refusal why; /* SCRIPT_REFUSED; unless it is SCRIPT_LIMITED, nothing remains */
	uint16_t
		check; /* the one that refuses for the longest, or the one with the least remaining; from the
			    * wire, so compare it with the number of checks */
	uint64_t remaining;
	int64_t wait_us; /* refused: until it would fit (−1: never); allowed: until one more is there */
	uint64_t reset_us;
	uint64_t now_us; /* Redis's clock */
	uint64_t
		amount; /* REFUND, GIVE, UNLEASE: given back now; RELEASE, RENEW: 1 or 0; LEASE: granted;
			    * FEEDBACK: script_fed_breaker(), script_fed_adaptive() */
	uint64_t limit;         /* 1..LIMIT_MAX: of `check`, as adapted; 0: it is not adaptive */
	uint64_t lease_us;      /* LEASE: ttl_us, or 0: granted as an ordinary take of the cost */
	struct turn_place turn; /* SCRIPT_REFUSED of a turn: where it is in the line of `check` */
	bool shadowed;          /* SCRIPT_SHADOWED, or SCRIPT_REPEATED of such an answer */
	bool is_untold; /* SCRIPT_REFUSED by the share of a quota, and no agent says that it is asked for it */
	struct slice echo; /* SCRIPT_REPEATED; points into the reply */
};

/* What an answer to SHARE_READ or SHARE_REPORT tells. */
struct script_share {
	struct share_report report; /* whole, but for what SHARE_READ does not know: `demand` */
	uint64_t
		window_us; /* calendars: when the report's window began; calendar_window_number() is to be filled in */
	uint32_t parts; /* in force now */
	uint32_t floor; /* in force */
	uint64_t
		granted_us; /* the grant is for so long; LIMIT_FOREVER_US and more: without end; 0: none is in force */
	uint64_t lent_us; /* the promise binds for so long; 0: there is none */
	/* SHARE_REPORT: of the agents whose demand counts it is the one that has been there for the longest: of several it is enough
	 * that this one tells the others of the region. */
	bool reporter;
};

/* Of an answer's echo, before the reply is gone. KOVA_EPROTO: it has none. */
KOVA_MUST_CHECK kova_status script_share_parse(const struct script_answer *a,
					       struct script_share *ret_share);

/* What FEEDBACK changed, by its `amount`. */
static inline enum breaker_change script_fed_breaker(uint64_t amount)
{
	return (enum breaker_change)(amount % 4);
}

static inline enum adaptive_change script_fed_adaptive(uint64_t amount)
{
	return (enum adaptive_change)(amount / 4 % 4);
}

struct script_reader {
	struct slice reply;
	size_t at;
	uint64_t now_us;
	bool refill_refused; /* Redis's clock was not between the call's bounds */
	uint32_t left;
	const struct script_plain *plain; /* a short reply; NULL: it is not */
	unsigned limit_at;                /* `limit` is its limit of this number; 0: of none yet */
	struct limit limit;
	struct {
		uint64_t debt_ut; /* after the answers so far */
		size_t at;        /* its next record; 0: it is answered by its debt */
	} key[SCRIPT_OPS_MAX];
};

/* `reply` and `plain` (of the batch; NULL: a short reply is none) are borrowed until the last answer. KOVA_EPROTO: not a reply of the script, or the stamp is another call's (the stream is out of step). */
KOVA_MUST_CHECK kova_status script_reader_init(struct script_reader *r, struct slice reply,
					       uint64_t stamp, uint32_t n_ops,
					       const struct script_plain *plain);
KOVA_MUST_CHECK kova_status script_reader_next(struct script_reader *r,
					       struct script_answer *ret_answer);
