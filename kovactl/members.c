/* kovactl members: the agents and coordinators that this agent knows. */
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "output.h"
#include "session.h"
#include "table.h"

static void cell(struct table *t, const json_t *member, const char *field)
{
	const json_t *value = json_object_get(member, field);
	char text[32];

	if (json_is_integer(value)) {
		snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
		table_cell(t, text);
	} else {
		table_cell(t, json_string_value(value));
	}
}

static int run(struct session *s, struct arguments *a)
{
	static const char *const heads[] = {"NODE",  "REGION",  "ROLE",
					    "STATE", "ADDRESS", ">SKEW MS"};
	static const char *const fields[] = {"node",  "region",  "role",
					     "state", "address", "skew_ms"};
	json_t *body = NULL, *member;
	size_t n, i;

	if (!arguments_words(a, NULL, 0, 0, &n))
		return a->status;
	int status = session_http_get(s, "/v1/members", NULL, NULL, &body);
	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	struct table table;
	table_init(&table, heads, sizeof heads / sizeof heads[0]);
	json_array_foreach(json_object_get(body, "members"), i, member)
		for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++)
			cell(&table, member, fields[f]);
	status = table_print(&table);
	table_release(&table);
	json_decref(body);
	return status;
}

const struct command command_members = {
	.name = "members",
	.summary = "List the agents and coordinators that the agent knows",
	.usage = "",
	.run = run,
};
