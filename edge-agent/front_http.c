/*
 * HTTP on a connection: bytes go through io/http_server.h, which gives requests; each finds its
 * route, is let in or not, and goes to its handler. Every exchange is a request in progress of its
 * connection, from on_request (or on_error) to on_answered or on_abandoned, exactly once.
 */
#include "front_http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "http_call.h"
#include "io/conn_auth.h"
#include "io/http_access.h"

enum {
	BODY_MAX = 64 * 1024,
	ADMIN_BODY_MAX = 1024 * 1024,
	RECEIVE_TIMEOUT_MS = 20000, /* from a request's first byte to its last */
	IDLE_TIMEOUT_MS = 75000,    /* between two requests */
};

/* ---- what is not worth a file of its own ---- */

static void serve_health(struct http_call *c, const struct http_request *r)
{
	(void)r;
	buf_add_slice(call_body(c), SLICE("{\"status\":\"ok\"}\n"));
	call_answer(c, 200, "application/json");
}

/* The dashboard; to who wants no page, what there is. */
static void serve_start(struct http_call *c, const struct http_request *r)
{
	static const char text[] =
		"kova-agent " KOVA_VERSION "\n"
		"\n"
		"POST /v1/take /v1/peek /v1/refund /v1/acquire /v1/release /v1/renew\n"
		"GET  /v1/check?policy=P&key=K\n"
		"GET  /v1/policies    PUT, DELETE /v1/policies/{name}\n"
		"GET  /v1/overrides   PUT, DELETE /v1/overrides\n"
		"GET  /v1/pools\n"
		"POST /v1/pools/{pool}/next /v1/pools/{pool}/report\n"
		"GET  /v1/pools/{pool}    PUT, DELETE /v1/pools/{pool}\n"
		"PUT  /v1/pools/{pool}/endpoints    PATCH /v1/pools/{pool}/endpoints/{id}\n"
		"GET  /v1/changes\n"
		"GET  /v1/members /v1/usage?policy=P&key=K /v1/home?key=K\n"
		"GET  /v1/top?policy=P&limit=N /v1/stream\n"
		"GET  /healthz /readyz /metrics\n";

	if (http_request_accepts(r, SLICE("text"), SLICE("html")) >=
	    http_request_accepts(r, SLICE("text"), SLICE("plain"))) {
		handle_pages(c, r);
		return;
	}
	buf_add_slice(call_body(c), SLICE(text));
	call_answer(c, 200, "text/plain; charset=utf-8");
}

/* ---- routes ---- */

struct route {
	enum http_method method;
	struct slice
		path; /* one that ends in '/' stands for all with one more part, and so does '*' within one */
	enum http_access access;
	http_handler *handle;
};

#define PATH(text)                       \
	{                                \
		(text), sizeof(text) - 1 \
	}

