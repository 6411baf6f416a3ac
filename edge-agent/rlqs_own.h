/* The inside of rlqs.h. */
#pragma once

#include "agent.h"
#include "allot.h"
#include "core/allowance.h"
#include "core/buf.h"
#include "core/rlqs_action.h"
#include "core/rlqs_report.h"
#include "core/timer_heap.h"
#include "lease_clock.h"
#include "rlqs.h"

enum { RLQS_LISTS = 16384 };

/* A stream's interest in a bucket. */
struct rlqs_sub {
	struct rlqs_sub *next_found;          /* in its list of rlqs.subs */
	struct rlqs_sub *prev, *next;         /* of its bucket */
	struct rlqs_sub *prev_own, *next_own; /* of its stream */
	struct rlqs_stream *stream;
	struct rlqs_bucket *bucket;
	struct allowance allowance;
	enum rlqs_kind told;
	uint64_t told_until_us; /* 0: it was told nothing yet */
	uint32_t want;          /* in the round that runs */
	bool is_sure;           /* what it has was told under the limits of now */
	size_t id_len;
	char id[]; /* as it was reported, to be sent back so */
};

struct rlqs_bucket {
	struct timer_entry due; /* µs of the clock of rlqs_now_us() */
	struct rlqs *rlqs;
	struct rlqs_bucket *next_found; /* in its list of rlqs.buckets */
	struct rlqs_sub *subs;
	unsigned n_subs, turn; /* whose turn it is to get what is left of rounding */
	uint64_t round_us;     /* the last round */
	uint64_t again_us;     /* there is nothing to give before */
	struct allot *asking;  /* NULL: nothing is asked for */
	struct allowance_leases leases;
	/* What it is bound to, by the catalogue in force: */
	uint8_t n_pairs;    /* 0: no policy limits it */
	uint8_t n_counted;  /* with those that only count (shadow), which are the last */
	bool is_unusable;   /* it can't be asked for: nothing is admitted */
	bool is_unleasable; /* that was counted */
	struct request_pair pairs[REQUEST_PAIRS_MAX];
	struct buf text; /* what the pairs point to */
	uint64_t hash;
	size_t name_len, domain_len; /* the domain begins `name` behind its length */
	char name[];                 /* rlqs_id_write() */
};

struct rlqs_stream {
	struct rlqs *rlqs;
	struct grpc_task *task;
	struct rlqs_sub *subs;
	unsigned n_subs;
	struct rlqs_stream *prev_flush, *next_flush; /* in rlqs.flush, if it ... */
	bool flushes;
	struct buf domain; /* empty: not said yet */
	uint64_t reports_left, reports_ms;
};

struct rlqs {
	struct agent *agent;
	uv_timer_t timer;
	struct lease_clock clock;
	struct timer_heap due;
	struct catalogue *
		catalogue; /* referenced: that to which the buckets are bound; NULL: there are none */
	struct rlqs_stream *flush; /* to be sent what was written for them ... */
	bool in_turn;              /* ... at the end of the timer's turn */
	struct rlqs_bucket *buckets[RLQS_LISTS];
	struct rlqs_sub *subs[RLQS_LISTS];
};

static inline struct rlqs_counters *rlqs_counters(const struct rlqs *r)
{
	return &r->agent->ops.rlqs;
}

/* ---- rlqs.c ---- */

/* CLOCK_BOOTTIME, read once in each callback of the loop. */
uint64_t rlqs_now_us(struct rlqs *r);
void rlqs_new_batch(struct rlqs *r);
/* The round of the bucket is due then, at the latest. */
void rlqs_due(struct rlqs_bucket *b, uint64_t at_us);
/* NULL: there is none. */
struct rlqs_sub *rlqs_find(struct rlqs_stream *st, struct slice name, uint64_t hash);
/* NULL: too many, or out of memory. `name` is of the domain and `id`, which is kept. */
struct rlqs_sub *rlqs_subscribe(struct rlqs_stream *st, struct slice name, uint64_t hash,
				struct slice id);
/* The bucket goes with its last subscription. */
void rlqs_unsubscribe(struct rlqs_sub *s);

/* ---- rlqs_bind.c ---- */

/* By the catalogue in force. */
void rlqs_bind(struct rlqs_bucket *b);

/* ---- rlqs_round.c ---- */

/* Looks after all clients of the bucket. It may be gone afterwards. */
void rlqs_round(struct rlqs_bucket *b);
/* A report of the client has come, and is settled. */
void rlqs_heard(struct rlqs_sub *s);

/* ---- front_rlqs.c ---- */

/* False: the client does not read what it is sent, or it can't be sent; nothing was. */
bool rlqs_stream_tell(struct rlqs_stream *st, struct slice id, const struct rlqs_action *action);
/* Whether messages reach the client at once, as far as is known. */
bool rlqs_stream_keeps_up(struct rlqs_stream *st);
/* Sends what was told. Streams may end by that. */
void rlqs_flush(struct rlqs *r);
