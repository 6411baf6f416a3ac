/*
 * librdkafka fetches in threads of its own into a queue, which makes an eventfd readable when it ceases to be empty (as
 * kafka_producer.c has it); the loop takes some records a turn. How many partitions there are is asked in a thread, again
 * and again: more may be added, or the topic made. Each is read from its beginning, or from its tail.
 *
 *   open ──ask for partitions──▶ some are new: read them ──▶ … ──▶ ask again
 *   close: the question under way comes back, the client is destroyed in a thread, the handles are closed
 */
#include "io/kafka_consumer.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/log.h"

enum {
	TAKEN_A_TURN = 256,
	ASK_TIMEOUT_MS = 2000,
	ASK_AGAIN_MS = 1000,  /* there is no topic, or no answer */
	ASK_OFTEN_MS = 30000, /* whether there are more partitions */
	HANDLES = 3,
};

struct kafka_consumer {
	uv_loop_t *loop;
	const char *topic_name;
	unsigned tail;
	struct kafka_consumer_events events;
	rd_kafka_t *client;
	rd_kafka_topic_t *topic;
	rd_kafka_queue_t *queue, *main_queue;
	int fd; /* the queue is not empty any more */
	uv_poll_t poll;
	uv_idle_t idle;   /* there is more to take */
	uv_timer_t timer; /* until the partitions are asked for again */
	uv_work_t work;   /* asking, destroying */
	bool working, closing;
	unsigned handles;
	int asked;     /* partitions: the answer; −1: there was none */
	int n;         /* partitions that are read */
	int n_at_end;  /* of those that were there first */
	bool *at_end;  /* owned; of each of n */
	bool is_known; /* the brokers have said which partitions there are */
	struct kafka_consumer_counters counters;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- The client ---- */

static const struct {
	const char *name, *value;
} settings[] = {
	{"isolation.level", "read_committed"},  {"auto.offset.reset", "earliest"},
	{"enable.partition.eof", "true"},       {"allow.auto.create.topics", "false"},
	{"queued.max.messages.kbytes", "8192"}, {"socket.timeout.ms", "10000"},
	{"reconnect.backoff.max.ms", "1000"},   {"log.connection.close", "false"},
};

static bool open_client(struct kafka_consumer *c, const struct kafka_conf *kafka,
			const char *client_id, struct buf *ret_error)
{
	static const uint64_t one = 1;
	rd_kafka_conf_t *conf = kafka_conf_client(kafka, client_id, ret_error);
	char why[512] = "";
	bool ok = conf != NULL;

	for (size_t i = 0; ok && i < sizeof settings / sizeof settings[0]; i++)
		ok = kafka_conf_set(conf, settings[i].name, settings[i].value, ret_error);
	if (ok) {
		rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_ERROR);
		c->client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
	}
	if (c->client == NULL) {
		if (conf != NULL)
			rd_kafka_conf_destroy(conf);
		buf_add_text(ret_error, why);
		return false;
	}
	c->topic = rd_kafka_topic_new(c->client, c->topic_name, NULL);
	c->queue = rd_kafka_queue_new(c->client);
	c->main_queue = rd_kafka_queue_get_main(c->client);
	rd_kafka_queue_forward(c->main_queue, c->queue);
	rd_kafka_queue_io_event_enable(c->queue, c->fd, &one, sizeof one);
	return c->topic != NULL;
}

/* In a thread: it waits for threads of the client. */
static void destroy_client(struct kafka_consumer *c)
{
	if (c->client == NULL)
		return;
	for (int i = 0; i < c->n; i++)
		rd_kafka_consume_stop(c->topic, i);
	rd_kafka_queue_io_event_enable(c->queue, -1, NULL, 0);
	rd_kafka_queue_forward(c->main_queue, NULL);
	rd_kafka_queue_destroy(c->main_queue);
	rd_kafka_queue_destroy(c->queue);
	if (c->topic != NULL)
		rd_kafka_topic_destroy(c->topic);
	rd_kafka_destroy(c->client);
}

