/* Feedback on what became of requests elsewhere: what it means for this agent (docs/feedback.md). */
#pragma once

#include "core/script.h"
#include "request.h"

struct request_state;

/*
 * Reads what decide() is to check of a FEEDBACK, and for how long it holds its key; other requests pass. Sets
 * *ret_message when it is wrong.
 */
enum request_error feedback_check(struct request_state *s, const char **ret_message);

/* It is resolved and about to be sent: what this agent decides in memory for the key ends before. */
void feedback_begins(struct request_state *s);

/* The region knows it, and says what it changed. */
void feedback_heard(struct request_state *s, const struct script_answer *said);
