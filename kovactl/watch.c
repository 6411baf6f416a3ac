/*
 * kovactl watch: a peek again and again. On a terminal one line that is drawn over, elsewhere a
 * line each time. An agent that goes away after the first answer is said and looked for again.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "core/duration.h"
#include "core/rfc3339.h"
#include "now.h"
#include "output.h"
#include "session.h"
#include "verdict.h"

#define EVERY_MAX_MS UINT64_C(3600000)
enum { EVERY_MIN_MS = 50, BAR_MAX = 50, BAR_MIN = 5 };

#define CURSOR_HIDE "\x1b[?25l"
#define CURSOR_SHOW "\x1b[?25h"
#define WRAP_OFF "\x1b[?7l"
#define WRAP_ON "\x1b[?7h"
#define LINE_START "\r\x1b[K"

struct watch {
	const char *policy, *key;
	uint64_t every_ms;
	uint64_t count; /* 0: until Ctrl-C */
	bool live;      /* on a terminal */
};

/* stdout is flushed after each line, so that there is nothing to lose. */
static void on_interrupt(int number)
{
	static const char end[] = CURSOR_SHOW "\n";

	(void)number;
	if (isatty(STDOUT_FILENO) && write(STDOUT_FILENO, end, sizeof end - 1) < 0)
		_exit(EXIT_USAGE);
	_exit(EXIT_ALLOWED);
}

static unsigned bar_width(size_t text_len)
{
	unsigned columns = output_columns();
	unsigned used = (unsigned)text_len + 4;

	if (columns < used + BAR_MIN)
		return BAR_MIN;
	return columns - used < BAR_MAX ? columns - used : BAR_MAX;
}

/* The whole line at once, so that it does not flicker. */
static void show_live(const struct watch *w, const struct verdict *v)
{
	struct buf names = {0}, text = {0}, safe = {0};

	buf_printf(&names, "%s %s", w->policy, w->key);
	output_safe(&safe, buf_slice(&names));
	buf_add(&safe, "", 1);
	verdict_summary(&text, v);
	buf_add(&text, "", 1);
	if (!buf_failed(&safe) && !buf_failed(&text)) {
		enum paint colour = verdict_paint(v);

		printf(CURSOR_HIDE WRAP_OFF LINE_START "%s  %s", safe.ptr, paint(stdout, colour));
		output_bar(stdout, verdict_part(v), verdict_whole(v),
			   bar_width(safe.len + text.len));
		printf("%s  ", paint(stdout, PAINT_PLAIN));
		output_text(stdout, text.ptr);
		fputs(WRAP_ON, stdout);
	}
	buf_release(&names);
	buf_release(&text);
	buf_release(&safe);
}

/* A key need not be text: what JSON cannot hold is written as people see it. */
static json_t *json_bytes(const char *bytes)
{
	json_t *json = json_string(bytes);
	struct buf safe = {0};

	if (json != NULL)
		return json;
	output_safe(&safe, slice_of(bytes));
	if (!buf_failed(&safe))
		json = json_stringn(safe.ptr, safe.len);
	buf_release(&safe);
	return json;
}

static int show_json(const struct watch *w, const struct verdict *v, const char *at)
{
	json_t *json = json_pack("{s:s, s:o, s:o}", "at", at, "policy", json_bytes(w->policy),
				 "key", json_bytes(w->key));
	json_t *fields = verdict_json(v);

	if (json == NULL || fields == NULL || json_object_update(json, fields) != 0) {
		json_decref(json);
		json = NULL;
	}
	json_decref(fields);
	return output_json(json);
}

static int show(const struct session *s, const struct watch *w, const struct verdict *v)
{
	int exit_status = EXIT_ALLOWED;
	char at[RFC3339_TEXT_MAX];

	rfc3339_write(now_wall_ms(), at);
	if (s->json) {
		exit_status = show_json(w, v, at);
	} else if (w->live) {
		show_live(w, v);
	} else {
		struct buf text = {0};

		verdict_summary(&text, v);
		buf_add(&text, "", 1);
		printf("%s  %s  ", at, v->allowed ? "allowed" : "refused");
		output_text(stdout, buf_failed(&text) ? "" : text.ptr);
		putchar('\n');
		buf_release(&text);
	}
	return fflush(stdout) == 0 ? exit_status : EXIT_USAGE;
}

