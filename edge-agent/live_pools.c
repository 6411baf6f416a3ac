#include "live_pools.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "control/catalogue.h"
#include "control/control.h"
#include "control/pool_def.h"
#include "core/quote.h"
#include "pool_service.h"

struct shown {
	struct live_pools *of;
	struct pool_request *asked; /* NULL: it has answered */
	struct buf json;
};

struct live_pools {
	struct agent *owner;
	bool stopped, known, has_news;
	unsigned n, n_asked;
	struct shown shown[LIVE_POOLS_MAX];
};

static void hear(struct shown *s, const char *name, const struct pool_answer *a)
{
	struct slice json = buf_slice(&a->json);

	buf_clear(&s->json);
	if (a->error == POOL_NO_ERROR && json.len > 0) {
		json.len -= json.ptr[json.len - 1] == '\n';
		buf_add_slice(&s->json, json);
		return;
	}
	buf_printf(&s->json, "{\"pool\":\"%s\",\"error\":", name);
	quote_json(&s->json, slice_of(a->message));
	buf_add_text(&s->json, "}");
}

static void answered(struct live_pools *p)
{
	if (--p->n_asked == 0)
		p->known = p->has_news = true;
}

static void on_done(struct pool_request *r)
{
	struct shown *s = r->owner;
	char name[NAME_BYTES_MAX + 1];

	snprintf(name, sizeof name, "%.*s", (int)r->pool.len, r->pool.ptr);
	hear(s, name, &r->answer);
	s->asked = NULL;
	pool_request_free(r);
	answered(s->of);
}

static void ask(struct live_pools *p, struct shown *s, const struct pool_def *def)
{
	struct pool_request *r;

	buf_clear(&s->json);
	if (def->n_members > LIVE_POOL_ENDPOINTS_MAX) {
		buf_printf(&s->json, "{\"pool\":\"%s\",\"size\":%zu}", def->name, def->n_members);
		answered(p);
		return;
	}
	r = pool_request_new(p->owner->pools, POOL_ASK_SHOW);
	if (r == NULL) {
		buf_printf(&s->json,
			   "{\"pool\":\"%s\",\"error\":\"too many requests are in progress\"}",
			   def->name);
		answered(p);
		return;
	}
	r->pool = slice_of(def->name);
	r->on_done = on_done;
	r->owner = s;
	s->asked = r;
	pool_ask(r);
}

void live_pools_ask(struct live_pools *p)
{
	const struct catalogue *catalogue = control_catalogue(p->owner->control);
	const struct pool_def *def;
	unsigned n = 0;

	if (p->n_asked > 0 || p->stopped || p->owner->draining)
		return;
	while (n < LIVE_POOLS_MAX && catalogue_pool_at(catalogue, n) != NULL)
		n++;
	p->n = n;
	p->n_asked = n + 1; /* one for us: some answer at once */
	for (unsigned i = 0; (def = catalogue_pool_at(catalogue, i)) != NULL && i < n; i++)
		ask(p, &p->shown[i], def);
	answered(p);
}

void live_pools_forget(struct live_pools *p)
{
	p->known = p->has_news = false;
}

bool live_pools_are_known(const struct live_pools *p)
{
	return p->known;
}

bool live_pools_have_news(const struct live_pools *p)
{
	return p->has_news;
}

void live_pools_write(struct live_pools *p, struct buf *out)
{
	bool first = true;

	p->has_news = false;
	buf_add_text(out, "[");
	for (unsigned i = 0; i < p->n; i++) {
		if (p->shown[i].json.len == 0 || buf_failed(&p->shown[i].json))
			continue;
		buf_add_text(out, first ? "" : ",");
		buf_add_slice(out, buf_slice(&p->shown[i].json));
		first = false;
	}
	buf_add_text(out, "]");
}

struct live_pools *live_pools_new(struct agent *owner)
{
	struct live_pools *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->owner = owner;
	for (unsigned i = 0; i < LIVE_POOLS_MAX; i++)
		p->shown[i].of = p;
	return p;
}

void live_pools_stop(struct live_pools *p)
{
	p->stopped = true;
	for (unsigned i = 0; i < LIVE_POOLS_MAX; i++) {
		if (p->shown[i].asked != NULL)
			pool_request_abandon(p->shown[i].asked);
		p->shown[i].asked = NULL;
	}
}

void live_pools_free(struct live_pools *p)
{
	if (p == NULL)
		return;
	for (unsigned i = 0; i < LIVE_POOLS_MAX; i++)
		buf_release(&p->shown[i].json);
	free(p);
}
