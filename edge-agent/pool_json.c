/* A pool as GET /v1/pools/{pool} shows it: without addresses' credentials and keys. */
#include <stdlib.h>

#include "core/quote.h"
#include "pool_own.h"

/* What of the reply is read before it can be written, since the targets come last. */
struct shown_target {
	struct slice name;
	uint8_t tier;
	uint64_t held_us;
};

struct shown_cooling {
	uint32_t endpoint;
	size_t target;
	uint64_t us;
};

struct shown_probe {
	enum pool_probe found; /* POOL_PROBE_NONE: never */
	uint64_t age_us;
};

struct whole {
	struct pool_totals totals;
	struct pool_shown *endpoints;
	struct shown_probe *probes; /* by endpoint */
	struct shown_target *targets;
	struct shown_cooling *cooling;
	size_t n_targets, n_cooling, cap_cooling;
	bool no_memory;
};

static unsigned long long ms_of(uint64_t us)
{
	return (us + 999) / 1000;
}

/* ---- Reading ---- */

static void read_cooling(struct whole *w, struct pool_reply *reply, size_t target, size_t n)
{
	struct shown_cooling c = {.target = target};

	for (size_t i = 0; i < n && pool_read_cooling(reply, &c.endpoint, &c.us); i++) {
		if (w->n_cooling == w->cap_cooling) {
			size_t cap = w->cap_cooling * 2 + 16;
			struct shown_cooling *more = realloc(w->cooling, cap * sizeof *more);

			if (more == NULL) {
				w->no_memory = true;
				return;
			}
			w->cooling = more;
			w->cap_cooling = cap;
		}
		w->cooling[w->n_cooling++] = c;
	}
}

static bool read_probes(struct whole *w, const struct pool_def *def, struct pool_reply *reply)
{
	uint32_t endpoint;
	struct shown_probe p;
	size_t n = 0;

	w->probes = calloc(def->n_members + 1, sizeof *w->probes);
	if (w->probes == NULL || (def->rule.health && !pool_read_probes(reply, &n)))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!pool_read_probe(reply, &endpoint, &p.found, &p.age_us) ||
		    endpoint >= def->n_members)
			return false;
		w->probes[endpoint] = p;
	}
	return true;
}

static bool read_whole(struct whole *w, const struct pool_def *def, struct pool_reply *reply)
{
	size_t n;

	if (!pool_read_totals(reply, &w->totals, &n) || n != def->n_members)
		return false;
	w->endpoints = calloc(n + 1, sizeof *w->endpoints);
	for (size_t i = 0; i < n && w->endpoints != NULL; i++)
		if (!pool_read_shown(reply, &w->endpoints[i]))
			return false;
	if (w->endpoints == NULL || !pool_read_targets(reply, &w->n_targets))
		return false;
	w->targets = calloc(w->n_targets + 1, sizeof *w->targets);
	for (size_t i = 0; i < w->n_targets && w->targets != NULL && !w->no_memory; i++) {
		struct pool_shown_target t;

		if (!pool_read_target(reply, &t))
			return false;
		w->targets[i] = (struct shown_target){t.name, t.tier, t.held_us};
		read_cooling(w, reply, i, t.n_cooling);
	}
	return w->targets != NULL && !w->no_memory && read_probes(w, def, reply);
}

/* ---- Writing ---- */

static void add_share(struct buf *out, const char *name, uint64_t part, uint64_t all)
{
	buf_printf(out, "\"%s\":", name);
	if (all == 0)
		buf_add_text(out, "null");
	else
		buf_printf(out, "%.4g", (double)part / (double)all);
}

void pool_json_numbers(const struct pool_def *def, const struct pool_numbers *n,
		       const uint64_t *tickets, struct buf *out)
{
	buf_add_text(out, "\"share\":{");
	for (size_t i = 0; i < def->n_members; i++)
		buf_printf(out, "%s\"%s\":%.4g", i > 0 ? "," : "", def->members[i].id,
			   n->tickets > 0 ? (double)tickets[i] / (double)n->tickets : 0.0);
	buf_printf(out, "},\"cooldowns\":%llu,\"cooldown_ms\":%llu,\"active_min\":%llu,",
		   (unsigned long long)n->cooldowns, ms_of(n->cooled_us),
		   (unsigned long long)n->active_min);
	buf_printf(out, "\"escalation\":%.4g,",
		   n->tickets > 0 ? (double)n->above / (double)n->tickets : 0.0);
	add_share(out, "return_ok", n->good, n->back);
}

static void add_targets(const struct whole *w, struct buf *out)
{
	bool first = true;

	buf_add_text(out, "\"targets\":[");
	for (size_t i = 0; i < w->n_targets; i++) {
		const struct shown_target *t = &w->targets[i];

		if (t->tier <= 1 && t->held_us == 0)
			continue;
		buf_add_text(out, first ? "{\"target\":" : ",{\"target\":");
		quote_json(out, t->name);
		buf_printf(out, ",\"tier\":%u,\"held_ms\":%llu}", t->tier, ms_of(t->held_us));
		first = false;
	}
	buf_add_text(out, "]");
}

static void add_endpoint_targets(const struct whole *w, size_t endpoint, struct buf *out)
{
	bool first = true;

	buf_add_text(out, ",\"targets\":[");
	for (size_t i = 0; i < w->n_cooling; i++) {
		if (w->cooling[i].endpoint != endpoint)
			continue;
		buf_add_text(out, first ? "{\"target\":" : ",{\"target\":");
		quote_json(out, w->targets[w->cooling[i].target].name);
		buf_printf(out, ",\"returns_in_ms\":%llu}", ms_of(w->cooling[i].us));
		first = false;
	}
	buf_add_text(out, "]");
}

