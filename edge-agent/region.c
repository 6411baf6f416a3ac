/*
 * The happy path: region_submit() adds to the open batch of its slot; after the poll phase of this loop
 * turn (or at once when it is full) the batch is sent as one EVALSHA; its reply is read and each
 * operation is answered in order; the batch goes back to the free list.
 *
 * While a call of a server that is no Cluster is in flight, the next batch may wait for one more loop turn:
 * at most CALLS_IN_FLIGHT are out at a time, so that batches grow under load and stay small without it.
 *
 * Failures: NOSCRIPT (nothing was done): sent again with the body. Any other error reply: KOVA_EREPLY. A reply
 * that is not this call's, by its nonce, means that the stream lost one: the connection is dropped. No connection, no
 * answer in time: the store's status. Every path ends in batch_fail() or batch_answer(), exactly once.
 */
#include "region.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "io/log.h"

enum { SLOTS = 16384, CALLS_IN_FLIGHT = 2 };

struct batch {
	struct region *region;
	struct batch *next; /* in the free list or the list of open ones */
	struct script_batch *script;
	uint64_t nonce;
	uint16_t slot;
	bool with_body;
	struct {
		region_answer *on_answer;
		void *data;
	} op[SCRIPT_OPS_MAX];
};

struct region {
	uv_loop_t *loop;
	struct redis_store *store;
	uv_check_t after_poll;     /* sends what the sockets brought */
	uv_prepare_t before_poll;  /* sends what timers and late answers brought */
	unsigned handles_open;
	bool store_open, closing;
	void (*on_closed)(void *data);
	void *closed_data;

	bool by_slot;
	struct batch *open;       /* batches that have not been sent, newest first */
	struct batch **open_of;   /* by slot (by_slot) or one */
	struct batch *spare;      /* free list */
	unsigned in_flight;       /* calls without a reply */
	uint64_t nonce;
	int64_t clock_offset_us;  /* Redis's clock − local steady clock */
	bool clock_heard;
	struct region_counters counters;
};

static uint64_t steady_us(void)
{
	return uv_hrtime() / 1000;
}

uint64_t region_now_us(const struct region *r)
{
	uv_timeval64_t wall;

	if (r->clock_heard)
		return (uint64_t)((int64_t)steady_us() + r->clock_offset_us);
	if (uv_gettimeofday(&wall) != 0)
		return 0;
	return (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_usec;
}

bool region_by_slot(const struct region *r)
{
	return r->by_slot;
}

bool region_up(const struct region *r, uint16_t slot)
{
	return redis_store_up(r->store, redis_store_shard(r->store, slot));
}

bool region_is_idle(const struct region *r)
{
	return r->open == NULL && r->in_flight == 0;
}

struct redis_store *region_store(const struct region *r)
{
	return r->store;
}

struct region_counters region_counters(const struct region *r)
{
	return r->counters;
}

/* ---- Batches ---- */

static void batch_free(struct batch *b)
{
	if (b == NULL)
		return;
	script_batch_free(b->script);
	free(b);
}

static struct batch *batch_new(struct region *r)
{
	struct batch *b = r->spare;

	if (b != NULL) {
		r->spare = b->next;
		return b;
	}
	b = calloc(1, sizeof *b);
	if (b == NULL)
		return NULL;
	b->region = r;
	b->script = script_batch_new();
	if (b->script == NULL) {
		batch_free(b);
		return NULL;
	}
	return b;
}

static void batch_recycle(struct batch *b)
{
	struct region *r = b->region;

	script_batch_clear(b->script);
	b->with_body = false;
	b->next = r->spare;
	r->spare = b;
}

static void batch_fail(struct batch *b, kova_status status)
{
	uint32_t n = script_batch_ops(b->script);

	for (uint32_t i = 0; i < n; i++)
		b->op[i].on_answer(status, NULL, b->op[i].data);
	batch_recycle(b);
}

static void hear_clock(struct region *r, uint64_t now_us)
{
	r->clock_offset_us = (int64_t)now_us - (int64_t)steady_us();
	r->clock_heard = true;
}

/* Answers each operation; those that a malformed reply does not reach fail. */
static kova_status batch_answer(struct batch *b, struct slice reply)
{
	struct script_reader reader;
	struct script_answer answer;
	uint32_t n = script_batch_ops(b->script), i;
	kova_status status = script_reader_init(&reader, reply, b->nonce, n);

	if (status == KOVA_OK)
		hear_clock(b->region, reader.now_us);
	for (i = 0; i < n && status == KOVA_OK; i++) {
		status = script_reader_next(&reader, &answer);
		b->op[i].on_answer(status, status == KOVA_OK ? &answer : NULL, b->op[i].data);
	}
	for (; i < n; i++)
		b->op[i].on_answer(status, NULL, b->op[i].data);
	return status;
}

/* ---- Calls ---- */

static void batch_send(struct batch *b);
static void send_open(struct region *r);

static void on_error_reply(struct batch *b, const char *text)
{
	if (strncmp(text, "NOSCRIPT", 8) == 0 && !b->with_body) {
		b->with_body = true;
		b->region->counters.script_loads++;
		batch_send(b);
		return;
	}
	log_event(LOG_WARN, "redis_refused", "the store refused a call", LOG_TEXT_FIELD("why", text));
	batch_fail(b, KOVA_EREPLY);
}

static void on_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct batch *b = data;
	struct region *r = b->region;

	r->in_flight--;
	if (status == KOVA_EREPLY) {
		on_error_reply(b, reply->str);
	} else if (status != KOVA_OK) {
		batch_fail(b, status);
	} else {
		struct slice bytes = {0};

		if (reply->type == REDIS_REPLY_STRING)
			bytes = (struct slice){reply->str, reply->len};
		if (batch_answer(b, bytes) != KOVA_OK) {
			r->counters.out_of_step++;
			redis_store_reset(r->store, b->slot, "a reply was out of step");
		}
		batch_recycle(b);
	}
	if (!r->closing && r->in_flight < CALLS_IN_FLIGHT)
		send_open(r);
}

