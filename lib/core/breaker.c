#include "core/breaker.h"

#include <assert.h>
#include <string.h>

static bool is_closed(const struct breaker *b)
{
	return b->open_until_us == 0;
}

/* Trials under way; *ret_first_end_us is the first of their ends, if there are any. */
static unsigned live_trials(const struct breaker *b, uint64_t now_us, uint64_t *ret_first_end_us)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->n_trials; i++) {
		if (b->trial_ends_us[i] <= now_us)
			continue;
		if (n == 0 || b->trial_ends_us[i] < *ret_first_end_us)
			*ret_first_end_us = b->trial_ends_us[i];
		n++;
	}
	return n;
}

uint64_t breaker_wait_us(const struct breaker *b, const struct breaker_rule *rule, uint64_t now_us)
{
	uint64_t first_end_us = 0;

	if (is_closed(b))
		return 0;
	if (b->open_until_us > now_us)
		return b->open_until_us - now_us;
	return live_trials(b, now_us, &first_end_us) < rule->trials ? 0 : first_end_us - now_us;
}

static void remove_trial(struct breaker *b, unsigned i)
{
	b->n_trials--;
	memmove(&b->trial_ends_us[i], &b->trial_ends_us[i + 1],
		(b->n_trials - i) * sizeof b->trial_ends_us[0]);
}

void breaker_take(struct breaker *b, const struct breaker_rule *rule, uint64_t now_us)
{
	if (is_closed(b))
		return;
	for (unsigned i = b->n_trials; i-- > 0;)
		if (b->trial_ends_us[i] <= now_us)
			remove_trial(b, i);
	assert(b->n_trials < rule->trials && rule->trials <= BREAKER_TRIALS_MAX);
	b->trial_ends_us[b->n_trials++] = now_us + rule->open_us;
}

void breaker_give(struct breaker *b, const struct breaker_rule *rule, uint64_t then_us)
{
	for (unsigned i = 0; i < b->n_trials; i++)
		if (b->trial_ends_us[i] == then_us + rule->open_us) {
			remove_trial(b, i);
			return;
		}
}

/* Successes before the first failure change nothing: a key without failures has no state. */
static void forget_leading_successes(struct breaker *b)
{
	unsigned n = 0;

	while (n < b->n_outcomes && !b->failed[n])
		n++;
	b->n_outcomes = (uint8_t)(b->n_outcomes - n);
	memmove(b->failed, b->failed + n, b->n_outcomes);
}

static void add_outcome(struct breaker *b, const struct breaker_rule *rule, bool ok)
{
	if (b->n_outcomes >= rule->of) { /* `of` may have been more */
		unsigned drop = b->n_outcomes - rule->of + 1U;

		b->n_outcomes = (uint8_t)(b->n_outcomes - drop);
		memmove(b->failed, b->failed + drop, b->n_outcomes);
	}
	b->failed[b->n_outcomes++] = !ok;
	forget_leading_successes(b);
}

static unsigned count_failures(const struct breaker *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->n_outcomes; i++)
		n += b->failed[i];
	return n;
}

static enum breaker_change open_it(struct breaker *b, const struct breaker_rule *rule,
				   uint64_t now_us)
{
	*b = (struct breaker){.open_until_us = now_us + rule->open_us};
	return BREAKER_OPENED;
}

enum breaker_change breaker_feed(struct breaker *b, const struct breaker_rule *rule,
				 uint64_t now_us, bool ok)
{
	uint64_t first_end_us = 0;

	if (is_closed(b)) {
		add_outcome(b, rule, ok);
		return count_failures(b) >= rule->failures ? open_it(b, rule, now_us)
							   : BREAKER_SAME;
	}
	if (b->open_until_us > now_us || live_trials(b, now_us, &first_end_us) == 0)
		return BREAKER_SAME;
	if (!ok)
		return open_it(b, rule, now_us);
	*b = (struct breaker){0};
	return BREAKER_CLOSED;
}
