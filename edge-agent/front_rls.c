/*
 * Envoy's rate limit service: descriptors become pairs of policies and keys, which are taken all or none.
 *
 * rls_should_rate_limit() → read → begin() → step(): pairs that take nothing (no hits) are peeked at; then the others are
 * taken in one request; then those whose numbers that did not tell are peeked at; then the answer. A request without a
 * verdict ends the call with its error, when the others of its step are done; but what was granted or refused by then is
 * answered so, without the numbers that are missing. Every path ends in one answer, or in rls_abandon().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "core/limit.h"
#include "core/rls_key.h"
#include "core/rls_request.h"
#include "grpc_task.h"
#include "ops.h"
#include "request.h"
#include "rls_answer.h"

/* Checks that a loop keeps, of 4.5 KB each, and bytes of keys that each of these keeps. */
enum { SPARE_MAX = 32, SPARE_KEYS_MAX = 4096 };

struct rls_check {
	struct grpc_conn *front;
	struct grpc_task *task;
	struct rls_check *next_spare;
	uint8_t n_pairs, n_in_progress;
	bool asked_to_take, granted;
	const char *wrong; /* what no verdict was there for; in `message` */
	enum grpc_status status;
	struct request *request
		[REQUEST_PAIRS_MAX]; /* in progress: that peeks at a pair; the first: that takes */
	/* All zeros when it begins until here; of what follows, when a pair is added. */
	struct rls_answer answer;
	struct request_pair pair[REQUEST_PAIRS_MAX]; /* cost 0: nothing is taken */
	uint8_t taken[REQUEST_PAIRS_MAX]; /* pairs, by their number in the request that takes */
	size_t key_at[REQUEST_PAIRS_MAX];
	char policy[REQUEST_PAIRS_MAX][NAME_BYTES_MAX + 1];
	char message[ANSWER_TEXT_MAX];
	struct buf keys;
};

/* ---- Beginning and end ---- */

static struct rls_check *check_new(struct grpc_task *t)
{
	struct agent *a = task_agent(t);
	struct rls_check *k = a->spare_checks;

	if (k != NULL) {
		a->spare_checks = k->next_spare;
		a->n_spare_checks--;
	} else {
		k = malloc(sizeof *k);
		if (k == NULL)
			return NULL;
		k->keys = (struct buf){0};
	}
	memset(k, 0, offsetof(struct rls_check, answer));
	k->answer.n_pairs = 0;
	buf_clear(&k->keys);
	k->front = t->front;
	k->task = t;
	t->check = k;
	return k;
}

static void discard(struct rls_check *k)
{
	buf_release(&k->keys);
	free(k);
}

static void check_free(struct rls_check *k)
{
	struct agent *a = conn_agent(k->front->conn);

	if (a->n_spare_checks == SPARE_MAX) {
		discard(k);
		return;
	}
	if (k->keys.cap > SPARE_KEYS_MAX)
		buf_release(&k->keys);
	k->next_spare = a->spare_checks;
	a->spare_checks = k;
	a->n_spare_checks++;
}

void rls_spare_release(struct agent *a)
{
	struct rls_check *k;

	while ((k = a->spare_checks) != NULL) {
		a->spare_checks = k->next_spare;
		discard(k);
	}
	a->n_spare_checks = 0;
}

void rls_abandon(struct rls_check *check)
{
	for (uint8_t i = 0; i < REQUEST_PAIRS_MAX; i++)
		if (check->request[i] != NULL)
			request_abandon(check->request[i]);
	check_free(check);
}

/* Before the call is ended, which would abandon the check. */
static struct grpc_task *leave(struct rls_check *k)
{
	struct grpc_task *t = k->task;

	t->check = NULL;
	ops_observe(&task_agent(t)->ops, OPS_GRPC, t->begun_us);
	return t;
}

static void fail(struct rls_check *k, enum grpc_status status, const char *text)
{
	struct grpc_task *t = leave(k);

	task_fail(t, status, text);
	check_free(k);
}

static void answer(struct rls_check *k)
{
	struct grpc_task *t = leave(k);

	rls_answer_send(&k->answer, t);
	check_free(k);
}

/* ---- Asking ---- */

static void step(struct rls_check *k);

static void went_wrong(struct rls_check *k, enum grpc_status status, const char *text)
{
	k->status = status;
	snprintf(k->message, sizeof k->message, "%s", text);
	k->wrong = k->message;
}