/* ---- Partitions ---- */

static void ask(uv_work_t *work)
{
	struct kafka_consumer *c = work->data;
	const struct rd_kafka_metadata *m = NULL;

	c->asked = -1;
	if (rd_kafka_metadata(c->client, 0, c->topic, &m, ASK_TIMEOUT_MS) !=
	    RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	const struct rd_kafka_metadata_topic *t = m->topic_cnt == 1 ? m->topics : NULL;

	if (t != NULL && t->err == RD_KAFKA_RESP_ERR_NO_ERROR)
		c->asked = t->partition_cnt;
	else if (t != NULL && t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
		c->asked = 0;
	rd_kafka_metadata_destroy(m);
}

/* False: out of memory, or the client can't. */
static bool read_partition(struct kafka_consumer *c)
{
	const int64_t from =
		c->tail == 0 ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_TAIL((int64_t)c->tail);
	bool *at_end = realloc(c->at_end, (size_t)(c->n + 1) * sizeof *at_end);

	if (at_end == NULL)
		return false;
	c->at_end = at_end;
	at_end[c->n] = false;
	if (rd_kafka_consume_start_queue(c->topic, c->n, from, c->queue) != 0)
		return false;
	c->n++;
	return true;
}

static void catch_up(struct kafka_consumer *c)
{
	if (c->counters.caught_up || !c->is_known || c->n_at_end < c->n)
		return;
	c->counters.caught_up = true;
	if (c->events.on_caught_up != NULL)
		c->events.on_caught_up(c->events.data);
}

static void close_handles(struct kafka_consumer *c);
static void on_ask_timer(uv_timer_t *t);

static void on_asked(uv_work_t *work, int cancelled)
{
	struct kafka_consumer *c = work->data;
	bool all = true;

	(void)cancelled; /* nobody cancels */
	c->working = false;
	if (c->closing) {
		close_handles(c);
		return;
	}
	while (all && c->n < c->asked)
		all = read_partition(c);
	c->is_known = c->is_known || (c->asked >= 0 && all);
	catch_up(c);
	uv_timer_start(&c->timer, on_ask_timer, c->asked > 0 && all ? ASK_OFTEN_MS : ASK_AGAIN_MS,
		       0);
}

static void work(struct kafka_consumer *c, uv_work_cb in_thread, uv_after_work_cb after)
{
	c->working = true;
	c->work.data = c;
	int r = uv_queue_work(c->loop, &c->work, in_thread, after);

	assert(r == 0); /* it fails only without a callback */
	(void)r;
}

static void on_ask_timer(uv_timer_t *t)
{
	work(t->data, ask, on_asked);
}

/* ---- Records ---- */

static void reach_end(struct kafka_consumer *c, int partition)
{
	if (c->counters.caught_up || partition < 0 || partition >= c->n || c->at_end[partition])
		return;
	c->at_end[partition] = true;
	c->n_at_end++;
	catch_up(c);
}

static void on_error(struct kafka_consumer *c, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t error = rd_kafka_event_error(event);

	if (error == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
		rd_kafka_topic_partition_t *p = rd_kafka_event_topic_partition(event);

		if (p != NULL)
			reach_end(c, p->partition);
		rd_kafka_topic_partition_destroy(p);
		return;
	}
	c->counters.errors++;
	/* Those who can't reach their brokers say so often enough: the producer tells when it begins. */
	if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && error != RD_KAFKA_RESP_ERR__TRANSPORT)
		log_event(LOG_WARN, "kafka_error", rd_kafka_event_error_string(event),
			  LOG_TEXT_FIELD("code", rd_kafka_err2name(error)),
			  LOG_TEXT_FIELD("topic", c->topic_name));
}

static void take(struct kafka_consumer *c, const rd_kafka_message_t *m)
{
	if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
		if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
			reach_end(c, m->partition);
		return;
	}
	const struct kafka_consumed r = {.key = {m->key, m->key_len},
					 .value = {m->payload, m->len},
					 .timestamp_ms = rd_kafka_message_timestamp(m, NULL)};

	c->counters.records++;
	c->events.on_record(&r, c->events.data);
}

