/*
 * The agent's answer to take, peek and wait: read from its reply, shown to people, written as JSON.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "output.h"
#include "session.h"

/* The receipt of 16 pairs with the longest names and keys has 23384 characters. */
enum { VERDICT_RECEIPT_MAX = 24 * 1024 };

struct verdict {
	bool allowed;
	int64_t remaining, limit;
	int64_t retry_after_ms; /* -1: it can never fit */
	int64_t reset_after_ms;
	char reason[96];
	bool with_receipt;                 /* one was asked for */
	char receipt[VERDICT_RECEIPT_MAX]; /* empty: none */
};

/* From take's array of six, or seven with a receipt. KOVA_EPROTO: it is no such array. */
KOVA_MUST_CHECK kova_status verdict_parse(const redisReply *reply, struct verdict *ret_verdict);

/* The same; takes `reply`, and says in *ret_error what is wrong. */
KOVA_MUST_CHECK kova_status verdict_take(redisReply *reply, struct verdict *ret_verdict,
					 struct agent_error *ret_error);

enum { VERDICT_REASON_MAX = 128 };

/*
 * The reason for people ("limited by user"); NULL when there is nothing to add ("ok"). Static or
 * in `text`.
 */
const char *verdict_reason(const struct verdict *v, char text[VERDICT_REASON_MAX]);

/* Appends "14 of 20 left, full again in 600ms (limited by user)"; not made safe for a terminal. */
void verdict_summary(struct buf *b, const struct verdict *v);

/* For a bar: what is left, of how much, and its colour. */
uint64_t verdict_part(const struct verdict *v);
uint64_t verdict_whole(const struct verdict *v);
enum paint verdict_paint(const struct verdict *v);

/* The same fields as in HTTP's body; NULL: out of memory. */
json_t *verdict_json(const struct verdict *v);

/* EXIT_ALLOWED or EXIT_REFUSED. */
int verdict_exit(const struct verdict *v);

/* Asks by `words`, shows the verdict (as JSON with --json), returns the exit status. */
int verdict_ask(struct session *s, const struct resp_words *words, uint64_t within_ms);
