/*
 * The happy path: region_submit() adds to the open batch of its slot, or closes that one when it is full and opens the
 * next; after the poll phase of this loop turn the batches leave, each as one EVALSHA, the oldest first; a reply is read
 * and each operation is answered in order; the batch goes back to the free list.
 *
 * To a server that is no Cluster at most CALLS_IN_FLIGHT calls are out at a time; the other batches wait. So they are
 * small without load and grow with it, and what is asked beyond what Redis can do waits here: a call's time-out
 * is about that call alone, and a flood is not mistaken for a server that is away. Of several loops each has one call out,
 * and a smaller one, so that all of them together ask for no more at once.
 *
 * Failures: NOSCRIPT (nothing was done): sent again with the body. Any other error reply: KOVA_EREPLY (NOPERM and
 * the like: the store is told to find out when we may again). A reply
 * that is not this call's, by its stamp, means that the stream lost one: the connection is dropped. No connection, no
 * answer in time: the store's status. Every path ends in batch_fail() or batch_answer(), exactly once.
 */
#include "region.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"
#include "io/log.h"

enum {
	SLOTS = 16384,
	CALLS_IN_FLIGHT = 2,
	CALL_CHECKS_MAX = 256,  /* Redis does nothing else meanwhile: some milliseconds */
	CALL_CHECKS_LEAST = 32, /* of a share: smaller calls would cost Redis more a check */
	SPARE_MAX = 32,         /* batches that are kept for later, with their memory */
};

struct batch {
	struct region *region;
	struct batch *next; /* in the free list or the queue */
	struct script_batch *script;
	uint32_t n_checks; /* of all operations */
	uint64_t stamp;
	unsigned shard;            /* that was asked ... */
	struct clock_reading sent; /* ... and when */
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
	uv_check_t after_poll;    /* sends what the sockets brought */
	uv_prepare_t before_poll; /* sends what timers and late answers brought */
	unsigned handles_open;
	bool store_open, closing;
	void (*on_closed)(void *data);
	void *closed_data;

	bool by_slot;
	struct batch *first, **end; /* the queue of batches that have not been sent, oldest first */
	struct batch **open_of;     /* those of them that take more: by slot (by_slot) or one */
	struct batch *spare;        /* free list */
	unsigned n_spare;
	unsigned in_flight; /* calls without a reply */
	unsigned in_flight_max, checks_max;
	struct region_clock clock;
	uint64_t now_us;        /* region_now_us() in this turn of the loop; 0: not read yet */
	uint64_t round_trip_us; /* weight of the last answer: 1/4 */
	struct region_counters counters;
};

uint64_t region_now_us(struct region *r)
{
	if (r->now_us == 0)
		r->now_us = region_clock_now_us(&r->clock);
	return r->now_us;
}

uint64_t region_clock_leaps(const struct region *r)
{
	return r->clock.leaps;
}

uint64_t region_round_trip_us(const struct region *r)
{
	return r->round_trip_us;
}

const struct region_clock *region_clock(const struct region *r)
{
	return &r->clock;
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
	return r->first == NULL && r->in_flight == 0;
}

struct redis_store *region_store(const struct region *r)
{
	return r->store;
}

void region_count(const struct region *r, struct redis_counters *redis,
		  struct region_counters *region)
{
	const struct redis_counters n = redis_store_counters(r->store);

	redis->commands += n.commands;
	redis->connects += n.connects;
	redis->disconnects += n.disconnects;
	redis->timeouts += n.timeouts;
	redis->redirects += n.redirects;
	redis->moves += n.moves;
	region->calls += r->counters.calls;
	region->operations += r->counters.operations;
	region->out_of_step += r->counters.out_of_step;
	region->script_loads += r->counters.script_loads;
	region->refills_refused += r->clock.refusals;
	region->clock_leaps += r->clock.leaps;
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
		r->n_spare--;
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

	if (r->n_spare == SPARE_MAX) {
		batch_free(b);
		return;
	}
	script_batch_clear(b->script);
	b->with_body = false;
	b->n_checks = 0;
	b->next = r->spare;
	r->spare = b;
	r->n_spare++;
}

static void batch_fail(struct batch *b, kova_status status)
{
	uint32_t n = script_batch_ops(b->script);

	for (uint32_t i = 0; i < n; i++)
		b->op[i].on_answer(status, NULL, b->op[i].data);
	batch_recycle(b);
}

/* What an answer tells beside its operations'. */
static void hear(struct region *r, unsigned shard, const struct clock_reading *sent,
		 const struct script_reader *reader)
{
	uint64_t us;

	region_clock_hear(&r->clock, shard, sent, reader->now_us, reader->refill_refused);
	r->now_us = 0;
	us = r->clock.heard_boot_us - sent->boot_us;
	r->round_trip_us = r->round_trip_us > 0 ? (3 * r->round_trip_us + us) / 4 : us;
}

struct script_call region_call(struct region *r, uint16_t slot, struct clock_reading *ret_sent)
{
	r->counters.operations++;
	return region_clock_call(&r->clock, redis_store_shard(r->store, slot), ret_sent);
}

void region_heard(struct region *r, uint16_t slot, const struct clock_reading *sent,
		  const struct script_reader *reader)
{
	hear(r, redis_store_shard(r->store, slot), sent, reader);
}

