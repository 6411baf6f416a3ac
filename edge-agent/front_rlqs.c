/*
 * A stream of Envoy's rate limit quota service: reports come, and are settled; what is told goes out when its bucket's round
 * says so (rlqs_round.c), and is sent at the end of the timer's turn, since sending may end the stream. A stream that ends
 * leaves its subscriptions; what its client was allowed it may spend, and it comes back by time.
 */
#include <stdlib.h>

#include "core/hash.h"
#include "grpc_task.h"
#include "ops.h"
#include "rlqs_own.h"

enum {
	QUEUED_MAX = 16384, /* bytes that a client does not fetch: it is told no more */
	PONG_US = 1000000,  /* a client that does not answer a PING for so long neither */
	UNUSABLE_S = 8,     /* how long a bucket that can't be one is denied */
};

/* ---- Telling ---- */

bool rlqs_stream_keeps_up(struct rlqs_stream *st)
{
	struct grpc_conn *front = st->task->front;

	return grpc_call_queued(st->task->call) <= QUEUED_MAX &&
	       (!grpc_server_awaits_pong(front->server) ||
		rlqs_now_us(st->rlqs) - front->quota_pinged_us <= PONG_US);
}

static void count(struct rlqs_counters *n, enum rlqs_kind kind)
{
	uint64_t *const of[] = {[RLQS_ALLOWANCE] = &n->allowances,
				[RLQS_ALLOW] = &n->allows,
				[RLQS_DENY] = &n->denies,
				[RLQS_ABANDON] = &n->abandons};

	++*of[kind];
}

static void flush_later(struct rlqs_stream *st)
{
	if (st->flushes)
		return;
	st->flushes = true;
	st->prev_flush = NULL;
	st->next_flush = st->rlqs->flush;
	if (st->next_flush != NULL)
		st->next_flush->prev_flush = st;
	st->rlqs->flush = st;
}

static void leave_flush(struct rlqs_stream *st)
{
	if (!st->flushes)
		return;
	st->flushes = false;
	*(st->prev_flush != NULL ? &st->prev_flush->next_flush : &st->rlqs->flush) = st->next_flush;
	if (st->next_flush != NULL)
		st->next_flush->prev_flush = st->prev_flush;
}

bool rlqs_stream_tell(struct rlqs_stream *st, struct slice id, const struct rlqs_action *action)
{
	struct buf message = {0};
	char *at = NULL;

	if (!rlqs_stream_keeps_up(st)) {
		rlqs_counters(st->rlqs)->stalled++;
		return false;
	}
	rlqs_action_write(&message, id, action);
	if (!buf_failed(&message))
		at = grpc_call_message(st->task->call, message.len);
	if (at != NULL) {
		memcpy(at, message.ptr, message.len);
		count(rlqs_counters(st->rlqs), action->kind);
		flush_later(st);
	}
	buf_release(&message);
	return at != NULL;
}

void rlqs_flush(struct rlqs *r)
{
	struct rlqs_stream *st;

	while ((st = r->flush) != NULL) {
		struct grpc_conn *front = st->task->front;

		leave_flush(st);
		if (grpc_server_awaits_pong(front->server)) {
			grpc_server_flush(front->server);
		} else {
			front->quota_pinged_us = rlqs_now_us(r);
			grpc_server_ping(front->server);
		}
	}
}

/* ---- Reports ---- */

static void settle(struct rlqs_sub *s, const struct rlqs_usage *u)
{
	struct rlqs_bucket *b = s->bucket;
	struct engine *e = b->rlqs->agent->engine;
	struct allowance_settled settled;

	allowance_report(&s->allowance, rlqs_now_us(b->rlqs), u->allowed, u->denied, &settled);
	for (unsigned i = 0; i < settled.n; i++)
		if (allowance_leases_spend(&b->leases, settled.of[i].lease, settled.of[i].amount))
			allot_return(e, b->pairs, b->n_pairs, settled.of[i].lease, 0);
	rlqs_counters(b->rlqs)->unassigned += settled.beyond;
	if (b->is_unusable) /* its key is none that anything could be charged to */
		return;
	if (settled.beyond > 0 && b->n_pairs > 0)
		allot_charge(e, b->pairs, b->n_pairs, settled.beyond);
	allot_count(e, b->pairs, b->n_counted, u->allowed, u->denied);
}

/* A bucket that there is no room for, or whose values make no key. */
static void deny(struct rlqs_stream *st, struct slice id)
{
	(void)rlqs_stream_tell(st, id,
			       &(struct rlqs_action){.kind = RLQS_DENY, .ttl_s = UNUSABLE_S});
}