static void add_quotas(const struct pool_shown *e, struct buf *out)
{
	buf_add_text(out, ",\"quota\":[");
	for (size_t i = 0; i < e->n_quotas; i++) {
		buf_add_text(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		quote_json(out, e->quota[i].name);
		buf_add_text(out, ",\"limit\":");
		if (e->quota[i].limit >= 0)
			buf_add_int(out, e->quota[i].limit);
		else
			buf_add_text(out, "null");
		buf_add_text(out, ",\"remaining\":");
		if (e->quota[i].left >= 0)
			buf_add_int(out, e->quota[i].left);
		else
			buf_add_text(out, "null");
		buf_printf(out, ",\"reset_ms\":%llu}", ms_of(e->quota[i].reset_us));
	}
	buf_add_text(out, "]");
}

static void add_probe(const struct shown_probe *p, struct buf *out)
{
	if (p->found == POOL_PROBE_NONE)
		buf_add_text(out, ",\"probe\":null");
	else if (p->found == POOL_PROBE_OK)
		buf_printf(out, ",\"probe\":{\"ok\":true,\"why\":null,\"age_ms\":%llu}",
			   ms_of(p->age_us));
	else
		buf_printf(out, ",\"probe\":{\"ok\":false,\"why\":\"%s\",\"age_ms\":%llu}",
			   pool_probe_names[p->found], ms_of(p->age_us));
}

static const char *state_of(const struct pool_member *m, const struct pool_shown *e)
{
	if (m->off || e->disabled)
		return "disabled";
	return e->cooling ? "cooldown" : "active";
}

static void add_endpoint(const struct pool_def *def, const struct whole *w, size_t i,
			 struct buf *out)
{
	const struct pool_member *m = &def->members[i];
	const struct pool_shown *e = &w->endpoints[i];

	buf_printf(out, "%s{\"id\":\"%s\",\"host\":", i > 0 ? "," : "", m->id);
	if (def->rule.kind == POOL_PROXY) {
		struct buf host = {0};

		pool_url_host(&m->url, &host);
		quote_json(out, buf_slice(&host));
		out->failed |= buf_failed(&host);
		buf_release(&host);
	} else {
		buf_add_text(out, "null");
	}
	buf_printf(out,
		   ",\"tier\":%u,\"weight\":%u,\"state\":\"%s\",\"returns_in_ms\":%llu,"
		   "\"cooldowns\":%u,\"in_flight\":%llu,"
		   "\"window\":{\"outcomes\":%u,\"failures\":%u},\"held_ms\":%llu,\"group\":",
		   m->tier, m->weight, state_of(m, e), ms_of(e->returns_us), e->cooldowns,
		   (unsigned long long)e->in_flight, e->outcomes, e->failures, ms_of(e->held_us));
	if (m->group[0] != '\0')
		buf_printf(out, "\"%s\"", m->group);
	else
		buf_add_text(out, "null");
	add_endpoint_targets(w, i, out);
	add_quotas(e, out);
	add_probe(&w->probes[i], out);
	buf_add_text(out, "}");
}

static void add_head(const struct pool_def *def, const struct whole *w, struct buf *out)
{
	static const char *const kinds[] = {"proxy", "key"};
	static const char *const selects[] = {"round-robin", "weighted", "least-loaded"};
	unsigned long long active = 0, cooling = 0, disabled = 0;

	for (size_t i = 0; i < def->n_members; i++) {
		const char *state = state_of(&def->members[i], &w->endpoints[i]);

		active += state[0] == 'a';
		cooling += state[0] == 'c';
		disabled += state[0] == 'd';
	}
	buf_printf(out,
		   "{\"pool\":\"%s\",\"kind\":\"%s\",\"select\":\"%s\",\"active\":%llu,"
		   "\"cooling\":%llu,\"disabled\":%llu,\"floor\":%llu,\"paused\":",
		   def->name, kinds[def->rule.kind], selects[def->rule.select], active, cooling,
		   disabled, (unsigned long long)def->rule.floor_active);
	if (w->totals.pause == POOL_NOT_PAUSED)
		buf_add_text(out, "null");
	else
		buf_printf(out, "\"%s\"", pool_pause_names[w->totals.pause]);
	buf_printf(out, ",\"retry_in_ms\":%lld,\"numbers\":{",
		   w->totals.retry_us < 0 ? -1LL : (long long)ms_of((uint64_t)w->totals.retry_us));
}

static void write_whole(const struct pool_def *def, const struct whole *w, struct buf *out)
{
	uint64_t *tickets = calloc(def->n_members + 1, sizeof *tickets);

	if (tickets == NULL) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < def->n_members; i++)
		tickets[i] = w->endpoints[i].tickets;
	add_head(def, w, out);
	pool_json_numbers(def, &w->totals.numbers, tickets, out);
	buf_add_text(out, "},");
	add_targets(w, out);
	buf_add_text(out, ",\"endpoints\":[");
	for (size_t i = 0; i < def->n_members; i++)
		add_endpoint(def, w, i, out);
	buf_add_text(out, "]}\n");
	free(tickets);
}

bool pool_json_show(const struct pool_def *def, struct pool_reply *reply, struct buf *out)
{
	struct whole w = {0};
	bool done = read_whole(&w, def, reply);

	if (done)
		write_whole(def, &w, out);
	free(w.endpoints);
	free(w.targets);
	free(w.cooling);
	free(w.probes);
	return done && !buf_failed(out);
}
