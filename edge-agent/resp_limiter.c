/*
 * The limiter's commands: arguments → request. What the syntax leaves to the engine (keys, names,
 * which policy knows which command) decide() checks; here are numbers, options and their order.
 */
#include <inttypes.h>

#include "core/limit.h"
#include "resp_session.h"

/* The arguments of a call from `at` on, and the request that they fill. */
struct arguments {
	const struct resp_call *call;
	struct request *request;
	uint32_t at;
	bool cost_given, wait_given, id_given, receipt_given;
	bool status_given, retry_given, latency_given, reset_given; /* FEEDBACK */
};

/* NULL: the reply was an error. */
static struct request *new_request(const struct resp_call *call, enum request_kind kind)
{
	struct request *r = request_new(conn_agent(call->session->conn)->engine);

	if (r == NULL) {
		session_error(call->session, "ERR", "too many requests are in progress; try again");
		return NULL;
	}
	r->kind = kind;
	return r;
}

/* The argument as an integer from `min` to `max`; false: the reply was an error. */
static bool number(const struct resp_call *call, uint32_t i, const char *name, int64_t min,
		   int64_t max, int64_t *ret_value)
{
	int64_t value = 0;
	kova_status st = resp_integer(call->argv[i], &value);

	if (st == KOVA_EPROTO) {
		session_error(call->session, "ERR", "%s must be an integer, not '%s'", name,
			      session_quote(call->argv[i]).text);
		return false;
	}
	if (st != KOVA_OK || value < min || value > max) {
		session_error(call->session, "RANGE",
			      "%s must be %" PRId64 " to %" PRId64 ", not %s", name, min, max,
			      session_quote(call->argv[i]).text);
		return false;
	}
	*ret_value = value;
	return true;
}

static void add_pair(struct request *r, const struct slice *policy_and_key)
{
	r->pairs[r->n_pairs++] = (struct request_pair){
		.policy = policy_and_key[0], .key = policy_and_key[1], .cost = 1};
}

/* ---- Options. Each takes its arguments behind its name; false: the reply was an error. ---- */

static bool option_error(struct arguments *a, const char *what)
{
	session_error(a->call->session, "ERR", "%s", what);
	return false;
}

/* Whether `n` arguments follow the option's name, and it did not come before. */
static bool option_fits(struct arguments *a, uint32_t n, bool given, const char *usage)
{
	if (a->call->argc - a->at <= n) {
		session_error(a->call->session, "ERR", "syntax error: %s", usage);
		return false;
	}
	if (given) {
		session_error(a->call->session, "ERR", "syntax error: given twice: %s", usage);
		return false;
	}
	return true;
}

static bool option_cost(struct arguments *a)
{
	int64_t cost;

	if (!option_fits(a, 1, a->cost_given, "COST n, once for a policy and key") ||
	    !number(a->call, a->at + 1, "COST", 1, LIMIT_MAX, &cost))
		return false;
	a->request->pairs[a->request->n_pairs - 1].cost = (uint64_t)cost;
	a->cost_given = true;
	a->at += 2;
	return true;
}

static bool option_and(struct arguments *a)
{
	if (!option_fits(a, 2, false, "AND policy key"))
		return false;
	if (a->request->n_pairs == REQUEST_PAIRS_MAX)
		return option_error(a, "at most 16 pairs of policy and key are allowed");
	add_pair(a->request, &a->call->argv[a->at + 1]);
	a->cost_given = false;
	a->at += 3;
	return true;
}

static bool option_wait(struct arguments *a)
{
	int64_t wait_ms;

	if (!option_fits(a, 1, a->wait_given, "WAIT ms") ||
	    !number(a->call, a->at + 1, "WAIT", 0, REQUEST_WAIT_MAX_MS, &wait_ms))
		return false;
	a->request->wait_ms = (uint64_t)wait_ms;
	a->wait_given = true;
	a->at += 2;
	return true;
}

