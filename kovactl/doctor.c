/*
 * kovactl doctor: looks at the agent from where kovactl runs, one check after the other, and says
 * what to do about what it finds. The checks of RESP come first; without it the others have
 * nobody to ask.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_info.h"
#include "arguments.h"
#include "command.h"
#include "core/duration.h"
#include "core/version.h"
#include "now.h"
#include "output.h"
#include "session.h"

enum { PINGS = 20, SLOW_US = 5000, SKEW_MAX_MS = 2000 };

enum finding { FINE, NOTE, PROBLEM, LOST };

struct doctor {
	struct session *s;
	json_t *checks; /* owned; with --json */
	unsigned notes, problems;
	bool lost;
	redisReply *info; /* owned; NULL: not read */
};

static void print_finding(enum finding finding, const char *check, const char *text,
			  const char *advice)
{
	static const struct {
		enum paint paint;
		const char *utf8, *ascii;
	} marks[] = {
		[FINE] = {PAINT_GOOD, "✓", "ok  "},
		[NOTE] = {PAINT_WARN, "!", "note"},
		[PROBLEM] = {PAINT_BAD, "✗", "BAD "},
		[LOST] = {PAINT_BAD, "✗", "BAD "},
	};

	printf("%s%s%s %-9s ", paint(stdout, marks[finding].paint),
	       output_is_utf8() ? marks[finding].utf8 : marks[finding].ascii,
	       paint(stdout, PAINT_PLAIN), check);
	output_text(stdout, text);
	putchar('\n');
	if (advice != NULL)
		printf("%*s%s\n", output_is_utf8() ? 12 : 15, "", advice);
	fflush(stdout);
}

/* `advice` says what to do; NULL where there is nothing to do. */
static void found(struct doctor *d, enum finding finding, const char *check, const char *text,
		  const char *advice)
{
	static const char *const names[] = {
		[FINE] = "ok", [NOTE] = "note", [PROBLEM] = "problem", [LOST] = "problem"};

	d->notes += finding == NOTE;
	d->problems += finding >= PROBLEM;
	d->lost |= finding == LOST;
	if (d->s->json)
		json_array_append_new(d->checks,
				      json_pack("{s:s, s:s, s:s, s:s*}", "check", check, "state",
						names[finding], "text", text, "advice", advice));
	else
		print_finding(finding, check, text, advice);
}

/* ---- RESP ---- */

static const char *lost_advice(const struct session *s, kova_status status)
{
	if (status == KOVA_EPROTO)
		return "It does not speak RESP: is this the agent's HTTP address?";
	if (status == KOVA_ETIMEDOUT)
		return "Something accepts connections there but does not answer as an agent.";
	if (s->address.is_unix)
		return "Start kova-agent, or give the path of its \"unix\" with --agent unix:PATH.";
	return "Start kova-agent, or give its RESP address with --agent HOST:PORT.";
}

static bool check_connect(struct doctor *d)
{
	struct session *s = d->s;
	struct agent_error error = {"out of memory"};
	char text[640];

	kova_status status = agent_resp_open(&s->address, &s->tls, s->token, &s->resp, &error);
	if (status == KOVA_OK) {
		snprintf(text, sizeof text, "connected to %s", session_agent_text(s));
		found(d, FINE, "RESP", text, NULL);
		return true;
	}
	if (status == KOVA_EAUTH) {
		snprintf(text, sizeof text, "the agent at %s does not know this token",
			 session_agent_text(s));
		found(d, PROBLEM, "token", text, "See its auth.tokens_file.");
		return false;
	}
	snprintf(text, sizeof text, "%s: %s", session_agent_text(s), error.text);
	found(d, LOST, "RESP", text, lost_advice(s, status));
	return false;
}

/* One command; its reply, NULL with *ret_error. */
static redisReply *ask(struct agent_resp *agent, const char *command, kova_status *ret_status,
		       struct agent_error *ret_error)
{
	struct resp_words words = {0};
	redisReply *reply = NULL;

	resp_words_add(&words, command);
	*ret_status = agent_resp_call(agent, &words, RESP_TIMEOUT_MS, &reply, ret_error);
	return *ret_status == KOVA_OK ? reply : NULL;
}

/* Whether the agent turns away who has none. */
static bool token_is_needed(const struct session *s)
{
	struct agent_error error;
	struct agent_resp *bare = NULL;
	redisReply *info = NULL;
	kova_status status = agent_resp_open(&s->address, &s->tls, NULL, &bare, &error);

	if (status == KOVA_OK)
		info = ask(bare, "INFO", &status, &error);
	agent_resp_close(bare);
	if (info != NULL)
		freeReplyObject(info);
	return status == KOVA_EAUTH;
}

