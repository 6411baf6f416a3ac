/*
 * kovactl wait: asks with WAIT until it is allowed, then becomes the command.
 *
 * The server cuts WAIT to the policy's max_wait and then answers wait_timeout: we ask again at
 * once, behind those who wait already. Refused without waiting (queue_full, a policy where nobody
 * waits, an outage) we sleep for retry_after and a little at random, so that many of us don't
 * come back together. A lost connection is tried again for a while; every try carries the same
 * ID, so that it is charged once even when the reply that said so was lost.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "arguments.h"
#include "command.h"
#include "core/duration.h"
#include "core/limit.h"
#include "core/request_bounds.h"
#include "now.h"
#include "output.h"
#include "program.h"
#include "session.h"
#include "verdict.h"

#define TIMEOUT_MAX_MS (UINT64_C(400) * 86400000)

enum {
	NAP_MIN_MS = 100,
	NAP_MAX_MS = 60000, /* things change: a limit may be raised meanwhile */
	NAP_SPREAD_MS = 1000,
	RETRY_MAX_MS = 5000,
	LOST_MAX_MS = 30000, /* how long a lost agent is looked for */
};

struct wait {
	const char *policy, *key, *cost;
	char **command;      /* NULL: only wait */
	uint64_t timeout_ms; /* UINT64_MAX: none */
	uint64_t begun_us;
	char id[33];
	bool told; /* a line on the terminal says that we wait */
};

static int find_program(const char *name)
{
	int status = program_find(name);

	if (status != EXIT_ALLOWED)
		complain("%s: %s; nothing was taken", name,
			 status == EXIT_NOT_FOUND ? "no such command" : "not executable");
	return status;
}

static uint64_t elapsed_ms(const struct wait *w)
{
	return (now_monotonic_us() - w->begun_us) / 1000;
}

/* Until --timeout, at most `max_ms`. */
static uint64_t left_ms(const struct wait *w, uint64_t max_ms)
{
	uint64_t elapsed = elapsed_ms(w);
	uint64_t left = elapsed < w->timeout_ms ? w->timeout_ms - elapsed : 0;

	return left < max_ms ? left : max_ms;
}

/* On a terminal only: one line that counts the seconds, over itself. */
static void tell_waiting(struct wait *w, const char *what)
{
	char text[DURATION_TEXT_MAX];

	if (!output_is_terminal(stderr))
		return;
	duration_write_rounded(elapsed_ms(w) / 1000 * 1000, text);
	fprintf(stderr, "\r\x1b[K%skovactl:%s %s ", paint(stderr, PAINT_DIM),
		paint(stderr, PAINT_PLAIN), what);
	output_text(stderr, w->policy);
	fputc(' ', stderr);
	output_text(stderr, w->key);
	fprintf(stderr, ", %s", text);
	fflush(stderr);
	w->told = true;
}

static void tell_end(struct wait *w)
{
	if (w->told)
		fputs("\r\x1b[K", stderr);
	w->told = false;
}

static void nap(struct wait *w, uint64_t ms, const char *what)
{
	uint16_t random = 0;

	if (getrandom(&random, sizeof random, 0) != sizeof random)
		random = 0;
	uint64_t spread_ms = ms / 8 < NAP_SPREAD_MS ? ms / 8 : NAP_SPREAD_MS;
	ms = left_ms(w, ms + spread_ms * random / UINT16_MAX);
	uint64_t end_us = now_monotonic_us() + ms * 1000;
	for (uint64_t now_us = now_monotonic_us(); now_us < end_us; now_us = now_monotonic_us()) {
		uint64_t rest_ms = (end_us - now_us + 999) / 1000;

		if (elapsed_ms(w) >= 1000)
			tell_waiting(w, what);
		now_sleep_ms(rest_ms < 1000 ? rest_ms : 1000);
	}
}