static void batch_send(struct batch *b)
{
	struct region *r = b->region;

	if (script_batch_ops(b->script) == 0) { /* its only operation could not be added */
		batch_recycle(b);
		return;
	}
	b->nonce = ++r->nonce;

	struct slice command = script_batch_command(b->script, b->with_body, b->nonce);

	if (command.ptr == NULL) {
		batch_fail(b, KOVA_ENOMEM);
		return;
	}
	r->in_flight++;
	r->counters.calls++;
	redis_store_call(r->store, b->slot, command, on_reply, b);
}

static struct batch **open_place(struct region *r, uint16_t slot)
{
	return &r->open_of[r->by_slot ? slot : 0];
}

static void send_now(struct region *r, struct batch *b)
{
	struct batch **at = &r->open;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	*open_place(r, b->slot) = NULL;
	batch_send(b);
}

/* Sends every open batch, the oldest first. */
static void send_open(struct region *r)
{
	struct batch *oldest_first = NULL;

	while (r->open != NULL) {
		struct batch *b = r->open;

		r->open = b->next;
		*open_place(r, b->slot) = NULL;
		b->next = oldest_first;
		oldest_first = b;
	}
	while (oldest_first != NULL) {
		struct batch *b = oldest_first;

		oldest_first = b->next;
		batch_send(b);
	}
}

static void end_of_turn(struct region *r)
{
	if (r->open != NULL && (r->by_slot || r->in_flight < CALLS_IN_FLIGHT))
		send_open(r);
}

static void on_after_poll(uv_check_t *h)
{
	end_of_turn(h->data);
}

static void on_before_poll(uv_prepare_t *h)
{
	end_of_turn(h->data);
}

static struct batch *open_batch(struct region *r, uint16_t slot, unsigned room)
{
	struct batch **place = open_place(r, slot);

	if (*place != NULL && script_batch_ops((*place)->script) + room > SCRIPT_OPS_MAX)
		send_now(r, *place);
	if (*place == NULL) {
		struct batch *b = batch_new(r);

		if (b == NULL)
			return NULL;
		b->slot = slot;
		b->next = r->open;
		r->open = *place = b;
	}
	return *place;
}

void region_submit(struct region *r, uint16_t slot, const struct script_op *op, unsigned n_after,
		   region_answer *on_answer, void *data)
{
	assert(!r->closing && n_after < SCRIPT_OPS_MAX);

	struct batch *b = open_batch(r, slot, 1 + n_after);

	if (b == NULL) {
		on_answer(KOVA_ENOMEM, NULL, data);
		return;
	}

	uint32_t at = script_batch_ops(b->script);
	kova_status status = script_batch_add(b->script, op, region_now_us(r));

	if (status != KOVA_OK) {
		on_answer(status, NULL, data);
		return;
	}
	b->op[at].on_answer = on_answer;
	b->op[at].data = data;
	r->counters.operations++;
}

/* ---- Life ---- */

static void region_gone(struct region *r)
{
	if (r->handles_open > 0 || r->store_open)
		return;
	while (r->spare != NULL) {
		struct batch *b = r->spare;

		r->spare = b->next;
		batch_free(b);
	}
	free(r->open_of);
	if (r->on_closed != NULL)
		r->on_closed(r->closed_data);
	free(r);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct region *r = h->data;

	r->handles_open--;
	region_gone(r);
}

static void on_store_closed(void *data)
{
	struct region *r = data;

	r->store_open = false;
	region_gone(r);
}

struct region *region_new(uv_loop_t *loop, struct redis_store *store)
{
	struct region *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	r->loop = loop;
	r->store = store;
	r->store_open = true;
	r->by_slot = redis_store_is_cluster(store);
	r->open_of = calloc(r->by_slot ? SLOTS : 1, sizeof(struct batch *));
	if (r->open_of == NULL) {
		free(r);
		return NULL;
	}
	uv_check_init(loop, &r->after_poll);
	uv_prepare_init(loop, &r->before_poll);
	r->handles_open = 2;
	r->after_poll.data = r->before_poll.data = r;
	uv_check_start(&r->after_poll, on_after_poll);
	uv_prepare_start(&r->before_poll, on_before_poll);
	/* Neither keeps the loop alive: calls in flight do. */
	uv_unref((uv_handle_t *)&r->after_poll);
	uv_unref((uv_handle_t *)&r->before_poll);
	return r;
}

void region_close(struct region *r, void (*on_closed)(void *data), void *data)
{
	assert(!r->closing);
	r->closing = true;
	r->on_closed = on_closed;
	r->closed_data = data;
	while (r->open != NULL) {
		struct batch *b = r->open;

		r->open = b->next;
		batch_fail(b, KOVA_ECLOSED);
	}
	redis_store_close(r->store, on_store_closed, r);
	uv_close((uv_handle_t *)&r->after_poll, on_handle_closed);
	uv_close((uv_handle_t *)&r->before_poll, on_handle_closed);
}
