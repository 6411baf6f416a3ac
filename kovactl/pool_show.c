/* How a pool and its endpoints do, for people. */
#include "pool_show.h"

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "output.h"
#include "table.h"

static const char *text_of(const json_t *item, const char *field, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text != NULL ? text : otherwise;
}

json_int_t pool_weight(const json_t *endpoint)
{
	const json_t *weight = json_object_get(endpoint, "weight");

	return json_is_integer(weight) ? json_integer_value(weight) : 1;
}

/* Of an active one also what keeps it from being given. */
static const char *state_of(const json_t *e)
{
	const char *state = text_of(e, "state", "?");

	if (strcmp(state, "active") != 0)
		return state;
	if (pool_weight(e) == 0)
		return "drained";
	return json_integer_value(json_object_get(e, "held_ms")) > 0 ? "held" : state;
}

static void number_cell(struct table *t, const json_t *value)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
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
	char failures[64], share[32];

	snprintf(failures, sizeof failures, "%lld of %lld",
		 (long long)json_integer_value(json_object_get(window, "failures")),
		 (long long)json_integer_value(json_object_get(window, "outcomes")));
	table_cell(t, text_of(e, "id", "?"));
	table_cell(t, text_of(e, "host", ""));
	table_cell(t, state_of(e));
	number_cell(t, json_object_get(e, strcmp(state_of(e), "held") == 0 ? "held_ms"
									   : "returns_in_ms"));
	table_cell(t, probe_text(e));
	number_cell(t, json_object_get(e, "tier"));
	number_cell(t, json_object_get(e, "weight"));
	number_cell(t, json_object_get(e, "in_flight"));
	table_cell(t, failures);
	snprintf(share, sizeof share, "%.1f %%",
		 json_number_value(json_object_get(shares, text_of(e, "id", ""))) * 100);
	table_cell(t, share);
}

static void print_head(const json_t *body)
{
	const char *paused = text_of(body, "paused", NULL);
	const json_t *e;
	long long retry_ms = json_integer_value(json_object_get(body, "retry_in_ms"));
	long long drained = 0;
	size_t i;

	json_array_foreach(json_object_get(body, "endpoints"), i, e)
		drained += strcmp(state_of(e), "drained") == 0;

	output_text(stdout, text_of(body, "pool", "?"));
	printf(": %lld active, %lld cooling, %lld disabled",
	       (long long)json_integer_value(json_object_get(body, "active")) - drained,
	       (long long)json_integer_value(json_object_get(body, "cooling")),
	       (long long)json_integer_value(json_object_get(body, "disabled")));
	if (drained > 0)
		printf(", %lld drained", drained);
	if (paused != NULL) {
		fputs("; paused: ", stdout);
		output_text(stdout, paused);
		if (retry_ms >= 0)
			printf(", retry in %lld ms", retry_ms);
	}
	putchar('\n');
}

static int print_endpoints(const json_t *body)
{
	static const char *const heads[] = {"ENDPOINT", "HOST",  "STATE",   ">RETURNS MS",
					    "PROBE",    ">TIER", ">WEIGHT", ">IN FLIGHT",
					    "FAILURES", ">SHARE"};
	struct table table;
	const json_t *e;
	size_t i;

	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "endpoints"), i, e)
		add_row(&table, json_object_get(json_object_get(body, "numbers"), "share"), e);
	int status = table_print(&table);

	table_release(&table);
	return status;
}

/* Prints the table, unless it is empty, after a blank line. Releases it. */
static int print_more(struct table *t)
{
	int status = EXIT_ALLOWED;

	if (t->n > 0 || t->failed) {
		putchar('\n');
		status = table_print(t);
	}
	table_release(t);
	return status;
}

/* What is in cooldown at one target only. */
static int print_cooling(const json_t *body)
{
	static const char *const heads[] = {"ENDPOINT", "TARGET", ">RETURNS MS"};
	const json_t *e, *target;
	struct table table;
	size_t i, k;

	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "endpoints"), i, e)
		json_array_foreach(json_object_get(e, "targets"), k, target) {
			table_cell(&table, text_of(e, "id", "?"));
			table_cell(&table, text_of(target, "target", "?"));
			number_cell(&table, json_object_get(target, "returns_in_ms"));
		}
	return print_more(&table);
}

/* Targets that are held, or start at a higher tier. */
static int print_targets(const json_t *body)
{
	static const char *const heads[] = {"TARGET", ">FROM TIER", ">HELD MS"};
	struct table table;
	const json_t *target;
	size_t i;

	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "targets"), i, target) {
		table_cell(&table, text_of(target, "target", "?"));
		number_cell(&table, json_object_get(target, "tier"));
		number_cell(&table, json_object_get(target, "held_ms"));
	}
	return print_more(&table);
}

int pool_show(const json_t *body)
{
	print_head(body);
	int status = print_endpoints(body);

	if (status == EXIT_ALLOWED)
		status = print_cooling(body);
	return status == EXIT_ALLOWED ? print_targets(body) : status;
}
