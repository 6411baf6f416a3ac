/* What is known of the node, over HTTP: policies, overrides, members, home. */
#include "control.h"
#include "core/keyspace.h"
#include "core/quote.h"
#include "http_call.h"

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

/* Where this node is reached: by HTTP as this caller did, unless it came by a unix socket. */
static json_t *own_address(const struct http_call *c)
{
	char text[CONN_ADDRESS_MAX];

	conn_local(c->front->conn, text);
	return json_string(text);
}

void handle_members(struct http_call *c, const struct http_request *r)
{
	const struct edge_conf *conf = &call_agent(c)->conf;

	if (!call_query(c, r->query, NULL, 0))
		return;
	call_answer_json(c, 200,
			 json_pack("{s:[{s:s?,s:s?,s:s,s:s,s:o,s:i,s:i}]}", "members", "node",
				   conf->node, "region", conf->region, "role", "agent", "state",
				   "alive", "address", own_address(c), "incarnation", 0, "skew_ms",
				   0));
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