static bool option_id(struct arguments *a)
{
	struct slice id;

	if (!option_fits(a, 1, a->id_given, "ID id"))
		return false;
	id = a->call->argv[a->at + 1];
	if (id.len == 0 || id.len > REQUEST_ID_MAX) {
		session_error(a->call->session, "RANGE", "ID must have 1 to %d bytes",
			      REQUEST_ID_MAX);
		return false;
	}
	a->request->id = id;
	a->id_given = true;
	a->at += 2;
	return true;
}

static bool option_receipt(struct arguments *a)
{
	if (!option_fits(a, 0, a->receipt_given, "RECEIPT"))
		return false;
	a->request->want_receipt = a->receipt_given = true;
	a->at++;
	return true;
}

static bool take_option(struct arguments *a)
{
	struct slice word = a->call->argv[a->at];

	if (resp_word_is(word, "cost"))
		return option_cost(a);
	if (resp_word_is(word, "and"))
		return option_and(a);
	if (resp_word_is(word, "wait"))
		return option_wait(a);
	if (resp_word_is(word, "id"))
		return option_id(a);
	if (resp_word_is(word, "receipt"))
		return option_receipt(a);
	session_error(a->call->session, "ERR",
		      "syntax error: '%s' is no option; allowed are COST n, AND policy key, "
		      "WAIT ms, ID id and RECEIPT",
		      session_quote(word).text);
	return false;
}

static bool acquire_option(struct arguments *a)
{
	struct slice word = a->call->argv[a->at];

	if (resp_word_is(word, "wait"))
		return option_wait(a);
	if (resp_word_is(word, "id"))
		return option_id(a);
	session_error(a->call->session, "ERR",
		      "syntax error: '%s' is no option; allowed are WAIT ms and ID id",
		      session_quote(word).text);
	return false;
}

/* "policy key [option]…" */
static void run_with_options(const struct resp_call *call, enum request_kind kind,
			     enum reply_shape shape, bool (*option)(struct arguments *))
{
	struct arguments a = {.call = call, .request = new_request(call, kind), .at = 3};

	if (a.request == NULL)
		return;
	add_pair(a.request, &call->argv[1]);
	while (a.at < call->argc) {
		if (!option(&a)) {
			request_free(a.request);
			return;
		}
	}
	session_decide(call->session, a.request, shape);
}

void resp_limiter_take(const struct resp_call *call)
{
	run_with_options(call, REQUEST_TAKE, REPLY_TAKE, take_option);
}

void resp_limiter_acquire(const struct resp_call *call)
{
	run_with_options(call, REQUEST_ACQUIRE, REPLY_ACQUIRE, acquire_option);
}

void resp_limiter_peek(const struct resp_call *call)
{
	run_with_options(call, REQUEST_PEEK, REPLY_TAKE, NULL); /* its arity allows none */
}

static void run_with_permit(const struct resp_call *call, enum request_kind kind)
{
	struct request *r = new_request(call, kind);

	if (r == NULL)
		return;
	add_pair(r, &call->argv[1]);
	r->permit = call->argv[3];
	session_decide(call->session, r, REPLY_AMOUNT);
}

void resp_limiter_release(const struct resp_call *call)
{
	run_with_permit(call, REQUEST_RELEASE);
}

void resp_limiter_renew(const struct resp_call *call)
{
	run_with_permit(call, REQUEST_RENEW);
}

void resp_limiter_refund(const struct resp_call *call)
{
	int64_t amount = -1;
	struct request *r;

	if (call->argc > 3) {
		session_error(call->session, "ERR", "syntax error: KOVA.REFUND receipt [n]");
		return;
	}
	if (call->argc == 3 && !number(call, 2, "n", 0, LIMIT_MAX, &amount))
		return;
	r = new_request(call, REQUEST_REFUND);
	if (r == NULL)
		return;
	r->receipt = call->argv[1];
	r->refund_amount = amount;
	session_decide(call->session, r, REPLY_AMOUNT);
}

