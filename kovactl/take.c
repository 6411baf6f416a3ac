/* kovactl take: one KOVA.TAKE. */
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "core/limit.h"
#include "core/request_bounds.h"
#include "output.h"
#include "session.h"
#include "verdict.h"

struct take {
	struct resp_words words;
	const char *policy, *key; /* of the pair that is being read */
	const char *cost;
	int pairs;
	bool receipt;
	uint64_t wait_ms;
	char wait_text[24];
	const char *id;
};

/* Closes the pair that was being read: it needs its policy and key. */
static bool pair_end(struct arguments *a, struct take *t)
{
	if (!arguments_policy_key(a, t->policy, t->key))
		return false;
	if (t->pairs == REQUEST_PAIRS_MAX) {
		arguments_error(a, "at most %d pairs can be taken together", REQUEST_PAIRS_MAX);
		return false;
	}
	if (t->pairs++ > 0)
		resp_words_add(&t->words, "AND");
	resp_words_add(&t->words, t->policy);
	resp_words_add(&t->words, t->key);
	if (t->cost != NULL) {
		resp_words_add(&t->words, "COST");
		resp_words_add(&t->words, t->cost);
	}
	t->policy = t->key = t->cost = NULL;
	return true;
}

static void word(struct arguments *a, struct take *t, const char *text)
{
	if (t->policy == NULL)
		t->policy = text;
	else if (t->key == NULL)
		t->key = text;
	else
		arguments_error(a, "\"%s\" is one word too many; further pairs begin with --and",
				text);
}

static void option(struct arguments *a, struct take *t, int id, const char *value)
{
	uint64_t number;

	switch (id) {
	case ARGUMENT_WORD:
		word(a, t, value);
		break;
	case 'a':
		pair_end(a, t);
		break;
	case 'c':
		if (arguments_number(a, "--cost", value, 1, LIMIT_MAX, &number))
			t->cost = value;
		break;
	case 'w':
		arguments_duration(a, "--wait", value, 0, REQUEST_WAIT_MAX_MS, &t->wait_ms);
		break;
	case 'i':
		if (*value == '\0' || strlen(value) > REQUEST_ID_MAX)
			arguments_error(a, "--id must be 1 to 256 bytes");
		t->id = value;
		break;
	default:
		t->receipt = true;
		break;
	}
}

static bool read_arguments(struct arguments *a, struct take *t)
{
	const char *value;
	int id;

	resp_words_add(&t->words, "KOVA.TAKE");
	while ((id = arguments_next(a, &value)) != ARGUMENT_END)
		option(a, t, id, value);
	if (a->stopped || !pair_end(a, t))
		return false;
	if (t->wait_ms > 0) {
		snprintf(t->wait_text, sizeof t->wait_text, "%llu", (unsigned long long)t->wait_ms);
		resp_words_add(&t->words, "WAIT");
		resp_words_add(&t->words, t->wait_text);
	}
	if (t->id != NULL) {
		resp_words_add(&t->words, "ID");
		resp_words_add(&t->words, t->id);
	}
	if (t->receipt)
		resp_words_add(&t->words, "RECEIPT");
	return true;
}

static int run(struct session *s, struct arguments *a)
{
	struct take take = {0};

	if (!read_arguments(a, &take))
		return a->status;
	return verdict_ask(s, &take.words, RESP_TIMEOUT_MS + take.wait_ms);
}

static const struct option_spec options[] = {
	{'c', "cost", "N", "how much to take, 1 to 1000000000 (else 1); after --and, of that pair"},
	{'a', "and", NULL, "another pair POLICY KEY follows: all are taken, or none"},
	{'w', "wait", "DURATION",
	 "wait for its turn up to so long, as 250ms or 10s (at most 1d);\n"
	 "the policy's max_wait cuts it"},
	{'i', "id", "ID", "asked again with this id within 60 s, it is charged once"},
	{'r', "receipt", NULL, "print a receipt, by which it can be given back"},
	{0},
};

const struct command command_take = {
	.name = "take",
	.summary = "Take from a limit, now or not at all",
	.usage = "POLICY KEY [--cost N] [--and POLICY KEY [--cost N]]... [OPTION]...",
	.details = "Exit status: 0 allowed, 1 refused.",
	.examples = "kovactl take captcha-submit worker-1\n"
		    "kovactl take api acme/u7 --cost 5 --and captcha-submit worker-1\n"
		    "kovactl take captcha-submit worker-1 --wait 10s --json",
	.options = options,
	.run = run,
};
