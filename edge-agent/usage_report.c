/*
 * Each loop counts into its feed. A report is a tour, on which each loop exchanges its feed's tallies; then, back on the owner's
 * loop and some a turn, what the loops handed over is added to the agent's tally (`sums`), and what has changed in that is
 * produced. A record that is delivered settles its counter; one that is not, and one that changed meanwhile, is produced again
 * with the next report. While Kafka is away a counter has at most one record in the queue, and goes on counting.
 *
 *   resting ──timer──▶ touring ──home──▶ adding ──all added──▶ sending ──none left, or the queue is full──▶ resting
 *
 * At the end there is no tour: what the loops have left is theirs no more, and is sent until it has arrived or the time is up.
 */
#include "usage_report.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include <kova_usage.pb-c.h>

#include "agent.h"
#include "core/name.h"
#include "core/tally.h"
#include "engine_life.h"
#include "io/clock.h"
#include "io/log.h"
#include "skew_watch.h"
#include "tour.h"
#include "usage_children.h"
#include "usage_feed.h"

enum {
	ADDED_A_TURN = 256,
	SENT_A_TURN = 64,
	CLOSE_POLL_MS = 10,
	KEY_BYTES_MAX = 64 + 1 + 1024,
	HLC_TEXT_MAX = 24,
};

enum step { REPORT_RESTING, REPORT_TOURING, REPORT_ADDING, REPORT_SENDING };

struct usage_report {
	struct tour tour; /* first */
	uv_loop_t *loop;
	struct agent *owner; /* NULL: not started */
	struct kafka_producer *producer;
	struct hlc *hlc;
	struct usage_source source;
	struct usage_listener listener; /* all zeros: nobody */
	struct usage_children *children;
	struct usage_feed *feeds; /* an array */
	unsigned n_feeds;
	unsigned adding; /* which feed is being emptied */
	struct tally *sums;
	unsigned in_flight;
	bool held_back; /* there was more to send than may be in flight */
	enum step step;
	bool stopped;
	uint64_t overflows; /* of the feeds, once a report */
	uint64_t lost;
	struct skew_watch skews;
	struct buf value;
	uv_timer_t timer;
	uv_idle_t idle; /* adding, sending */
	uint64_t until_ms;
	void (*on_closed)(void *data); /* closing */
	void *closed_data;
};

/* ---- Sending ---- */

static void on_idle(uv_idle_t *idle);

static uint64_t stamp(struct usage_report *r)
{
	return hlc_now(r->hlc, clock_read().wall_us / 1000);
}

static void write_value(struct usage_report *r, const struct tally_entry *e, uint64_t hlc)
{
	const struct tally_key key = tally_entry_key(e);
	const struct tally_counts counts = tally_entry_counts(e);
	char policy[NAME_BYTES_MAX + 1] = "";
	Kova__V1__Usage usage = KOVA__V1__USAGE__INIT;

	memcpy(policy, key.policy.ptr, key.policy.len);
	usage.region = (char *)r->source.region;
	usage.agent = (char *)r->source.agent;
	usage.epoch = r->source.epoch;
	usage.policy = policy;
	usage.root = (ProtobufCBinaryData){.len = key.root.len, .data = (uint8_t *)key.root.ptr};
	usage.other = key.other;
	usage.window = tally_entry_window(e);
	usage.hlc = hlc;
	usage.admitted = counts.admitted;
	usage.refused = counts.refused;
	usage.waited = counts.waited;

	size_t len = kova__v1__usage__get_packed_size(&usage);

	buf_clear(&r->value);
	if (buf_reserve(&r->value, len) != NULL)
		r->value.len = kova__v1__usage__pack(&usage, (uint8_t *)r->value.ptr);
}