/* Takes at most `n` events; whether there may be more. */
static bool take_some(struct kafka_consumer *c, unsigned n)
{
	for (; n > 0 && !c->closing; n--) {
		rd_kafka_event_t *event = rd_kafka_queue_poll(c->queue, 0);
		const rd_kafka_message_t *m;

		if (event == NULL)
			return false;
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			on_error(c, event);
		while ((m = rd_kafka_event_message_next(event)) != NULL)
			take(c, m);
		rd_kafka_event_destroy(event);
	}
	return true;
}

static void on_idle(uv_idle_t *idle);

static void serve(struct kafka_consumer *c)
{
	if (c->closing)
		return;
	if (!take_some(c, TAKEN_A_TURN))
		uv_idle_stop(&c->idle);
	else if (!c->closing)
		uv_idle_start(&c->idle, on_idle);
}

static void on_idle(uv_idle_t *idle)
{
	serve(idle->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct kafka_consumer *c = poll->data;
	uint64_t times;

	(void)status;
	(void)events;
	if (read(c->fd, &times, sizeof times) > 0)
		serve(c);
}

/* ---- Life ---- */

static void on_handle_closed(uv_handle_t *h)
{
	struct kafka_consumer *c = h->data;

	if (--c->handles > 0)
		return;
	void (*on_closed)(void *) = c->on_closed;
	void *data = c->closed_data;

	close(c->fd);
	free(c->at_end);
	free(c);
	if (on_closed != NULL)
		on_closed(data);
}

static void destroy(uv_work_t *work)
{
	destroy_client(work->data);
}

static void on_destroyed(uv_work_t *work, int cancelled)
{
	struct kafka_consumer *c = work->data;

	(void)cancelled; /* nobody cancels */
	uv_close((uv_handle_t *)&c->poll, on_handle_closed);
	uv_close((uv_handle_t *)&c->idle, on_handle_closed);
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

/* Nobody else uses the client: it goes first, for it writes to what the handles watch. */
static void close_handles(struct kafka_consumer *c)
{
	work(c, destroy, on_destroyed);
}

void kafka_consumer_close(struct kafka_consumer *c, void (*on_closed)(void *data), void *data)
{
	if (c == NULL) {
		if (on_closed != NULL)
			on_closed(data);
		return;
	}
	assert(!c->closing);
	c->closing = true;
	c->on_closed = on_closed;
	c->closed_data = data;
	uv_idle_stop(&c->idle);
	uv_poll_stop(&c->poll);
	uv_timer_stop(&c->timer);
	if (!c->working)
		close_handles(c);
}

static void open_handles(struct kafka_consumer *c)
{
	uv_idle_init(c->loop, &c->idle);
	uv_timer_init(c->loop, &c->timer);
	c->poll.data = c->idle.data = c->timer.data = c;
	c->handles = HANDLES;
	uv_poll_start(&c->poll, UV_READABLE, on_readable);
	/* What came before the queue had the eventfd has not woken anybody. */
	uv_idle_start(&c->idle, on_idle);
	work(c, ask, on_asked);
}

struct kafka_consumer *kafka_consumer_new(uv_loop_t *loop, const struct kafka_conf *conf,
					  const char *client_id, const char *topic, unsigned tail,
					  const struct kafka_consumer_events *events,
					  struct buf *ret_error)
{
	struct kafka_consumer *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	c->loop = loop;
	c->topic_name = topic;
	c->tail = tail;
	c->events = *events;
	c->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->fd >= 0 && open_client(c, conf, client_id, ret_error) &&
	    uv_poll_init(loop, &c->poll, c->fd) == 0) {
		open_handles(c);
		return c;
	}
	destroy_client(c);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
	return NULL;
}

struct kafka_consumer_counters kafka_consumer_counters(const struct kafka_consumer *c)
{
	return c->counters;
}
