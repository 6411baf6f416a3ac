/* The pool's commands: arguments → request, answer → reply. Which pool, endpoint and policies there are the service knows. */
#include <inttypes.h>

#include "core/limit.h"
#include "ops.h"
#include "pool_service.h"
#include "resp_session.h"

/* The arguments of a call from `at` on, and the request that they fill. */
struct arguments {
	const struct resp_call *call;
	struct pool_request *request;
	uint32_t at;
	bool target, session, tier, wait, cost, status, retry, latency; /* were given */
};

enum { NEXT_FIELDS = 10 };

/* ---- Replies ---- */

static void write_text(struct buf *b, const char *name, struct slice text, int version)
{
	resp_write_bulk_text(b, name);
	if (text.len > 0)
		resp_write_bulk(b, text);
	else
		resp_write_null(b, version);
}

static void write_number(struct buf *b, const char *name, int64_t number)
{
	resp_write_bulk_text(b, name);
	resp_write_int(b, number);
}

static void write_next(struct buf *b, const struct pool_answer *a, int version)
{
	bool given = a->pause == POOL_NOT_PAUSED;
	const struct slice none = {0};

	resp_write_map(b, version, NEXT_FIELDS);
	write_text(b, "ticket", given ? slice_of(a->ticket) : none, version);
	write_text(b, "address", given ? buf_slice(&a->address) : none, version);
	write_text(b, "endpoint", given ? slice_of(a->endpoint) : none, version);
	resp_write_bulk_text(b, "tier");
	if (given)
		resp_write_int(b, a->tier);
	else
		resp_write_null(b, version);
	write_text(b, "session", given ? buf_slice(&a->session) : none, version);
	write_number(b, "moved", given && a->moved);
	write_number(b, "trial", given && a->trial);
	write_number(b, "lease_ms", given ? a->lease_ms : 0);
	write_text(b, "paused", slice_of(a->paused), version);
	write_number(b, "retry_in_ms", given ? 0 : a->retry_in_ms);
}

static const char *error_code(const struct pool_request *r)
{
	switch (r->answer.error) {
	case POOL_NO_POOL:
		return "NOPOOL";
	case POOL_NO_POLICY:
		return "NOPOLICY";
	case POOL_UNKNOWN:
		return "NOTICKET";
	case POOL_RANGE:
		return "RANGE";
	default:
		return "ERR";
	}
}

static void on_done(struct pool_request *r)
{
	struct reply_later *later = r->owner;

	trace_end(r->trace);
	ops_observe(&conn_agent(later->session->conn)->ops, OPS_RESP, r->begun_us);
	if (r->answer.error != POOL_NO_ERROR)
		resp_write_error(&later->text, error_code(r), r->answer.message);
	else if (r->kind == POOL_ASK_NEXT)
		write_next(&later->text, &r->answer, later->version);
	else
		resp_write_simple(&later->text, "OK");
	pool_request_free(r);
	session_said(later);
}

static void on_abandoned(struct reply_later *later)
{
	struct pool_request *r = later->owner;
	struct trace *trace = r->trace;

	pool_request_abandon(r);
	trace_end(trace);
}

static void ask(const struct resp_call *call, struct pool_request *r)
{
	struct reply_later *later = session_later(call->session);

	if (later == NULL) {
		pool_request_free(r);
		return;
	}
	later->raw = true;
	later->waits = r->wait_ms > 0;
	later->owner = r;
	later->on_abandoned = on_abandoned;
	r->owner = later;
	r->on_done = on_done;
	r->begun_us = ops_now_us(&conn_agent(call->session->conn)->ops);
	if (conn_agent(call->session->conn)->tracer != NULL)
		r->trace = session_trace(call->session,
					 r->kind == POOL_ASK_NEXT ? "kova.next" : "kova.report");
	pool_ask(r);
}

/* ---- Arguments ---- */

static bool error(struct arguments *a, const char *code, const char *what)
{
	session_error(a->call->session, code, "%s", what);
	return false;
}

/* Whether `n` arguments follow the option's name, and it did not come before. */
static bool fits(struct arguments *a, uint32_t n, bool *given, const char *usage)
{
	if (a->call->argc - a->at <= n) {
		session_error(a->call->session, "ERR", "syntax error: %s", usage);
		return false;
	}
	if (given != NULL && *given) {
		session_error(a->call->session, "ERR", "syntax error: given twice: %s", usage);
		return false;
	}
	if (given != NULL)
		*given = true;
	return true;
}

static bool number(struct arguments *a, const char *name, int64_t min, int64_t max,
		   int64_t *ret_value)
{
	struct slice text = a->call->argv[a->at + 1];
	kova_status st = resp_integer(text, ret_value);

	if (st == KOVA_EPROTO) {
		session_error(a->call->session, "ERR", "%s must be an integer, not '%s'", name,
			      session_quote(text).text);
		return false;
	}
	if (st != KOVA_OK || *ret_value < min || *ret_value > max) {
		session_error(a->call->session, "RANGE",
			      "%s must be %" PRId64 " to %" PRId64 ", not %s", name, min, max,
			      session_quote(text).text);
		return false;
	}
	a->at += 2;
	return true;
}

static bool text(struct arguments *a, const char *name, size_t max, struct slice *ret_text)
{
	struct slice s = a->call->argv[a->at + 1];

	if (s.len == 0 || s.len > max) {
		session_error(a->call->session, "RANGE", "%s must have 1 to %zu bytes", name, max);
		return false;
	}
	*ret_text = s;
	a->at += 2;
	return true;
}