static void show_lost(const struct session *s, const struct watch *w, const struct agent_error *e)
{
	if (w->live) {
		printf(LINE_START "%sno answer from the agent at ", paint(stdout, PAINT_BAD));
		output_text(stdout, session_agent_text(s));
		printf("%s; looking for it again", paint(stdout, PAINT_PLAIN));
		fflush(stdout);
	} else {
		complain("no answer from the agent at %s: %s", session_agent_text(s), e->text);
	}
}

/* KOVA_OK, or why there is no verdict. */
static kova_status ask(struct session *s, const struct watch *w, struct verdict *ret_verdict,
		       struct agent_error *ret_error)
{
	struct resp_words words = {0};
	kova_status status = KOVA_OK;
	redisReply *reply;

	if (s->resp == NULL)
		status = agent_resp_open(&s->address, &s->tls, s->token, &s->resp, ret_error);
	if (status != KOVA_OK)
		return status;
	resp_words_add(&words, "KOVA.PEEK");
	resp_words_add(&words, w->policy);
	resp_words_add(&words, w->key);
	status = agent_resp_call(s->resp, &words, RESP_TIMEOUT_MS, &reply, ret_error);
	return status == KOVA_OK ? verdict_take(reply, ret_verdict, ret_error) : status;
}

static void nap_until(uint64_t end_us)
{
	uint64_t now_us = now_monotonic_us();

	if (now_us < end_us)
		now_sleep_ms((end_us - now_us + 999) / 1000);
}

static int watch(struct session *s, const struct watch *w)
{
	struct agent_error error = {"out of memory"};
	int exit_status = session_connect(s);
	struct verdict v;

	for (uint64_t i = 0; exit_status == EXIT_ALLOWED && (w->count == 0 || i < w->count); i++) {
		uint64_t next_us = now_monotonic_us() + w->every_ms * 1000;
		kova_status status = ask(s, w, &v, &error);

		if (status == KOVA_OK) {
			exit_status = show(s, w, &v);
		} else if (agent_resp_is_lost(status)) {
			session_disconnect(s);
			show_lost(s, w, &error);
		} else {
			exit_status = session_failed(s, status, &error);
		}
		if (exit_status == EXIT_ALLOWED && i + 1 != w->count)
			nap_until(next_us);
	}
	if (w->live)
		fputs(CURSOR_SHOW "\n", stdout);
	return exit_status;
}

static bool read_arguments(struct arguments *a, struct watch *w)
{
	const char *value;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id == 'e')
			arguments_duration(a, "--every", value, EVERY_MIN_MS, EVERY_MAX_MS,
					   &w->every_ms);
		else if (id == 'n')
			arguments_number(a, "--count", value, 1, UINT32_MAX, &w->count);
		else if (w->policy == NULL)
			w->policy = value;
		else if (w->key == NULL)
			w->key = value;
		else
			arguments_error(a, "\"%s\" is one word too many", value);
	}
	return !a->stopped && arguments_policy_key(a, w->policy, w->key);
}

static int run(struct session *s, struct arguments *a)
{
	struct watch w = {.every_ms = 1000};

	if (!read_arguments(a, &w))
		return a->status;
	w.live = output_is_terminal(stdout) && !s->json;
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	return watch(s, &w);
}

static const struct option_spec options[] = {
	{'e', "every", "DURATION", "how often to look, 50ms to 1h (else 1s)"},
	{'n', "count", "N", "stop after so many looks (else at Ctrl-C)"},
	{0},
};

const struct command command_watch = {
	.name = "watch",
	.summary = "Watch what is left of a limit",
	.usage = "POLICY KEY [--every DURATION] [--count N]",
	.details = "A live line on a terminal, else a line each time. It only looks and takes "
		   "nothing.",
	.examples = "kovactl watch captcha-submit worker-1\n"
		    "kovactl watch api acme --every 250ms --json",
	.options = options,
	.run = run,
};
