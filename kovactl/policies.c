/* kovactl policies: the policies in force, by the agent's administration (HTTP). */
#include <stdio.h>
#include <string.h>

#include "actions.h"
#include "arguments.h"
#include "command.h"
#include "input.h"
#include "limit_text.h"
#include "output.h"
#include "session.h"
#include "table.h"

static const struct action actions[] = {
	{"list", 0, 0, NULL},
	{"show", 1, 1, "the name of one policy"},
	{"put", 1, 1, "one file, or - for the standard input"},
	{"delete", 1, ARGUMENTS_WORDS_MAX, "the names of policies"},
	{0},
};

static const char *text_of(const json_t *item, const char *field, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(item, field));

	return text != NULL ? text : otherwise;
}

static int fetch(struct session *s, json_t **ret_body)
{
	json_t *body = NULL;
	int status = session_http_get(s, "/v1/policies", NULL, NULL, &body);

	if (status != EXIT_ALLOWED)
		return status;
	if (!json_is_array(json_object_get(body, "policies"))) {
		complain("the agent's answer has a form that this kovactl does not know");
		json_decref(body);
		return EXIT_UNREACHABLE;
	}
	*ret_body = body;
	return EXIT_ALLOWED;
}

static void add_row(struct table *t, const json_t *policy)
{
	struct buf limit = {0};

	limit_text(&limit, policy);
	if (json_is_true(json_object_get(policy, "shadow")))
		buf_add_text(&limit, " (shadow)");
	buf_add(&limit, "", 1);
	table_cell(t, text_of(policy, "name", "?"));
	table_cell(t, limit_algorithm(policy));
	table_cell(t, buf_failed(&limit) ? "" : limit.ptr);
	table_cell(t, text_of(policy, "scope", "region"));
	table_cell(t, text_of(policy, "on_outage", "local"));
	table_cell(t, text_of(policy, "who", ""));
	buf_release(&limit);
}

static int print_names(const struct session *s, const json_t *policies)
{
	json_t *names = json_array(), *policy;
	size_t i;

	json_array_foreach(policies, i, policy) {
		if (s->json)
			json_array_append(names, json_object_get(policy, "name"));
		else
			puts(text_of(policy, "name", ""));
	}
	if (s->json)
		return output_json(json_pack("{s:o}", "names", names));
	json_decref(names);
	return EXIT_ALLOWED;
}

static int list(struct session *s, bool names)
{
	static const char *const heads[] = {"POLICY", "ALGORITHM", "LIMIT",
					    "SCOPE",  "ON OUTAGE", "SET BY"};
	json_t *body, *policy;
	size_t i;

	int status = fetch(s, &body);
	if (status != EXIT_ALLOWED)
		return status;
	if (names) {
		status = print_names(s, json_object_get(body, "policies"));
		json_decref(body);
		return status;
	}
	if (s->json)
		return output_json(body);
	struct table table;
	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "policies"), i, policy)
		add_row(&table, policy);
	if (i == 0)
		puts("no policies");
	else
		status = table_print(&table);
	table_release(&table);
	json_decref(body);
	return status;
}

/* Borrowed from `body`; NULL: none of that name. */
static json_t *find(const json_t *body, const char *name)
{
	json_t *policy;
	size_t i;

	json_array_foreach(json_object_get(body, "policies"), i, policy)
		if (strcmp(text_of(policy, "name", ""), name) == 0)
			return policy;
	return NULL;
}

/* As it can be put again; who set it goes to people only. */
static int show(struct session *s, const char *name)
{
	json_t *body;
	int status = fetch(s, &body);

	if (status != EXIT_ALLOWED)
		return status;
	json_t *policy = json_incref(find(body, name));
	json_decref(body);
	if (policy == NULL) {
		complain("there is no policy %s", name);
		hint("kovactl policies lists them");
		return EXIT_USAGE;
	}
	if (s->json)
		return output_json(policy);
	json_object_del(policy, "version");
	json_object_del(policy, "who");
	return output_json_indented(policy);
}

