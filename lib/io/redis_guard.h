/*
 * Replies that nobody asked for. hiredis asserts that there are none; but what a server sends must
 * not end the process, so each reply is checked where hiredis begins to build it, and one too many
 * ends the connection.
 */
#pragma once

#include <stdbool.h>

struct redisReader;
struct redisReplyObjectFunctions;

struct redis_guard {
	unsigned expected; /* replies that have not begun to arrive; its user counts up */
	bool stray;        /* one came that was not expected */
	const struct redisReplyObjectFunctions *functions; /* hiredis' own */
};

/* For a connection that has sent nothing yet. `guard` outlives it. */
void redis_guard_start(struct redis_guard *guard, struct redisReader *reader);
