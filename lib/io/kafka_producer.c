/*
 * librdkafka has threads of its own and a queue of events, which makes an eventfd readable when it ceases to be empty. The loop
 * watches that, takes the events, and tells what became of the records in them, some a turn: while there are more, an idle
 * handle keeps the loop turning. Every record ends in on_fate, once: by an event, or by the purge before a client is
 * destroyed.
 *
 * A client that librdkafka gives up (a "fatal" error: the brokers refuse the producer, or its sequence of records) is purged
 * and destroyed, in a thread since that waits for threads, and a new one takes its place a little later.
 *
 *   open ──close, or a fatal error──▶ emptying ──nothing pending, or late──▶ purging ──all told──▶ destroying ──▶ open, or gone
 */
#include "io/kafka_producer.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/log.h"

enum { TOLD_A_TURN = 256, POLL_MS = 10, REOPEN_MS = 1000, HANDLES = 3 };

enum step { PRODUCER_OPEN, PRODUCER_EMPTYING, PRODUCER_PURGING, PRODUCER_DESTROYING };

struct kafka_producer {
	uv_loop_t *loop;
	const struct kafka_conf *conf;
	char *client_id;
	struct kafka_producer_events events;
	rd_kafka_t *client; /* NULL: destroyed */
	rd_kafka_queue_t *queue;
	rd_kafka_event_t *event; /* some of it is told */
	int fd;                  /* the queue is not empty any more */
	uv_poll_t poll;
	uv_idle_t idle;   /* there is more to tell */
	uv_timer_t timer; /* emptying: is nothing pending? */
	uv_work_t work;
	unsigned handles;
	enum step step;
	bool closing;
	unsigned pending;
	uint64_t until_ms;
	struct kafka_producer_counters counters;
	void (*on_closed)(void *data);
	void *closed_data;
};

static void empty(struct kafka_producer *p, uint64_t timeout_ms);

/* ---- The client ---- */

/* A record waits for its brokers however long they are away; everything else is tried again soon. */
static const struct {
	const char *name, *value;
} settings[] = {
	{"enable.idempotence", "true"},       {"message.timeout.ms", "0"},
	{"compression.codec", "lz4"},         {"socket.timeout.ms", "10000"},
	{"reconnect.backoff.max.ms", "1000"}, {"log.connection.close", "false"},
};

static rd_kafka_conf_t *client_conf(const struct kafka_producer *p, struct buf *ret_error)
{
	rd_kafka_conf_t *conf = kafka_conf_client(p->conf, p->client_id, ret_error);
	char records[16], kbytes[16];
	bool ok = conf != NULL;

	snprintf(records, sizeof records, "%d", KAFKA_QUEUE_RECORDS);
	snprintf(kbytes, sizeof kbytes, "%d", KAFKA_QUEUE_KBYTES);
	for (size_t i = 0; ok && i < sizeof settings / sizeof settings[0]; i++)
		ok = kafka_conf_set(conf, settings[i].name, settings[i].value, ret_error);
	ok = ok && kafka_conf_set(conf, "queue.buffering.max.messages", records, ret_error) &&
	     kafka_conf_set(conf, "queue.buffering.max.kbytes", kbytes, ret_error);
	if (ok) {
		rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
		return conf;
	}
	if (conf != NULL)
		rd_kafka_conf_destroy(conf);
	return NULL;
}

static bool open_client(struct kafka_producer *p, struct buf *ret_error)
{
	static const uint64_t one = 1;
	rd_kafka_conf_t *conf = client_conf(p, ret_error);
	char why[512] = "";

	if (conf == NULL)
		return false;
	p->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
	if (p->client == NULL) {
		rd_kafka_conf_destroy(conf);
		buf_add_text(ret_error, why);
		return false;
	}
	p->queue = rd_kafka_queue_get_main(p->client);
	rd_kafka_queue_io_event_enable(p->queue, p->fd, &one, sizeof one);
	p->step = PRODUCER_OPEN;
	return true;
}

/* ---- What became of the records ---- */

static void set_up(struct kafka_producer *p, bool up)
{
	if (p->counters.up == up)
		return;
	p->counters.up = up;
	if (up)
		log_event(LOG_INFO, "kafka_up", "what waited is being published");
	else
		log_event(LOG_WARN, "kafka_down",
			  "no broker takes anything: what is to be published waits");
	if (p->events.on_up != NULL && !p->closing)
		p->events.on_up(up, p->events.data);
}