static const struct route routes[] = {
	{METHOD_GET, PATH("/v1/check"), ACCESS_CHECK, front_limiter_check},
	{METHOD_POST, PATH("/v1/take"), ACCESS_CHECK, front_limiter_take},
	{METHOD_POST, PATH("/v1/peek"), ACCESS_CHECK, front_limiter_peek},
	{METHOD_POST, PATH("/v1/refund"), ACCESS_CHECK, front_limiter_refund},
	{METHOD_POST, PATH("/v1/acquire"), ACCESS_CHECK, front_limiter_acquire},
	{METHOD_POST, PATH("/v1/release"), ACCESS_CHECK, front_limiter_release},
	{METHOD_POST, PATH("/v1/renew"), ACCESS_CHECK, front_limiter_renew},
	{METHOD_POST, PATH("/v1/feedback"), ACCESS_CHECK, front_limiter_feedback},
	{METHOD_GET, PATH("/v1/policies"), ACCESS_ADMIN, handle_policies},
	{METHOD_PUT, PATH("/v1/policies/"), ACCESS_ADMIN, handle_put_policy},
	{METHOD_DELETE, PATH("/v1/policies/"), ACCESS_ADMIN, handle_delete_policy},
	{METHOD_GET, PATH("/v1/overrides"), ACCESS_ADMIN, handle_overrides},
	{METHOD_PUT, PATH("/v1/overrides"), ACCESS_ADMIN, handle_put_override},
	{METHOD_DELETE, PATH("/v1/overrides"), ACCESS_ADMIN, handle_delete_override},
	{METHOD_GET, PATH("/v1/pools"), ACCESS_ANY_TOKEN, front_pool_list},
	{METHOD_GET, PATH("/v1/pools/"), ACCESS_ANY_TOKEN, front_pool_show},
	{METHOD_PUT, PATH("/v1/pools/"), ACCESS_ADMIN, handle_put_pool},
	{METHOD_DELETE, PATH("/v1/pools/"), ACCESS_ADMIN, handle_delete_pool},
	{METHOD_POST, PATH("/v1/pools/*/next"), ACCESS_CHECK, front_pool_next},
	{METHOD_POST, PATH("/v1/pools/*/report"), ACCESS_CHECK, front_pool_report},
	{METHOD_PUT, PATH("/v1/pools/*/endpoints"), ACCESS_ADMIN, handle_put_endpoints},
	{METHOD_PATCH, PATH("/v1/pools/*/endpoints/"), ACCESS_ADMIN, handle_patch_endpoint},
	{METHOD_GET, PATH("/v1/changes"), ACCESS_ADMIN, handle_changes},
	{METHOD_GET, PATH("/v1/members"), ACCESS_ANY_TOKEN, handle_members},
	{METHOD_GET, PATH("/v1/usage"), ACCESS_ANY_TOKEN, handle_usage},
	{METHOD_GET, PATH("/v1/top"), ACCESS_ADMIN, handle_top},
	{METHOD_GET, PATH("/v1/home"), ACCESS_ANY_TOKEN, handle_home},
	{METHOD_GET, PATH("/healthz"), ACCESS_OPEN, serve_health},
	{METHOD_GET, PATH("/readyz"), ACCESS_OPEN, handle_ready},
	{METHOD_GET, PATH("/metrics"), ACCESS_ANY_TOKEN, handle_metrics},
	{METHOD_GET, PATH("/v1/stream"), ACCESS_ANY_TOKEN, handle_stream},
	{METHOD_GET, PATH("/"), ACCESS_OPEN, serve_start},
	{METHOD_GET, PATH("/assets/*/"), ACCESS_OPEN, handle_pages},
};

enum { N_ROUTES = sizeof routes / sizeof routes[0] };

static bool path_matches(const struct route *route, struct slice path)
{
	struct slice p = route->path;
	size_t star = slice_index(p, '*');

	if (star < p.len) {
		if (path.len <= star || memcmp(path.ptr, p.ptr, star) != 0)
			return false;
		size_t part = slice_index(slice_after(path, star), '/');

		if (part == 0)
			return false;
		p = slice_after(p, star + 1);
		path = slice_after(path, star + part);
	}
	if (route->path.len == 1 || p.ptr[p.len - 1] != '/')
		return slice_equal(p, path);
	return path.len > p.len && memcmp(path.ptr, p.ptr, p.len) == 0 &&
	       memchr(path.ptr + p.len, '/', path.len - p.len) == NULL;
}

static bool method_matches(const struct route *route, enum http_method method)
{
	return route->method == method || (method == METHOD_HEAD && route->method == METHOD_GET);
}

static const struct route *route_find(const struct http_request *r)
{
	for (size_t i = 0; i < N_ROUTES; i++)
		if (method_matches(&routes[i], r->method) && path_matches(&routes[i], r->path))
			return &routes[i];
	return NULL;
}

static const char *method_text(enum http_method method)
{
	static const char *const texts[] = {
		[METHOD_GET] = "GET, HEAD", [METHOD_HEAD] = "HEAD",     [METHOD_POST] = "POST",
		[METHOD_PUT] = "PUT",       [METHOD_DELETE] = "DELETE", [METHOD_PATCH] = "PATCH",
		[METHOD_OTHER] = "",
	};

	return texts[method];
}