static kova_status produce(struct usage_report *r, struct tally_entry *e)
{
	const struct tally_key key = tally_entry_key(e);
	uint64_t hlc = stamp(r);
	char text[KEY_BYTES_MAX], hlc_text[HLC_TEXT_MAX];
	int hlc_len = snprintf(hlc_text, sizeof hlc_text, "%" PRIu64, hlc);
	const struct kafka_header headers[] = {
		{"schema", SLICE(USAGE_TOPIC)},
		{"region", slice_of(r->source.region)},
		{"agent", slice_of(r->source.agent)},
		{"hlc", {hlc_text, (size_t)hlc_len}},
	};
	struct kafka_record record = {.topic = USAGE_TOPIC,
				      .key = {text, key.policy.len},
				      .headers = headers,
				      .n_headers = sizeof headers / sizeof headers[0],
				      .opaque = e};

	write_value(r, e, hlc);
	if (buf_failed(&r->value))
		return KOVA_ENOMEM;
	record.value = buf_slice(&r->value);
	assert(key.policy.len + 1 + key.root.len <= sizeof text);
	memcpy(text, key.policy.ptr, key.policy.len);
	if (!key.other) {
		text[key.policy.len] = '/';
		memcpy(text + key.policy.len + 1, key.root.ptr, key.root.len);
		record.key.len += 1 + key.root.len;
	}
	return kafka_produce(r->producer, &record);
}

/* Whether there may be more to send now. */
static bool send_some(struct usage_report *r)
{
	for (unsigned n = 0; n < SENT_A_TURN; n++) {
		struct tally_entry *e;

		r->held_back = r->in_flight >= USAGE_REPORT_IN_FLIGHT;
		if (r->held_back || (e = tally_next(r->sums)) == NULL)
			return false;
		r->in_flight++;
		if (produce(r, e) != KOVA_OK) {
			usage_report_delivered(r, e, false);
			return false;
		}
	}
	return true;
}

void usage_report_delivered(struct usage_report *r, void *opaque, bool delivered)
{
	if (usage_children_delivered(r->children, opaque))
		return;
	r->in_flight--;
	tally_done(r->sums, opaque, delivered);
	if (delivered && r->held_back && r->step == REPORT_RESTING &&
	    r->in_flight < USAGE_REPORT_IN_FLIGHT / 2) {
		r->step = REPORT_SENDING;
		uv_idle_start(&r->idle, on_idle);
	}
}

/* ---- Adding up ---- */

/* False: all of it is added. */
static bool add_one(struct usage_report *r, struct tally *from)
{
	struct tally_key key;
	struct tally_counts counts;

	if (!tally_take(from, &key, &counts))
		return false;
	r->overflows += key.other;
	if (r->listener.on_asked != NULL && !key.other)
		r->listener.on_asked(key.policy, key.root, counts.admitted + counts.refused,
				     r->listener.data);
	if (!tally_add(r->sums, &key, &counts, stamp(r)))
		r->lost += counts.admitted + counts.refused;
	return true;
}

static void end_feed(struct usage_report *r, struct usage_feed *f)
{
	usage_children_take(r->children, f->handed_children);
	r->lost += f->handed_lost;
	f->handed_lost = 0;
}

/* Whether there is more to add. */
static bool add_some(struct usage_report *r)
{
	for (unsigned n = 0; n < ADDED_A_TURN;) {
		if (r->adding == r->n_feeds)
			return false;
		if (add_one(r, r->feeds[r->adding].handed))
			n++;
		else
			end_feed(r, &r->feeds[r->adding++]);
	}
	return true;
}

static void on_idle(uv_idle_t *idle)
{
	struct usage_report *r = idle->data;

	if (r->step == REPORT_ADDING && !add_some(r)) {
		r->step = REPORT_SENDING;
		if (r->listener.on_round != NULL)
			r->listener.on_round(r->listener.data);
	} else if (r->step == REPORT_SENDING && !send_some(r) &&
		   !usage_children_send(r->children, uv_now(r->loop))) {
		r->step = REPORT_RESTING;
		uv_idle_stop(idle);
	}
}

/* ---- The tour ---- */

static void visit(struct tour *t, struct agent *a)
{
	struct usage_report *r = (struct usage_report *)t;

	if (a->engine != NULL) {
		engine_report_usage(a->engine);
		skew_watch_visit(&r->skews, a);
	}
	usage_feed_swap(a->feed);
}

static void on_home(struct tour *t)
{
	struct usage_report *r = (struct usage_report *)t;

	skew_watch_end(&r->skews, r->owner);
	r->step = REPORT_ADDING;
	r->adding = 0;
	uv_idle_start(&r->idle, on_idle);
}

