/*
 * gRPC on a connection: bytes go through io/grpc_server.h, which gives calls; each is let in or not, and its messages go
 * to its method's handler. A call that has an answer coming is a request in progress of its connection, from its
 * headers to on_ended; those that stay open are not, so that a drain does not wait for them.
 */
#include "front_grpc.h"

#include <stdlib.h>

#include "grpc_task.h"
#include "io/conn_auth.h"
#include "ops.h"

enum {
	TICK_MS = 1000,
	BEGIN_MS = 20000, /* from the connection's start to its client's SETTINGS */
	FOLD_MS = 2000,   /* nothing was heard for so long: its session is folded */
	IDLE_MS = 60000,  /* nothing was heard for so long: PING ... */
	PONG_MS = 20000,  /* ... whose answer must come in time */
};

enum access { OPEN, ANY_TOKEN, CHECK };

struct method {
	struct slice path;
	enum access access;
	bool stays; /* until its client or the agent goes; the client may send several messages */
	bool client_streams;
	grpc_handler *handle;
	const char *span; /* a constant; NULL: it is not traced */
};

#define PATH(text)                       \
	{                                \
		(text), sizeof(text) - 1 \
	}

static const struct method methods[] = {
	{.path = PATH("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
	 .access = CHECK,
	 .handle = rls_should_rate_limit,
	 .span = "kova.take"},
	{.path = PATH("/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/"
		      "StreamRateLimitQuotas"),
	 .access = CHECK,
	 .stays = true,
	 .client_streams = true,
	 .handle = rlqs_stream},
	{.path = PATH("/grpc.health.v1.Health/Check"), .handle = health_check},
	{.path = PATH("/grpc.health.v1.Health/List"), .handle = health_list},
	{.path = PATH("/grpc.health.v1.Health/Watch"), .stays = true, .handle = health_watch},
	{.path = PATH("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
	 .access = ANY_TOKEN,
	 .stays = true,
	 .client_streams = true,
	 .handle = reflection_answer},
	{.path = PATH("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
	 .access = ANY_TOKEN,
	 .stays = true,
	 .client_streams = true,
	 .handle = reflection_answer},
};

const char *const grpc_services[] = {
	"envoy.service.ratelimit.v3.RateLimitService",
	"envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
	"grpc.health.v1.Health",
	"grpc.reflection.v1.ServerReflection",
	"grpc.reflection.v1alpha.ServerReflection",
	NULL,
};

static const struct method *method_of(const struct grpc_task *t)
{
	return &methods[grpc_call_method(t->call)];
}

/* ---- answers ---- */

static bool put_message(struct grpc_task *t, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	char *at = grpc_call_message(t->call, len);

	if (at == NULL)
		grpc_call_end(t->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		protobuf_c_message_pack(message, (uint8_t *)at);
	return at != NULL;
}

void task_send(struct grpc_task *t, const ProtobufCMessage *message)
{
	(void)put_message(t, message);
	grpc_server_flush(t->front->server);
}

void task_answer(struct grpc_task *t, const ProtobufCMessage *message)
{
	struct grpc_server *server = t->front->server;

	if (put_message(t, message))
		grpc_call_end(t->call, GRPC_OK, NULL);
	grpc_server_flush(server);
}

void task_fail(struct grpc_task *t, enum grpc_status status, const char *text)
{
	struct grpc_server *server = t->front->server;

	grpc_call_end(t->call, status, text);
	grpc_server_flush(server);
}

/* ---- the server's side ---- */

static struct buf *out_of(void *data)
{
	struct grpc_conn *front = data;

	return conn_out(front->conn);
}

/* Comes before the call's other fields. */
static bool find(void *data, struct slice path, unsigned *ret_method, bool *ret_client_streams)
{
	struct grpc_conn *front = data;

	if (front->origin != NULL)
		trace_origin_init(front->origin);
	for (unsigned i = 0; i < sizeof methods / sizeof methods[0]; i++)
		if (slice_equal(methods[i].path, path)) {
			*ret_method = i;
			*ret_client_streams = methods[i].client_streams;
			return true;
		}
	return false;
}

/* RFC 6750: `Bearer TOKEN`; the scheme in whatever case. */
static void on_authorization(struct grpc_call *c, struct slice value)
{
	struct grpc_task *t = grpc_call_extra(c);
	struct grpc_conn *front = grpc_call_data(c);
	const struct slice scheme = SLICE("bearer ");

	t->token = NULL;
	if (value.len < scheme.len)
		return;
	for (size_t i = 0; i < scheme.len; i++)
		if ((value.ptr[i] | ' ') != scheme.ptr[i])
			return;
	t->shown = true;
	value = slice_after(value, scheme.len);
	while (value.len > 0 && value.ptr[0] == ' ')
		value = slice_after(value, 1);
	t->token = auth_find(conn_agent(front->conn)->auth, value);
}

static void on_trace_field(struct grpc_call *c, struct slice name, struct slice value)
{
	struct grpc_conn *front = grpc_call_data(c);

	if (conn_agent(front->conn)->tracer == NULL)
		return;
	if (front->origin == NULL) {
		front->origin = calloc(1, sizeof *front->origin);
		if (front->origin == NULL)
			return;
	}
	if (slice_equal(name, SLICE("traceparent")))
		trace_origin_parent(front->origin, value);
	else
		trace_origin_state(front->origin, value);
}

static void trace_task(struct grpc_task *t, const struct method *m)
{
	t->trace = trace_begin(task_agent(t), m->span, t->front->origin);
	if (t->trace == NULL)
		return;
	span_set_text(trace_call(t->trace), "network.protocol.name", SLICE("grpc"));
	span_set_text(trace_call(t->trace), "rpc.method", slice_after(m->path, 1));
}

/* False: the call was ended. */
static bool let_in(struct grpc_task *t, enum access access)
{
	if (access == OPEN || !auth_required(task_agent(t)->auth))
		return true;
	if (!t->shown)
		t->token = t->front->certificate;
	if (t->token == NULL || t->token->scopes == 0)
		grpc_call_end(t->call, GRPC_UNAUTHENTICATED,
			      "the metadata `authorization: Bearer TOKEN` is needed, with a token "
			      "that is known here");
	else if (access == CHECK && (t->token->scopes & AUTH_CHECK) == 0)
		grpc_call_end(t->call, GRPC_PERMISSION_DENIED,
			      t->token->is_certificate ? "this certificate lacks the scope `check`"
						       : "this token lacks the scope `check`");
	else
		return true;
	return false;
}

static void on_begin(struct grpc_call *c)
{
	struct grpc_task *t = grpc_call_extra(c);

	t->call = c;
	t->front = grpc_call_data(c);
	t->front->conn->commands++;
	if (!let_in(t, method_of(t)->access))
		return;
	if (method_of(t)->stays) {
		grpc_call_stays(c);
		return;
	}
	t->counted = true;
	conn_request_begins(t->front->conn);
	if (task_agent(t)->tracer != NULL && method_of(t)->span != NULL)
		trace_task(t, method_of(t));
}

static void on_message(struct grpc_call *c, struct slice message)
{
	struct grpc_task *t = grpc_call_extra(c);

	if (method_of(t)->stays && !let_in(t, method_of(t)->access))
		return; /* by a reload since */
	method_of(t)->handle(t, message);
}

static void on_leave(struct grpc_call *c)
{
	struct grpc_task *t = grpc_call_extra(c);

	if (t->watches)
		health_leave(t);
}

static void on_half_closed(struct grpc_call *c)
{
	grpc_call_end(c, GRPC_OK, NULL);
}

static void on_ended(struct grpc_call *c)
{
	struct grpc_task *t = grpc_call_extra(c);

	if (t->check != NULL)
		rls_abandon(t->check);
	t->check = NULL;
	trace_end(t->trace);
	if (t->quotas != NULL)
		rlqs_stream_end(t->quotas);
	t->quotas = NULL;
	if (t->counted)
		conn_request_ended(t->front->conn);
}

static void on_finished(void *data)
{
	struct grpc_conn *front = data;

	conn_finish(front->conn);
}

static const struct grpc_server_ops server_ops = {
	.extra_bytes = sizeof(struct grpc_task),
	.out = out_of,
	.find = find,
	.on_authorization = on_authorization,
	.on_trace_field = on_trace_field,
	.on_begin = on_begin,
	.on_message = on_message,
	.on_half_closed = on_half_closed,
	.on_leave = on_leave,
	.on_ended = on_ended,
	.on_finished = on_finished,
};

/* ---- the connection's side ---- */

static bool on_open(struct conn *c)
{
	struct grpc_conn *front = calloc(1, sizeof *front);

	if (front == NULL)
		return false;
	front->conn = c;
	front->server = grpc_server_new(&server_ops, front);
	if (front->server == NULL) {
		free(front);
		return false;
	}
	grpc_server_count(front->server, &conn_agent(c)->ops.grpc);
	front->certificate = conn_auth_certificate(c, conn_agent(c)->auth);
	c->front = front;
	conn_set_deadline(c, TICK_MS);
	return true;
}

static size_t on_bytes(struct conn *c, struct slice bytes)
{
	struct grpc_conn *front = c->front;

	front->pinged_ms = 0;
	grpc_server_feed(front->server, bytes, c->last_active_ms);
	return bytes.len;
}

/* Nobody waits for long here: what is under way is answered. */
static void on_end(struct conn *c)
{
	(void)c;
}

static void on_finish(struct conn *c)
{
	struct grpc_conn *front = c->front;

	grpc_server_leave(front->server);
}

/* Once a second. */
static void on_timeout(struct conn *c)
{
	struct grpc_conn *front = c->front;
	uint64_t now_ms = uv_now(conn_agent(c)->loop);

	grpc_server_sweep(front->server, now_ms);
	if (now_ms - c->last_active_ms >= FOLD_MS)
		grpc_server_fold(front->server);
	if ((!grpc_server_has_begun(front->server) && now_ms - c->opened_ms >= BEGIN_MS) ||
	    (front->pinged_ms != 0 && now_ms - front->pinged_ms >= PONG_MS)) {
		conn_close(c);
		return;
	}
	if (front->pinged_ms == 0 && now_ms - c->last_active_ms >= IDLE_MS) {
		front->pinged_ms = now_ms;
		grpc_server_ping(front->server);
	}
	conn_set_deadline(c, TICK_MS);
}

static void on_idle(struct conn *c)
{
	struct grpc_conn *front = c->front;

	grpc_server_trim(front->server);
}

static void on_closed(struct conn *c)
{
	struct grpc_conn *front = c->front;

	grpc_server_free(front->server);
	free(front->origin);
	free(front);
	c->front = NULL;
}

const struct front_ops front_grpc = {
	.name = "grpc",
	/* SETTINGS, and GOAWAY that says ENHANCE_YOUR_CALM and that no call was begun. */
	.full_text = PATH("\0\0\0\4\0\0\0\0\0\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\13"),
	.inner = TLS_INNER_H2,
	/* SETTINGS, and GOAWAY that says INADEQUATE_SECURITY and why. */
	.plain_text = PATH("\0\0\0\4\0\0\0\0\0\0\0\41\7\0\0\0\0\0\0\0\0\0\0\0\0\14"
			   "this port speaks TLS only"),
	.on_open = on_open,
	.on_bytes = on_bytes,
	.on_end = on_end,
	.on_finish = on_finish,
	.on_idle = on_idle,
	.on_timeout = on_timeout,
	.on_closed = on_closed,
};
