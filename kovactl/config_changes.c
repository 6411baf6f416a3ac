#include "config_changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_http.h"
#include "command.h"
#include "output.h"
#include "table.h"

enum { KEPT_MAX = 1000 };

static const char *text_of(const json_t *item, const char *field)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text != NULL ? text : "";
}

static int fetch(struct session *s, uint64_t most, json_t **ret_body)
{
	char target[64];
	json_t *body = NULL;

	snprintf(target, sizeof target, "/v1/changes?limit=%llu", (unsigned long long)most);
	int status = session_http(s, "GET", target, NULL, &body);

	if (status != EXIT_ALLOWED)
		return status;
	if (!json_is_array(json_object_get(body, "changes"))) {
		complain("the agent's answer has a form that this kovactl does not know");
		json_decref(body);
		return EXIT_UNREACHABLE;
	}
	*ret_body = body;
	return EXIT_ALLOWED;
}

/* ---- log ---- */

static const char *what_of(const json_t *change)
{
	if (json_is_null(json_object_get(change, "after")))
		return "deleted";
	return json_is_null(json_object_get(change, "before")) ? "made" : "changed";
}

/* "api", or of an override "api acme", of a prefix with a star behind it. */
static void add_name(struct buf *b, const json_t *change)
{
	const char *key = json_string_value(json_object_get(change, "key"));
	const char *prefix = json_string_value(json_object_get(change, "prefix"));

	buf_add_text(b, text_of(change, "name"));
	if (key != NULL || prefix != NULL) {
		buf_add_text(b, " ");
		buf_add_text(b, key != NULL ? key : prefix);
		buf_add_text(b, prefix != NULL ? "*" : "");
	}
	buf_add(b, "", 1);
}

static void add_row(struct table *t, const json_t *change)
{
	struct buf name = {0};
	char version[24];

	snprintf(version, sizeof version, "%lld",
		 (long long)json_integer_value(json_object_get(change, "version")));
	add_name(&name, change);
	table_cell(t, version);
	table_cell(t, text_of(change, "at"));
	table_cell(t, text_of(change, "who"));
	table_cell(t, text_of(change, "node"));
	table_cell(t, what_of(change));
	table_cell(t, text_of(change, "kind"));
	table_cell(t, buf_failed(&name) ? "" : name.ptr);
	buf_release(&name);
}

int config_log(struct session *s, uint64_t most)
{
	static const char *const heads[] = {">VERSION", "AT",   "WHO", "NODE",
					    "WHAT",     "KIND", "NAME"};
	json_t *body = NULL, *change;
	struct table table;
	size_t i;
	int status = fetch(s, most, &body);

	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "changes"), i, change)
		add_row(&table, change);
	status = table_print(&table);
	table_release(&table);
	json_decref(body);
	return status;
}

/* ---- One change ---- */

/* The change of this version, borrowed from *ret_body. NULL after a complaint; *ret_status says what to exit with. */
static json_t *find(struct session *s, const char *version, json_t **ret_body, int *ret_status)
{
	json_t *change;
	char *end;
	long long wanted = strtoll(version, &end, 10);
	size_t i;

	*ret_status = EXIT_USAGE;
	if (end == version || *end != '\0') {
		complain("a version is a number, as `kovactl config log` lists it");
		return NULL;
	}
	*ret_status = fetch(s, KEPT_MAX, ret_body);
	if (*ret_status != EXIT_ALLOWED)
		return NULL;
	json_array_foreach(json_object_get(*ret_body, "changes"), i, change)
		if (json_integer_value(json_object_get(change, "version")) == wanted)
			return change;
	complain("the agent has kept no change of version %s", version);
	*ret_status = EXIT_USAGE;
	return NULL;
}

static void print_field(const char *sign, enum paint colour, const char *field, json_t *value)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

	printf("%s%s ", paint(stdout, colour), sign);
	output_text(stdout, field);
	fputs(": ", stdout);
	output_text(stdout, text != NULL ? text : "?");
	printf("%s\n", paint(stdout, PAINT_PLAIN));
	free(text);
}

