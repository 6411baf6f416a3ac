/*
 * Administration over HTTP: changes of policies, overrides and pools. The happy path of a change: its errand goes to the owner's
 * loop, which makes the change (control.h); a tour has each other loop take over the policies and overrides that result; back
 * on its own loop the call is answered, so that whoever has read the answer finds the change in force on every connection.
 * One that fails comes back without the tour. A caller that hangs up leaves the change as it is. With one loop all of it
 * happens at once.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/control.h"
#include "control/control_state.h"
#include "control/gossip_service.h"
#include "http_call.h"
#include "tour.h"

enum change_kind {
	PUT_POLICY,
	DELETE_POLICY,
	PUT_OVERRIDE,
	DELETE_OVERRIDE,
	PUT_POOL,
	DELETE_POOL,
	PUT_ENDPOINTS,
	PATCH_ENDPOINT,
};

struct change {
	struct call_errand errand;
	struct message message; /* to the owner, and back */
	struct tour tour;       /* from the owner */
	struct agent *home;
	enum change_kind kind;
	char who[CONTROL_WHO_MAX];
	json_t *body;                   /* owned; what is put */
	struct slice name, key, prefix; /* in `bytes`; without ptr: not given */
	bool skewed;                    /* our clock is off: refused */
	int64_t skew_ms;
	kova_status status;
	struct control_error error;
	struct control_state *state; /* referenced while it is on tour */
	char bytes[];
};

/* ---- What it came to ---- */

static bool is_put(const struct change *ch)
{
	return ch->kind == PUT_POLICY || ch->kind == PUT_OVERRIDE || ch->kind == PUT_POOL ||
	       ch->kind == PUT_ENDPOINTS || ch->kind == PATCH_ENDPOINT;
}

static void answer(struct http_call *c, const struct change *ch)
{
	const char *why = ch->error.text;

	if (ch->skewed) {
		call_problemf(
			c, 503,
			"clock_skew: the median of the other nodes' clocks is %lld ms ahead of "
			"this node's; it takes no changes until they agree",
			(long long)ch->skew_ms);
		return;
	}
	switch (ch->status) {
	case KOVA_OK:
		if (is_put(ch))
			buf_add_slice(call_body(c), SLICE("{\"saved\":true}\n"));
		call_answer(c, is_put(ch) ? 200 : 204, is_put(ch) ? "application/json" : NULL);
		return;
	case KOVA_ENOTFOUND:
		if (ch->kind == DELETE_POLICY) {
			call_no_policy(c, ch->name);
			return;
		}
		call_problem(c, 404, why[0] != '\0' ? why : "there is nothing of that name");
		return;
	case KOVA_ECONFIG:
	case KOVA_ERANGE:
		call_problem(c, 400, why);
		return;
	default:
		call_problemf(c, 503, "the change could not be kept: %s",
			      why[0] != '\0' ? why : kova_status_text(ch->status));
		return;
	}
}

static void on_enabled(struct pool_request *r)
{
	pool_request_free(r);
}

/* Active by the operator's word ends what three unknown keys in a row began. */
static void enable(const struct change *ch)
{
	const char *state = json_string_value(json_object_get(ch->body, "state"));
	struct pool_request *r;

	if (ch->kind != PATCH_ENDPOINT || ch->status != KOVA_OK || state == NULL ||
	    strcmp(state, "active") != 0 || ch->home->pools == NULL)
		return;
	r = pool_request_new(ch->home->pools, POOL_ASK_ENABLE);
	if (r == NULL)
		return;
	r->pool = ch->name;
	r->endpoint = ch->key;
	r->on_done = on_enabled;
	pool_ask(r);
}

static void change_end(struct change *ch)
{
	struct http_call *c = call_errand_end(&ch->errand);

	ch->home->tours--;
	enable(ch);
	if (c != NULL)
		answer(c, ch);
	json_decref(ch->body);
	free(ch);
}

static struct change *change_of_message(struct message *m)
{
	return (struct change *)((char *)m - offsetof(struct change, message));
}

static void run_end(struct message *m)
{
	change_end(change_of_message(m));
}