static void hear_usage(struct rlqs_stream *st, const struct rlqs_usage *u, struct buf *name)
{
	uint64_t hash;
	struct rlqs_sub *s;

	buf_clear(name);
	rlqs_id_write(name, buf_slice(&st->domain), &u->id);
	hash = hash_bytes(buf_slice(name), 0);
	s = buf_failed(name) ? NULL : rlqs_find(st, buf_slice(name), hash);
	rlqs_counters(st->rlqs)->reports++;
	if (s == NULL && !buf_failed(name))
		s = rlqs_subscribe(st, buf_slice(name), hash, u->id.bytes);
	if (s == NULL) {
		deny(st, u->id.bytes);
		return;
	}
	settle(s, u);
	rlqs_heard(s);
}

/* What is wrong with a report, or NULL. */
static const char *why_wrong(const struct rlqs_stream *st, const struct rlqs_report *report)
{
	struct slice rest = report->bytes, domain = buf_slice(&st->domain);
	struct rlqs_usage usage;

	if (domain.len == 0 && report->domain.len == 0)
		return "the first report must say its domain";
	if (domain.len > 0 && report->domain.len > 0 && !slice_equal(domain, report->domain))
		return "all reports of a stream must be of one domain";
	while (rlqs_usage_next(&rest, &usage))
		if (usage.id.n_entries == 0)
			return "the id of a bucket must have 1 to 16 entries";
	return NULL;
}

static void hear(struct rlqs_stream *st, const struct rlqs_report *report)
{
	struct slice rest = report->bytes;
	struct rlqs_usage usage;
	struct buf name = {0};

	if (st->domain.len == 0)
		buf_add_slice(&st->domain, report->domain);
	while (rlqs_usage_next(&rest, &usage))
		hear_usage(st, &usage, &name);
	buf_release(&name);
	rlqs_flush(st->rlqs);
}

/* One report is paid for. False: there were too many. */
static bool may_report(struct rlqs_stream *st, uint64_t now_ms)
{
	uint64_t more = (now_ms - st->reports_ms) * RLQS_REPORTS_PER_S / 1000;

	if (more > 0)
		st->reports_ms = now_ms;
	st->reports_left += more;
	if (st->reports_left > RLQS_REPORTS_AHEAD)
		st->reports_left = RLQS_REPORTS_AHEAD;
	return st->reports_left > 0 && st->reports_left-- > 0;
}

/* ---- A stream's life ---- */

/* NULL: the call was ended. */
static struct rlqs_stream *stream_begin(struct grpc_task *t)
{
	struct rlqs *r = task_agent(t)->rlqs;
	struct rlqs_stream *st = NULL;

	if (rlqs_counters(r)->streams < RLQS_STREAMS_MAX)
		st = calloc(1, sizeof *st);
	if (st == NULL) {
		rlqs_counters(r)->too_many++;
		task_fail(t, GRPC_RESOURCE_EXHAUSTED, "there are too many quota streams here");
		return NULL;
	}
	st->rlqs = r;
	st->task = t;
	st->reports_left = RLQS_REPORTS_AHEAD;
	st->reports_ms = uv_now(r->agent->loop);
	rlqs_counters(r)->streams++;
	t->quotas = st;
	return st;
}

void rlqs_stream(struct grpc_task *t, struct slice message)
{
	struct rlqs_stream *st = t->quotas != NULL ? t->quotas : stream_begin(t);
	struct rlqs_report report;
	const char *wrong = NULL;

	if (st == NULL)
		return;
	rlqs_new_batch(st->rlqs);
	if (!may_report(st, uv_now(st->rlqs->agent->loop))) {
		rlqs_counters(st->rlqs)->flooded++;
		task_fail(t, GRPC_RESOURCE_EXHAUSTED,
			  "a stream must report at most 100 times a second");
	} else if (rlqs_report_parse(message, &report) != KOVA_OK) {
		task_fail(t, GRPC_INVALID_ARGUMENT, "not RateLimitQuotaUsageReports");
	} else if ((wrong = why_wrong(st, &report)) != NULL) {
		task_fail(t, GRPC_INVALID_ARGUMENT, wrong);
	} else {
		hear(st, &report);
	}
}

void rlqs_stream_end(struct rlqs_stream *st)
{
	while (st->subs != NULL)
		rlqs_unsubscribe(st->subs);
	leave_flush(st);
	rlqs_counters(st->rlqs)->streams--;
	buf_release(&st->domain);
	free(st);
}