static void on_timer(uv_timer_t *timer)
{
	struct usage_report *r = timer->data;

	if (r->step != REPORT_RESTING || r->stopped)
		return;
	r->step = REPORT_TOURING;
	tour_start(&r->tour, r->owner, visit, on_home);
}

/* ---- Life ---- */

struct usage_report *usage_report_new(uv_loop_t *loop, struct kafka_producer *producer,
				      struct hlc *hlc, const struct usage_source *source,
				      unsigned loops)
{
	struct usage_report *r = calloc(1, sizeof *r);
	bool ok = r != NULL;

	if (!ok)
		return NULL;
	r->loop = loop;
	r->producer = producer;
	r->hlc = hlc;
	r->source = *source;
	uv_timer_init(loop, &r->timer);
	uv_idle_init(loop, &r->idle);
	r->timer.data = r->idle.data = r;
	r->sums = tally_new(USAGE_REPORT_ROOTS);
	r->children = usage_children_new(producer, hlc, source);
	r->feeds = calloc(loops, sizeof *r->feeds);
	ok = r->sums != NULL && r->children != NULL && r->feeds != NULL;
	for (; ok && r->n_feeds < loops; r->n_feeds++)
		ok = usage_feed_init(&r->feeds[r->n_feeds]);
	if (ok)
		return r;
	usage_report_free(r);
	return NULL;
}

void usage_report_listen(struct usage_report *r, const struct usage_listener *listener)
{
	r->listener = *listener;
}

struct usage_feed *usage_report_feed(struct usage_report *r, unsigned i)
{
	return &r->feeds[i];
}

void usage_report_start(struct usage_report *r, struct agent *owner, uint64_t every_ms)
{
	r->owner = owner;
	uv_timer_start(&r->timer, on_timer, every_ms, every_ms);
}

void usage_report_stop(struct usage_report *r)
{
	r->stopped = true;
	uv_timer_stop(&r->timer);
}

static void on_close_timer(uv_timer_t *timer)
{
	struct usage_report *r = timer->data;

	if (r->step == REPORT_RESTING && tally_unsettled(r->sums) > 0) {
		r->step = REPORT_SENDING;
		uv_idle_start(&r->idle, on_idle);
	}
	if (tally_unsettled(r->sums) > 0 && uv_now(r->loop) < r->until_ms)
		return;
	uv_timer_stop(timer);
	uv_idle_stop(&r->idle);
	if (tally_unsettled(r->sums) > 0)
		log_event(LOG_ERROR, "usage_unpublished",
			  "Kafka did not take the last of the usage in time",
			  LOG_INT_FIELD("counters", (int64_t)tally_unsettled(r->sums)));
	r->on_closed(r->closed_data);
}

void usage_report_close(struct usage_report *r, uint64_t timeout_ms, void (*on_closed)(void *data),
			void *data)
{
	assert(r->stopped && r->step != REPORT_TOURING);
	r->on_closed = on_closed;
	r->closed_data = data;
	r->until_ms = uv_now(r->loop) + timeout_ms;
	for (unsigned i = 0; i < r->n_feeds; i++) {
		for (int half = 0; half < 2; half++) {
			while (add_one(r, r->feeds[i].handed))
				;
			usage_feed_swap(&r->feeds[i]);
		}
		end_feed(r, &r->feeds[i]);
	}
	r->step = REPORT_SENDING;
	uv_idle_start(&r->idle, on_idle);
	uv_timer_start(&r->timer, on_close_timer, 0, CLOSE_POLL_MS);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct usage_report *r = h->data;

	if (h == (uv_handle_t *)&r->timer) {
		uv_close((uv_handle_t *)&r->idle, on_handle_closed);
		return;
	}
	free(r);
}

void usage_report_free(struct usage_report *r)
{
	if (r == NULL)
		return;
	for (unsigned i = 0; i < r->n_feeds; i++)
		usage_feed_release(&r->feeds[i]);
	free(r->feeds);
	tally_free(r->sums);
	usage_children_free(r->children);
	buf_release(&r->value);
	uv_close((uv_handle_t *)&r->timer, on_handle_closed);
}

struct usage_report_counters usage_report_counters(const struct usage_report *r)
{
	return (struct usage_report_counters){.unpublished = tally_unsettled(r->sums),
					      .overflows = r->overflows + tally_overflows(r->sums),
					      .lost = r->lost};
}