/* A policy that was deleted since it was found limits nothing, if it is asked for again. */
static enum grpc_status status_of(enum request_error error)
{
	return error == REQUEST_UNAVAILABLE || error == REQUEST_NO_POLICY ? GRPC_UNAVAILABLE
									  : GRPC_INVALID_ARGUMENT;
}

static uint8_t number_of(const struct rls_check *k, const struct request *r)
{
	uint8_t i = 0;

	while (k->request[i] != r)
		i++;
	return i;
}

static void done(struct rls_check *k)
{
	if (--k->n_in_progress > 0)
		return;
	if (k->wrong == NULL)
		step(k);
	else if (k->granted || rls_answer_is_over(&k->answer))
		answer(k);
	else
		fail(k, k->status, k->wrong);
}

static void on_done(struct request *r)
{
	struct rls_check *k = r->owner;
	const struct answer *said = &r->answer;
	uint8_t i = number_of(k, r);

	k->request[i] = NULL;
	if (said->error != REQUEST_NO_ERROR) {
		went_wrong(k, status_of(said->error), said->message);
	} else if (r->kind == REQUEST_TAKE) {
		k->granted = said->allowed;
		rls_answer_hear(&k->answer, k->taken[said->pair], said, !said->allowed);
	} else {
		/* What this request itself has taken the last of is not over. */
		rls_answer_hear(&k->answer, i, said, !said->allowed && !k->granted);
	}
	request_free(r);
	done(k);
}

/* NULL: it went wrong. */
static struct request *request_begin(struct rls_check *k, enum request_kind kind, uint8_t number)
{
	struct request *r = request_new(task_agent(k->task)->engine);

	if (r == NULL) {
		went_wrong(k, GRPC_UNAVAILABLE, "too many requests are in progress at this agent");
		return NULL;
	}
	r->kind = kind;
	r->on_done = on_done;
	r->trace = k->task->trace;
	r->owner = k;
	k->request[number] = r;
	k->n_in_progress++;
	return r;
}

/* All that take something, in one request. */
static void take(struct rls_check *k)
{
	struct request *r = NULL;
	uint8_t n = 0;

	for (uint8_t i = 0; i < k->n_pairs; i++)
		if (k->pair[i].cost > 0)
			k->taken[n++] = i;
	if (n > 0)
		r = request_begin(k, REQUEST_TAKE, 0);
	if (r == NULL)
		return;
	for (uint8_t i = 0; i < n; i++)
		r->pairs[i] = k->pair[k->taken[i]];
	r->n_pairs = n;
	decide(task_agent(k->task)->engine, r);
}

/* Those whose numbers are not known: of those that take nothing alone, or of all. */
static void peek(struct rls_check *k, bool all)
{
	for (uint8_t i = 0; i < k->n_pairs; i++) {
		const struct request_pair *pair = &k->pair[i];
		struct request *r;

		if (k->answer.pair[i].is_known || (pair->cost > 0 && !all))
			continue;
		r = request_begin(k, REQUEST_PEEK, i);
		if (r == NULL)
			return;
		r->pairs[0] = *pair;
		r->pairs[0].cost = pair->cost > 0 ? pair->cost : 1;
		r->n_pairs = 1;
		decide(task_agent(k->task)->engine, r);
	}
}

static bool all_known(const struct rls_check *k)
{
	for (uint8_t i = 0; i < k->n_pairs; i++)
		if (!k->answer.pair[i].is_known)
			return false;
	return true;
}

static bool takes_nothing_yet_unknown(const struct rls_check *k)
{
	for (uint8_t i = 0; i < k->n_pairs; i++)
		if (k->pair[i].cost == 0 && !k->answer.pair[i].is_known)
			return true;
	return false;
}

/* One of the steps above; answers may come from within, and are counted when all were asked for. */
static void step(struct rls_check *k)
{
	if (k->asked_to_take && all_known(k)) {
		answer(k);
		return;
	}
	k->n_in_progress++;
	if (takes_nothing_yet_unknown(k)) {
		peek(k, false);
	} else if (!k->asked_to_take) {
		k->asked_to_take = true;
		if (!rls_answer_is_over(&k->answer))
			take(k);
	} else {
		peek(k, true);
	}
	done(k);
}

/* ---- What was asked for ---- */

/* By enum RateLimitUnit. */
static const uint32_t unit_s[] = {0, 1, 60, 3600, 86400, 30 * 86400, 365 * 86400};