static bool option_take(struct arguments *a)
{
	struct pool_request *r = a->request;

	if (!fits(a, 2, NULL, "TAKE policy key [COST n]"))
		return false;
	if (r->n_takes == POOL_TAKES_MAX)
		return error(a, "ERR", "at most 14 pairs of policy and key are allowed");
	if (a->call->argv[a->at + 2].len == 0 || a->call->argv[a->at + 2].len > REQUEST_KEY_MAX)
		return error(a, "RANGE", "a key must have 1 to 1024 bytes");
	r->takes[r->n_takes++] = (struct pool_take){
		.policy = a->call->argv[a->at + 1], .key = a->call->argv[a->at + 2], .cost = 1};
	a->cost = false;
	a->at += 3;
	return true;
}

static bool option_cost(struct arguments *a)
{
	int64_t cost;

	if (a->request->n_takes == 0)
		return error(a, "ERR", "syntax error: COST n follows TAKE policy key");
	if (!fits(a, 1, &a->cost, "COST n") || !number(a, "COST", 1, LIMIT_MAX, &cost))
		return false;
	a->request->takes[a->request->n_takes - 1].cost = (uint64_t)cost;
	return true;
}

static bool next_option(struct arguments *a)
{
	struct slice word = a->call->argv[a->at];
	struct pool_request *r = a->request;
	int64_t value;

	if (resp_word_is(word, "target"))
		return fits(a, 1, &a->target, "TARGET target") &&
		       text(a, "TARGET", POOL_TARGET_MAX, &r->target);
	if (resp_word_is(word, "session"))
		return fits(a, 1, &a->session, "SESSION session") &&
		       text(a, "SESSION", POOL_SESSION_MAX, &r->session);
	if (resp_word_is(word, "tier")) {
		if (!fits(a, 1, &a->tier, "TIER n") || !number(a, "TIER", 1, POOL_TIER_MAX, &value))
			return false;
		r->tier = (uint8_t)value;
		return true;
	}
	if (resp_word_is(word, "wait")) {
		if (!fits(a, 1, &a->wait, "WAIT ms") ||
		    !number(a, "WAIT", 0, REQUEST_WAIT_MAX_MS, &value))
			return false;
		r->wait_ms = (uint64_t)value;
		return true;
	}
	if (resp_word_is(word, "take"))
		return option_take(a);
	if (resp_word_is(word, "cost"))
		return option_cost(a);
	session_error(a->call->session, "ERR",
		      "syntax error: '%s' is no option; allowed are TARGET t, SESSION s, TIER n, "
		      "WAIT ms and TAKE policy key [COST n]",
		      session_quote(word).text);
	return false;
}

static bool option_header(struct arguments *a)
{
	struct pool_request *r = a->request;

	if (!fits(a, 2, NULL, "HEADER name value"))
		return false;
	if (r->n_headers == POOL_HEADERS_MAX)
		return error(a, "ERR", "at most 64 headers are allowed");
	r->headers[r->n_headers++] =
		(struct pool_header){a->call->argv[a->at + 1], a->call->argv[a->at + 2]};
	a->at += 3;
	return true;
}

static bool report_option(struct arguments *a)
{
	struct slice word = a->call->argv[a->at];
	struct pool_request *r = a->request;
	int64_t value;

	if (resp_word_is(word, "status")) {
		if (!fits(a, 1, &a->status, "STATUS code") ||
		    !number(a, "STATUS", 100, 599, &value))
			return false;
		r->status = (uint16_t)value;
		return true;
	}
	if (resp_word_is(word, "latency"))
		return fits(a, 1, &a->latency, "LATENCY ms") &&
		       number(a, "LATENCY", 0, REQUEST_WAIT_MAX_MS, &value);
	if (resp_word_is(word, "retryafter")) {
		if (!fits(a, 1, &a->retry, "RETRYAFTER value"))
			return false;
		r->retry_after = a->call->argv[a->at + 1];
		r->has_retry_after = true;
		a->at += 2;
		return true;
	}
	if (resp_word_is(word, "header"))
		return option_header(a);
	session_error(a->call->session, "ERR",
		      "syntax error: '%s' is no option; allowed are STATUS code, RETRYAFTER value, "
		      "LATENCY ms and HEADER name value",
		      session_quote(word).text);
	return false;
}

/* ---- Commands ---- */

static void run(const struct resp_call *call, enum pool_request_kind kind, uint32_t at,
		bool (*option)(struct arguments *))
{
	struct arguments a = {.call = call, .at = at};

	a.request = pool_request_new(conn_agent(call->session->conn)->pools, kind);
	if (a.request == NULL) {
		session_error(call->session, "ERR", "too many requests are in progress; try again");
		return;
	}
	a.request->pool = call->argv[1];
	if (kind == POOL_ASK_REPORT) {
		a.request->ticket = call->argv[2];
		if (!pool_outcome_find(call->argv[3], &a.request->outcome)) {
			session_error(
				call->session, "ERR",
				"the outcome must be ok, refused, auth, tunnel, timeout, target, "
				"blocked, captcha, empty or cancelled, not '%s'",
				session_quote(call->argv[3]).text);
			pool_request_free(a.request);
			return;
		}
	}
	while (a.at < call->argc)
		if (!option(&a)) {
			pool_request_free(a.request);
			return;
		}
	ask(call, a.request);
}

void resp_pool_next(const struct resp_call *call)
{
	run(call, POOL_ASK_NEXT, 2, next_option);
}

void resp_pool_report(const struct resp_call *call)
{
	run(call, POOL_ASK_REPORT, 4, report_option);
}