/* ---- Feedback ---- */

static bool option_number(struct arguments *a, const char *name, const char *usage, int64_t min,
			  int64_t max, bool *given, uint64_t *ret_value)
{
	int64_t value;

	if (!option_fits(a, 1, *given, usage) ||
	    !number(a->call, a->at + 1, name, min, max, &value))
		return false;
	*given = true;
	*ret_value = (uint64_t)value;
	a->at += 2;
	return true;
}

static bool option_retry_after(struct arguments *a)
{
	if (!option_fits(a, 1, a->retry_given, "RETRYAFTER value"))
		return false;
	a->retry_given = true;
	a->request->feedback.retry_after = a->call->argv[a->at + 1];
	a->at += 2;
	return true;
}

static bool feedback_option(struct arguments *a)
{
	struct slice word = a->call->argv[a->at];
	struct request_feedback *f = &a->request->feedback;
	uint64_t status;

	if (resp_word_is(word, "retryafter"))
		return option_retry_after(a);
	if (resp_word_is(word, "remaining"))
		return option_number(a, "REMAINING", "REMAINING n", 0, LIMIT_MAX, &f->has_remaining,
				     &f->remaining);
	if (resp_word_is(word, "reset"))
		return option_number(a, "RESET", "RESET ms", 0, REQUEST_RESET_MAX_MS,
				     &a->reset_given, &f->reset_ms);
	if (resp_word_is(word, "status")) {
		if (!option_number(a, "STATUS", "STATUS code", 100, 599, &a->status_given, &status))
			return false;
		f->status = (uint16_t)status;
		return true;
	}
	if (resp_word_is(word, "latency"))
		return option_number(a, "LATENCY", "LATENCY ms", 0, REQUEST_WAIT_MAX_MS,
				     &a->latency_given, &f->latency_ms);
	session_error(a->call->session, "ERR",
		      "syntax error: '%s' is no option; allowed are STATUS code, RETRYAFTER value, "
		      "LATENCY ms, REMAINING n and RESET ms",
		      session_quote(word).text);
	return false;
}

void resp_limiter_feedback(const struct resp_call *call)
{
	struct arguments a = {.call = call, .at = 4};
	bool ok = resp_word_is(call->argv[3], "ok");

	if (!ok && !resp_word_is(call->argv[3], "error")) {
		session_error(call->session, "ERR",
			      "syntax error: the outcome must be OK or ERROR, not '%s'",
			      session_quote(call->argv[3]).text);
		return;
	}
	a.request = new_request(call, REQUEST_FEEDBACK);
	if (a.request == NULL)
		return;
	add_pair(a.request, &call->argv[1]);
	a.request->feedback.ok = ok;
	while (a.at < call->argc) {
		if (!feedback_option(&a)) {
			request_free(a.request);
			return;
		}
	}
	session_decide(call->session, a.request, REPLY_OK);
}

void resp_limiter_throttle(const struct resp_call *call)
{
	struct request_throttle t = {.quantity = 1};
	struct request *r;

	if (call->argc > 6) {
		session_error(call->session, "ERR",
			      "syntax error: CL.THROTTLE key max_burst count period [quantity]");
		return;
	}
	if (!number(call, 2, "max_burst", 0, LIMIT_MAX - 1, &t.max_burst) ||
	    !number(call, 3, "count", 1, LIMIT_MAX, &t.count) ||
	    !number(call, 4, "period", 1, INT64_C(400) * 86400, &t.period_s) ||
	    (call->argc == 6 && !number(call, 5, "quantity", 0, LIMIT_MAX, &t.quantity)))
		return;
	r = new_request(call, REQUEST_THROTTLE);
	if (r == NULL)
		return;
	r->throttle = t;
	r->n_pairs = 1;
	r->pairs[0] = (struct request_pair){.key = call->argv[1], .cost = 1};
	session_decide(call->session, r, REPLY_THROTTLE);
}