/* 404, or 405 where the path is right. */
static void serve_no_route(struct http_call *c, const struct http_request *r)
{
	struct buf *fields = call_fields(c);
	unsigned n = 0;

	for (size_t i = 0; i < N_ROUTES; i++) {
		if (!path_matches(&routes[i], r->path))
			continue;
		buf_add_text(fields, n++ == 0 ? "Allow: " : ", ");
		buf_add_text(fields, method_text(routes[i].method));
	}
	if (n == 0) {
		call_problem(c, 404, "there is nothing at this path; GET / names what there is");
		return;
	}
	buf_add_slice(fields, SLICE("\r\n"));
	call_problem(c, 405, "this path has other methods: see the field Allow");
}

/* ---- who may ---- */

static bool let_in(struct http_call *c, const struct http_request *r, enum http_access access)
{
	struct http_refusal why;

	if (http_access_allows(call_agent(c)->auth, access, r, c->front->certificate, &c->token,
			       &why))
		return true;
	buf_add_text(call_fields(c), why.fields);
	call_problem(c, why.status, why.detail);
	return false;
}

/*
 * Bodies are JSON; who leaves out the media type means that, and so does who sends the form type that `curl -d`
 * puts there by itself. But a page of another site can have a browser send such a form here, and that names its
 * Origin: then it must be JSON, which a browser first asks leave for. Where no body is read (a proxy's check may
 * carry its client's), its type does not matter.
 */
static bool media_type_fits(struct http_call *c, const struct http_request *r)
{
	struct slice type = http_request_media_type(r), origin;
	bool is_read =
		r->method == METHOD_POST || r->method == METHOD_PUT || r->method == METHOD_PATCH;

	if (!is_read || type.len == 0 || http_same_text(type, SLICE("application/json")))
		return true;
	if (http_same_text(type, SLICE("application/x-www-form-urlencoded")) &&
	    http_request_field(r, "Origin", &origin) == 0)
		return true;
	call_problem(c, 415, "a body must be application/json");
	return false;
}

/* ---- the server's side ---- */

static struct http_call *call_begin(struct http_exchange *x)
{
	struct http_call *c = http_exchange_extra(x);

	c->exchange = x;
	c->front = http_exchange_data(x);
	conn_request_begins(c->front->conn);
	return c;
}

static void serve(struct http_call *c, const struct http_request *r, const struct route *route)
{
	if (call_agent(c)->tracer != NULL)
		call_trace_begin(c, r, route->handle, route->path);
	route->handle(c, r);
}

static void on_request(struct http_exchange *x, const struct http_request *r)
{
	struct http_call *c = call_begin(x);
	const struct route *route = route_find(r);

	c->front->conn->commands++;
	if (route == NULL)
		serve_no_route(c, r);
	else if (let_in(c, r, route->access) && media_type_fits(c, r))
		serve(c, r, route);
}

static void on_error(struct http_exchange *x, unsigned status, const char *detail)
{
	call_problem(call_begin(x), status, detail);
}

/*
 * A request that is being received must be whole in time, however slowly it drips; a connection
 * without a request must get one; while an answer is awaited there is no deadline: waiting is what
 * it is for.
 */
static void set_deadline(struct http_conn *front)
{
	bool receiving = http_server_is_receiving(front->server);
	bool busy = !receiving && http_server_in_progress(front->server) != 0;
	uint64_t now_for = (uint64_t)http_server_begun(front->server) * 4 + (receiving ? 1
									     : busy    ? 2
										       : 3);

	if (now_for == front->armed_for)
		return;
	front->armed_for = now_for;
	conn_set_deadline(front->conn, receiving ? RECEIVE_TIMEOUT_MS : busy ? 0 : IDLE_TIMEOUT_MS);
}

static void on_answered(struct http_exchange *x)
{
	struct http_call *c = http_exchange_extra(x);

	trace_end(c->trace);
	conn_request_ended(c->front->conn);
	set_deadline(c->front);
}

