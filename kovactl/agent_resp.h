/*
 * One RESP connection to an agent, blocking, with exact deadlines (monotonic clock).
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdint.h>

#include "address.h"
#include "agent_error.h"
#include "agent_tls.h"

enum { RESP_WORDS_MAX = 128, RESP_TIMEOUT_MS = 5000 };

/* The words of one command; borrowed. A word too many is a bug. */
struct resp_words {
	const char *at[RESP_WORDS_MAX];
	size_t len[RESP_WORDS_MAX];
	int n;
};

void resp_words_add(struct resp_words *w, const char *word);

struct agent_resp;

/*
 * Connects within RESP_TIMEOUT_MS, by TLS if the address says so, and authenticates if `token` is not NULL. KOVA_ECONN,
 * KOVA_ETIMEDOUT: not reachable. KOVA_EAUTH: the token was refused. An agent that has no tokens
 * takes any.
 */
KOVA_MUST_CHECK kova_status agent_resp_open(const struct address *address,
					    const struct agent_tls *tls, const char *token,
					    struct agent_resp **ret_agent,
					    struct agent_error *ret_error);
/* Is the connection of no use any more after `status`, and might a new one help? */
bool agent_resp_is_lost(kova_status status);
void agent_resp_close(struct agent_resp *a); /* NULL is nothing */

/* Sends a command, whole. KOVA_ECONN, KOVA_ETIMEDOUT: the connection is of no use any more. */
KOVA_MUST_CHECK kova_status agent_resp_send(struct agent_resp *a, const struct resp_words *words,
					    struct agent_error *ret_error);

/*
 * The reply to the oldest command without one; *ret_reply is the caller's (freeReplyObject).
 * KOVA_AGAIN: not within `within_ms`, ask again. KOVA_EAUTH (NOAUTH, NOPERM, WRONGPASS),
 * KOVA_EREPLY: an error reply, its text in *ret_error. KOVA_ECONN, KOVA_EPROTO: the connection is
 * of no use any more.
 */
KOVA_MUST_CHECK kova_status agent_resp_receive(struct agent_resp *a, uint64_t within_ms,
					       redisReply **ret_reply,
					       struct agent_error *ret_error);

/*
 * Both; KOVA_ETIMEDOUT when there is no reply within `within_ms`, and the connection is of no use
 * any more.
 */
KOVA_MUST_CHECK kova_status agent_resp_call(struct agent_resp *a, const struct resp_words *words,
					    uint64_t within_ms, redisReply **ret_reply,
					    struct agent_error *ret_error);
