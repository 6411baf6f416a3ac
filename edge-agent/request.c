/* A request by itself: where it comes from, what it may hold, and whose its bytes are; its way is decide.c's. */
#include "request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base64url.h"
#include "engine.h"

/* ---- Pool of requests ---- */

static struct request_state *state_new(struct engine *e)
{
	struct request_state *s = e->free_states;

	if (s != NULL) {
		e->free_states = s->next_free;
		return s;
	}
	if (e->n_states == e->n_states_max)
		return NULL;
	s = malloc(sizeof *s);
	if (s != NULL)
		e->n_states++;
	return s;
}

struct request *request_new(struct engine *e)
{
	struct request_state *s = state_new(e);

	if (s == NULL)
		return NULL;
	memset(s, 0, offsetof(struct request_state, checks_inline));
	s->engine = e;
	s->checks = s->checks_inline;
	s->cap_checks = CHECKS_INLINE;
	s->groups = &s->group_inline;
	s->request.refund_amount = -1;
	return &s->request;
}

void request_free(struct request *r)
{
	struct request_state *s = state_of(r);
	struct engine *e = s->engine;

	assert(!s->in_progress);
	resolve_release(s);
	if (s->text != s->text_inline)
		free(s->text);
	buf_release(&s->receipt);
	s->next_free = e->free_states;
	e->free_states = s;
}

/* ---- Checking and owning ---- */

static bool check_throttle(const struct request_throttle *t, const char **ret_message)
{
	if (t->max_burst < 0 || t->max_burst >= LIMIT_MAX)
		*ret_message = "max_burst must be 0 to 999999999";
	else if (t->count < 1 || t->count > LIMIT_MAX)
		*ret_message = "count must be 1 to 1000000000";
	else if (t->period_s < 1 || t->period_s > (int64_t)(LIMIT_PER_MAX_US / 1000000))
		*ret_message = "period must be 1 to 34560000 seconds (400 days)";
	else if (t->quantity < 0 || t->quantity > LIMIT_MAX)
		*ret_message = "quantity must be 0 to 1000000000";
	else
		return true;
	return false;
}

static bool check_pairs(const struct request *r, const char **ret_message)
{
	for (uint8_t i = 0; i < r->n_pairs; i++) {
		const struct request_pair *q = &r->pairs[i];

		if (q->key.len < 1 || q->key.len > REQUEST_KEY_MAX) {
			*ret_message = "a key must have 1 to 1024 bytes";
			return false;
		}
		if (q->cost < 1 || q->cost > LIMIT_MAX) {
			*ret_message = "cost must be 1 to 1000000000";
			return false;
		}
	}
	return true;
}

bool request_check(const struct request *r, const char **ret_message)
{
	assert(r->n_pairs <= REQUEST_PAIRS_MAX);
	if (r->wait_ms > REQUEST_WAIT_MAX_MS)
		*ret_message = "wait must be 0 to 86400000 ms";
	else if (r->id.len > REQUEST_ID_MAX)
		*ret_message = "an id must have 1 to 256 bytes";
	else if (r->permit.len > REQUEST_PERMIT_MAX)
		*ret_message = "a permit has at most 64 bytes";
	else if (r->refund_amount < -1 || r->refund_amount > LIMIT_MAX)
		*ret_message = "an amount must be 0 to 1000000000";
	else if (r->kind == REQUEST_THROTTLE && !check_throttle(&r->throttle, ret_message))
		return false;
	else
		return check_pairs(r, ret_message);
	return false;
}

static char *own(struct slice *slice, char *at)
{
	if (slice->len > 0)
		memcpy(at, slice->ptr, slice->len);
	slice->ptr = at;
	return at + slice->len;
}

bool request_own(struct request_state *s)
{
	struct request *r = &s->request;
	size_t need = r->id.len + r->permit.len;

	for (uint8_t i = 0; i < r->n_pairs; i++)
		need += r->pairs[i].policy.len + r->pairs[i].key.len;
	s->text = need <= sizeof s->text_inline ? s->text_inline : malloc(need);
	if (s->text == NULL)
		return false;

	char *at = own(&r->permit, own(&r->id, s->text));

	for (uint8_t i = 0; i < r->n_pairs; i++)
		at = own(&r->pairs[i].key, own(&r->pairs[i].policy, at));
	return true;
}

void request_make_permit(struct request_state *s)
{
	unsigned char random[PERMIT_BYTES];
	struct buf text = {0};

	engine_random(s->engine, random, sizeof random);
	base64url_write(&text, (struct slice){(const char *)random, sizeof random});
	if (text.len == PERMIT_CHARS)
		memcpy(s->permit, text.ptr, PERMIT_CHARS);
	buf_release(&text);
}

/* ---- What is said of its answer ---- */

static const char *const reasons[] = {
	[REASON_OK] = "ok",
	[REASON_LIMITED] = "limited:",
	[REASON_BANNED] = "banned",
	[REASON_QUEUE_FULL] = "queue_full",
	[REASON_WAIT_TIMEOUT] = "wait_timeout",
	[REASON_HELD] = "held",
	[REASON_BREAKER_OPEN] = "breaker_open",
	[REASON_OUTAGE] = "outage",
	[REASON_SHADOW] = "shadow",
};

size_t answer_reason(const struct answer *a, char ret_text[static 80])
{
	size_t len = strlen(reasons[a->reason]);

	memcpy(ret_text, reasons[a->reason], len);
	if (a->reason == REASON_LIMITED) {
		size_t level_len = strlen(a->level);

		memcpy(ret_text + len, a->level, level_len);
		len += level_len;
	}
	return len;
}
