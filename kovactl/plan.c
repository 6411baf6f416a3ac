/* kovactl plan: from a provider's concurrency plan to a rate, a burst and a policy. Asks nobody. */
#include <inttypes.h>
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "core/duration.h"
#include "core/limit.h"
#include "core/name.h"
#include "output.h"
#include "session.h"

struct plan {
	const char *words[2];
	size_t n;
	const char *name;
	bool policy_only;
	uint64_t slots, hold_ms;
	uint64_t burst;
};

static bool read_arguments(struct arguments *a, struct plan *p)
{
	const char *value;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id == 'n' && !name_is_valid(slice_of(value)))
			arguments_error(a, "--name must be 1 to 64 of A-Z a-z 0-9 . _ -");
		else if (id == 'n')
			p->name = value;
		else if (id == 'p')
			p->policy_only = true;
		else if (p->n == 2)
			arguments_error(a, "\"%s\" is one word too many", value);
		else
			p->words[p->n++] = value;
	}
	if (!a->stopped && p->n < 2)
		arguments_error(a, "it takes SLOTS and HOLD, as in: kovactl plan 50 10s");
	return !a->stopped && arguments_number(a, "SLOTS", p->words[0], 1, LIMIT_MAX, &p->slots) &&
	       arguments_duration(a, "HOLD", p->words[1], 1, LIMIT_PER_MAX_US / 1000, &p->hold_ms);
}

static json_t *policy_json(const struct plan *p)
{
	char hold[DURATION_TEXT_MAX];

	duration_write(p->hold_ms, hold);
	return json_pack("{s:s, s:{s:I, s:s}}", "name", p->name, "plan", "slots",
			 (json_int_t)p->slots, "hold", hold);
}

static double per_second(const struct plan *p)
{
	return (double)p->slots * 1000 / (double)p->hold_ms;
}

static int print_json(const struct plan *p)
{
	return output_json(json_pack("{s:I, s:I, s:f, s:I, s:o}", "slots", (json_int_t)p->slots,
				     "hold_ms", (json_int_t)p->hold_ms, "rate_per_second",
				     per_second(p), "burst", (json_int_t)p->burst, "policy",
				     policy_json(p)));
}

static void fact(const char *name, const char *text, const char *why)
{
	printf("  %-8s%s%-24s%s%s%s%s\n", name, paint(stdout, PAINT_BOLD), text,
	       paint(stdout, PAINT_PLAIN), paint(stdout, PAINT_DIM), why,
	       paint(stdout, PAINT_PLAIN));
}

static void explain(const struct plan *p)
{
	char hold[DURATION_TEXT_MAX], text[64];

	duration_write_rounded(p->hold_ms, hold);
	printf("%" PRIu64 " slots, each held for up to %s, bear:\n\n", p->slots, hold);
	snprintf(text, sizeof text, "%.4g per second", per_second(p));
	fact("rate", text, "slots / hold: keeps every slot just busy");
	snprintf(text, sizeof text, "%.4g", per_second(p) * 60);
	fact("", text, "per minute");
	snprintf(text, sizeof text, "%" PRIu64, p->burst);
	fact("burst", text, "2 x rate: at once after a quiet time");
	snprintf(text, sizeof text, "%" PRIu64, p->slots);
	fact("slots", text, "never more at once, whatever the rate");
	printf("\nHOLD is how long one request lasts at most. If some last longer, the provider "
	       "sees more than its\n"
	       "slots; if most are much shorter, a shorter HOLD gives a higher rate.\n"
	       "\nAs a policy, for the configuration or kovactl policies put FILE:\n\n");
}

static int run(struct session *s, struct arguments *a)
{
	struct plan plan = {.name = "provider"};

	if (!read_arguments(a, &plan))
		return a->status;
	plan.burst = limit_default_burst(plan.slots, plan.hold_ms * 1000);
	if (plan.policy_only)
		return s->json ? output_json(policy_json(&plan))
			       : output_json_indented(policy_json(&plan));
	if (s->json)
		return print_json(&plan);
	explain(&plan);
	return output_json_indented(policy_json(&plan));
}

static const struct option_spec options[] = {
	{'n', "name", "NAME", "the policy's name (else provider)"},
	{'p', "policy", NULL, "print the policy only"},
	{0},
};

const struct command command_plan = {
	.name = "plan",
	.summary = "Turn a provider's concurrency plan into a rate and a policy",
	.usage = "SLOTS HOLD [--name NAME] [--policy]",
	.details = "SLOTS requests may be in progress at once, each lasts HOLD at most. It only "
		   "computes.",
	.examples = "kovactl plan 50 10s\n"
		    "kovactl plan 50 10s --name captcha --policy | kovactl policies put -",
	.options = options,
	.run = run,
};
