/* kovactl peek: one KOVA.PEEK. */
#include "arguments.h"
#include "command.h"
#include "session.h"
#include "verdict.h"

static int run(struct session *s, struct arguments *a)
{
	struct resp_words words = {0};
	const char *word[2];
	size_t n;

	if (!arguments_words(a, word, 2, 2, &n) || !arguments_policy_key(a, word[0], word[1]))
		return a->status;
	resp_words_add(&words, "KOVA.PEEK");
	resp_words_add(&words, word[0]);
	resp_words_add(&words, word[1]);
	return verdict_ask(s, &words, RESP_TIMEOUT_MS);
}

const struct command command_peek = {
	.name = "peek",
	.summary = "Show what a take would be answered; takes nothing",
	.usage = "POLICY KEY",
	.details = "Exit status: 0 it would be allowed, 1 refused.",
	.examples = "kovactl peek captcha-submit worker-1",
	.run = run,
};
