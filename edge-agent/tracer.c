/*
 * The happy path: tracer_take() → (TRACER_BATCH spans, or a second) → send() → on_sent() → the next. One message is on its way at a
 * time. Failures: on_sent() keeps a message that was not taken, and the timer sends it again, until a minute is over or the tracer
 * closes; each span ends in exactly one counter.
 *
 * The lock is held for the few instructions that put a list of spans to the end of the queue, or take all of it.
 */
#include "tracer.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/backoff.h"
#include "core/version.h"
#include "io/log.h"
#include "io/otlp_post.h"
#include "io/otlp_trace.h"

enum { GATHER_MS = 1000, KEEP_MS = 60000, AGAIN_MIN_MS = 1000, AGAIN_MAX_MS = 30000 };

struct tracer {
	uv_loop_t *loop;
	struct otlp_post *post;
	struct otlp_resource from;
	uint32_t sample;
	unsigned queue_max;
	uv_async_t wake;
	uv_timer_t timer; /* sends: a batch that is not full, or what was not taken */
	unsigned handles;
	struct buf message; /* on its way, or to be sent again */
	unsigned n_sent;    /* spans in it; 0: there is none */
	bool sending;
	uint64_t keep_until_ms; /* loop ms; of the message */
	struct backoff backoff;
	bool resting;       /* until the timer: the collector took nothing */
	bool failing;       /* the log says so */
	struct span *taken; /* off the queue, in order, for the next messages */
	uint64_t exported, rejected, failed;
	bool closing;
	uint64_t close_until_ms;
	void (*on_closed)(void *data);
	void *closed_data;

	pthread_mutex_t lock; /* of the rest */
	struct span *first, *last;
	unsigned n; /* with those that are `taken` */
	uint64_t dropped;
};

/* ---- Spans ---- */

struct span *span_new(void)
{
	return calloc(1, sizeof(struct span));
}

void span_free(struct span *s)
{
	if (s != NULL)
		free(s->trace_state);
	free(s);
}

static void spans_free(struct span *s)
{
	while (s != NULL) {
		struct span *next = s->next;

		span_free(s);
		s = next;
	}
}

/* ---- The queue ---- */

uint32_t tracer_sample(const struct tracer *t)
{
	return t->sample;
}

void tracer_take(struct tracer *t, struct span *first, struct span *last, unsigned n)
{
	pthread_mutex_lock(&t->lock);
	unsigned before = t->n;
	bool fits = n <= t->queue_max - t->n;

	if (fits) {
		*(t->first == NULL ? &t->first : &t->last->next) = first;
		t->last = last;
		t->n += n;
	} else {
		t->dropped += n;
	}
	pthread_mutex_unlock(&t->lock);
	if (!fits)
		spans_free(first);
	else if (before == 0 || (before < TRACER_BATCH && before + n >= TRACER_BATCH))
		uv_async_send(&t->wake);
}

static void take_all(struct tracer *t)
{
	pthread_mutex_lock(&t->lock);
	t->taken = t->first;
	t->first = t->last = NULL;
	pthread_mutex_unlock(&t->lock);
}

/* The next spans, a list that ends with NULL. */
static struct span *take_batch(struct tracer *t, unsigned *ret_n)
{
	struct span *first, **end = &first;
	unsigned n = 0;

	if (t->taken == NULL)
		take_all(t);
	for (first = t->taken; n < TRACER_BATCH && *end != NULL; n++)
		end = &(*end)->next;
	t->taken = *end;
	*end = NULL;
	pthread_mutex_lock(&t->lock);
	t->n -= n;
	pthread_mutex_unlock(&t->lock);
	*ret_n = n;
	return first;
}

static unsigned queue_len(struct tracer *t)
{
	pthread_mutex_lock(&t->lock);
	unsigned n = t->n;

	pthread_mutex_unlock(&t->lock);
	return n;
}

