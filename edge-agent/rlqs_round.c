/*
 * A round of a bucket: what its clients want is asked for in one wish, and split among them when it is there. Whoever has
 * something that lasts and is enough is left alone, since what replaces an allowance loses the rest of it. What was told is
 * told again before it ends, so that a client is never without an assignment while it is connected: where nothing can be
 * given, that is DENY_ALL.
 *
 * The next round is due when a client reports, and at least each LOOK_US: demand is known between reports, too.
 */
#include "control/catalogue.h"
#include "core/limit.h"
#include "io/log.h"
#include "rlqs_own.h"

enum {
	SPACE_US = 100000,    /* between two rounds, ... */
	LOOK_US = 250000,     /* ... and at most so long while somebody asks */
	AGAIN_MIN_US = 50000, /* until a refusal is asked about again */
	AGAIN_MAX_US = 1000000,
	BLANKET_S = 8, /* how long a blanket rule is told for; by `on_outage`: */
	OUTAGE_S = 2,
	SHARE_MAX = 256, /* clients that are given something in one round */
	PART = 4,        /* of what a full limit holds, an allowance is so much at most */
};

/* A bucket of which so long nothing was asked, as its reports say, is abandoned, and one of which none comes for so long. */
#define IDLE_US UINT64_C(10000000)
#define SILENT_US UINT64_C(600000000)

/* ---- Telling ---- */

/* False: the client can't be told now. */
static bool tell(struct rlqs_sub *s, const struct rlqs_action *action)
{
	uint64_t now_us = rlqs_now_us(s->bucket->rlqs);

	if (!rlqs_stream_tell(s->stream, (struct slice){s->id, s->id_len}, action))
		return false;
	s->told = action->kind;
	s->told_until_us = now_us + (uint64_t)action->ttl_s * 1000000;
	s->is_sure = true;
	return true;
}

static bool is_ending(const struct rlqs_sub *s, uint64_t now_us)
{
	return s->told_until_us <= now_us + ALLOWANCE_RENEW_US;
}

static void tell_blanket(struct rlqs_sub *s, enum rlqs_kind kind, uint32_t ttl_s)
{
	uint64_t now_us = rlqs_now_us(s->bucket->rlqs);

	/* What is left of an allowance may be spent before nothing is. */
	if (s->is_sure && !is_ending(s, now_us) &&
	    (s->told == kind || (kind == RLQS_DENY && s->told == RLQS_ALLOWANCE)))
		return;
	tell(s, &(struct rlqs_action){.kind = kind, .ttl_s = ttl_s});
}

static void tell_all(struct rlqs_bucket *b, enum rlqs_kind kind, uint32_t ttl_s)
{
	for (struct rlqs_sub *s = b->subs; s != NULL; s = s->next)
		tell_blanket(s, kind, ttl_s);
}

/* ---- What was allotted ---- */

/* How long a client may spend it. */
static uint32_t ttl_s(const struct allotted *said, uint64_t now_us)
{
	uint64_t margin_us = said->lease != 0 ? ALLOWANCE_DELIVERY_US : 0;

	return said->ends_us > now_us + margin_us
		       ? (uint32_t)((said->ends_us - now_us - margin_us) / 1000000)
		       : 0;
}

static void give(struct rlqs_sub *s, const struct allotted *said, uint32_t amount, uint32_t seconds)
{
	struct rlqs *r = s->bucket->rlqs;
	struct allowance_part part = {
		.lease = said->lease, .ends_us = said->ends_us, .amount = amount};

	s->want = 0;
	if (!tell(s, &(struct rlqs_action){RLQS_ALLOWANCE, amount, seconds}))
		return; /* what is lost comes back by time */
	allowance_give(&s->allowance, rlqs_now_us(r), &part, (uint64_t)seconds * 1000000);
	rlqs_counters(r)->granted += amount;
}

/* Those that still want something, the newest first. */
static unsigned wanting(struct rlqs_bucket *b, struct rlqs_sub *of[static SHARE_MAX],
			uint32_t want[static SHARE_MAX])
{
	unsigned n = 0;

	for (struct rlqs_sub *s = b->subs; s != NULL && n < SHARE_MAX; s = s->next)
		if (s->want > 0) {
			want[n] = s->want;
			of[n++] = s;
		}
	return n;
}

/* Returns what was handed out, or may have been. */
static uint64_t share_out(struct rlqs_bucket *b, const struct allotted *said, uint32_t seconds)
{
	struct rlqs_sub *of[SHARE_MAX];
	uint32_t want[SHARE_MAX], given[SHARE_MAX];
	unsigned n = wanting(b, of, want);
	uint64_t sum = 0;

	if (n == 0)
		return 0;
	allowance_split(said->amount, want, n, b->turn++ % n, given);
	for (unsigned i = 0; i < n; i++)
		if (given[i] > 0) {
			give(of[i], said, given[i], seconds);
			sum += given[i];
		}
	return sum;
}

static void allotted_some(struct rlqs_bucket *b, const struct allotted *said)
{
	uint64_t now_us = rlqs_now_us(b->rlqs);
	uint32_t seconds = ttl_s(said, now_us);

	uint64_t given = seconds > 0 ? share_out(b, said, seconds) : 0;

	if (said->lease == 0)
		return;
	if (given > 0) {
		(void)allowance_leases_add(&b->leases, said->lease, given, said->ends_us);
	} else {
		allot_return(b->rlqs->agent->engine, b->pairs, b->n_pairs, said->lease,
			     said->amount);
		b->again_us = now_us + AGAIN_MAX_US;
	}
}

