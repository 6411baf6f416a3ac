/*
 * A record's key says whose it is: POLICY/ROOT/REGION. Of this region's the value is read; of another's it is enough to know
 * that somebody there has a use for the quota, if the record is not an old one that a start finds in the topic.
 */
#include "grants.h"

#include <stdlib.h>

#include "agent.h"
#include "control/control.h"
#include "io/clock.h"
#include "io/kafka_consumer.h"
#include "io/log.h"
#include "io/share_codec.h"
#include "publisher.h"
#include "quotas.h"

enum { LOOK_MS = 1000 };

struct grants {
	uv_loop_t *loop;
	const struct edge_conf *conf;
	struct agent *owner;             /* NULL: not started, or stopped */
	struct kafka_consumer *consumer; /* NULL: there was no global policy yet */
	struct grants_numbers numbers;
	uv_timer_t timer;
};

/* ---- What is read ---- */

void grants_read(struct agent *owner, struct slice grant)
{
	struct grants *g = owner->publisher != NULL ? publisher_grants(owner->publisher) : NULL;
	struct share_grant_message m;

	if (g == NULL)
		return;
	if (share_grant_parse(grant, &m) != KOVA_OK) {
		g->numbers.malformed++;
		return;
	}
	if (slice_equal(m.quota.region, slice_of(g->conf->region)) &&
	    quotas_grant(publisher_quotas(owner->publisher), &m.quota, &m.grant))
		g->numbers.read++;
	else
		g->numbers.ignored++;
	share_grant_release(&m);
}

/* POLICY/ROOT/REGION; neither name has a `/`. */
static bool key_of(struct slice key, struct share_quota *ret_quota)
{
	ret_quota->policy = slice_cut(&key, '/');
	for (size_t at = key.len; at > 0; at--)
		if (key.ptr[at - 1] == '/') {
			ret_quota->root = (struct slice){key.ptr, at - 1};
			ret_quota->region = slice_after(key, at);
			return true;
		}
	return false;
}

static void on_record(const struct kafka_consumed *r, void *data)
{
	struct grants *g = data;
	int64_t now_ms = (int64_t)(clock_read().wall_us / 1000);
	struct share_quota quota;

	if (g->owner == NULL || r->value.len == 0)
		return;
	if (!key_of(r->key, &quota)) {
		g->numbers.malformed++;
		return;
	}
	if (slice_equal(quota.region, slice_of(g->conf->region))) {
		grants_read(g->owner, r->value);
		return;
	}
	g->numbers.ignored++;
	if (now_ms - r->timestamp_ms <= QUOTAS_LATELY_MS)
		quotas_follow(publisher_quotas(g->owner->publisher), quota.policy, quota.root);
}

static void on_caught_up(void *data)
{
	const struct grants *g = data;

	log_event(LOG_INFO, "grants_read", "all grants so far are read",
		  LOG_INT_FIELD("records", (int64_t)kafka_consumer_counters(g->consumer).records));
}

/* ---- Life ---- */

static bool has_global(const struct catalogue *c)
{
	const struct policy *p;

	for (size_t i = 0; (p = catalogue_policy_at(c, i)) != NULL; i++)
		if (p->scope == SCOPE_GLOBAL)
			return true;
	return false;
}

/* Policies come at any time. */
static void on_timer(uv_timer_t *timer)
{
	struct grants *g = timer->data;
	const struct kafka_consumer_events events = {on_record, on_caught_up, g};
	struct buf error = {0};

	if (!has_global(control_catalogue(g->owner->control)))
		return;
	g->consumer = kafka_consumer_new(g->loop, &g->conf->kafka, g->conf->node,
					 SHARE_GRANTS_TOPIC, 0, &events, &error);
	if (g->consumer != NULL)
		uv_timer_stop(timer);
	else
		log_event(LOG_ERROR, "kafka_error", "there can be no reader of grants just now");
	buf_release(&error);
}

struct grants *grants_new(uv_loop_t *loop, const struct edge_conf *conf)
{
	struct grants *g = calloc(1, sizeof *g);

	if (g == NULL)
		return NULL;
	g->loop = loop;
	g->conf = conf;
	uv_timer_init(loop, &g->timer);
	g->timer.data = g;
	return g;
}

void grants_start(struct grants *g, struct agent *owner)
{
	g->owner = owner;
	uv_timer_start(&g->timer, on_timer, 0, LOOK_MS);
}

void grants_stop(struct grants *g)
{
	g->owner = NULL;
	uv_timer_stop(&g->timer);
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_consumer_closed(void *data)
{
	struct grants *g = data;

	uv_close((uv_handle_t *)&g->timer, on_timer_closed);
}

void grants_free(struct grants *g)
{
	if (g != NULL)
		kafka_consumer_close(g->consumer, on_consumer_closed, g);
}

struct grants_numbers grants_numbers(const struct grants *g)
{
	struct grants_numbers n = g->numbers;

	n.caught_up = g->consumer != NULL && kafka_consumer_counters(g->consumer).caught_up;
	return n;
}
