/*
 * One call of the HTTP interface: what a handler gets, reads and answers with. Inside of the HTTP
 * front only.
 *
 * A handler answers each call exactly once, at once or (with `request` set) from the request's
 * on_done. The functions here that return false have answered already, with a problem (RFC 9457)
 * that says what is allowed; the handler then just returns.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent_conns.h"
#include "io/auth.h"
#include "io/conf.h"
#include "io/http_server.h"
#include "live.h"
#include "pool_request.h"
#include "trace.h"

/* A connection of this front. */
struct http_conn {
	struct conn *conn;
	struct http_server *server;
	const struct auth_token
		*certificate; /* what that of the client stands for; NULL: nothing */
	uint64_t armed_for;   /* what the deadline was set for last */
};

/* How a request's answer is to be written. */
enum call_shape {
	CALL_TAKE,
	CALL_CHECK,
	CALL_ACQUIRE,
	CALL_REFUND,
	CALL_RELEASE,
	CALL_RENEW,
	CALL_FEEDBACK
};

/* Zeroed at its start; lives in its exchange. */
struct http_call {
	struct http_exchange *exchange;
	struct http_conn *front;
	const struct auth_token *token;    /* or a certificate's; NULL: none was needed */
	struct request *request;           /* in progress; NULL: none */
	struct pool_request *pool_request; /* likewise */
	struct call_errand *errand;        /* to other loops; NULL: none */
	struct trace *trace;               /* ended with the call; NULL: none */
	struct live_viewer viewer;         /* of GET /v1/stream */
	uint64_t begun_us;
	uint16_t deny_status; /* CALL_CHECK: of a refusal */
	uint8_t shape;        /* enum call_shape */
	bool wants_receipt;
};

/* What of a call goes to other loops and comes back; part of a larger struct, which is freed after its return. */
struct call_errand {
	struct http_call *call; /* NULL: abandoned meanwhile. Of the call's own loop only */
};

typedef void http_handler(struct http_call *c, const struct http_request *r);

static inline struct agent *call_agent(const struct http_call *c)
{
	return conn_agent(c->front->conn);
}

/* ---- answers ---- */

/* The answer's buffers, empty. */
struct buf *call_fields(struct http_call *c); /* whole lines with CR LF */
struct buf *call_body(struct http_call *c);

/* Answers with what is in the buffers. `media_type` NULL: an empty body. */
void call_answer(struct http_call *c, unsigned status, const char *media_type);
/* The same with `a`, whose fields may be those in the buffer. */
void call_answer_with(struct http_call *c, const struct http_answer *a);
/* Answers with `value` (stolen); NULL: 503, out of memory. */
void call_answer_json(struct http_call *c, unsigned status, json_t *value);
/*
 * Problem details; call_fields() may hold lines already. `detail` is a whole sentence without its
 * full stop.
 */
void call_problem(struct http_call *c, unsigned status, const char *detail);
void call_problemf(struct http_call *c, unsigned status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* 404: what was asked for names no policy. */
void call_no_policy(struct http_call *c, struct slice name);

/* The call is answered when the errand is back; until then it may be abandoned. */
void call_errand_begin(struct call_errand *e, struct http_call *c);
/* It is back, on the call's loop: the call that is to be answered, or NULL. */
struct http_call *call_errand_end(struct call_errand *e);

/* ---- its trace (call_trace.c) ---- */

/* The agent traces: begins the call's, if its handler's are traced and it is sampled. */
void call_trace_begin(struct http_call *c, const struct http_request *r, http_handler *handle,
		      struct slice route);
/* It is being answered. */
void call_trace_answer(struct http_call *c, unsigned status);

/* ---- what was sent ---- */

/* The body as a JSON object, owned by the caller; NULL: answered. */
json_t *call_json(struct http_call *c, const struct http_request *r);
/* `value` by `table` (conf.h) into the struct at `ret_values`. */
bool call_read(struct http_call *c, const json_t *value, const struct conf_table *table,
	       void *ret_values);

struct call_parameter {
	const char *name;
	struct slice value; /* decoded; lives until the handler returns */
	bool given;
};
/* The query's parameters. One that is not among the `n` or is given twice is an error. */
bool call_query(struct http_call *c, struct slice query, struct call_parameter *parameters,
		size_t n);
/* A whole decimal number from min to max; `name` is what the caller calls it. */
bool call_integer(struct http_call *c, const char *name, struct slice text, uint64_t min,
		  uint64_t max, uint64_t *ret_value);
/* 1 to 1024 bytes, else answered. */
bool call_key_fits(struct http_call *c, struct slice key);
/*
 * What follows `prefix` in the path, decoded: one part, not empty. Lives until the handler returns.
 */
bool call_path_part(struct http_call *c, const struct http_request *r, struct slice prefix,
		    struct slice *ret_part);

/* ---- handlers ---- */

http_handler front_limiter_take, front_limiter_peek, front_limiter_refund, front_limiter_acquire,
	front_limiter_release, front_limiter_renew, front_limiter_check, front_limiter_feedback;
http_handler front_pool_next, front_pool_report, front_pool_show, front_pool_list;
http_handler handle_put_pool, handle_delete_pool, handle_put_endpoints, handle_patch_endpoint;
http_handler handle_policies, handle_put_policy, handle_delete_policy, handle_overrides,
	handle_put_override, handle_delete_override, handle_changes, handle_members, handle_usage,
	handle_home, handle_ready, handle_metrics, handle_pages, handle_stream, handle_top;