/* The reply, while the seconds are counted on the terminal. */
static kova_status receive(struct session *s, struct wait *w, uint64_t end_us,
			   redisReply **ret_reply, struct agent_error *ret_error)
{
	kova_status status = KOVA_AGAIN;

	while (status == KOVA_AGAIN && now_monotonic_us() < end_us) {
		status = agent_resp_receive(s->resp, 1000, ret_reply, ret_error);
		if (status == KOVA_AGAIN)
			tell_waiting(w, "waiting for");
	}
	if (status == KOVA_AGAIN) {
		agent_error_set(ret_error, "no answer in time");
		return KOVA_ETIMEDOUT;
	}
	return status;
}

/* One TAKE with WAIT. KOVA_OK: *ret_verdict. */
static kova_status ask(struct session *s, struct wait *w, struct verdict *ret_verdict,
		       struct agent_error *ret_error)
{
	struct resp_words words = {0};
	uint64_t step_ms = left_ms(w, REQUEST_WAIT_MAX_MS);
	uint64_t end_us = now_monotonic_us() + (step_ms + RESP_TIMEOUT_MS) * 1000;
	char wait_text[24];
	redisReply *reply;

	snprintf(wait_text, sizeof wait_text, "%" PRIu64, step_ms);
	const char *list[] = {"KOVA.TAKE", w->policy, w->key, "COST", w->cost,
			      "WAIT",      wait_text, "ID",   w->id};
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
		resp_words_add(&words, list[i]);
	kova_status status = agent_resp_send(s->resp, &words, ret_error);
	if (status == KOVA_OK)
		status = receive(s, w, end_us, &reply, ret_error);
	return status == KOVA_OK ? verdict_take(reply, ret_verdict, ret_error) : status;
}

/* Looks for the agent again, more and more rarely. KOVA_OK: connected. */
static kova_status reconnect(struct session *s, struct wait *w, struct agent_error *ret_error)
{
	uint64_t lost_us = now_monotonic_us();
	uint64_t nap_ms = 250;
	kova_status status = KOVA_ECONN;

	session_disconnect(s);
	while (agent_resp_is_lost(status) && left_ms(w, 1) > 0 &&
	       now_monotonic_us() - lost_us < (uint64_t)LOST_MAX_MS * 1000) {
		nap(w, nap_ms, "the agent is gone; looking for it again for");
		nap_ms = nap_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : nap_ms * 2;
		status = agent_resp_open(&s->address, &s->tls, s->token, &s->resp, ret_error);
	}
	return status;
}

/* Will it never be allowed, however long we wait? An outage ends. */
static bool is_final(const struct verdict *v)
{
	return !v->allowed && v->retry_after_ms < 0 && strcmp(v->reason, "outage") != 0;
}

/* After a refusal: until it is time to ask again. */
static void pause_for(struct wait *w, const struct verdict *v, uint64_t asked_us)
{
	uint64_t ms = v->retry_after_ms < 0 ? 1000 : (uint64_t)v->retry_after_ms;

	if (strcmp(v->reason, "wait_timeout") == 0) {
		/* It waited already, unless max_wait is nearly nothing. */
		if (now_monotonic_us() - asked_us > NAP_MIN_MS * 1000)
			return;
		ms = NAP_MIN_MS;
	}
	if (ms < NAP_MIN_MS)
		ms = NAP_MIN_MS;
	nap(w, ms > NAP_MAX_MS ? NAP_MAX_MS : ms, "waiting for");
}

/* EXIT_ALLOWED, EXIT_REFUSED with *ret_verdict; or another after a complaint. */
static int wait_turn(struct session *s, struct wait *w, struct verdict *ret_verdict)
{
	struct agent_error error = {"out of memory"};
	int exit_status = session_connect(s);

	while (exit_status == EXIT_ALLOWED) {
		uint64_t asked_us = now_monotonic_us();
		kova_status status = ask(s, w, ret_verdict, &error);
		if (agent_resp_is_lost(status)) {
			status = reconnect(s, w, &error);
			if (status == KOVA_OK)
				continue;
		}
		if (status != KOVA_OK) {
			tell_end(w);
			return session_failed(s, status, &error);
		}
		if (ret_verdict->allowed || is_final(ret_verdict) || left_ms(w, 1) == 0)
			break;
		pause_for(w, ret_verdict,
			  asked_us); /* at the latest until --timeout: then a last try */
	}
	tell_end(w);
	return exit_status != EXIT_ALLOWED ? exit_status : verdict_exit(ret_verdict);
}

