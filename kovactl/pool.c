/* kovactl pool: what pools there are and how they do; an endpoint by hand; changes of endpoints. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "actions.h"
#include "arguments.h"
#include "command.h"
#include "core/pool_url.h"
#include "core/request_bounds.h"
#include "input.h"
#include "now.h"
#include "output.h"
#include "session.h"
#include "table.h"

enum { LINE_BYTES_MAX = 4096, EVERY_MIN_MS = 100, EVERY_MAX_MS = 3600000 };

static const struct action actions[] = {
	{"list", 0, 0, NULL},
	{"show", 1, 1, "the name of one pool"},
	{"watch", 1, 1, "the name of one pool"},
	{"next", 1, 1, "the name of one pool"},
	{"report", 3, 3, "POOL TICKET OUTCOME"},
	{"enable", 2, 2, "POOL ENDPOINT"},
	{"disable", 2, 2, "POOL ENDPOINT"},
	{"drain", 2, 2, "POOL ENDPOINT"},
	{"import", 2, 2, "POOL FILE"},
	{0},
};

struct request {
	const char *target, *session, *tier, *wait, *status, *retry_after, *definition;
	uint64_t wait_ms, every_ms, count;
};

/* ---- What is there ---- */

static const char *text_of(const json_t *item, const char *field, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text != NULL ? text : otherwise;
}

static int call(struct session *s, const char *method, const char *pool, const char *endpoint,
		const json_t *body, json_t **ret_body)
{
	struct buf target = {0};
	int status = EXIT_USAGE;

	buf_add_text(&target, "/v1/pools/");
	http_encode(&target, pool);
	if (endpoint != NULL) {
		buf_add_text(&target, "/endpoints/");
		http_encode(&target, endpoint);
	}
	buf_add(&target, "", 1);
	if (buf_failed(&target))
		complain("out of memory");
	else
		status = session_http(s, method, target.ptr, body, ret_body);
	buf_release(&target);
	return status;
}

static int list(struct session *s)
{
	json_t *body = NULL, *name;
	int status = session_http_get(s, "/v1/pools", NULL, NULL, &body);
	size_t i;

	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	json_array_foreach(json_object_get(body, "pools"), i, name) {
		output_text(stdout, json_string_value(name));
		putchar('\n');
	}
	if (i == 0)
		puts("no pools");
	json_decref(body);
	return EXIT_ALLOWED;
}

static void number_cell(struct table *t, const json_t *value)
{
	char text[32];

	if (json_is_integer(value))
		snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
	else
		snprintf(text, sizeof text, "%.1f %%", json_number_value(value) * 100);
	table_cell(t, text);
}

/* What the last probe found; nothing without one. */
static const char *probe_text(const json_t *e)
{
	const json_t *probe = json_object_get(e, "probe");

	if (!json_is_object(probe))
		return "";
	return json_is_true(json_object_get(probe, "ok")) ? "ok" : text_of(probe, "why", "?");
}

static void add_row(struct table *t, const json_t *shares, const json_t *e)
{
	const json_t *window = json_object_get(e, "window");
	char failures[64];

	snprintf(failures, sizeof failures, "%lld of %lld",
		 (long long)json_integer_value(json_object_get(window, "failures")),
		 (long long)json_integer_value(json_object_get(window, "outcomes")));
	table_cell(t, text_of(e, "id", "?"));
	table_cell(t, text_of(e, "host", ""));
	table_cell(t, text_of(e, "state", "?"));
	number_cell(t, json_object_get(e, "returns_in_ms"));
	table_cell(t, probe_text(e));
	number_cell(t, json_object_get(e, "tier"));
	number_cell(t, json_object_get(e, "in_flight"));
	table_cell(t, failures);
	number_cell(t, json_object_get(shares, text_of(e, "id", "")));
}

static void print_head(const json_t *body)
{
	const char *paused = text_of(body, "paused", NULL);

	output_text(stdout, text_of(body, "pool", "?"));
	printf(": %lld active, %lld cooling, %lld disabled",
	       (long long)json_integer_value(json_object_get(body, "active")),
	       (long long)json_integer_value(json_object_get(body, "cooling")),
	       (long long)json_integer_value(json_object_get(body, "disabled")));
	if (paused != NULL) {
		fputs("; paused: ", stdout);
		output_text(stdout, paused);
		printf(", retry in %lld ms",
		       (long long)json_integer_value(json_object_get(body, "retry_in_ms")));
	}
	putchar('\n');
}

static int show(struct session *s, const char *pool)
{
	static const char *const heads[] = {"ENDPOINT",    "HOST",     "STATE",
					    ">RETURNS MS", "PROBE",    ">TIER",
					    ">IN FLIGHT",  "FAILURES", ">SHARE"};
	json_t *body = NULL, *e;
	int status = call(s, "GET", pool, NULL, NULL, &body);
	struct table table;
	size_t i;

	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	print_head(body);
	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "endpoints"), i, e)
		add_row(&table, json_object_get(json_object_get(body, "numbers"), "share"), e);
	status = table_print(&table);
	table_release(&table);
	json_decref(body);
	return status;
}

