/*
 * kovactl top: the keys that ask for most and of which most is refused. On a terminal again and again, in place; elsewhere, and
 * with --count 1, once.
 */
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "core/buf.h"
#include "now.h"
#include "output.h"
#include "session.h"
#include "table.h"

#define EVERY_MAX_MS UINT64_C(3600000)
#define CLEAR "\x1b[H\x1b[J"
enum { EVERY_MIN_MS = 50, MOST_MAX = 100 };

struct top {
	const char *policy; /* NULL: all */
	uint64_t most, every_ms;
	uint64_t count; /* 0: until Ctrl-C, or once where there is no terminal */
};

static void cell_number(struct table *t, const json_t *value)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
	table_cell(t, text);
}

static int show_list(const char *title, const json_t *keys)
{
	static const char *const heads[] = {"POLICY", "KEY", ">COUNT", ">AT MOST TOO HIGH BY"};
	struct table table;
	json_t *key;
	size_t i;

	printf("%s%s%s\n", paint(stdout, PAINT_BOLD), title, paint(stdout, PAINT_PLAIN));
	if (json_array_size(keys) == 0) {
		puts("none lately");
		return EXIT_ALLOWED;
	}
	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(keys, i, key) {
		table_cell(&table, json_string_value(json_object_get(key, "policy")));
		table_cell(&table, json_string_value(json_object_get(key, "key")));
		cell_number(&table, json_object_get(key, "count"));
		cell_number(&table, json_object_get(key, "error"));
	}
	int status = table_print(&table);

	table_release(&table);
	return status;
}

static int show(struct session *s, const struct top *t, bool live)
{
	struct buf target = {0};
	json_t *body = NULL;
	int status;

	buf_printf(&target, "/v1/top?limit=%llu", (unsigned long long)t->most);
	if (t->policy != NULL) {
		buf_add_text(&target, "&policy=");
		http_encode(&target, t->policy);
	}
	buf_add(&target, "", 1);
	status = buf_failed(&target) ? EXIT_USAGE : session_http(s, "GET", target.ptr, NULL, &body);
	buf_release(&target);
	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	if (live)
		fputs(CLEAR, stdout);
	status = show_list("Most refused", json_object_get(body, "refused"));
	putchar('\n');
	if (status == EXIT_ALLOWED)
		status = show_list("Asked for most", json_object_get(body, "asked"));
	json_decref(body);
	return status;
}

static bool read_arguments(struct arguments *a, struct top *t)
{
	const char *value;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id == 'e')
			arguments_duration(a, "--every", value, EVERY_MIN_MS, EVERY_MAX_MS,
					   &t->every_ms);
		else if (id == 'n')
			arguments_number(a, "--count", value, 1, UINT32_MAX, &t->count);
		else if (id == 'l')
			arguments_number(a, "--limit", value, 1, MOST_MAX, &t->most);
		else if (t->policy == NULL)
			t->policy = value;
		else
			arguments_error(a, "\"%s\" is one word too many", value);
	}
	return !a->stopped;
}

static int run(struct session *s, struct arguments *a)
{
	struct top t = {.most = 10, .every_ms = 1000};
	bool live;

	if (!read_arguments(a, &t))
		return a->status;
	live = output_is_terminal(stdout) && !s->json && t.count != 1;
	if (!live && t.count == 0)
		t.count = 1;
	for (uint64_t i = 0; t.count == 0 || i < t.count; i++) {
		int status = show(s, &t, live);

		if (status != EXIT_ALLOWED)
			return status;
		if (fflush(stdout) != 0)
			return EXIT_USAGE;
		if (i + 1 != t.count)
			now_sleep_ms(t.every_ms);
	}
	return EXIT_ALLOWED;
}

static const struct option_spec options[] = {
	{'l', "limit", "N", "so many keys of each, 1 to 100 (else 10)"},
	{'e', "every", "DURATION", "how often to look, 50ms to 1h (else 1s)"},
	{'n', "count", "N",
	 "stop after so many looks (else at Ctrl-C; without a terminal after 1)"},
	{0},
};

const struct command command_top = {
	.name = "top",
	.summary = "Show the keys that ask for most, and those most refused",
	.usage = "[POLICY] [--limit N] [--every DURATION] [--count N]",
	.details =
		"Costs of late, as this agent saw them: what was counted counts half every\nfive "
		"minutes. Needs a token with the scope admin, where there are tokens.",
	.examples =
		"kovactl top\nkovactl top captcha-submit --limit 5 --count 1\nkovactl top --json",
	.options = options,
	.run = run,
};
