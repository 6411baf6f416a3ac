/*
 * A request: what a caller asks of the limiter, and the answer. The fronts fill it in and hand it to
 * decide(); its on_done is called exactly once, from within decide() or later from the loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/name.h"
#include "core/request_bounds.h"

enum {
	REQUEST_RECEIPT_MAX = 65536,
	REQUEST_PERMIT_MAX = 64,
	REQUEST_RESET_MAX_MS = 86400000,
};

enum request_kind {
	REQUEST_TAKE,
	REQUEST_PEEK,
	REQUEST_REFUND,
	REQUEST_ACQUIRE,
	REQUEST_RELEASE,
	REQUEST_RENEW,
	REQUEST_THROTTLE, /* CL.THROTTLE */
	REQUEST_FEEDBACK,
};

struct request_pair {
	struct slice policy;
	struct slice key;
	uint64_t cost; /* 1..LIMIT_MAX; checked by decide() */
	/*
	 * Instead of its policy's on the last level, unless an override says another; a bucket's burst is then as much. per_s
	 * 0: as the policy says. Both within the bounds of a policy; a calendar's `per_s` is not looked at.
	 */
	uint32_t own_limit, own_per_s;
};

/* CL.THROTTLE's own limit: it names no policy. Checked by decide(). */
struct request_throttle {
	int64_t max_burst, count, period_s, quantity;
};

/* FEEDBACK: what became of a request elsewhere. */
struct request_feedback {
	bool ok;
	bool has_remaining;
	uint16_t status;          /* HTTP, 100..599; 0: not given */
	uint64_t latency_ms;      /* 0..REQUEST_WAIT_MAX_MS; 0: not given */
	struct slice retry_after; /* empty: none; parsed by decide() */
	uint64_t remaining;       /* 0..LIMIT_MAX */
	uint64_t reset_ms;        /* 0..REQUEST_RESET_MAX_MS */
	uint64_t hold_us;         /* decide()'s own: how long the key is held; 0: not at all */
	bool failed, congested;   /* decide()'s own: for the breaker, for the adaptive limit */
};

enum reason {
	REASON_OK,
	REASON_LIMITED, /* text: limited:<level> */
	REASON_BANNED,
	REASON_QUEUE_FULL,
	REASON_WAIT_TIMEOUT,
	REASON_HELD,
	REASON_BREAKER_OPEN,
	REASON_OUTAGE,
	REASON_SHADOW,
};

/* Why there is no verdict at all. */
enum request_error {
	REQUEST_NO_ERROR,
	REQUEST_MALFORMED,   /* -ERR, 400: answer.message says what is allowed */
	REQUEST_RANGE,       /* -RANGE, 400 */
	REQUEST_NO_POLICY,   /* -NOPOLICY, 404 */
	REQUEST_UNAVAILABLE, /* -ERR, 503: refund/release/renew/feedback without the store */
};

enum { ANSWER_TEXT_MAX = 160 };

struct answer {
	enum request_error error;
	char message[ANSWER_TEXT_MAX]; /* of the error; NUL-terminated, no secrets */

	bool allowed;
	uint64_t remaining;
	uint64_t limit;
	int64_t retry_after_ms; /* 0 when allowed; −1: it can never fit */
	int64_t reset_after_ms;
	int64_t more_after_ms; /* until one more is there, 0 when full; −1 never; for RateLimit's t */
	uint64_t window_s;     /* RateLimit-Policy's w: s from empty to full, rounded up; 0: none */
	uint64_t rate,
		per_us; /* the limit in force, in so long; per_us 0: it has a window, or none */
	uint8_t pair;   /* that limit and remaining belong to */
	enum reason reason;
	char policy[NAME_BYTES_MAX + 1]; /* the policy that limit and remaining belong to */
	char level[NAME_BYTES_MAX + 1];  /* REASON_LIMITED: the level that refused; else "" */

	struct slice receipt; /* owned by the request; empty when none */
	struct slice permit;  /* owned by the request; empty when none */
	int64_t hold_ms;
	int64_t amount; /* refund: given back; release, renew: 1 or 0; feedback: of the script */
};

struct trace;

struct request {
	/* Filled in by the front; every slice is borrowed until decide() returns. */
	enum request_kind kind;
	uint8_t n_pairs; /* 1..REQUEST_PAIRS_MAX; RELEASE, RENEW, FEEDBACK: 1; REFUND: 0; THROTTLE: 1, key
			  * only */
	bool want_receipt;
	struct request_pair pairs[REQUEST_PAIRS_MAX];
	struct request_throttle throttle;
	struct request_feedback feedback;
	uint64_t wait_ms;      /* 0: do not wait */
	struct slice id;       /* empty: none */
	struct slice permit;   /* RELEASE, RENEW */
	struct slice receipt;  /* REFUND */
	int64_t refund_amount; /* −1: all of it */

	void (*on_done)(struct request *r); /* the answer is in r->answer; may request_free(r) */
	void *owner;                        /* the front's */
	uint64_t begun_us;                  /* the front's: ops_now_us() when it was whole */
	struct trace *trace;                /* the front's, who ends it; NULL: none is made */

	struct answer answer;
};

struct engine;

/* From a pool of the engine; NULL when `requests_max` are in use. All fields are zero. */
struct request *request_new(struct engine *e);
void request_free(struct request *r);

/* Starts the request. Borrowed slices are copied if they are needed later. */
void decide(struct engine *e, struct request *r);

/*
 * The caller is gone: nothing is taken for it (what was taken meanwhile is given back), on_done is
 * never called, and the request is freed by the engine.
 */
void request_abandon(struct request *r);

/* Writes the reason as the contract spells it (`limited:tenant`) into `ret_text`; returns its length. */
size_t answer_reason(const struct answer *a, char ret_text[static 80]);