/* Asks for a policy that hardly is there: the scope is looked at first. */
static void check_scope(struct doctor *d)
{
	struct resp_words words = {0};
	struct agent_error error;
	redisReply *reply;

	resp_words_add(&words, "KOVA.PEEK");
	resp_words_add(&words, "kovactl-doctor");
	resp_words_add(&words, "kovactl-doctor");
	kova_status status = agent_resp_call(d->s->resp, &words, RESP_TIMEOUT_MS, &reply, &error);

	if (status == KOVA_OK)
		freeReplyObject(reply);
	if (status == KOVA_EAUTH)
		found(d, NOTE, "check", "not permitted with this token",
		      "take, peek, wait and pool next need a token with the scope check.");
}

static void check_token(struct doctor *d)
{
	if (d->s->token == NULL) {
		found(d, FINE, "token", "none given, none needed", NULL);
	} else if (!token_is_needed(d->s)) {
		found(d, FINE, "token", "given, but none is needed", NULL);
	} else {
		found(d, FINE, "token", "accepted", NULL);
		check_scope(d);
	}
}

static bool check_info(struct doctor *d)
{
	struct agent_error error = {"out of memory"};
	kova_status status;

	d->info = ask(d->s->resp, "INFO", &status, &error);
	if (d->info != NULL && d->info->type != REDIS_REPLY_STRING &&
	    d->info->type != REDIS_REPLY_VERB) {
		found(d, PROBLEM, "token",
		      "INFO is answered in a form that this kovactl does not know",
		      "Is it a kova-agent that listens there?");
		return false;
	}
	if (d->info != NULL) {
		check_token(d);
		return true;
	}
	if (status != KOVA_EAUTH)
		found(d, LOST, "RESP", error.text, lost_advice(d->s, status));
	else
		found(d, PROBLEM, "token", error.text,
		      "This agent wants a token: --token-file FILE or KOVA_TOKEN.");
	return false;
}

static struct slice info_text(const struct doctor *d)
{
	return (struct slice){d->info->str, d->info->len};
}

