/* kovactl home: in which region a key is at home. */
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "output.h"
#include "session.h"

static int run(struct session *s, struct arguments *a)
{
	const char *key;
	json_t *body = NULL;
	size_t n;

	if (!arguments_words(a, &key, 1, 1, &n) || !arguments_key(a, key))
		return a->status;
	int status = session_http_get(s, "/v1/home", NULL, key, &body);
	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	const char *region = json_string_value(json_object_get(body, "region"));
	output_text(stdout, region != NULL ? region : "-");
	putchar('\n');
	json_decref(body);
	return EXIT_ALLOWED;
}

const struct command command_home = {
	.name = "home",
	.summary = "Show the home region of a key",
	.usage = "KEY",
	.details = "All keys with the same root, their first part, are at home in the same region.",
	.examples = "kovactl home acme/u7",
	.run = run,
};