static void on_abandoned(struct http_exchange *x)
{
	struct http_call *c = http_exchange_extra(x);

	if (c->request != NULL)
		request_abandon(c->request);
	if (c->pool_request != NULL)
		pool_request_abandon(c->pool_request);
	if (c->errand != NULL)
		c->errand->call = NULL;
	trace_end(c->trace);
	live_leave(call_agent(c), &c->viewer);
	conn_request_ended(c->front->conn);
}

static struct buf *out_of(void *data)
{
	struct http_conn *front = data;

	return conn_out(front->conn);
}

static bool may_read(void *data)
{
	struct http_conn *front = data;

	return conn_may_read(front->conn);
}

static bool is_ending(void *data)
{
	struct http_conn *front = data;

	return conn_is_finishing(front->conn);
}

static size_t body_max(void *data, const struct http_request *r)
{
	(void)data;
	const struct route *route = route_find(r);

	return route != NULL && route->access == ACCESS_ADMIN ? ADMIN_BODY_MAX : BODY_MAX;
}

static void on_finished(void *data)
{
	struct http_conn *front = data;

	conn_finish(front->conn);
}

static const struct http_server_ops server_ops = {
	.extra_bytes = sizeof(struct http_call),
	.out = out_of,
	.may_read = may_read,
	.is_ending = is_ending,
	.body_max = body_max,
	.on_request = on_request,
	.on_error = on_error,
	.on_answered = on_answered,
	.on_abandoned = on_abandoned,
	.on_finished = on_finished,
};

/* ---- the connection's side ---- */

static bool on_open(struct conn *c)
{
	struct http_conn *front = calloc(1, sizeof *front);

	if (front == NULL)
		return false;
	front->conn = c;
	front->server = http_server_new(&server_ops, front);
	if (front->server == NULL) {
		free(front);
		return false;
	}
	front->certificate = conn_auth_certificate(c, conn_agent(c)->auth);
	c->front = front;
	set_deadline(front);
	return true;
}

static size_t on_bytes(struct conn *c, struct slice bytes)
{
	struct http_conn *front = c->front;
	size_t used = http_server_feed(front->server, bytes);

	set_deadline(front);
	return used;
}

static bool is_watching(struct http_exchange *x)
{
	struct http_call *c = http_exchange_extra(x);

	return c->viewer.prev != NULL;
}

/*
 * Nobody waits or watches for long behind a closed pen; who has only shut it may still get what is under way.
 */
static bool is_endless(struct http_exchange *x)
{
	struct http_call *c = http_exchange_extra(x);

	return is_watching(x) || (c->request != NULL && c->request->wait_ms != 0) ||
	       (c->pool_request != NULL && c->pool_request->wait_ms != 0);
}

static void on_end(struct conn *c)
{
	struct http_conn *front = c->front;

	http_server_abandon_from(front->server, is_endless);
}

static void on_finish(struct conn *c)
{
	struct http_conn *front = c->front;

	http_server_abandon_from(front->server, is_watching);
}

static void on_timeout(struct conn *c)
{
	struct http_conn *front = c->front;

	if (http_server_is_receiving(front->server))
		http_server_refuse(front->server, 408, "the request did not come whole in time");
	else if (http_server_in_progress(front->server) == 0)
		conn_finish(c);
}

static void on_idle(struct conn *c)
{
	struct http_conn *front = c->front;

	http_server_trim(front->server);
}

static void on_closed(struct conn *c)
{
	struct http_conn *front = c->front;

	http_server_free(front->server);
	free(front);
	c->front = NULL;
}

const struct front_ops front_http = {
	.name = "http",
	.full_text = HTTP_FULL_TEXT,
	.inner = TLS_INNER_HTTP1,
	.plain_text = HTTP_PLAIN_TEXT,
	.on_open = on_open,
	.on_bytes = on_bytes,
	.on_end = on_end,
	.on_finish = on_finish,
	.on_idle = on_idle,
	.on_timeout = on_timeout,
	.on_closed = on_closed,
};
