/* kovactl usage: what was admitted, refused and waited of one key. */
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "output.h"
#include "session.h"

static void line(const char *name, const json_t *value)
{
	printf("%-10s", name);
	if (json_is_integer(value))
		printf("%lld", (long long)json_integer_value(value));
	else
		output_text(stdout, json_is_string(value) ? json_string_value(value) : "-");
	putchar('\n');
}

static int run(struct session *s, struct arguments *a)
{
	static const char *const fields[] = {"admitted", "refused", "waited", "since"};
	const char *word[2];
	json_t *body = NULL;
	size_t n;

	if (!arguments_words(a, word, 2, 2, &n) || !arguments_policy_key(a, word[0], word[1]))
		return a->status;
	int status = session_http_get(s, "/v1/usage", word[0], word[1], &body);
	if (status != EXIT_ALLOWED)
		return status;
	if (s->json)
		return output_json(body);
	bool known = json_is_string(json_object_get(body, "since"));

	if (!known)
		puts("this agent has not seen this key");
	for (size_t i = 0; known && i < sizeof fields / sizeof fields[0]; i++)
		line(fields[i], json_object_get(body, fields[i]));
	json_decref(body);
	return EXIT_ALLOWED;
}

const struct command command_usage = {
	.name = "usage",
	.summary = "Show how much of a key was admitted and refused",
	.usage = "POLICY KEY",
	.examples = "kovactl usage captcha-submit worker-1",
	.run = run,
};
