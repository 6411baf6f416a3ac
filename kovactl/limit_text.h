/*
 * A limit of a policy, level or override (JSON as the agent tells it) in a few words.
 */
#pragma once

#include <jansson.h>

#include "core/buf.h"

/*
 * Appends "10 per 1s, burst 20", "50 slots of 10s", "8 at once, at most 1m each", "banned",
 * "unlimited"; of a policy with levels "tenant 1000 per 1s; user 50 per 1s". Nothing for what it
 * does not know.
 */
void limit_text(struct buf *b, const json_t *item);

/* The algorithm's name, "plan" for a plan. Borrowed from `policy` or static. */
const char *limit_algorithm(const json_t *policy);