static int watch(struct session *s, const char *pool, const struct request *r)
{
	for (uint64_t i = 0; r->count == 0 || i < r->count; i++) {
		int status = show(s, pool);

		if (status != EXIT_ALLOWED)
			return status;
		if (fflush(stdout) != 0)
			return EXIT_USAGE;
		if (i + 1 != r->count)
			now_sleep_ms(r->every_ms);
	}
	return EXIT_ALLOWED;
}

/* ---- An endpoint by hand ---- */

static void add_option(struct resp_words *w, const char *name, const char *value)
{
	if (value == NULL)
		return;
	resp_words_add(w, name);
	resp_words_add(w, value);
}

static json_t *json_of(const redisReply *value)
{
	if (value->type == REDIS_REPLY_INTEGER)
		return json_integer(value->integer);
	return value->type == REDIS_REPLY_STRING ? json_stringn(value->str, value->len)
						 : json_null();
}

/* The ten fields, names and values in turn. */
static int print_next(const struct session *s, const redisReply *reply)
{
	json_t *all = json_object();
	bool given = false;

	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		const redisReply *name = reply->element[i], *value = reply->element[i + 1];

		given |= strcmp(name->str, "ticket") == 0 && value->type == REDIS_REPLY_STRING;
		json_object_set_new(all, name->str, json_of(value));
		if (s->json || value->type == REDIS_REPLY_NIL)
			continue;
		printf("%-12s ", name->str);
		if (value->type == REDIS_REPLY_INTEGER)
			printf("%lld", (long long)value->integer);
		else
			output_text(stdout, value->str);
		putchar('\n');
	}
	if (s->json && output_json(json_incref(all)) != EXIT_ALLOWED)
		given = false;
	json_decref(all);
	return given ? EXIT_ALLOWED : EXIT_REFUSED;
}

static int next(struct session *s, const char *pool, const struct request *r)
{
	struct resp_words words = {0};
	redisReply *reply;
	char wait[32];

	resp_words_add(&words, "KOVA.POOL.NEXT");
	resp_words_add(&words, pool);
	add_option(&words, "TARGET", r->target);
	add_option(&words, "SESSION", r->session);
	add_option(&words, "TIER", r->tier);
	snprintf(wait, sizeof wait, "%llu", (unsigned long long)r->wait_ms);
	add_option(&words, "WAIT", r->wait != NULL ? wait : NULL);
	int status = session_call(s, &words, RESP_TIMEOUT_MS + r->wait_ms, &reply);

	if (status != EXIT_ALLOWED)
		return status;
	status = print_next(s, reply);
	freeReplyObject(reply);
	return status;
}

static int report(struct session *s, const char *const *words, const struct request *r)
{
	struct resp_words command = {0};
	redisReply *reply;

	resp_words_add(&command, "KOVA.POOL.REPORT");
	for (size_t i = 0; i < 3; i++)
		resp_words_add(&command, words[i]);
	add_option(&command, "STATUS", r->status);
	add_option(&command, "RETRYAFTER", r->retry_after);
	int status = session_call(s, &command, RESP_TIMEOUT_MS, &reply);

	if (status != EXIT_ALLOWED)
		return status;
	freeReplyObject(reply);
	if (s->json)
		return output_json(json_pack("{s:b}", "reported", 1));
	puts("reported");
	return EXIT_ALLOWED;
}

/* ---- Changes ---- */

static int change(struct session *s, const char *pool, const char *endpoint, json_t *body,
		  const char *done)
{
	int status = call(s, "PATCH", pool, endpoint, body, NULL);

	json_decref(body);
	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(json_pack("{s:s, s:s}", "endpoint", endpoint, "done", done));
	output_text(stdout, endpoint);
	printf(" %s\n", done);
	return EXIT_ALLOWED;
}

/* Appends the endpoints of an open list. False after a complaint, which shows nothing of the line. */
static bool read_list(FILE *f, const char *name, json_t *endpoints)
{
	char line[LINE_BYTES_MAX];
	size_t number = 0, at = 0;

	while (fgets(line, sizeof line, f) != NULL) {
		struct slice text = {line, strcspn(line, "\n")};
		struct buf url = {0};
		const char *why = "out of memory";

		number++;
		kova_status status = pool_line_parse(text, &url, &why, &at);

		if (status == KOVA_OK && url.len > 0 &&
		    json_array_append_new(endpoints, json_stringn(url.ptr, url.len)) != 0)
			status = KOVA_ENOMEM;
		buf_release(&url);
		if (status != KOVA_OK) {
			complain("%s:%zu:%zu: %s", name, number, at + 1, why);
			return false;
		}
	}
	return true;
}