/* On the owner's loop. */
static void go_home(struct change *ch)
{
	if (ch->home->owner == NULL) {
		change_end(ch);
		return;
	}
	ch->message.run = run_end;
	mailbox_post(ch->home->mailbox, &ch->message);
}

/* ---- On the owner's loop, and from there on tour ---- */

static struct change *change_of_tour(struct tour *t)
{
	return (struct change *)((char *)t - offsetof(struct change, tour));
}

static void visit(struct tour *t, struct agent *a)
{
	if (a->owner != NULL)
		control_follow(a->control, change_of_tour(t)->state);
}

static void on_toured(struct tour *t)
{
	struct change *ch = change_of_tour(t);

	control_state_unref(ch->state);
	go_home(ch);
}

static kova_status apply(struct control *control, struct change *ch)
{
	switch (ch->kind) {
	case PUT_POLICY:
		return control_put_policy(control, ch->name, ch->body, ch->who, &ch->error);
	case DELETE_POLICY:
		return control_delete_policy(control, ch->name, ch->who, &ch->error);
	case PUT_OVERRIDE:
		return control_put_override(control, ch->body, ch->who, &ch->error);
	case PUT_POOL:
		return control_put_pool(control, ch->name, ch->body, ch->who, &ch->error);
	case DELETE_POOL:
		return control_delete_pool(control, ch->name, ch->who, &ch->error);
	case PUT_ENDPOINTS:
		return control_put_endpoints(control, ch->name, ch->body, ch->who, &ch->error);
	case PATCH_ENDPOINT:
		return control_patch_endpoint(control, ch->name, ch->key, ch->body, ch->who,
					      &ch->error);
	case DELETE_OVERRIDE:
		break;
	}
	return control_delete_override(control, ch->name, ch->key, ch->prefix, ch->who, &ch->error);
}

static void change_make(struct change *ch)
{
	struct agent *owner = agent_owner(ch->home);

	ch->skewed = owner->gossip != NULL && gossip_service_is_skewed(owner->gossip, &ch->skew_ms);
	ch->status = ch->skewed ? KOVA_ERANGE : apply(owner->control, ch);
	if (ch->status != KOVA_OK) {
		go_home(ch);
		return;
	}
	ch->state = control_snapshot(owner->control);
	tour_start(&ch->tour, owner, visit, on_toured);
}

static void run_make(struct message *m)
{
	change_make(change_of_message(m));
}

/* ---- Where it comes from ---- */

static struct slice keep(char **at, struct slice s)
{
	struct slice kept = {s.ptr != NULL ? *at : NULL, s.len};

	if (s.len > 0)
		memcpy(*at, s.ptr, s.len);
	*at += s.len;
	return kept;
}

static_assert(sizeof "certificate:" + AUTH_ADMIN_CERTIFICATE_MAX <= CONTROL_WHO_MAX &&
		      sizeof "certificate:" + AUTH_NAME_MAX <= CONTROL_WHO_MAX,
	      "the record holds each name that may make changes whole");

/* Who makes this change, for the record. */
static void write_who(const struct http_call *c, char ret_text[static CONTROL_WHO_MAX])
{
	if (c->token == NULL)
		snprintf(ret_text, CONTROL_WHO_MAX, "local");
	else
		snprintf(ret_text, CONTROL_WHO_MAX, "%s:%.*s",
			 c->token->is_certificate ? "certificate" : "token",
			 CONTROL_WHO_MAX - (int)sizeof "certificate:", c->token->name);
}

/* Sends the change off; takes `body`. The call is answered now or later. */
static void change_begin(struct http_call *c, enum change_kind kind, json_t *body,
			 struct slice name, struct slice key, struct slice prefix)
{
	struct change *ch = calloc(1, sizeof *ch + name.len + key.len + prefix.len);
	struct agent *home = call_agent(c);
	char *at;