/* The verdict goes where the command's own output does not. */
static int show(const struct session *s, const struct wait *w, const struct verdict *v)
{
	char text[VERDICT_REASON_MAX];

	if (s->json && w->command != NULL) {
		char *json = NULL;
		json_t *object = verdict_json(v);

		if (object != NULL)
			json = json_dumps(object, JSON_COMPACT);
		if (json != NULL)
			fprintf(stderr, "%s\n", json);
		free(json);
		json_decref(object);
		return EXIT_ALLOWED;
	}
	if (s->json)
		return output_json(verdict_json(v));
	if (!v->allowed && is_final(v))
		complain("refused, and waiting does not help: %s", verdict_reason(v, text));
	else if (!v->allowed)
		complain("not allowed in time: %s", verdict_reason(v, text));
	return EXIT_ALLOWED;
}

static void word(struct arguments *a, struct wait *w, const char *text)
{
	if (w->policy == NULL)
		w->policy = text;
	else if (w->key == NULL)
		w->key = text;
	else
		arguments_error(a, "put -- before the command: -- %s ...", text);
}

static bool read_arguments(struct arguments *a, struct wait *w)
{
	const char *value;
	uint64_t number;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id == ARGUMENT_WORD)
			word(a, w, value);
		else if (id == 't')
			arguments_duration(a, "--timeout", value, 0, TIMEOUT_MAX_MS,
					   &w->timeout_ms);
		else if (arguments_number(a, "--cost", value, 1, LIMIT_MAX, &number))
			w->cost = value;
	}
	w->command = a->run;
	return !a->stopped && arguments_policy_key(a, w->policy, w->key);
}

/* Every try of one run carries the same. */
static void id_make(char id[33])
{
	unsigned char bytes[16];
	ssize_t n = getrandom(bytes, sizeof bytes, 0);

	assert(n == sizeof bytes); /* up to 256 bytes are never cut short: getrandom(2) */
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

static int run(struct session *s, struct arguments *a)
{
	struct wait w = {.cost = "1", .timeout_ms = UINT64_MAX, .begun_us = now_monotonic_us()};
	struct verdict v;

	if (!read_arguments(a, &w))
		return a->status;
	int status = w.command != NULL ? find_program(w.command[0]) : EXIT_ALLOWED;
	if (status != EXIT_ALLOWED)
		return status;
	id_make(w.id);
	status = wait_turn(s, &w, &v);
	if (status != EXIT_ALLOWED && status != EXIT_REFUSED)
		return status;
	int shown = show(s, &w, &v);
	if (status != EXIT_ALLOWED || shown != EXIT_ALLOWED || w.command == NULL)
		return status != EXIT_ALLOWED ? status : shown;
	session_disconnect(s);
	return program_become(w.command);
}

static const struct option_spec options[] = {
	{'t', "timeout", "DURATION", "give up after so long (else wait for as long as it takes)"},
	{'c', "cost", "N", "how much to take, 1 to 1000000000 (else 1)"},
	{0},
};

const struct command command_wait = {
	.name = "wait",
	.summary = "Wait for a limit, then run a command",
	.usage = "POLICY KEY [--timeout DURATION] [--cost N] [-- COMMAND [ARGUMENT]...]",
	.details = "Without a command it only waits. Exit status: the command's; 1 not allowed in "
		   "time,\n"
		   "126 or 127 when the command cannot be run (then nothing is taken).",
	.examples = "kovactl wait captcha-submit worker-1 -- curl -s https://api.example.com/\n"
		    "kovactl wait api acme/u7 --timeout 30s && ./send",
	.options = options,
	.runs = true,
	.run = run,
};
