/* What is known of the node, over HTTP: policies, overrides, members, home. */
#include <stdlib.h>

#include "change_log.h"
#include "control/control.h"
#include "control/gossip_service.h"
#include "core/keyspace.h"
#include "core/quote.h"
#include "http_call.h"
#include "members.h"
#include "tour.h"

void handle_policies(struct http_call *c, const struct http_request *r)
{
	if (call_query(c, r->query, NULL, 0))
		call_answer_json(c, 200, control_policies(call_agent(c)->control));
}

void handle_overrides(struct http_call *c, const struct http_request *r)
{
	if (call_query(c, r->query, NULL, 0))
		call_answer_json(c, 200, control_overrides(call_agent(c)->control));
}

/* ---- members ---- */

/* Without gossip: where this node is reached, by HTTP as this caller did, unless it came by a unix socket. */
static json_t *only_member(const struct http_call *c)
{
	char address[CONN_ADDRESS_MAX];

	conn_local(c->front->conn, address);
	return members_alone(&call_agent(c)->conf, address);
}

/* What the owner's loop knows. */
struct owner_errand {
	struct tour tour; /* first */
	struct call_errand errand;
	uint64_t most;
	bool asked;
	json_t *answer;
};

static void visit_members(struct tour *t, struct agent *a)
{
	struct owner_errand *e = (struct owner_errand *)t;

	if (a->gossip == NULL)
		return;
	e->asked = true;
	e->answer = gossip_service_members(a->gossip);
}

static void visit_changes(struct tour *t, struct agent *a)
{
	struct owner_errand *e = (struct owner_errand *)t;

	if (a->changes == NULL)
		return;
	e->asked = true;
	e->answer = change_log_list(a->changes, e->most);
}

static void on_visited(struct tour *t)
{
	struct owner_errand *e = (struct owner_errand *)t;
	struct http_call *c = call_errand_end(&e->errand);

	if (c != NULL)
		call_answer_json(c, 200, e->asked ? json_incref(e->answer) : only_member(c));
	json_decref(e->answer);
	free(e);
}

static void ask_owner(struct http_call *c, uint64_t most,
		      void (*visit)(struct tour *t, struct agent *a))
{
	struct owner_errand *e = calloc(1, sizeof *e);

	if (e == NULL) {
		call_problem(c, 503, kova_status_text(KOVA_ENOMEM));
		return;
	}
	e->most = most;
	call_errand_begin(&e->errand, c);
	tour_start(&e->tour, call_agent(c), visit, on_visited);
}

void handle_members(struct http_call *c, const struct http_request *r)
{
	if (call_query(c, r->query, NULL, 0))
		ask_owner(c, 0, visit_members);
}

void handle_changes(struct http_call *c, const struct http_request *r)
{
	struct call_parameter p[] = {{.name = "limit"}};
	uint64_t most = 100;

	if (call_query(c, r->query, p, 1) &&
	    (!p[0].given || call_integer(c, "`limit`", p[0].value, 1, CHANGE_LOG_MAX, &most)))
		ask_owner(c, most, visit_changes);
}

/* ---- home ---- */

static const char *home_of(const struct edge_conf *conf, struct slice key)
{
	const struct edge_regions *regions = &conf->regions;

	return regions->n > 0 ? regions->of[edge_regions_home(regions, key)].name : conf->region;
}

void handle_home(struct http_call *c, const struct http_request *r)
{
	struct call_parameter p[] = {{.name = "key"}};
	const struct edge_conf *conf = &call_agent(c)->conf;
	struct buf *out = call_body(c);

	if (!call_query(c, r->query, p, 1) || !call_key_fits(c, p[0].value))
		return;
	buf_add_slice(out, SLICE("{\"key\":"));
	quote_json(out, p[0].value);
	buf_add_slice(out, SLICE(",\"root\":"));
	quote_json(out, keyspace_root(p[0].value));
	buf_add_slice(out, SLICE(",\"region\":"));
	quote_json(out, slice_of(home_of(conf, p[0].value)));
	buf_add_slice(out, SLICE("}\n"));
	call_answer(c, 200, "application/json");
}
