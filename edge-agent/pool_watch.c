/*
 * The owner's loop looks at each pool several times in its report interval: what it finds is what /metrics tells, and whoever looks
 * first after the interval is over has the five numbers of the region, to log and to publish.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "core/hash.h"
#include "core/rfc3339.h"
#include "events.h"
#include "io/log.h"
#include "pool_own.h"
#include "publisher.h"

enum { WATCH_MS = 50, LOOK_MAX_MS = 5000, LOOKS = 4, POOL_SHARES_MAX = 100 };

static void duplicates_once(struct pool_line *l, const struct pool_def *def)
{
	uint64_t of = hash_bytes(buf_slice(&def->script), 3) | 1;

	if (l->duplicates_of != of && def->n_duplicates > 0)
		pool_events_duplicates(l->service, def);
	l->duplicates_of = of;
}

static void look_when_due(struct pool_service *s, const struct pool_def *def, uint64_t now_ms)
{
	struct pool_line *l = pool_line_of(s, slice_of(def->name));
	uint64_t every = def->rule.report / 1000 / LOOKS;

	if (l == NULL)
		return;
	duplicates_once(l, def);
	pool_probes_turn(l, def);
	if (l->looking || now_ms < l->look_ms)
		return;
	l->look_ms = now_ms + (every < LOOK_MAX_MS ? every : LOOK_MAX_MS);
	pool_line_look(l);
}

static void on_watch(uv_timer_t *t)
{
	struct pool_service *s = t->data;
	const struct catalogue *c = control_catalogue(s->agent->control);
	const struct pool_def *def;

	for (size_t i = 0; (def = catalogue_pool_at(c, i)) != NULL; i++)
		look_when_due(s, def, uv_now(s->agent->loop));
}

void pool_watch_start(struct pool_service *s)
{
	uv_timer_init(s->agent->loop, &s->watch);
	s->watch.data = s;
	s->handles_open++;
	if (s->agent->owner == NULL)
		uv_timer_start(&s->watch, on_watch, WATCH_MS, WATCH_MS);
	uv_unref((uv_handle_t *)&s->watch);
}

static void publish(const struct pool_line *l, const char *members)
{
	struct buf text = {0};

	buf_printf(&text, "{\"event\":\"pool_numbers\",%s}", members);
	if (!buf_failed(&text))
		pool_numbers_publish(l->service->agent, l->name, buf_slice(&text));
	buf_release(&text);
}

void pool_watch_numbers(struct pool_line *l, const struct pool_def *def, struct pool_reply *reply,
			const struct pool_numbers *n, size_t n_endpoints)
{
	uint64_t *tickets = calloc(def->n_members + 1, sizeof *tickets), ignored;
	char from[RFC3339_TEXT_MAX], to[RFC3339_TEXT_MAX];
	struct buf text = {0};

	for (size_t i = 0; i < n_endpoints; i++)
		(void)pool_read_tickets(reply, tickets != NULL && i < def->n_members ? &tickets[i]
										     : &ignored);
	if (tickets == NULL || reply->failed) {
		free(tickets);
		return;
	}
	rfc3339_write((int64_t)(n->from_us / 1000), from);
	rfc3339_write((int64_t)(n->to_us / 1000), to);
	buf_printf(&text, "\"pool\":\"%s\",\"region\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",",
		   l->name, l->service->agent->conf.region, from, to);
	pool_json_numbers(def, n, tickets, &text);
	buf_add(&text, "", 1);
	if (!buf_failed(&text)) {
		log_report(LOG_INFO, "pool_numbers", "the five numbers of a pool",
			   LOG_MEMBERS_FIELD("numbers", text.ptr));
		publish(l, text.ptr);
	}
	buf_release(&text);
	free(tickets);
}

static void view_add(struct pool_view *v, const struct pool_member *m, const struct pool_shown *e,
		     size_t n)
{
	if (m->off || e->disabled)
		v->disabled++;
	else if (e->cooling)
		v->cooling++;
	else
		v->active++;
	v->in_flight += e->in_flight;
	if (n > POOL_SHARES_MAX)
		return;
	memcpy(v->share[v->n_shares].id, m->id, sizeof m->id);
	v->share[v->n_shares++].tickets = e->tickets;
}

void pool_watch_view(struct pool_line *l, const struct pool_def *def, struct pool_reply *reply)
{
	struct pool_view v = {.known = true};
	struct pool_shown e;
	size_t n;

	if (!pool_read_totals(reply, &v.totals, &n) || n != def->n_members)
		return;
	for (size_t i = 0; i < n && pool_read_shown(reply, &e); i++)
		view_add(&v, &def->members[i], &e, n);
	if (!reply->failed)
		l->view = v;
}
