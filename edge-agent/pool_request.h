/*
 * What a caller asks of a pool, and the answer. The fronts fill it in and hand it to pool_ask(); its on_done is called exactly
 * once, from within or later from the loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/name.h"
#include "core/pool.h"
#include "core/pool_dialect.h"
#include "core/pool_script.h"
#include "core/request_bounds.h"
#include "core/timer_heap.h"

enum { POOL_TAKES_MAX = 14, POOL_HEADERS_MAX = 64, POOL_PAUSE_TEXT_MAX = 80 };

enum pool_request_kind { POOL_ASK_NEXT, POOL_ASK_REPORT, POOL_ASK_SHOW, POOL_ASK_ENABLE };

enum pool_error {
	POOL_NO_ERROR,
	POOL_NO_POOL,     /* -NOPOOL, 404 */
	POOL_NO_POLICY,   /* -NOPOLICY, 404 */
	POOL_UNKNOWN,     /* -NOTICKET, 404; of ENABLE: no such endpoint */
	POOL_RANGE,       /* -RANGE, 400 */
	POOL_MALFORMED,   /* -ERR, 400 */
	POOL_UNAVAILABLE, /* -ERR, 503 */
};

struct pool_take {
	struct slice policy, key;
	uint64_t cost; /* 1..LIMIT_MAX */
};

struct pool_answer {
	enum pool_error error;
	char message[160]; /* of the error; no secrets */

	/* NEXT */
	enum pool_pause pause;            /* POOL_NOT_PAUSED: the rest is an endpoint */
	char paused[POOL_PAUSE_TEXT_MAX]; /* as the contract spells it; "": not paused */
	int64_t retry_in_ms;              /* −1: no time is known */
	char ticket[POOL_TICKET_MAX + 1];
	struct buf address; /* secret */
	char endpoint[NAME_BYTES_MAX + 1];
	uint8_t tier;
	struct buf session; /* empty: none */
	bool moved, trial;
	int64_t lease_ms;

	bool counted;    /* REPORT */
	struct buf json; /* SHOW */
};

struct pool_def;
struct pool_line;
struct pool_service;
struct request;
struct span;
struct trace;

struct pool_request {
	/* Filled in by the front; every slice is borrowed until pool_ask() returns. */
	enum pool_request_kind kind;
	struct slice pool;
	struct slice target, session; /* NEXT: empty: none */
	uint8_t tier;                 /* NEXT: 1..POOL_TIER_MAX; 0: not given */
	uint64_t wait_ms;             /* NEXT: 0..REQUEST_WAIT_MAX_MS */
	struct pool_take takes[POOL_TAKES_MAX];
	uint8_t n_takes;
	struct slice ticket; /* REPORT */
	enum pool_outcome outcome;
	uint16_t status; /* 100..599; 0: not given */
	struct slice retry_after;
	bool has_retry_after;
	struct pool_header headers[POOL_HEADERS_MAX];
	uint8_t n_headers;
	struct slice endpoint; /* ENABLE: its id */

	void (*on_done)(struct pool_request *r); /* may pool_request_free(r) */
	void *owner;                             /* the front's */
	uint64_t begun_us;                       /* the front's */
	struct trace *trace;                     /* the front's, who ends it; NULL: none is made */

	struct pool_answer answer;

	/* The service's own. */
	struct pool_service *service;
	struct pool_line *line;
	struct pool_request *next;            /* in the queue of what is to be asked */
	struct pool_request *before, *behind; /* among those who wait */
	struct buf text;                      /* what the slices point to */
	struct pool_def *def;                 /* that the script was asked with; referenced */
	struct request *take;        /* the limiter is being asked, the endpoint is there */
	struct request *aside;       /* ... or the script, with NEXT */
	uint64_t aside_stamp;        /* of that */
	struct timer_entry deadline; /* loop ms */
	uint64_t try_ms;             /* waiting: loop ms when it is asked again */
	uint64_t until_ms;           /* loop ms; how long it waits */
	uint64_t paused_ms;          /* loop ms of the last pause */
	uint64_t serial;
	uint64_t waiter, arrival_us; /* as the script knows who waits; arrival 0: it does not */
	uint32_t given;              /* index of the endpoint that was given */
	uint16_t skip[POOL_SKIP_MAX];
	uint8_t n_skip;
	int64_t limited_ms; /* the soonest that a passed endpoint's permit may be there */
	bool passed;        /* an endpoint was, whose own permit was refused: limited_ms is set */
	bool apart;         /* its permits are not to be taken by the script */
	bool waits, asking, abandoned, started, limited;
	uint64_t hint_us;
	struct pool_quota quotas[POOL_QUOTAS_MAX];
	uint8_t n_quotas;
	struct span *span, *wait_span; /* traced: of the call that is out, of its waiting */
};

struct pool_request *pool_request_new(struct pool_service *s, enum pool_request_kind kind);
void pool_request_free(struct pool_request *r);

/* Starts the request. */
void pool_ask(struct pool_request *r);

/* The caller is gone: nothing is taken for it, on_done is never called, and the service frees the request. */
void pool_request_abandon(struct pool_request *r);