struct tracer_counters tracer_counters(struct tracer *t)
{
	pthread_mutex_lock(&t->lock);
	struct tracer_counters c = {.exported = t->exported,
				    .rejected = t->rejected,
				    .failed = t->failed,
				    .dropped = t->dropped,
				    .queued = t->n + t->n_sent};

	pthread_mutex_unlock(&t->lock);
	return c;
}

/* ---- The end ---- */

static void tracer_free(struct tracer *t)
{
	spans_free(t->taken);
	spans_free(t->first);
	buf_release(&t->message);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static void part_closed(struct tracer *t)
{
	void (*on_closed)(void *) = t->on_closed;
	void *data = t->closed_data;

	if (--t->handles > 0)
		return;
	tracer_free(t);
	if (on_closed != NULL)
		on_closed(data);
}

static void on_handle_closed(uv_handle_t *h)
{
	part_closed(h->data);
}

static void on_post_closed(void *data)
{
	part_closed(data);
}

static void end(struct tracer *t)
{
	uint64_t lost = t->n_sent + queue_len(t);

	if (lost > 0)
		log_event(LOG_WARN, "traces_lost", "the agent ends before its last spans are sent",
			  LOG_INT_FIELD("spans", (int64_t)lost));
	uv_close((uv_handle_t *)&t->wake, on_handle_closed);
	uv_close((uv_handle_t *)&t->timer, on_handle_closed);
	otlp_post_close(t->post, on_post_closed, t);
}

/* ---- Sending ---- */

static void on_sent(const struct otlp_answer *answer, void *data);

static void message_end(struct tracer *t, uint64_t *counter)
{
	*counter += t->n_sent;
	t->n_sent = 0;
	buf_clear(&t->message);
}

static uint64_t time_left(const struct tracer *t)
{
	uint64_t now = uv_now(t->loop);

	if (!t->closing)
		return UINT64_MAX;
	return t->close_until_ms > now ? t->close_until_ms - now : 1;
}

static void message_send(struct tracer *t)
{
	t->sending = otlp_post_send(t->post, buf_slice(&t->message), time_left(t), on_sent, t);
	if (!t->sending)
		message_end(t, &t->failed);
}

static bool message_make(struct tracer *t)
{
	struct span *spans = take_batch(t, &t->n_sent);

	if (t->n_sent == 0)
		return false;
	if (otlp_trace_write(&t->from, spans, t->n_sent, &t->message) != KOVA_OK) {
		buf_release(&t->message);
		message_end(t, &t->failed);
	}
	spans_free(spans);
	t->keep_until_ms = uv_now(t->loop) + KEEP_MS;
	return t->n_sent > 0;
}

static void next(struct tracer *t);

static void on_timer(uv_timer_t *h)
{
	struct tracer *t = h->data;

	t->resting = false;
	if (t->n_sent > 0 || message_make(t))
		message_send(t);
	if (t->sending)
		return;
	if (t->closing)
		end(t);
	else
		next(t);
}

/* Nothing is on its way, and nothing waits to be sent again. */
static void next(struct tracer *t)
{
	unsigned n = queue_len(t);

	if (n >= TRACER_BATCH || t->closing)
		uv_timer_start(&t->timer, on_timer, 0, 0);
	else if (n > 0 && !uv_is_active((uv_handle_t *)&t->timer))
		uv_timer_start(&t->timer, on_timer, GATHER_MS, 0);
}

static void on_wake(uv_async_t *h)
{
	struct tracer *t = h->data;

	if (t->n_sent == 0 && !t->resting && !t->closing)
		next(t);
}

static uint64_t pause_ms(struct tracer *t, const struct otlp_answer *answer)
{
	uint64_t asked_ms = answer->has_retry_after ? (answer->retry_after_us + 999) / 1000 : 0;
	uint64_t own_ms = backoff_next(&t->backoff);

	return !answer->has_retry_after ? own_ms : asked_ms < KEEP_MS ? asked_ms : KEEP_MS;
}

static void say_failing(struct tracer *t, const struct otlp_answer *answer)
{
	if (!t->failing)
		log_event(LOG_WARN, "traces_not_taken",
			  answer->status > 0 ? "the collector does not take the agent's spans"
					     : "the collector of spans does not answer",
			  LOG_INT_FIELD("status", answer->status));
	t->failing = true;
}

static void not_now(struct tracer *t, const struct otlp_answer *answer)
{
	uint64_t pause = pause_ms(t, answer), now = uv_now(t->loop);

	say_failing(t, answer);
	if (t->closing && now + pause >= t->close_until_ms) {
		end(t);
		return;
	}
	if (now >= t->keep_until_ms)
		message_end(t, &t->failed);
	t->resting = true;
	uv_timer_start(&t->timer, on_timer, pause, 0);
}

static void taken(struct tracer *t, const struct otlp_answer *answer)
{
	uint64_t rejected = otlp_trace_rejected(answer->body);

	if (rejected > t->n_sent)
		rejected = t->n_sent;
	t->rejected += rejected;
	t->n_sent -= (unsigned)rejected;
	message_end(t, &t->exported);
	if (t->failing)
		log_event(LOG_INFO, "traces_taken", "the collector takes the agent's spans again");
	t->failing = false;
}

static void on_sent(const struct otlp_answer *answer, void *data)
{
	struct tracer *t = data;

	t->sending = false;
	if (answer->end == OTLP_TRY_AGAIN) {
		not_now(t, answer);
		return;
	}
	backoff_reset(&t->backoff);
	if (answer->end == OTLP_TAKEN) {
		taken(t, answer);
	} else {
		say_failing(t, answer);
		message_end(t, &t->failed);
	}
	next(t);
}

/* ---- Life ---- */

static bool open_handles(struct tracer *t, uv_loop_t *loop)
{
	if (uv_async_init(loop, &t->wake, on_wake) != 0)
		return false;
	uv_timer_init(loop, &t->timer);
	t->wake.data = t->timer.data = t;
	t->handles = 3; /* with the post */
	return true;
}

struct tracer *tracer_new(uv_loop_t *loop, const struct edge_conf *conf)
{
	static const char *const none[] = {NULL};
	const struct tracing_conf *c = &conf->tracing;
	const struct otlp_target target = {
		.url = c->endpoint,
		.fields = c->headers != NULL ? (const char *const *)c->headers : none,
		.timeout_ms = c->timeout_ms};
	struct tracer *t = calloc(1, sizeof *t);

	if (t == NULL)
		return NULL;
	t->loop = loop;
	t->from = (struct otlp_resource){"kova-agent", KOVA_VERSION, conf->node, conf->region};
	t->sample = c->sample;
	t->queue_max = c->queue;
	backoff_init(&t->backoff, AGAIN_MIN_MS, AGAIN_MAX_MS, (uint64_t)(uintptr_t)t | 1);
	pthread_mutex_init(&t->lock, NULL);
	t->post = otlp_post_new(loop, &target);
	if (t->post == NULL) {
		tracer_free(t);
		return NULL;
	}
	if (!open_handles(t, loop)) {
		t->handles = 1;
		otlp_post_close(t->post, on_post_closed, t);
		return NULL;
	}
	return t;
}

static void on_late(uv_timer_t *h)
{
	end(h->data);
}

void tracer_close(struct tracer *t, void (*on_closed)(void *data), void *data)
{
	if (t == NULL) {
		on_closed(data);
		return;
	}
	t->on_closed = on_closed;
	t->closed_data = data;
	t->closing = true;
	t->close_until_ms = uv_now(t->loop) + TRACER_CLOSE_MS;
	if (t->sending)
		uv_timer_start(&t->timer, on_late, TRACER_CLOSE_MS, 0);
	else
		uv_timer_start(&t->timer, on_timer, 0, 0);
}