static int call(struct session *s, const char *method, const char *name, const json_t *body)
{
	struct buf target = {0};
	int status = EXIT_USAGE;

	buf_add_text(&target, "/v1/policies/");
	http_encode(&target, name);
	buf_add(&target, "", 1);
	if (buf_failed(&target))
		complain("out of memory");
	else
		status = session_http(s, method, target.ptr, body, NULL);
	buf_release(&target);
	return status;
}

static int put_one(struct session *s, const json_t *policy)
{
	const char *name = text_of(policy, "name", "");

	if (*name == '\0') {
		complain("a policy is an object with a \"name\"");
		return EXIT_USAGE;
	}
	int status = call(s, "PUT", name, policy);
	if (status != EXIT_ALLOWED)
		hint("policy %s was not changed", name);
	return status;
}

/* One policy, a list of them, or {"policies": [...]}; as a new array, NULL: out of memory. */
static json_t *policies_in(json_t *json)
{
	json_t *policies = json_object_get(json, "policies");

	if (json_is_array(policies))
		return json_incref(policies);
	if (json_is_array(json))
		return json_incref(json);
	return json_pack("[O]", json); /* a file holds an object or a list */
}

static int put(struct session *s, const char *file)
{
	json_t *json = input_json(file), *policy;
	int status = EXIT_ALLOWED;
	size_t i, done = 0;

	if (json == NULL)
		return EXIT_USAGE;
	json_t *policies = policies_in(json);
	json_decref(json);
	if (policies == NULL) {
		complain("out of memory");
		return EXIT_USAGE;
	}
	input_strip_stamps(policies);
	json_array_foreach(policies, i, policy) {
		status = put_one(s, policy);
		if (status != EXIT_ALLOWED)
			break;
		done++;
	}
	json_decref(policies);
	if (s->json && status == EXIT_ALLOWED)
		return output_json(json_pack("{s:I}", "put", (json_int_t)done));
	if (done > 0 || status == EXIT_ALLOWED)
		fprintf(s->json ? stderr : stdout, "%zu %s put\n", done,
			done == 1 ? "policy" : "policies");
	return status;
}

static int remove_all(struct session *s, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int status = call(s, "DELETE", names[i], NULL);
		if (status != EXIT_ALLOWED)
			return status;
		if (!s->json) {
			output_text(stdout, names[i]);
			puts(" deleted");
		}
	}
	return s->json ? output_json(json_pack("{s:I}", "deleted", (json_int_t)n)) : EXIT_ALLOWED;
}

static bool read_arguments(struct arguments *a, const char **words, size_t *n, bool *names)
{
	const char *value;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id == 'q')
			*names = true;
		else if (*n == ARGUMENTS_WORDS_MAX)
			arguments_error(a, "at most %d words", ARGUMENTS_WORDS_MAX);
		else
			words[(*n)++] = value;
	}
	return !a->stopped;
}

static int run(struct session *s, struct arguments *a)
{
	const char *words[ARGUMENTS_WORDS_MAX];
	bool names = false;
	size_t n = 0;

	if (!read_arguments(a, words, &n, &names))
		return a->status;
	const struct action *action = actions_choose(a, actions, words, n);
	if (action == NULL)
		return a->status;
	if (strcmp(action->name, "show") == 0)
		return show(s, words[1]);
	if (strcmp(action->name, "put") == 0)
		return put(s, words[1]);
	if (strcmp(action->name, "delete") == 0)
		return remove_all(s, words + 1, n - 1);
	return list(s, names);
}

static const struct option_spec options[] = {
	{'q', "names", NULL, "list: the names only, one a line"},
	{0},
};

const struct command command_policies = {
	.name = "policies",
	.summary = "List, show, put or delete policies",
	.usage = "[list] [--names]\nshow NAME\nput FILE\ndelete NAME...",
	.details = "FILE holds a policy, a list of them, or {\"policies\": [...]}; - is the "
		   "standard input.\n"
		   "What show prints can be changed and put again. Needs a token with the scope "
		   "admin where\n"
		   "the agent wants tokens.",
	.examples = "kovactl policies\n"
		    "kovactl policies show captcha-submit > p.json\n"
		    "kovactl policies put p.json",
	.options = options,
	.run = run,
};
