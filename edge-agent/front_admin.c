/*
 * Administration and what is known of the node, over HTTP: policies, overrides, members, usage,
 * home.
 */
#include <stdio.h>
#include <string.h>

#include "catalogue.h"
#include "control.h"
#include "core/keyspace.h"
#include "core/quote.h"
#include "core/rfc3339.h"
#include "http_call.h"
#include "request.h"
#include "usage.h"

enum { WHO_MAX = sizeof "token:" + AUTH_NAME_MAX };

/* Who makes this change, for the record. */
static const char *who(const struct http_call *c, char ret_text[static WHO_MAX])
{
	if (c->token == NULL)
		return "local";
	snprintf(ret_text, WHO_MAX, "token:%s", c->token->name);
	return ret_text;
}

/* Answers what a change came to; `done_status` when it was made. */
static void answer_change(struct http_call *c, kova_status status,
			  const struct control_error *error, unsigned done_status)
{
	switch (status) {
	case KOVA_OK:
		if (done_status == 200)
			buf_add_slice(call_body(c), SLICE("{\"saved\":true}\n"));
		call_answer(c, done_status, done_status == 200 ? "application/json" : NULL);
		return;
	case KOVA_ENOTFOUND:
		call_problem(c, 404,
			     error->text[0] != '\0' ? error->text
						    : "there is nothing of that name");
		return;
	case KOVA_ECONFIG:
	case KOVA_ERANGE:
		call_problem(c, 400, error->text);
		return;
	default:
		call_problemf(c, 503, "the change could not be kept: %s",
			      error->text[0] != '\0' ? error->text : kova_status_text(status));
		return;
	}
}

/* ---- policies ---- */

void handle_policies(struct http_call *c, const struct http_request *r)
{
	if (call_query(c, r->query, NULL, 0))
		call_answer_json(c, 200, control_policies(call_agent(c)->control));
}

void handle_put_policy(struct http_call *c, const struct http_request *r)
{
	struct control_error error = {.text = ""};
	char by[WHO_MAX];
	struct slice name;

	if (!call_path_part(c, r, SLICE("/v1/policies/"), &name))
		return;
	json_t *policy = call_json(c, r);
	if (policy == NULL)
		return;
	kova_status status =
		control_put_policy(call_agent(c)->control, name, policy, who(c, by), &error);
	json_decref(policy);
	answer_change(c, status, &error, 200);
}

void handle_delete_policy(struct http_call *c, const struct http_request *r)
{
	struct control_error error = {.text = ""};
	char by[WHO_MAX];
	struct slice name;

	if (!call_path_part(c, r, SLICE("/v1/policies/"), &name))
		return;
	kova_status status =
		control_delete_policy(call_agent(c)->control, name, who(c, by), &error);
	answer_change(c, status, &error, 204);
}

/* ---- overrides ---- */

void handle_overrides(struct http_call *c, const struct http_request *r)
{
	if (call_query(c, r->query, NULL, 0))
		call_answer_json(c, 200, control_overrides(call_agent(c)->control));
}

void handle_put_override(struct http_call *c, const struct http_request *r)
{
	struct control_error error = {.text = ""};
	char by[WHO_MAX];
	json_t *override = call_json(c, r);

	if (override == NULL)
		return;
	kova_status status =
		control_put_override(call_agent(c)->control, override, who(c, by), &error);
	json_decref(override);
	answer_change(c, status, &error, 200);
}

void handle_delete_override(struct http_call *c, const struct http_request *r)
{
	struct control_error error = {.text = ""};
	struct call_parameter p[] = {{.name = "policy"}, {.name = "key"}, {.name = "prefix"}};
	struct slice none = {NULL, 0};
	char by[WHO_MAX];

	if (!call_query(c, r->query, p, 3))
		return;
	if (!p[0].given || p[1].given == p[2].given) {
		call_problem(c, 400, "`policy` is needed, and either `key` or `prefix`");
		return;
	}
	kova_status status = control_delete_override(
		call_agent(c)->control, p[0].value, p[1].given ? p[1].value : none,
		p[2].given ? p[2].value : none, who(c, by), &error);
	answer_change(c, status, &error, 204);
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

/* ---- usage, home ---- */

static void answer_usage(struct http_call *c, struct slice policy, struct slice key)
{
	struct usage_counts counts = {0};
	struct buf *out = call_body(c);
	char since[RFC3339_TEXT_MAX];
	bool known = usage_get(call_agent(c)->engine, policy, key, &counts);

	buf_add_slice(out, SLICE("{\"policy\":"));
	quote_json(out, policy);
	buf_add_slice(out, SLICE(",\"key\":"));
	quote_json(out, key);
	buf_add_slice(out, SLICE(",\"admitted\":"));
	buf_add_uint(out, counts.admitted);
	buf_add_slice(out, SLICE(",\"refused\":"));
	buf_add_uint(out, counts.refused);
	buf_add_slice(out, SLICE(",\"waited\":"));
	buf_add_uint(out, counts.waited);
	buf_add_slice(out, SLICE(",\"since\":"));
	if (known) {
		rfc3339_write(counts.since_ms, since);
		quote_json(out, slice_of(since));
	} else {
		buf_add_slice(out, SLICE("null"));
	}
	buf_add_slice(out, SLICE("}\n"));
	call_answer(c, 200, "application/json");
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
		call_problem(c, 404, "there is no policy of that name");
		return;
	}
	answer_usage(c, p[0].value, p[1].value);
}

void handle_home(struct http_call *c, const struct http_request *r)
{
	struct call_parameter p[] = {{.name = "key"}};
	const char *region = call_agent(c)->conf.region;
	struct buf *out = call_body(c);

	if (!call_query(c, r->query, p, 1) || !call_key_fits(c, p[0].value))
		return;
	buf_add_slice(out, SLICE("{\"key\":"));
	quote_json(out, p[0].value);
	buf_add_slice(out, SLICE(",\"root\":"));
	quote_json(out, keyspace_root(p[0].value));
	buf_add_slice(out, SLICE(",\"region\":"));
	if (region != NULL)
		quote_json(out, slice_of(region));
	else
		buf_add_slice(out, SLICE("null"));
	buf_add_slice(out, SLICE("}\n"));
	call_answer(c, 200, "application/json");
}