static void refused(struct rlqs_bucket *b, const struct allotted *said)
{
	uint64_t wait_us = said->wait_us;

	wait_us = wait_us < AGAIN_MIN_US ? AGAIN_MIN_US : wait_us;
	wait_us = wait_us > AGAIN_MAX_US ? AGAIN_MAX_US : wait_us;
	b->again_us = rlqs_now_us(b->rlqs) + wait_us;
	rlqs_due(b, b->again_us);
}

/* Whoever was given nothing and is about to have nothing. */
static void deny_ending(struct rlqs_bucket *b)
{
	for (struct rlqs_sub *s = b->subs; s != NULL; s = s->next)
		if (!s->is_sure || is_ending(s, rlqs_now_us(b->rlqs)))
			tell_blanket(s, RLQS_DENY, BLANKET_S);
}

static void say_unleasable(struct rlqs_bucket *b)
{
	if (b->is_unleasable)
		return;
	b->is_unleasable = true;
	rlqs_counters(b->rlqs)->unleasable++;
	log_event(LOG_WARN, "rlqs_unleasable",
		  "of this policy nothing can be handed out to Envoys: their requests are denied",
		  LOG_TEXT_FIELD("policy", b->pairs[0].policy.ptr));
}

static void on_allotted(void *data, const struct allotted *said)
{
	struct rlqs_bucket *b = data;

	rlqs_new_batch(b->rlqs);
	switch (said->kind) {
	case ALLOTTED_SOME:
		allotted_some(b, said);
		break;
	case ALLOTTED_ALL:
		tell_all(b, RLQS_ALLOW, said->is_outage ? OUTAGE_S : BLANKET_S);
		refused(b, said);
		break;
	case ALLOTTED_NEVER:
		say_unleasable(b);
		refused(b, said);
		break;
	case ALLOTTED_NONE:
		refused(b, said);
		break;
	}
	deny_ending(b);
	if (!b->rlqs->in_turn)
		rlqs_flush(b->rlqs);
}

/* ---- A round ---- */

/* Those of whom nothing is asked leave. False: the bucket is gone. */
static bool abandon_idle(struct rlqs_bucket *b)
{
	uint64_t now_us = rlqs_now_us(b->rlqs);
	struct rlqs_sub *s = b->subs, *next;
	unsigned left = b->n_subs;

	for (; s != NULL; s = next) {
		const struct allowance *a = &s->allowance;

		next = s->next;
		if (a->reported_us < a->asked_us + IDLE_US && now_us < a->reported_us + SILENT_US)
			continue;
		if (!tell(s, &(struct rlqs_action){.kind = RLQS_ABANDON}))
			continue;
		left--;
		rlqs_unsubscribe(s);
	}
	return left > 0;
}

/* An allowance is a small part of the limit, so that what is lost with it is small, but no less than one. */
static uint32_t most_of(struct rlqs_bucket *b)
{
	uint64_t part = allot_part(b->rlqs->agent->engine, b->pairs, b->n_pairs) / PART;

	return part > 0 ? (uint32_t)part : 1;
}

/* What they want together, of whom those beyond SHARE_MAX want it in another round. */
static uint64_t collect(struct rlqs_bucket *b)
{
	uint64_t now_us = rlqs_now_us(b->rlqs), sum = 0;
	uint32_t most = most_of(b);
	unsigned n = 0;

	for (struct rlqs_sub *s = b->subs; s != NULL; s = s->next) {
		struct allowance sure = s->allowance;

		if (!s->is_sure) /* under other limits; as if it were over */
			sure.stops_us = 0;
		s->want = rlqs_stream_keeps_up(s->stream)
				  ? allowance_want(&sure, now_us, ALLOT_TTL_US, most)
				  : 0;
		if (s->want > 0 && ++n > SHARE_MAX)
			s->want = 0;
		sum += s->want;
	}
	return sum;
}

static void ask(struct rlqs_bucket *b, uint64_t wanted)
{
	struct allot_wish wish = {.pairs = b->pairs,
				  .n_pairs = b->n_pairs,
				  .amount = wanted < LIMIT_MAX ? wanted : LIMIT_MAX,
				  .sent_us = rlqs_now_us(b->rlqs)};

	if (!allot_ask(b->rlqs->agent->engine, &wish, on_allotted, b, &b->asking))
		b->again_us = wish.sent_us + AGAIN_MAX_US;
}

void rlqs_round(struct rlqs_bucket *b)
{
	uint64_t now_us = rlqs_now_us(b->rlqs), wanted;

	if (!abandon_idle(b))
		return;
	rlqs_due(b, now_us + LOOK_US);
	allowance_leases_expire(&b->leases, now_us);
	if (b->is_unusable) {
		rlqs_counters(b->rlqs)->unusable++;
		tell_all(b, RLQS_DENY, BLANKET_S);
		return;
	}
	if (b->n_pairs == 0) {
		tell_all(b, RLQS_ALLOW, BLANKET_S);
		return;
	}
	if (b->asking == NULL && b->leases.n < ALLOWANCE_LEASES_MAX && now_us >= b->again_us) {
		b->round_us = now_us;
		wanted = collect(b);
		if (wanted > 0)
			ask(b, wanted);
	}
	if (b->asking == NULL)
		deny_ending(b);
}

void rlqs_heard(struct rlqs_sub *s)
{
	struct rlqs_bucket *b = s->bucket;
	uint64_t at_us = b->round_us + SPACE_US;

	rlqs_due(b, at_us > b->again_us ? at_us : b->again_us);
}
