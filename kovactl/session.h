/*
 * What one run of kovactl knows: the options of every subcommand, and the connections to the
 * agent, opened when first used. The functions that ask the agent say on stderr what went wrong
 * and return an exit status.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "agent_http.h"
#include "agent_resp.h"

#define AGENT_DEFAULT "127.0.0.1:7411"

struct session {
	const char *agent_text; /* --agent; borrowed; NULL: not given */
	const char *token_file; /* --token-file; likewise */
	bool json;              /* --json */
	struct agent_tls tls;   /* --tls, --ca, --cert, --key; likewise */

	/* Filled by session_settle(). */
	bool settled;
	struct address address;
	char *token; /* owned; NULL: none */

	struct agent_resp *resp; /* owned; NULL: not connected */
	struct agent_http *http;
	long http_code; /* of the last HTTP answer */
};

void session_release(struct session *s);

/* Works out address and token from options and environment; once. EXIT_ALLOWED or EXIT_USAGE. */
int session_settle(struct session *s);

/* Connects by RESP if it is not. EXIT_ALLOWED, EXIT_USAGE or EXIT_UNREACHABLE. */
int session_connect(struct session *s);
/* Drops the RESP connection; the next call connects anew. */
void session_disconnect(struct session *s);

/* One RESP command; the agent may take `within_ms` to answer. *ret_reply is the caller's. */
int session_call(struct session *s, const struct resp_words *words, uint64_t within_ms,
		 redisReply **ret_reply);

/*
 * One HTTP request to the agent, whose HTTP address its INFO tells; `target` with its query. Its code is 2xx when EXIT_ALLOWED is
 * returned, and *ret_body (the caller's) is its JSON, NULL where the body was empty; otherwise
 * what the problem details say was said on stderr. `ret_body` may be NULL.
 */
int session_http(struct session *s, const char *method, const char *target, const json_t *body,
		 json_t **ret_body);

/* The same; "target" is made of `path` and, where not NULL, policy, key as its query. */
int session_http_get(struct session *s, const char *path, const char *policy, const char *key,
		     json_t **ret_body);

/*
 * Says that `e` kept us from the agent or that it refused, and what to do; returns the exit
 * status.
 */
int session_failed(const struct session *s, kova_status status, const struct agent_error *e);

/* What the user calls the agent. */
const char *session_agent_text(const struct session *s);
