/*
 * What all loops add up to, over HTTP: readiness, metrics, the usage of a key, the keys that are asked for most. Each call sends a tour (tour.h) through the
 * loops and is answered when it is back, unless its caller has gone.
 */
#include <stdlib.h>
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "core/quote.h"
#include "core/rfc3339.h"
#include "http_call.h"
#include "ops.h"
#include "ops_pools.h"
#include "top_json.h"
#include "tour.h"
#include "usage.h"

/* ---- readiness, metrics ---- */

struct totals_errand {
	struct tour tour; /* first */
	struct call_errand errand;
	struct ops_totals totals;
	bool openmetrics;
	void (*answer)(struct http_call *c, const struct totals_errand *e);
};

static void visit_totals(struct tour *t, struct agent *a)
{
	struct totals_errand *e = (struct totals_errand *)t;

	ops_add(a, &e->totals);
	if (e->totals.top != NULL && a->engine != NULL)
		top_keys_merge(e->totals.top, usage_get_top(a->engine));
}

static void errand_free(struct totals_errand *e)
{
	free(e->totals.policies);
	free(e->totals.pools);
	top_keys_free(e->totals.top);
	free(e);
}

static void on_totals(struct tour *t)
{
	struct totals_errand *e = (struct totals_errand *)t;
	struct http_call *c = call_errand_end(&e->errand);

	if (c != NULL)
		e->answer(c, e);
	errand_free(e);
}

static void answer_no_memory(struct http_call *c)
{
	call_problem(c, 503, kova_status_text(KOVA_ENOMEM));
}

/* Takes `e`; NULL: out of memory. */
static void totals_begin(struct http_call *c, struct totals_errand *e)
{
	if (e == NULL) {
		answer_no_memory(c);
		return;
	}
	call_errand_begin(&e->errand, c);
	tour_start(&e->tour, call_agent(c), visit_totals, on_totals);
}

static void answer_ready(struct http_call *c, const struct totals_errand *e)
{
	bool ready = ops_ready(&e->totals, call_body(c));

	call_answer(c, ready ? 200 : 503, "application/json");
}

void handle_ready(struct http_call *c, const struct http_request *r)
{
	struct totals_errand *e = calloc(1, sizeof *e);

	(void)r;
	if (e != NULL)
		e->answer = answer_ready;
	totals_begin(c, e);
}

static void answer_metrics(struct http_call *c, const struct totals_errand *e)
{
	ops_metrics(&e->totals, call_body(c), e->openmetrics);
	call_answer(c, 200, e->openmetrics ? METRICS_OPENMETRICS : METRICS_TEXT);
}

void handle_metrics(struct http_call *c, const struct http_request *r)
{
	unsigned openmetrics =
		http_request_accepts(r, SLICE("application"), SLICE("openmetrics-text"));
	unsigned plain = http_request_accepts(r, SLICE("text"), SLICE("plain"));
	struct totals_errand *e = calloc(1, sizeof *e);

	if (e != NULL) {
		e->openmetrics = openmetrics != 0 && openmetrics >= plain;
		e->answer = answer_metrics;
		e->totals.policies = calloc(1, sizeof *e->totals.policies);
		e->totals.pools = calloc(1, sizeof *e->totals.pools);
		e->totals.top = top_keys_new();
		if (e->totals.policies == NULL || e->totals.pools == NULL ||
		    e->totals.top == NULL) {
			errand_free(e);
			e = NULL;
		}
	}
	totals_begin(c, e);
}

/* ---- usage ---- */

struct usage_errand {
	struct tour tour; /* first */
	struct call_errand errand;
	struct usage_counts counts;
	bool known;
	struct slice policy, key; /* in `bytes` */
	char bytes[];
};

static void visit_usage(struct tour *t, struct agent *a)
{
	struct usage_errand *e = (struct usage_errand *)t;
	struct usage_counts counts;

	if (a->engine == NULL || !usage_get(a->engine, e->policy, e->key, &counts))
		return;
	e->counts.admitted += counts.admitted;
	e->counts.refused += counts.refused;
	e->counts.waited += counts.waited;
	if (!e->known || counts.since_ms < e->counts.since_ms)
		e->counts.since_ms = counts.since_ms;
	e->known = true;
}