/* The fields of `from` that `to` has otherwise or not. */
static void print_fields(const char *sign, enum paint colour, json_t *from, const json_t *to)
{
	const char *field;
	json_t *value;

	json_object_foreach(from, field, value)
		if (!json_equal(value, json_object_get(to, field)))
			print_field(sign, colour, field, value);
}

int config_diff(struct session *s, const char *version)
{
	json_t *body = NULL;
	struct buf name = {0};
	int status;
	json_t *change = find(s, version, &body, &status);

	if (change != NULL && s->json) {
		status = output_json(json_incref(change));
	} else if (change != NULL) {
		json_t *before = json_object_get(change, "before");
		json_t *after = json_object_get(change, "after");

		add_name(&name, change);
		printf("%s %s by ", text_of(change, "kind"), what_of(change));
		output_text(stdout, text_of(change, "who"));
		printf(" at %s: ", text_of(change, "at"));
		output_text(stdout, buf_failed(&name) ? "" : name.ptr);
		putchar('\n');
		print_fields("-", PAINT_BAD, before, after);
		print_fields("+", PAINT_GOOD, after, before);
		buf_release(&name);
	}
	json_decref(body);
	return status;
}

/* ---- rollback ---- */

/* Where administration finds what the change was of: a DELETE, or (`put`) a PUT. */
static bool target_of(const json_t *change, bool put, struct buf *target)
{
	const char *key = json_string_value(json_object_get(change, "key"));
	const char *prefix = json_string_value(json_object_get(change, "prefix"));
	bool is_policy = key == NULL && prefix == NULL;

	if (is_policy) {
		buf_add_text(target, "/v1/policies/");
		http_encode(target, text_of(change, "name"));
	} else {
		buf_add_text(target, "/v1/overrides");
	}
	if (!is_policy && !put) {
		buf_add_text(target, "?policy=");
		http_encode(target, text_of(change, "name"));
		buf_add_text(target, key != NULL ? "&key=" : "&prefix=");
		http_encode(target, key != NULL ? key : prefix);
	}
	buf_add(target, "", 1);
	return !buf_failed(target);
}

/* Whether a newer change of the same is among `changes`, which begin with the newest. */
static bool is_outdated(json_t *changes, const json_t *change)
{
	static const char *const fields[] = {"kind", "name", "key", "prefix"};
	json_t *other;
	size_t i;

	json_array_foreach(changes, i, other) {
		bool same = true;

		if (json_integer_value(json_object_get(other, "version")) <=
		    json_integer_value(json_object_get(change, "version")))
			continue;
		for (int f = 0; f < 4; f++)
			same = same &&
			       strcmp(text_of(other, fields[f]), text_of(change, fields[f])) == 0;
		if (same)
			return true;
	}
	return false;
}

static int undo(struct session *s, const json_t *change)
{
	json_t *before = json_object_get(change, "before");
	bool put = !json_is_null(before);
	struct buf target = {0};
	int status = EXIT_USAGE;

	if (target_of(change, put, &target))
		status = session_http(s, put ? "PUT" : "DELETE", target.ptr, put ? before : NULL,
				      NULL);
	else
		complain("out of memory");
	buf_release(&target);
	return status;
}

int config_rollback(struct session *s, const char *version, bool force)
{
	json_t *body = NULL;
	int status;
	json_t *change = find(s, version, &body, &status);

	if (change != NULL && strcmp(text_of(change, "kind"), "pool") == 0) {
		complain("a pool can't be put back: the log has no addresses and keys");
		hint("put the whole definition: PUT /v1/pools/NAME, or kovactl pool import");
		status = EXIT_USAGE;
	} else if (change != NULL && !force &&
		   is_outdated(json_object_get(body, "changes"), change)) {
		complain("it was changed again since version %s", version);
		hint("--force puts back what was before that version all the same");
		status = EXIT_USAGE;
	} else if (change != NULL) {
		status = undo(s, change);
		if (status == EXIT_ALLOWED && s->json)
			status = output_json(
				json_pack("{s:O}", "restored", json_object_get(change, "before")));
		else if (status == EXIT_ALLOWED)
			printf("as it was before version %s\n", version);
	}
	json_decref(body);
	return status;
}
