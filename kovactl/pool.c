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
#include "pool_show.h"
#include "session.h"

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

/* `endpoint`: NULL: the pool itself; "": the list of its endpoints. */
static int call(struct session *s, const char *method, const char *pool, const char *endpoint,
		const json_t *body, json_t **ret_body)
{
	struct buf target = {0};
	int status = EXIT_USAGE;

	buf_add_text(&target, "/v1/pools/");
	http_encode(&target, pool);
	if (endpoint != NULL)
		buf_add_text(&target, endpoint[0] == '\0' ? "/endpoints" : "/endpoints/");
	if (endpoint != NULL)
		http_encode(&target, endpoint);
	buf_add(&target, "", 1);
	if (buf_failed(&target))
		complain("out of memory");
	else
		status = session_http(s, method, target.ptr, body, ret_body);
	if (status == EXIT_USAGE && s->http_code == 404)
		hint("kovactl pool shows the pools, kovactl pool show POOL its endpoints");
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

static int show(struct session *s, const char *pool)
{
	json_t *body = NULL;
	int status = call(s, "GET", pool, NULL, NULL, &body);

	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	status = pool_show(body);
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

/* As over HTTP. */
static json_t *json_of(const char *name, const redisReply *value)
{
	if (strcmp(name, "moved") == 0 || strcmp(name, "trial") == 0)
		return json_boolean(value->integer != 0);
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
		json_object_set_new(all, name->str, json_of(name->str, value));
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

/* `weight`: what it was set to beside `done`; < 0: it was not. */
static int change(struct session *s, const char *pool, const char *endpoint, json_t *body,
		  const char *done, int weight)
{
	int status = call(s, "PATCH", pool, endpoint, body, NULL);

	json_decref(body);
	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(json_pack("{s:s, s:s, s:o*}", "endpoint", endpoint, "done", done,
					     "weight", weight < 0 ? NULL : json_integer(weight)));
	output_text(stdout, endpoint);
	printf(" %s", done);
	if (weight >= 0)
		printf(", weight %d", weight);
	putchar('\n');
	return EXIT_ALLOWED;
}

static bool is_drained(const json_t *pool, const char *endpoint)
{
	const json_t *e;
	size_t i;

	json_array_foreach(json_object_get(pool, "endpoints"), i, e) {
		const char *id = json_string_value(json_object_get(e, "id"));

		if (id != NULL && strcmp(id, endpoint) == 0)
			return pool_weight(e) == 0;
	}
	return false;
}

/* Ends both what disable and what drain did. */
static int enable(struct session *s, const char *pool, const char *endpoint)
{
	json_t *shown = NULL;
	int status = call(s, "GET", pool, NULL, NULL, &shown);

	if (status != EXIT_ALLOWED)
		return status;
	bool drained = is_drained(shown, endpoint);

	json_decref(shown);
	return change(s, pool, endpoint,
		      drained ? json_pack("{s:s, s:i}", "state", "active", "weight", 1)
			      : json_pack("{s:s}", "state", "active"),
		      "enabled", drained ? 1 : -1);
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
		    json_array_append_new(endpoints,
					  json_pack("{s:s%}", "url", url.ptr, url.len)) != 0)
			status = KOVA_ENOMEM;
		buf_release(&url);
		if (status != KOVA_OK) {
			complain("%s:%zu:%zu: %s", name, number, at + 1, why);
			return false;
		}
	}
	return true;
}

/* NULL after a complaint. */
static json_t *list_of(const char *file)
{
	json_t *endpoints = json_array();
	FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	bool done = false;

	if (f == NULL)
		complain("%s: %s", file, strerror(errno));
	else if (read_list(f, file, endpoints)) {
		done = json_array_size(endpoints) > 0;
		if (!done)
			complain("%s: there is no endpoint in it", file);
	}
	if (f != NULL && f != stdin)
		fclose(f);
	if (done)
		return endpoints;
	json_decref(endpoints);
	return NULL;
}

static int is_there(struct session *s, const char *pool, bool *ret_there)
{
	json_t *body = NULL, *name;
	int status = session_http_get(s, "/v1/pools", NULL, NULL, &body);
	size_t i;

	*ret_there = false;
	json_array_foreach(json_object_get(body, "pools"), i, name)
		*ret_there |= strcmp(json_string_value(name), pool) == 0;
	json_decref(body);
	return status;
}

/* The endpoints of a list: into the pool as it is, or with the rest of its definition. */
static int put_list(struct session *s, const char *pool, json_t *endpoints, const struct request *r,
		    bool *ret_made)
{
	json_t *body = r->definition != NULL ? input_json(r->definition) : json_object();
	bool there = false;
	int status = EXIT_USAGE;

	if (json_is_object(body) && json_object_set(body, "endpoints", endpoints) == 0)
		status = r->definition != NULL ? EXIT_ALLOWED : is_there(s, pool, &there);
	else if (body != NULL)
		complain("a definition is an object");
	if (status == EXIT_ALLOWED)
		status = call(s, "PUT", pool, there ? "" : NULL, body, NULL);
	*ret_made = !there && r->definition == NULL;
	json_decref(body);
	return status;
}

static int import(struct session *s, const char *pool, const char *file, const struct request *r)
{
	json_t *endpoints = list_of(file);
	bool made = false;

	if (endpoints == NULL)
		return EXIT_USAGE;
	int status = put_list(s, pool, endpoints, r, &made);

	if (status == EXIT_ALLOWED && s->json)
		status = output_json(
			json_pack("{s:I}", "imported", (json_int_t)json_array_size(endpoints)));
	else if (status == EXIT_ALLOWED)
		printf("%zu endpoints imported%s\n", json_array_size(endpoints),
		       made ? "; the pool is new" : "");
	json_decref(endpoints);
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
		return enable(s, w[0], w[1]);
	if (strcmp(name, "disable") == 0)
		return change(s, w[0], w[1], json_pack("{s:s}", "state", "disabled"), "disabled",
			      -1);
	if (strcmp(name, "drain") == 0)
		return change(s, w[0], w[1], json_pack("{s:i}", "weight", 0), "drained", -1);
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
	{'d', "definition", "FILE", "import: put the whole pool, the rest of it from here, JSON"},
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
	.details =
		"import gives a pool the endpoints of a list: one a line, a URL, host:port, "
		"host:port:user:password\nor user:password@host:port. All else stays, also of the "
		"endpoints that stay; a pool that is not\nthere is made; with --definition all is "
		"put anew. drain sets the weight 0: nothing new, but its\nsessions keep it; enable "
		"ends that with the weight 1. Exit status 1: next gave no endpoint.",
	.examples = "kovactl pool show exits\n"
		    "kovactl pool next exits --target shop.example --wait 5s\n"
		    "kovactl pool import exits proxies.txt",
	.options = options,
	.run = run,
};