static void answer_usage(struct http_call *c, const struct usage_errand *e)
{
	struct buf *out = call_body(c);
	char since[RFC3339_TEXT_MAX];

	buf_add_slice(out, SLICE("{\"policy\":"));
	quote_json(out, e->policy);
	buf_add_slice(out, SLICE(",\"key\":"));
	quote_json(out, e->key);
	buf_add_slice(out, SLICE(",\"admitted\":"));
	buf_add_uint(out, e->counts.admitted);
	buf_add_slice(out, SLICE(",\"refused\":"));
	buf_add_uint(out, e->counts.refused);
	buf_add_slice(out, SLICE(",\"waited\":"));
	buf_add_uint(out, e->counts.waited);
	buf_add_slice(out, SLICE(",\"since\":"));
	if (e->known) {
		rfc3339_write(e->counts.since_ms, since);
		quote_json(out, slice_of(since));
	} else {
		buf_add_slice(out, SLICE("null"));
	}
	buf_add_slice(out, SLICE("}\n"));
	call_answer(c, 200, "application/json");
}

static void on_usage(struct tour *t)
{
	struct usage_errand *e = (struct usage_errand *)t;
	struct http_call *c = call_errand_end(&e->errand);

	if (c != NULL)
		answer_usage(c, e);
	free(e);
}

static void usage_begin(struct http_call *c, struct slice policy, struct slice key)
{
	struct usage_errand *e = calloc(1, sizeof *e + policy.len + key.len);

	if (e == NULL) {
		answer_no_memory(c);
		return;
	}
	memcpy(e->bytes, policy.ptr, policy.len);
	memcpy(e->bytes + policy.len, key.ptr, key.len);
	e->policy = (struct slice){e->bytes, policy.len};
	e->key = (struct slice){e->bytes + policy.len, key.len};
	call_errand_begin(&e->errand, c);
	tour_start(&e->tour, call_agent(c), visit_usage, on_usage);
}

void handle_usage(struct http_call *c, const struct http_request *r)
{
	struct call_parameter p[] = {{.name = "policy"}, {.name = "key"}};

	if (!call_query(c, r->query, p, 2))
		return;
	if (!p[0].given) {
		call_problem(c, 400, "`policy` is missing");
		return;
	}
	if (!call_key_fits(c, p[1].value))
		return;
	if (catalogue_policy(control_catalogue(call_agent(c)->control), p[0].value) == NULL) {
		call_no_policy(c, p[0].value);
		return;
	}
	usage_begin(c, p[0].value, p[1].value);
}

/* ---- the first keys ---- */

struct top_errand {
	struct tour tour; /* first */
	struct call_errand errand;
	struct top_keys *top;
	unsigned most;
	struct slice policy; /* in `bytes`; empty: all */
	char bytes[];
};

static void visit_top(struct tour *t, struct agent *a)
{
	if (a->engine != NULL)
		top_keys_merge(((struct top_errand *)t)->top, usage_get_top(a->engine));
}

static void on_top(struct tour *t)
{
	struct top_errand *e = (struct top_errand *)t;
	struct http_call *c = call_errand_end(&e->errand);

	if (c != NULL) {
		struct buf *out = call_body(c);

		buf_add_text(out, "{");
		top_json_write(e->top, e->policy, e->most, out);
		buf_add_text(out, "}\n");
		call_answer(c, 200, "application/json");
	}
	top_keys_free(e->top);
	free(e);
}

static struct top_errand *top_errand_new(struct slice policy, unsigned most)
{
	struct top_errand *e = calloc(1, sizeof *e + policy.len);

	if (e == NULL)
		return NULL;
	e->top = top_keys_new();
	if (e->top == NULL) {
		free(e);
		return NULL;
	}
	if (policy.len > 0)
		memcpy(e->bytes, policy.ptr, policy.len);
	e->policy = (struct slice){e->bytes, policy.len};
	e->most = most;
	return e;
}

void handle_top(struct http_call *c, const struct http_request *r)
{
	struct call_parameter p[] = {{.name = "policy"}, {.name = "limit"}};
	uint64_t most = 10;

	if (!call_query(c, r->query, p, 2) ||
	    (p[1].given && !call_integer(c, "limit", p[1].value, 1, TOP_LISTED_MAX, &most)))
		return;
	if (p[0].given &&
	    catalogue_policy(control_catalogue(call_agent(c)->control), p[0].value) == NULL) {
		call_no_policy(c, p[0].value);
		return;
	}
	struct top_errand *e = top_errand_new(p[0].value, (unsigned)most);

	if (e == NULL) {
		answer_no_memory(c);
		return;
	}
	call_errand_begin(&e->errand, c);
	tour_start(&e->tour, call_agent(c), visit_top, on_top);
}