/* The limit that a descriptor brings. False: it can't be one. */
static bool read_own_limit(const struct rls_descriptor *d, struct request_pair *pair)
{
	if (!d->has_limit)
		return true;
	if (d->unit >= sizeof unit_s / sizeof unit_s[0] || unit_s[d->unit] == 0 ||
	    d->requests_per_unit > LIMIT_MAX)
		return false;
	pair->own_limit = d->requests_per_unit;
	pair->own_per_s = unit_s[d->unit];
	return true;
}

static uint64_t hits_of(const struct rls_request *m, const struct rls_descriptor *d)
{
	if (d->has_hits)
		return d->hits;
	return m->hits > 0 ? m->hits : 1;
}

/* What is wrong, or NULL; here and below. */
static const char *add_pair(struct rls_check *k, const struct policy *p,
			    const struct rls_request *m, uint8_t number)
{
	const struct rls_descriptor *d = &m->descriptor[number];
	struct request_pair *pair = &k->pair[k->n_pairs];
	struct slice rest = d->bytes, key, value;

	if (k->n_pairs == REQUEST_PAIRS_MAX)
		return "the descriptors name more than 16 policies";
	*pair = (struct request_pair){.cost = hits_of(m, d)};
	if (pair->cost > LIMIT_MAX)
		return "hits_addend must be at most 1000000000";
	if (!read_own_limit(d, pair))
		return "a descriptor's limit must have a unit, and at most 1000000000 requests";
	memcpy(k->policy[k->n_pairs], p->name, sizeof p->name);
	k->key_at[k->n_pairs] = k->keys.len;
	while (rls_entry_next(&rest, &key, &value))
		rls_path_add(&k->keys, k->key_at[k->n_pairs], value);
	pair->key.len = k->keys.len - k->key_at[k->n_pairs];
	if (pair->key.len > REQUEST_KEY_MAX)
		return "a descriptor's values must make a key of at most 1024 bytes";
	k->answer.pair[k->n_pairs++] = (struct rls_pair){.descriptor = number};
	k->answer.n_pairs = k->n_pairs;
	return NULL;
}

/* The policies that limit a descriptor. */
static const char *read_descriptor(struct rls_check *k, const struct rls_request *m, uint8_t number,
				   struct buf *name)
{
	const struct catalogue *c = control_catalogue(task_agent(k->task)->control);
	const struct rls_descriptor *d = &m->descriptor[number];
	struct slice rest = d->bytes, key, value;
	const struct policy *p;
	const char *wrong = NULL;
	uint64_t walk = 0;

	if (d->n_entries == 0)
		return "a descriptor must have entries";
	if (d->gives_back)
		return "hits can't be given back: is_negative_hits is not served";
	buf_clear(name);
	rls_name_add(name, m->domain);
	while (rls_entry_next(&rest, &key, &value))
		rls_name_add(name, key);
	while (wrong == NULL && (p = catalogue_envoy(c, buf_slice(name), &walk)) != NULL)
		wrong = add_pair(k, p, m, number);
	return wrong;
}

static const char *read_request(struct rls_check *k, const struct rls_request *m)
{
	struct buf *name = conn_scratch(k->front->conn, SCRATCH_REQUEST);
	const char *wrong = NULL;

	if (m->domain.len == 0)
		return "a domain must be given";
	if (m->n_descriptors < 1 || m->n_descriptors > RLS_DESCRIPTORS_MAX)
		return "there must be 1 to 64 descriptors";
	k->answer.n_descriptors = (uint8_t)m->n_descriptors;
	for (uint8_t i = 0; wrong == NULL && i < m->n_descriptors; i++)
		wrong = read_descriptor(k, m, i, name);
	if (wrong == NULL && (buf_failed(name) || buf_failed(&k->keys)))
		wrong = "out of memory";
	conn_scratch_leave(name);
	for (uint8_t i = 0; i < k->n_pairs; i++) {
		k->pair[i].policy = slice_of(k->policy[i]);
		k->pair[i].key.ptr = k->keys.ptr + k->key_at[i];
	}
	return wrong;
}

void rls_should_rate_limit(struct grpc_task *t, struct slice message)
{
	struct rls_request m;
	struct rls_check *k;
	const char *wrong;

	if (rls_request_parse(message, &m) != KOVA_OK) {
		task_fail(t, GRPC_INVALID_ARGUMENT, "not a RateLimitRequest");
		return;
	}
	k = check_new(t);
	if (k == NULL) {
		task_fail(t, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	t->begun_us = ops_now_us(&task_agent(t)->ops);
	wrong = read_request(k, &m);
	if (wrong != NULL)
		fail(k, GRPC_INVALID_ARGUMENT, wrong);
	else
		step(k);
}