static void check_version(struct doctor *d)
{
	struct slice version;
	char text[128];

	if (!info_field(info_text(d), "kova_version", &version)) {
		found(d, PROBLEM, "version",
		      "whoever listens there does not say that it is a kova-agent",
		      "Is it a Redis server? kova-agent listens on port 7411 by default.");
		return;
	}
	snprintf(text, sizeof text, "agent %.*s, kovactl " KOVA_VERSION, (int)version.len,
		 version.ptr);
	if (slice_equal(version, slice_of(KOVA_VERSION)))
		found(d, FINE, "version", text, NULL);
	else
		found(d, NOTE, "version", text,
		      "They differ: what is new in one, the other may not know.");
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* "median 85us, from 70us to 1.2ms" */
static void latency_text(char text[96], uint64_t *us)
{
	qsort(us, PINGS, sizeof us[0], compare);
	snprintf(text, 96, "median %.2f ms, from %.2f to %.2f ms", (double)us[PINGS / 2] / 1000,
		 (double)us[0] / 1000, (double)us[PINGS - 1] / 1000);
}

static void judge_latency(struct doctor *d, const char *check, uint64_t *us)
{
	char text[96];

	latency_text(text, us);
	if (us[PINGS / 2] <= SLOW_US)
		found(d, FINE, check, text, NULL);
	else
		found(d, NOTE, check, text,
		      "Slow for a neighbour: is the agent or its machine busy, or far away?");
}

static void check_ping(struct doctor *d)
{
	struct agent_error error = {"out of memory"};
	uint64_t us[PINGS];

	for (size_t i = 0; i < PINGS; i++) {
		uint64_t begun_us = now_monotonic_us();
		kova_status status;
		redisReply *reply = ask(d->s->resp, "PING", &status, &error);

		if (reply == NULL) {
			found(d, LOST, "PING", error.text, "The agent went away in between.");
			return;
		}
		freeReplyObject(reply);
		us[i] = now_monotonic_us() - begun_us;
	}
	judge_latency(d, "PING", us);
}

/* ---- HTTP ---- */

static bool http_get(struct doctor *d, const char *target, struct http_answer *ret_answer)
{
	struct agent_error error = {"out of memory"};
	kova_status status = agent_http_call(d->s->http, "GET", target, NULL, ret_answer, &error);

	if (status == KOVA_OK)
		return true;
	found(d, LOST, "HTTP", error.text,
	      "The agent tells this address by RESP, but it is not reachable from here.");
	return false;
}

/* NULL where the body is no JSON. */
static json_t *answer_json(const struct http_answer *answer)
{
	return answer->body.len == 0 ? NULL
				     : json_loadb(answer->body.ptr, answer->body.len, 0, NULL);
}

static bool check_http(struct doctor *d)
{
	struct address address;
	char text[320];

	kova_status status = info_http_address(info_text(d), &d->s->address, &address);
	if (status == KOVA_EAUTH) {
		found(d, PROBLEM, "HTTP", "it speaks no TLS, and is not on this machine",
		      "A token would cross the network in the clear: see its tls.fronts.");
		return false;
	}
	if (status != KOVA_OK) {
		found(d, NOTE, "HTTP", "the agent has no HTTP side",
		      "policies, override and usage need \"listen\": {\"http\": \"HOST:PORT\"}.");
		return false;
	}
	if (agent_http_open(&address, &d->s->tls, d->s->token, &d->s->http) != KOVA_OK)
		return false;
	struct http_answer answer;
	if (!http_get(d, "/healthz", &answer))
		return false;
	snprintf(text, sizeof text, "%s port %u answers %ld", address.host, address.port,
		 answer.code);
	found(d, answer.code == 200 ? FINE : PROBLEM, "HTTP", text,
	      answer.code == 200 ? NULL : "Look into the agent's log.");
	http_answer_release(&answer);
	return answer.code == 200;
}

/* The Date field has whole seconds: half a second either way is not seen. */
static void judge_clock(struct doctor *d, int64_t date_s, int64_t here_ms)
{
	int64_t ahead_ms = date_s * 1000 + 500 - here_ms;
	uint64_t off_ms = (uint64_t)(ahead_ms < 0 ? -ahead_ms : ahead_ms);
	char off[DURATION_TEXT_MAX], text[96];

	if (off_ms <= SKEW_MAX_MS) {
		found(d, FINE, "clock", "the agent's and this machine's agree within 2 s", NULL);
		return;
	}
	duration_write_rounded(off_ms, off);
	snprintf(text, sizeof text, "the agent's is about %s %s this machine's", off,
		 ahead_ms > 0 ? "ahead of" : "behind");
	found(d, NOTE, "clock", text,
	      "Overrides and calendar windows end by it: keep both in step by NTP.");
}

static void judge_redis(struct doctor *d, const json_t *redis)
{
	json_int_t shards = json_integer_value(json_object_get(redis, "shards"));
	json_int_t up = json_integer_value(json_object_get(redis, "up"));
	char text[96];

	if (shards == 1)
		snprintf(text, sizeof text, up == 1 ? "reachable" : "not reachable");
	else
		snprintf(text, sizeof text, "%lld of %lld reachable", (long long)up,
			 (long long)shards);
	if (up < shards)
		found(d, PROBLEM, "Redis", text,
		      "See to that Redis; meanwhile each policy's on_outage decides.");
	else
		found(d, FINE, "Redis", text, NULL);
}

static void judge_ready(struct doctor *d, long code, const json_t *body)
{
	const char *state = json_string_value(json_object_get(body, "status"));
	char text[96];

	snprintf(text, sizeof text, "%.80s",
		 state != NULL ? state
		 : code == 200 ? "ready"
			       : "not ready");
	if (code != 200)
		found(d, PROBLEM, "ready", text, "It takes no new requests: it is about to stop.");
	else
		found(d, json_array_size(json_object_get(body, "degraded")) == 0 ? FINE : NOTE,
		      "ready", text, NULL);
	if (json_is_object(json_object_get(body, "redis")))
		judge_redis(d, json_object_get(body, "redis"));
}

static void check_ready(struct doctor *d)
{
	struct http_answer answer;
	int64_t before_ms = now_wall_ms();

	if (!http_get(d, "/readyz", &answer))
		return;
	int64_t here_ms = before_ms + (now_wall_ms() - before_ms) / 2;
	json_t *body = answer_json(&answer);
	judge_ready(d, answer.code, body);
	if (answer.date_s >= 0)
		judge_clock(d, answer.date_s, here_ms);
	json_decref(body);
	http_answer_release(&answer);
}

static void check_http_latency(struct doctor *d)
{
	uint64_t us[PINGS];

	for (size_t i = 0; i < PINGS; i++) {
		struct http_answer answer;
		uint64_t begun_us = now_monotonic_us(); /* the connection is there already */

		if (!http_get(d, "/healthz", &answer))
			return;
		us[i] = now_monotonic_us() - begun_us;
		http_answer_release(&answer);
	}
	judge_latency(d, "HTTP trip", us);
}

static void check_policies(struct doctor *d)
{
	struct http_answer answer;
	char text[96];

	if (!http_get(d, "/v1/policies", &answer))
		return;
	json_t *body = answer_json(&answer);
	size_t n = json_array_size(json_object_get(body, "policies"));

	if (answer.code == 401 || answer.code == 403) {
		found(d, NOTE, "admin", "not permitted with this token",
		      "policies, override and config need a token with the scope admin.");
	} else if (answer.code != 200) {
		snprintf(text, sizeof text, "/v1/policies answers %ld", answer.code);
		found(d, PROBLEM, "admin", text, "Look into the agent's log.");
	} else if (n == 0) {
		found(d, NOTE, "policies", "there are none, so that every take is an error",
		      "Make one: kovactl policies put FILE.");
	} else {
		snprintf(text, sizeof text, "%zu in force", n);
		found(d, FINE, "policies", text, NULL);
	}
	json_decref(body);
	http_answer_release(&answer);
}

/* False: it can't give an endpoint now, or nobody knows; that was found. */
static bool check_pool(struct doctor *d, const char *name)
{
	struct buf target = {0};
	struct http_answer answer;
	char text[160];

	buf_add_text(&target, "/v1/pools/");
	http_encode(&target, name);
	buf_add(&target, "", 1);
	bool asked = !buf_failed(&target) && http_get(d, target.ptr, &answer);

	buf_release(&target);
	if (!asked)
		return false;
	json_t *body = answer_json(&answer);
	const char *paused = json_string_value(json_object_get(body, "paused"));

	if (answer.code != 200)
		snprintf(text, sizeof text, "%s can't be looked at: HTTP status %ld", name,
			 answer.code);
	else
		snprintf(text, sizeof text, "%s is paused: %s", name, paused != NULL ? paused : "");
	bool fine = answer.code == 200 && paused == NULL;

	if (!fine && paused != NULL && strcmp(paused, "empty") == 0)
		found(d, NOTE, "pool", text,
		      "It has no endpoint that is enabled and of weight > 0: kovactl pool import, "
		      "enable.");
	else if (!fine)
		found(d, NOTE, "pool", text, "kovactl pool show says more.");
	json_decref(body);
	http_answer_release(&answer);
	return fine;
}

static void check_pools(struct doctor *d)
{
	struct http_answer answer;
	char text[96];
	const json_t *name;
	size_t i, fine = 0;

	if (!http_get(d, "/v1/pools", &answer))
		return;
	json_t *body = answer_json(&answer), *pools = json_object_get(body, "pools");

	json_array_foreach(pools, i, name)
		fine += !d->lost && check_pool(d, json_string_value(name));
	snprintf(text, sizeof text, "%zu, none paused", fine);
	if (fine > 0 && fine == json_array_size(pools))
		found(d, FINE, "pools", text, NULL);
	json_decref(body);
	http_answer_release(&answer);
}

/* ---- the whole ---- */

static void examine(struct doctor *d)
{
	if (!check_connect(d) || !check_info(d))
		return;
	check_version(d);
	check_ping(d);
	if (d->lost || !check_http(d))
		return;
	check_http_latency(d);
	check_ready(d);
	check_policies(d);
	check_pools(d);
}

static int conclude(struct doctor *d)
{
	int status = d->lost ? EXIT_UNREACHABLE : d->problems > 0 ? EXIT_REFUSED : EXIT_ALLOWED;

	if (d->s->json) {
		int printed = output_json(json_pack("{s:b, s:O}", "healthy", status == EXIT_ALLOWED,
						    "checks", d->checks));
		return printed == EXIT_ALLOWED ? status : printed;
	}
	if (d->problems > 0)
		printf("\n%u %s found.\n", d->problems, d->problems == 1 ? "problem" : "problems");
	else if (d->notes > 0)
		printf("\nIt works; %u %s worth a look.\n", d->notes,
		       d->notes == 1 ? "thing is" : "things are");
	else
		printf("\nAll is well.\n");
	return status;
}

static int run(struct session *s, struct arguments *a)
{
	struct doctor d = {.s = s};
	size_t n;

	if (!arguments_words(a, NULL, 0, 0, &n))
		return a->status;
	int status = session_settle(s);
	if (status != EXIT_ALLOWED)
		return status;
	d.checks = json_array();
	examine(&d);
	status = conclude(&d);
	if (d.info != NULL)
		freeReplyObject(d.info);
	json_decref(d.checks);
	return status;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "Check the agent from here and say what to do",
	.usage = "",
	.details = "Reachability by RESP and HTTP, token, versions, round trips, clock, Redis, "
		   "policies,\npools.\n"
		   "Exit status: 0 it works, 1 a problem was found, 3 not reachable.",
	.run = run,
};