static void on_error(struct kafka_producer *p, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t error = rd_kafka_event_error(event);
	bool fatal = rd_kafka_event_error_is_fatal(event);

	if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
		set_up(p, false);
		return;
	}
	log_event(fatal ? LOG_ERROR : LOG_WARN, "kafka_error", rd_kafka_event_error_string(event),
		  LOG_TEXT_FIELD("code", rd_kafka_err2name(error)));
	if (fatal && p->step == PRODUCER_OPEN) {
		empty(p, 0);
		set_up(p, false);
	}
}

static enum kafka_fate fate_of(rd_kafka_resp_err_t error)
{
	switch (error) {
	case RD_KAFKA_RESP_ERR_NO_ERROR:
		return KAFKA_DELIVERED;
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
	case RD_KAFKA_RESP_ERR_INVALID_RECORD:
	case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
	case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
		return KAFKA_REFUSED;
	default:
		return KAFKA_LOST;
	}
}

static void tell(struct kafka_producer *p, const rd_kafka_message_t *m)
{
	enum kafka_fate fate = fate_of(m->err);
	bool delivered = fate == KAFKA_DELIVERED;

	p->pending--;
	if (delivered)
		p->counters.delivered++;
	else
		p->counters.failed++;
	if (delivered)
		set_up(p, true);
	if (!delivered && p->step == PRODUCER_OPEN)
		log_event(LOG_WARN, "kafka_refused", rd_kafka_err2str(m->err),
			  LOG_TEXT_FIELD("topic", rd_kafka_topic_name(m->rkt)));
	p->events.on_fate(rd_kafka_topic_name(m->rkt), m->_private, fate, p->events.data);
}

/* Tells of at most `n` records; the number that is left of it. */
static unsigned tell_some(struct kafka_producer *p, unsigned n)
{
	while (n > 0) {
		const rd_kafka_message_t *m;

		if (p->event == NULL)
			p->event = rd_kafka_queue_poll(p->queue, 0);
		if (p->event == NULL)
			break;
		m = rd_kafka_event_message_next(p->event);
		if (m != NULL) {
			tell(p, m);
			n--;
			continue;
		}
		if (rd_kafka_event_type(p->event) == RD_KAFKA_EVENT_ERROR)
			on_error(p, p->event);
		rd_kafka_event_destroy(p->event);
		p->event = NULL;
	}
	return n;
}

static void on_idle(uv_idle_t *idle);

static void serve(struct kafka_producer *p)
{
	if (p->client == NULL || p->step == PRODUCER_DESTROYING)
		return;
	if (tell_some(p, TOLD_A_TURN) > 0)
		uv_idle_stop(&p->idle);
	else
		uv_idle_start(&p->idle, on_idle);
}