/* Answers each operation; those that a malformed reply does not reach fail. */
static kova_status batch_answer(struct batch *b, struct slice reply)
{
	struct script_reader reader;
	struct script_answer answer;
	uint32_t n = script_batch_ops(b->script), i;
	kova_status status =
		script_reader_init(&reader, reply, b->stamp, n, script_batch_plain(b->script));

	if (status == KOVA_OK)
		hear(b->region, b->shard, &b->sent, &reader);
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
static void send_waiting(struct region *r);

static void on_error_reply(struct batch *b, const char *text)
{
	if (strncmp(text, "NOSCRIPT", 8) == 0 && !b->with_body) {
		b->with_body = true;
		b->region->counters.script_loads++;
		batch_send(b);
		return;
	}
	log_event(LOG_WARN, "redis_refused", "the store refused a call",
		  LOG_TEXT_FIELD("why", text));
	if (redis_error_kind(slice_of(text)) == REDIS_ERROR_FORBIDDEN)
		redis_store_doubt_writes(b->region->store, b->slot, text);
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
	if (!r->closing)
		send_waiting(r);
}

static void batch_send(struct batch *b)
{
	struct region *r = b->region;

	if (script_batch_ops(b->script) == 0) { /* its only operation could not be added */
		batch_recycle(b);
		return;
	}
	b->shard = redis_store_shard(r->store, b->slot);

	/* Nothing was asked there yet, and to be told so would take a long way twice. */
	if (r->clock.far != NULL && !r->clock.heard)
		b->with_body = true;

	struct script_call call = region_clock_call(&r->clock, b->shard, &b->sent);
	struct slice command = script_batch_command(b->script, b->with_body, &call);

	b->stamp = call.stamp;
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

static struct batch *queue_pop(struct region *r)
{
	struct batch *b = r->first, **place = open_place(r, b->slot);

	r->first = b->next;
	if (r->first == NULL)
		r->end = &r->first;
	if (*place == b)
		*place = NULL;
	return b;
}

static bool may_send(const struct region *r)
{
	return r->first != NULL && (r->by_slot || r->in_flight < r->in_flight_max);
}

/* Their time begins now, not with a turn that may have been long. */
static void send_waiting(struct region *r)
{
	if (!may_send(r))
		return;
	uv_update_time(r->loop);
	do {
		batch_send(queue_pop(r));
	} while (may_send(r));
	redis_store_flush(r->store);
}

static void on_turn(struct region *r)
{
	send_waiting(r);
	r->now_us = 0;
}

static void on_after_poll(uv_check_t *h)
{
	on_turn(h->data);
}

static void on_before_poll(uv_prepare_t *h)
{
	on_turn(h->data);
}

/* A chained operation is in the batch of the one before it, whatever that makes of the call. */
static bool has_room(const struct region *r, const struct batch *b, const struct script_op *op,
		     unsigned n_after)
{
	uint32_t n = script_batch_ops(b->script);

	if (n + 1 + n_after > SCRIPT_OPS_MAX)
		return false;
	return n == 0 || op->chained || b->n_checks + op->n_checks * (1 + n_after) <= r->checks_max;
}

static struct batch *open_batch(struct region *r, uint16_t slot, const struct script_op *op,
				unsigned n_after)
{
	struct batch **place = open_place(r, slot);

	if (*place != NULL && !has_room(r, *place, op, n_after)) {
		*place = NULL;
		if (!r->by_slot)
			send_waiting(r); /* Redis works while we go on */
	}
	if (*place == NULL) {
		struct batch *b = batch_new(r);

		if (b == NULL)
			return NULL;
		b->slot = slot;
		b->next = NULL;
		*r->end = *place = b;
		r->end = &b->next;
	}
	return *place;
}

void region_submit(struct region *r, uint16_t slot, const struct script_op *op, unsigned n_after,
		   region_answer *on_answer, void *data)
{
	assert(!r->closing && n_after < SCRIPT_OPS_MAX);

	struct batch *b = open_batch(r, slot, op, n_after);

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
	b->n_checks += op->n_checks;
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
	region_clock_release(&r->clock);
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

struct region *region_new(uv_loop_t *loop, struct redis_store *store, const struct redis_conf *conf)
{
	struct region *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	r->loop = loop;
	r->store = store;
	r->store_open = true;
	r->end = &r->first;
	r->in_flight_max = CALLS_IN_FLIGHT;
	r->checks_max = CALL_CHECKS_MAX;
	r->by_slot = redis_store_is_cluster(store);
	region_clock_init(&r->clock, conf->max_skew_ms, conf->timeout_ms, r->by_slot);
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

void region_share(struct region *r, unsigned loops)
{
	unsigned checks = CALLS_IN_FLIGHT * CALL_CHECKS_MAX / loops;

	if (loops == 1)
		return;
	r->in_flight_max = 1;
	r->checks_max = checks > CALL_CHECKS_LEAST ? checks : CALL_CHECKS_LEAST;
}

void region_is_far(struct region *r, const char *name, unsigned calls)
{
	r->clock.far = name;
	r->in_flight_max = calls;
}

void region_close(struct region *r, void (*on_closed)(void *data), void *data)
{
	assert(!r->closing);
	r->closing = true;
	r->on_closed = on_closed;
	r->closed_data = data;
	while (r->first != NULL)
		batch_fail(queue_pop(r), KOVA_ECLOSED);
	redis_store_close(r->store, on_store_closed, r);
	uv_close((uv_handle_t *)&r->after_poll, on_handle_closed);
	uv_close((uv_handle_t *)&r->before_poll, on_handle_closed);
}
