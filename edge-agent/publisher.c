#include "publisher.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "event_kinds.h"
#include "grants.h"
#include "io/atomic_file.h"
#include "io/clock.h"
#include "io/file.h"
#include "quotas.h"

enum { EPOCH_TEXT_MAX = 32 };

struct publisher {
	struct kafka_producer *producer;
	struct usage_report *report;
	struct events *events;
	struct quotas *quotas; /* NULL: there are no `regions`; as: */
	struct grants *grants;
	struct hlc *hlc; /* the agent's */
	uint64_t report_ms;
	struct agent *owner; /* NULL: not started, or stopped */
	uv_loop_t *loop;
	uint64_t until_ms; /* closing */
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- The epoch ---- */

/* 0: there is none. */
static uint64_t last_epoch(const char *path)
{
	struct buf text = {0};
	uint64_t epoch = 0;

	if (file_read(path, EPOCH_TEXT_MAX, &text) == KOVA_OK) {
		buf_add(&text, "", 1);
		if (!buf_failed(&text))
			epoch = strtoull(text.ptr, NULL, 10);
	}
	buf_release(&text);
	return epoch;
}

static kova_status next_epoch(const char *state_dir, uint64_t *ret_epoch)
{
	uint64_t now = clock_read().wall_us, last;
	char text[EPOCH_TEXT_MAX];
	struct buf path = {0};
	kova_status status = KOVA_ENOMEM;

	buf_printf(&path, "%s/epoch", state_dir);
	buf_add(&path, "", 1);
	if (!buf_failed(&path)) {
		last = last_epoch(path.ptr);
		*ret_epoch = now > last ? now : last + 1;
		snprintf(text, sizeof text, "%" PRIu64 "\n", *ret_epoch);
		status = atomic_file_prepare(path.ptr, slice_of(text));
		if (status == KOVA_OK)
			status = atomic_file_commit(path.ptr);
	}
	buf_release(&path);
	return status;
}

/* ---- Life ---- */

static void on_fate(const char *topic, void *opaque, enum kafka_fate fate, void *data)
{
	struct publisher *p = data;

	if (p->quotas != NULL && quotas_delivered(p->quotas, opaque))
		return;
	if (strcmp(topic, USAGE_TOPIC) == 0)
		usage_report_delivered(p->report, opaque, fate == KAFKA_DELIVERED);
	else
		events_fate(p->events, opaque, fate);
}

static void on_up(bool up, void *data)
{
	const struct publisher *p = data;

	if (p->owner != NULL)
		event_outage(p->owner, "kafka", 0, up);
}

static void on_asked(struct slice policy, struct slice root, uint64_t cost, void *data)
{
	quotas_asked(data, policy, root, cost);
}

static void on_round(void *data)
{
	quotas_round(data);
}

static bool open_quotas(struct publisher *p, uv_loop_t *loop, const struct edge_conf *conf)
{
	if (conf->regions.n == 0)
		return true;
	p->quotas = quotas_new(loop, p->producer, p->hlc, conf);
	p->grants = grants_new(loop, conf);
	if (p->quotas == NULL || p->grants == NULL)
		return false;
	usage_report_listen(p->report, &(struct usage_listener){on_asked, on_round, p->quotas});
	return true;
}

static bool open_parts(struct publisher *p, uv_loop_t *loop, const struct edge_conf *conf,
		       struct buf *ret_error)
{
	const struct kafka_producer_events events = {on_fate, on_up, p};
	struct usage_source source = {.region = conf->region, .agent = conf->node};

	if (next_epoch(conf->state_dir, &source.epoch) != KOVA_OK) {
		buf_add_text(ret_error, "the epoch can't be kept in the state directory");
		return false;
	}
	p->producer = kafka_producer_new(loop, &conf->kafka, conf->node, &events, ret_error);
	if (p->producer == NULL)
		return false;
	p->report = usage_report_new(loop, p->producer, p->hlc, &source, conf->threads);
	p->events = events_new(loop, p->producer, conf->node, conf->region);
	return p->report != NULL && p->events != NULL && open_quotas(p, loop, conf);
}

struct publisher *publisher_new(uv_loop_t *loop, const struct edge_conf *conf, struct hlc *hlc,
				struct buf *ret_error)
{
	struct publisher *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->loop = loop;
	p->hlc = hlc;
	p->report_ms = conf->kafka.report_ms;
	if (open_parts(p, loop, conf, ret_error))
		return p;
	quotas_free(p->quotas);
	grants_free(p->grants);
	usage_report_free(p->report);
	events_free(p->events);
	if (p->producer != NULL)
		kafka_producer_close(p->producer, 0, NULL, NULL);
	free(p);
	return NULL;
}

struct usage_feed *publisher_feed(struct publisher *p, unsigned i)
{
	return usage_report_feed(p->report, i);
}

struct events *publisher_events(struct publisher *p)
{
	return p->events;
}

struct quotas *publisher_quotas(struct publisher *p)
{
	return p->quotas;
}

struct grants *publisher_grants(struct publisher *p)
{
	return p->grants;
}

void publisher_start(struct publisher *p, struct agent *owner)
{
	p->owner = owner;
	usage_report_start(p->report, owner, p->report_ms);
	if (p->quotas != NULL) {
		quotas_start(p->quotas, owner);
		grants_start(p->grants, owner);
	}
}

void publisher_stop(struct publisher *p)
{
	p->owner = NULL;
	usage_report_stop(p->report);
	if (p->quotas != NULL) {
		quotas_stop(p->quotas);
		grants_stop(p->grants);
	}
}

static void on_producer_closed(void *data)
{
	struct publisher *p = data;
	void (*on_closed)(void *) = p->on_closed;
	void *closed_data = p->closed_data;

	quotas_free(p->quotas);
	grants_free(p->grants);
	usage_report_free(p->report);
	events_free(p->events);
	free(p);
	on_closed(closed_data);
}

/* What is in flight now is events. */
static void on_report_closed(void *data)
{
	struct publisher *p = data;

	uint64_t now_ms = uv_now(p->loop);

	events_stop(p->events);
	kafka_producer_close(p->producer, p->until_ms > now_ms ? p->until_ms - now_ms : 0,
			     on_producer_closed, p);
}

void publisher_close(struct publisher *p, void (*on_closed)(void *data), void *data)
{
	if (p == NULL) {
		on_closed(data);
		return;
	}
	p->on_closed = on_closed;
	p->closed_data = data;
	p->until_ms = uv_now(p->loop) + PUBLISHER_CLOSE_MS;
	usage_report_close(p->report, PUBLISHER_CLOSE_MS, on_report_closed, p);
}

struct publisher_counters publisher_counters(const struct publisher *p)
{
	return (struct publisher_counters){.usage = usage_report_counters(p->report),
					   .kafka = kafka_producer_counters(p->producer),
					   .events_dropped = events_dropped(p->events)};
}