	if (ch == NULL) {
		json_decref(body);
		call_problem(c, 503, kova_status_text(KOVA_ENOMEM));
		return;
	}
	at = ch->bytes;
	ch->home = home;
	ch->kind = kind;
	ch->body = body;
	ch->name = keep(&at, name);
	ch->key = keep(&at, key);
	ch->prefix = keep(&at, prefix);
	write_who(c, ch->who);
	call_errand_begin(&ch->errand, c);
	home->tours++;
	if (home->owner == NULL) {
		change_make(ch);
		return;
	}
	ch->message.run = run_make;
	mailbox_post(home->owner->mailbox, &ch->message);
}

static const struct slice none = {NULL, 0};

/* The body, without what GET says of an item beside what it is: so that can be put as it was got. NULL: answered. */
static json_t *call_item(struct http_call *c, const struct http_request *r)
{
	json_t *item = call_json(c, r);

	if (item != NULL) {
		json_object_del(item, "version");
		json_object_del(item, "who");
	}
	return item;
}

void handle_put_policy(struct http_call *c, const struct http_request *r)
{
	struct slice name;

	if (!call_path_part(c, r, SLICE("/v1/policies/"), &name))
		return;
	json_t *policy = call_item(c, r);

	if (policy != NULL)
		change_begin(c, PUT_POLICY, policy, name, none, none);
}

void handle_delete_policy(struct http_call *c, const struct http_request *r)
{
	struct slice name;

	if (call_path_part(c, r, SLICE("/v1/policies/"), &name))
		change_begin(c, DELETE_POLICY, NULL, name, none, none);
}

void handle_put_override(struct http_call *c, const struct http_request *r)
{
	json_t *override = call_item(c, r);

	if (override != NULL)
		change_begin(c, PUT_OVERRIDE, override, none, none, none);
}

void handle_delete_override(struct http_call *c, const struct http_request *r)
{
	struct call_parameter p[] = {{.name = "policy"}, {.name = "key"}, {.name = "prefix"}};

	if (!call_query(c, r->query, p, 3))
		return;
	if (!p[0].given || p[1].given == p[2].given) {
		call_problem(c, 400, "`policy` is needed, and either `key` or `prefix`");
		return;
	}
	change_begin(c, DELETE_OVERRIDE, NULL, p[0].value, p[1].given ? p[1].value : none,
		     p[2].given ? p[2].value : none);
}

/* ---- Pools ---- */

void handle_put_pool(struct http_call *c, const struct http_request *r)
{
	struct slice name;

	if (!call_path_part(c, r, SLICE("/v1/pools/"), &name))
		return;
	json_t *pool = call_item(c, r);

	if (pool != NULL)
		change_begin(c, PUT_POOL, pool, name, none, none);
}

void handle_delete_pool(struct http_call *c, const struct http_request *r)
{
	struct slice name;

	if (call_path_part(c, r, SLICE("/v1/pools/"), &name))
		change_begin(c, DELETE_POOL, NULL, name, none, none);
}

void handle_put_endpoints(struct http_call *c, const struct http_request *r)
{
	struct http_request cut = *r;
	struct slice name;

	cut.path.len -= sizeof "/endpoints" - 1;
	if (!call_path_part(c, &cut, SLICE("/v1/pools/"), &name))
		return;
	json_t *body = call_json(c, r);

	if (body != NULL)
		change_begin(c, PUT_ENDPOINTS, body, name, none, none);
}

void handle_patch_endpoint(struct http_call *c, const struct http_request *r)
{
	struct slice rest = slice_after(r->path, sizeof "/v1/pools/" - 1), name, id;
	struct http_request cut = *r;
	char pool[NAME_BYTES_MAX + 2]; /* one that is too long stays so */

	cut.path.len = r->path.len - rest.len + slice_index(rest, '/');
	if (!call_path_part(c, &cut, SLICE("/v1/pools/"), &name))
		return;
	/* The next part is decoded where this one is. */
	snprintf(pool, sizeof pool, "%.*s", (int)name.len, name.ptr);
	if (!call_path_part(c, r,
			    (struct slice){r->path.ptr, cut.path.len + sizeof "/endpoints/" - 1},
			    &id))
		return;
	json_t *body = call_json(c, r);

	if (body != NULL)
		change_begin(c, PATCH_ENDPOINT, body, slice_of(pool), id, none);
}
