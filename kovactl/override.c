/*
 * kovactl override: other limits for single keys or prefixes, by the agent's administration
 * (HTTP).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "actions.h"
#include "arguments.h"
#include "command.h"
#include "core/duration.h"
#include "core/limit.h"
#include "core/quote.h"
#include "core/rfc3339.h"
#include "core/shares.h"
#include "limit_text.h"
#include "now.h"
#include "output.h"
#include "session.h"
#include "table.h"

#define DAY_MS UINT64_C(86400000)

enum { WORDS_MAX = 3 };

static const struct action actions[] = {
	{"list", 0, 1, "at most the name of one policy"},
	{"set", 2, 2, "POLICY KEY"},
	{"delete", 2, 2, "POLICY KEY"},
	{0},
};

struct change {
	const char *words[WORDS_MAX];
	size_t n;
	bool prefix, unlimited, banned;
	bool has_limit, has_per, has_burst, has_weight;
	uint64_t limit, per_ms, burst, weight;
	const char *until; /* RFC 3339 */
	char until_text[RFC3339_TEXT_MAX];
};

static const char *text_of(const json_t *item, const char *field)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text != NULL ? text : "";
}

static bool is_over(const json_t *item)
{
	int64_t until_ms;

	return rfc3339_parse(slice_of(text_of(item, "until")), &until_ms) &&
	       until_ms <= now_wall_ms();
}

/* ---- list ---- */

static void add_row(struct table *t, const json_t *item)
{
	const char *prefix = json_string_value(json_object_get(item, "prefix"));
	struct buf key = {0}, limit = {0}, until = {0};

	buf_printf(&key, "%s%s", prefix != NULL ? prefix : text_of(item, "key"),
		   prefix != NULL ? "*" : "");
	buf_add(&key, "", 1);
	limit_text(&limit, item);
	buf_add(&limit, "", 1);
	buf_printf(&until, "%s%s", text_of(item, "until"), is_over(item) ? " (over)" : "");
	buf_add(&until, "", 1);
	table_cell(t, text_of(item, "policy"));
	table_cell(t, buf_failed(&key) ? "" : key.ptr);
	table_cell(t, buf_failed(&limit) ? "" : limit.ptr);
	table_cell(t, buf_failed(&until) ? "" : until.ptr);
	table_cell(t, text_of(item, "who"));
	buf_release(&key);
	buf_release(&limit);
	buf_release(&until);
}

static void keep_policy(json_t *items, const char *policy)
{
	for (size_t i = json_array_size(items); i-- > 0;)
		if (strcmp(text_of(json_array_get(items, i), "policy"), policy) != 0)
			json_array_remove(items, i);
}

static int list(struct session *s, const char *policy)
{
	static const char *const heads[] = {"POLICY", "KEY", "LIMIT", "UNTIL", "SET BY"};
	json_t *body = NULL, *item;
	size_t i;

	int status = session_http_get(s, "/v1/overrides", NULL, NULL, &body);
	if (status != EXIT_ALLOWED)
		return status;
	json_t *items = json_object_get(body, "overrides");
	if (policy != NULL)
		keep_policy(items, policy);
	if (s->json)
		return output_json(body);
	struct table table;
	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(items, i, item)
		add_row(&table, item);
	if (json_array_size(items) == 0)
		puts("no overrides");
	else
		status = table_print(&table);
	table_release(&table);
	json_decref(body);
	return status;
}

/* ---- set ---- */

/* Exactly one kind of limit, whole. */
static bool check_set(struct arguments *a, const struct change *c)
{
	int kinds = c->unlimited + c->banned + c->has_limit;

	if (kinds > 1 || (kinds == 0 && !c->has_weight))
		arguments_error(a,
				"override set needs one of --limit N, --unlimited or --banned, or "
				"--weight N");
	else if (c->has_weight && (c->unlimited || c->banned))
		arguments_error(a, "--weight goes with --limit, or by itself");
	else if (!c->has_limit && (c->has_per || c->has_burst))
		arguments_error(a, "--per and --burst go with --limit");
	return !a->stopped;
}

static json_t *set_body(const struct change *c)
{
	char per[DURATION_TEXT_MAX];
	json_t *body = json_pack("{s:s, s:s}", "policy", c->words[1], c->prefix ? "prefix" : "key",
				 c->words[2]);
	int failed = body == NULL;

	duration_write(c->per_ms, per);
	if (c->unlimited)
		failed |= json_object_set_new(body, "unlimited", json_true());
	if (c->banned)
		failed |= json_object_set_new(body, "banned", json_true());
	if (c->has_limit)
		failed |= json_object_set_new(body, "limit", json_integer((json_int_t)c->limit));
	if (c->has_per)
		failed |= json_object_set_new(body, "per", json_string(per));
	if (c->has_burst)
		failed |= json_object_set_new(body, "burst", json_integer((json_int_t)c->burst));
	if (c->has_weight)
		failed |= json_object_set_new(body, "weight", json_integer((json_int_t)c->weight));
	if (c->until != NULL)
		failed |= json_object_set_new(body, "until", json_string(c->until));
	if (failed) {
		json_decref(body);
		return NULL;
	}
	return body;
}

static bool is_utf8(const char *text)
{
	while (*text != '\0') {
		size_t len = quote_utf8_length(slice_of(text));
		if (len == 0)
			return false;
		text += len;
	}
	return true;
}