/* The pool's definition with the endpoints of a list in it. */
static int import(struct session *s, const char *pool, const char *file, const struct request *r)
{
	json_t *body = r->definition != NULL ? input_json(r->definition) : json_object();
	json_t *endpoints = json_array();
	FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	int status = EXIT_USAGE;

	if (f == NULL)
		complain("%s: %s", file, strerror(errno));
	else if (json_is_object(body) && read_list(f, file, endpoints) &&
		 json_object_set(body, "endpoints", endpoints) == 0)
		status = call(s, "PUT", pool, NULL, body, NULL);
	else if (body != NULL && !json_is_object(body))
		complain("a definition is an object");
	if (status == EXIT_ALLOWED && s->json)
		status = output_json(
			json_pack("{s:I}", "imported", (json_int_t)json_array_size(endpoints)));
	else if (status == EXIT_ALLOWED)
		printf("%zu endpoints imported\n", json_array_size(endpoints));
	if (f != NULL && f != stdin)
		fclose(f);
	json_decref(endpoints);
	json_decref(body);
	return status;
}

/* ---- The command line ---- */

static void read_option(struct arguments *a, int id, const char *value, struct request *r)
{
	switch (id) {
	case 't':
		r->target = value;
		break;
	case 's':
		r->session = value;
		break;
	case 'i':
		r->tier = value;
		break;
	case 'w':
		r->wait = value;
		arguments_duration(a, "--wait", value, 0, REQUEST_WAIT_MAX_MS, &r->wait_ms);
		break;
	case 'c':
		r->status = value;
		break;
	case 'r':
		r->retry_after = value;
		break;
	case 'd':
		r->definition = value;
		break;
	case 'e':
		arguments_duration(a, "--every", value, EVERY_MIN_MS, EVERY_MAX_MS, &r->every_ms);
		break;
	default:
		arguments_number(a, "--count", value, 1, UINT32_MAX, &r->count);
		break;
	}
}

static int act(struct session *s, const char *name, const char *const *w, const struct request *r)
{
	if (strcmp(name, "show") == 0)
		return show(s, w[0]);
	if (strcmp(name, "watch") == 0)
		return watch(s, w[0], r);
	if (strcmp(name, "next") == 0)
		return next(s, w[0], r);
	if (strcmp(name, "report") == 0)
		return report(s, w, r);
	if (strcmp(name, "enable") == 0)
		return change(s, w[0], w[1], json_pack("{s:s}", "state", "active"), "enabled");
	if (strcmp(name, "disable") == 0)
		return change(s, w[0], w[1], json_pack("{s:s}", "state", "disabled"), "disabled");
	if (strcmp(name, "drain") == 0)
		return change(s, w[0], w[1], json_pack("{s:i}", "weight", 0), "drained");
	if (strcmp(name, "import") == 0)
		return import(s, w[0], w[1], r);
	return list(s);
}

static int run(struct session *s, struct arguments *a)
{
	const char *words[ARGUMENTS_WORDS_MAX], *value;
	struct request r = {.every_ms = 1000};
	size_t n = 0;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id != ARGUMENT_WORD)
			read_option(a, id, value, &r);
		else if (n == ARGUMENTS_WORDS_MAX)
			arguments_error(a, "at most %d words", ARGUMENTS_WORDS_MAX);
		else
			words[n++] = value;
	}
	if (a->stopped)
		return a->status;
	const struct action *action = actions_choose(a, actions, words, n);

	return action != NULL ? act(s, action->name, words + 1, &r) : a->status;
}

static const struct option_spec options[] = {
	{'t', "target", "TARGET", "next: what the request is for"},
	{'s', "session", "NAME", "next: who keeps an endpoint"},
	{'i', "tier", "N", "next: not below this tier"},
	{'w', "wait", "DURATION", "next: how long to wait for one"},
	{'c', "status", "CODE", "report: of HTTP"},
	{'r', "retry-after", "VALUE", "report: seconds or an HTTP-date"},
	{'d', "definition", "FILE", "import: the rest of the pool, JSON"},
	{'e', "every", "DURATION", "watch: how often to look (else 1s)"},
	{'n', "count", "N", "watch: stop after so many looks (else at Ctrl-C)"},
	{0},
};

const struct command command_pool = {
	.name = "pool",
	.summary = "List, show and watch pools; take an endpoint by hand; change endpoints",
	.usage = "[list]\nshow POOL\nwatch POOL [--every DURATION] [--count N]\n"
		 "next POOL [--target TARGET] [--session NAME] [--tier N] [--wait DURATION]\n"
		 "report POOL TICKET OUTCOME [--status CODE] [--retry-after VALUE]\n"
		 "enable|disable|drain POOL ENDPOINT\nimport POOL FILE [--definition FILE]",
	.details = "import puts a pool whose endpoints are those of a list: one a line, a URL, "
		   "host:port,\nhost:port:user:password or user:password@host:port. drain sets the "
		   "weight 0: nothing new,\nbut its sessions keep it. Exit status 1: next gave no "
		   "endpoint.",
	.examples = "kovactl pool show exits\n"
		    "kovactl pool next exits --target shop.example --wait 5s\n"
		    "kovactl pool import exits proxies.txt",
	.options = options,
	.run = run,
};
