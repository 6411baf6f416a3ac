/*
 * Circuit breaker of one key: too many failures among the last outcomes open it, and then nothing passes for a while;
 * after that a few trials do, and their outcome closes it or opens it again. Twin: lua/breaker.lua.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { BREAKER_OF_MAX = 100, BREAKER_TRIALS_MAX = 100 };

struct breaker_rule {
	uint8_t failures; /* 1..of: so many failures ... */
	uint8_t of;       /* ... among the last of 1..BREAKER_OF_MAX outcomes open it ... */
	uint8_t trials;   /* 1..BREAKER_TRIALS_MAX: then so many pass without an outcome yet */
	uint64_t open_us; /* ... for so long; a trial without an outcome counts for as long */
};

/* All zeros: closed, no outcomes. */
struct breaker {
	uint64_t open_until_us; /* 0: closed; passed: half-open */
	uint8_t n_outcomes;     /* from the first failure on */
	uint8_t n_trials;
	bool failed[BREAKER_OF_MAX]; /* the oldest first */
	uint64_t trial_ends_us[BREAKER_TRIALS_MAX];
};

enum breaker_change { BREAKER_SAME, BREAKER_OPENED, BREAKER_CLOSED };

/* µs until something may pass; 0: now. */
uint64_t breaker_wait_us(const struct breaker *b, const struct breaker_rule *rule, uint64_t now_us);

/* Something passes: a trial, if it is half-open. breaker_wait_us() must be 0. */
void breaker_take(struct breaker *b, const struct breaker_rule *rule, uint64_t now_us);

/* What passed at `then_us` was undone: its trial is free again. */
void breaker_give(struct breaker *b, const struct breaker_rule *rule, uint64_t then_us);

/*
 * An outcome. While it is open, or half-open without a trial under way, it is one of before, and says nothing. Of several
 * trials the first outcome decides.
 */
enum breaker_change breaker_feed(struct breaker *b, const struct breaker_rule *rule,
				 uint64_t now_us, bool ok);