static int set(struct session *s, struct arguments *a, const struct change *c)
{
	if (!check_set(a, c))
		return a->status;
	if (!is_utf8(c->words[1]) || !is_utf8(c->words[2]))
		return arguments_error(
			a, "an override is set as JSON, so that POLICY and KEY must be UTF-8");
	json_t *body = set_body(c);
	if (body == NULL) {
		complain("out of memory");
		return EXIT_USAGE;
	}
	int status = session_http(s, "PUT", "/v1/overrides", body, NULL);
	if (status == EXIT_ALLOWED && s->json)
		return output_json(body);
	if (status == EXIT_ALLOWED) {
		struct buf limit = {0};

		limit_text(&limit, body);
		buf_add(&limit, "", 1);
		output_text(stdout, c->words[1]);
		putchar(' ');
		output_text(stdout, c->words[2]);
		printf("%s: %s%s%s%s\n", c->prefix ? "*" : "", buf_failed(&limit) ? "" : limit.ptr,
		       c->until != NULL ? ", until " : "", c->until != NULL ? c->until : "",
		       is_over(body) ? ", which is over already" : "");
		buf_release(&limit);
	}
	json_decref(body);
	return status;
}

/* ---- delete ---- */

static int remove_one(struct session *s, const struct change *c)
{
	struct buf target = {0};
	int status = EXIT_USAGE;

	buf_add_text(&target, "/v1/overrides?policy=");
	http_encode(&target, c->words[1]);
	buf_add_text(&target, c->prefix ? "&prefix=" : "&key=");
	http_encode(&target, c->words[2]);
	buf_add(&target, "", 1);
	if (buf_failed(&target))
		complain("out of memory");
	else
		status = session_http(s, "DELETE", target.ptr, NULL, NULL);
	buf_release(&target);
	if (status == EXIT_ALLOWED && s->json)
		return output_json(json_pack("{s:i}", "deleted", 1));
	if (status == EXIT_ALLOWED)
		puts("override deleted");
	return status;
}

/* ---- the command line ---- */

static void until_after(struct change *c, uint64_t ms)
{
	rfc3339_write(now_wall_ms() + (int64_t)ms, c->until_text);
	c->until = c->until_text;
}

/* day, week and month are a calendar's; the agent knows of which algorithm the policy is. */
static void option(struct arguments *a, struct change *c, int id, const char *value)
{
	uint64_t ms;

	switch (id) {
	case 'l':
		c->has_limit = arguments_number(a, "--limit", value, 0, LIMIT_MAX, &c->limit);
		break;
	case 'p':
		c->has_per = arguments_duration(a, "--per", value, 1, LIMIT_PER_MAX_US / 1000,
						&c->per_ms);
		break;
	case 'b':
		c->has_burst = arguments_number(a, "--burst", value, 1, LIMIT_MAX, &c->burst);
		break;
	case 'w':
		c->has_weight =
			arguments_number(a, "--weight", value, 1, SHARE_WEIGHT_MAX, &c->weight);
		break;
	case 'u':
		c->unlimited = true;
		break;
	case 'n':
		c->banned = true;
		break;
	case 'x':
		c->prefix = true;
		break;
	case 't':
		c->until = value;
		break;
	default:
		if (arguments_duration(a, "--for", value, 1000, 36500 * DAY_MS, &ms))
			until_after(c, ms);
		break;
	}
}

static bool read_arguments(struct arguments *a, struct change *c)
{
	const char *value;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id != ARGUMENT_WORD)
			option(a, c, id, value);
		else if (c->n == WORDS_MAX)
			arguments_error(a, "\"%s\" is one word too many", value);
		else
			c->words[c->n++] = value;
	}
	return !a->stopped;
}

static int run(struct session *s, struct arguments *a)
{
	struct change c = {0};

	if (!read_arguments(a, &c))
		return a->status;
	const struct action *action = actions_choose(a, actions, c.words, c.n);
	if (action == NULL)
		return a->status;
	if (strcmp(action->name, "list") == 0)
		return list(s, c.words[1]);
	if (!arguments_policy_key(a, c.words[1], c.words[2]))
		return a->status;
	return strcmp(action->name, "set") == 0 ? set(s, a, &c) : remove_one(s, &c);
}

static const struct option_spec options[] = {
	{'l', "limit", "N", "set: another limit, 0 to 1000000000"},
	{'p', "per", "DURATION", "set: per what time, as 1s (else the policy's)"},
	{'b', "burst", "N", "set: how much at once (else 2 x the limit per second)"},
	{'w', "weight", "N",
	 "set: its part of the level above, 1 to 1000000 (a level with weights)"},
	{'u', "unlimited", NULL, "set: no limit"},
	{'n', "banned", NULL, "set: always refused"},
	{'x', "prefix", NULL, "set, delete: KEY is the beginning of keys"},
	{'t', "until", "TIME", "set: until then, as 2027-01-31T12:00:00Z (else for good)"},
	{'f', "for", "DURATION", "set: for so long from now, as 1h"},
	{0},
};

const struct command command_override = {
	.name = "override",
	.summary = "List, set or delete other limits for single keys",
	.usage = "[list [POLICY]]\n"
		 "set POLICY KEY --limit N [--per DURATION] [--burst N] [--weight N] [...]\n"
		 "set POLICY KEY --weight N|--unlimited|--banned [...]\n"
		 "set ... [--prefix] [--until TIME|--for DURATION]\n"
		 "delete POLICY KEY [--prefix]",
	.details = "The exact key wins over the longest prefix, that over the policy. Needs a "
		   "token with the\n"
		   "scope admin where the agent wants tokens.",
	.examples = "kovactl override set api acme --limit 500 --per 1s\n"
		    "kovactl override set api acme/bot --banned --for 1h\n"
		    "kovactl override delete api acme",
	.options = options,
	.run = run,
};