static void on_idle(uv_idle_t *idle)
{
	serve(idle->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct kafka_producer *p = poll->data;
	uint64_t times;

	(void)status;
	(void)events;
	if (read(p->fd, &times, sizeof times) > 0)
		serve(p);
}

/* ---- Ending a client ---- */

static void on_handle_closed(uv_handle_t *h)
{
	struct kafka_producer *p = h->data;

	if (--p->handles > 0)
		return;
	void (*on_closed)(void *) = p->on_closed;
	void *data = p->closed_data;

	close(p->fd);
	free(p->client_id);
	free(p);
	if (on_closed != NULL)
		on_closed(data);
}

static void close_handles(struct kafka_producer *p)
{
	uv_close((uv_handle_t *)&p->poll, on_handle_closed);
	uv_close((uv_handle_t *)&p->idle, on_handle_closed);
	uv_close((uv_handle_t *)&p->timer, on_handle_closed);
}

static void on_reopen_timer(uv_timer_t *t)
{
	struct kafka_producer *p = t->data;
	struct buf error = {0};

	if (!open_client(p, &error)) {
		log_event(LOG_ERROR, "kafka_error", "there can be no client just now");
		uv_timer_start(&p->timer, on_reopen_timer, REOPEN_MS, 0);
	} else {
		uv_idle_start(&p->idle, on_idle);
	}
	buf_release(&error);
}

static void destroy(uv_work_t *work)
{
	struct kafka_producer *p = work->data;

	rd_kafka_destroy(p->client);
}

static void on_destroyed(uv_work_t *work, int cancelled)
{
	struct kafka_producer *p = work->data;

	(void)cancelled; /* nobody cancels */
	p->client = NULL;
	if (p->closing)
		close_handles(p);
	else
		uv_timer_start(&p->timer, on_reopen_timer, REOPEN_MS, 0);
}

/* Nothing is pending: the client can go. */
static void end_client(struct kafka_producer *p)
{
	p->step = PRODUCER_DESTROYING;
	uv_timer_stop(&p->timer);
	uv_idle_stop(&p->idle);
	if (p->event != NULL)
		rd_kafka_event_destroy(p->event);
	p->event = NULL;
	rd_kafka_queue_io_event_enable(p->queue, -1, NULL, 0);
	rd_kafka_queue_destroy(p->queue);
	p->work.data = p;
	int r = uv_queue_work(p->loop, &p->work, destroy, on_destroyed);

	assert(r == 0); /* it fails only without a callback */
	(void)r;
}

static void on_empty_timer(uv_timer_t *t)
{
	struct kafka_producer *p = t->data;

	serve(p);
	if (p->pending == 0) {
		end_client(p);
	} else if (p->step == PRODUCER_EMPTYING && uv_now(p->loop) >= p->until_ms) {
		p->step = PRODUCER_PURGING;
		rd_kafka_purge(p->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	}
}

static void empty(struct kafka_producer *p, uint64_t timeout_ms)
{
	p->step = PRODUCER_EMPTYING;
	p->until_ms = uv_now(p->loop) + timeout_ms;
	uv_timer_start(&p->timer, on_empty_timer, 0, POLL_MS);
}

void kafka_producer_close(struct kafka_producer *p, uint64_t timeout_ms,
			  void (*on_closed)(void *data), void *data)
{
	assert(!p->closing);
	p->closing = true;
	p->on_closed = on_closed;
	p->closed_data = data;
	if (p->client == NULL)
		close_handles(p);
	else if (p->step == PRODUCER_OPEN)
		empty(p, timeout_ms);
}

/* ---- Beginning, producing ---- */

static void open_handles(struct kafka_producer *p)
{
	uv_idle_init(p->loop, &p->idle);
	uv_timer_init(p->loop, &p->timer);
	p->poll.data = p->idle.data = p->timer.data = p;
	p->handles = HANDLES;
	uv_poll_start(&p->poll, UV_READABLE, on_readable);
	/* What came before the queue had the eventfd has not woken anybody. */
	uv_idle_start(&p->idle, on_idle);
}

struct kafka_producer *kafka_producer_new(uv_loop_t *loop, const struct kafka_conf *conf,
					  const char *client_id,
					  const struct kafka_producer_events *events,
					  struct buf *ret_error)
{
	struct kafka_producer *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->loop = loop;
	p->conf = conf;
	p->events = *events;
	p->counters.up = true;
	p->client_id = strdup(client_id);
	p->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (p->client_id != NULL && p->fd >= 0 && open_client(p, ret_error)) {
		if (uv_poll_init(loop, &p->poll, p->fd) == 0) {
			open_handles(p);
			return p;
		}
		rd_kafka_queue_destroy(p->queue);
		rd_kafka_destroy(p->client);
	}
	if (p->fd >= 0)
		close(p->fd);
	free(p->client_id);
	free(p);
	return NULL;
}

static rd_kafka_headers_t *headers_of(const struct kafka_record *r)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(r->n_headers);

	for (unsigned i = 0; headers != NULL && i < r->n_headers; i++) {
		const struct kafka_header *h = &r->headers[i];

		if (rd_kafka_header_add(headers, h->name, -1, h->value.ptr,
					(ssize_t)h->value.len) != RD_KAFKA_RESP_ERR_NO_ERROR) {
			rd_kafka_headers_destroy(headers);
			return NULL;
		}
	}
	return headers;
}

kova_status kafka_produce(struct kafka_producer *p, const struct kafka_record *r)
{
	rd_kafka_headers_t *headers;

	assert(r->opaque != NULL && !p->closing);
	if (p->step != PRODUCER_OPEN || p->client == NULL || (headers = headers_of(r)) == NULL)
		return KOVA_AGAIN;
	const rd_kafka_vu_t fields[] = {
		{RD_KAFKA_VTYPE_TOPIC, .u.cstr = r->topic},
		{RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)r->key.ptr, r->key.len}},
		{RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)r->value.ptr, r->value.len}},
		{RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
		{RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
		{RD_KAFKA_VTYPE_OPAQUE, .u.ptr = r->opaque},
	};
	rd_kafka_error_t *e =
		rd_kafka_produceva(p->client, fields, sizeof fields / sizeof fields[0]);
	rd_kafka_resp_err_t error = rd_kafka_error_code(e);

	rd_kafka_error_destroy(e);
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
		p->pending++;
		return KOVA_OK;
	}
	rd_kafka_headers_destroy(headers);
	return error == RD_KAFKA_RESP_ERR__QUEUE_FULL || error == RD_KAFKA_RESP_ERR__FATAL
		       ? KOVA_AGAIN
		       : KOVA_EIO;
}

unsigned kafka_producer_pending(const struct kafka_producer *p)
{
	return p->pending;
}

struct kafka_producer_counters kafka_producer_counters(const struct kafka_producer *p)
{
	return p->counters;
}
