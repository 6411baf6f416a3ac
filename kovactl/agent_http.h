/*
 * The agent's HTTP side (administration, health), by libcurl: no proxies, no redirects, no other
 * protocol.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "address.h"
#include "agent_error.h"
#include "agent_tls.h"
#include "core/buf.h"

enum { HTTP_TIMEOUT_MS = 10000, HTTP_BODY_MAX = 64 << 20 };

struct agent_http;

/* By TLS if the address says so. `token` is sent as Bearer token if not NULL; all is copied. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status agent_http_open(const struct address *address,
					    const struct agent_tls *tls, const char *token,
					    struct agent_http **ret_agent);
void agent_http_close(struct agent_http *a); /* NULL is nothing */

struct http_answer {
	long code;
	struct buf body; /* owned */
	int64_t date_s;  /* of the Date field, since the epoch; -1: there was none */
};

void http_answer_release(struct http_answer *answer);

/*
 * One request; `body` (borrowed) may be NULL. KOVA_OK whatever the code is. KOVA_ECONN,
 * KOVA_ETIMEDOUT: not reachable. KOVA_ETOOBIG: more than HTTP_BODY_MAX came back.
 */
KOVA_MUST_CHECK kova_status agent_http_call(struct agent_http *a, const char *method,
					    const char *target, const json_t *body,
					    struct http_answer *ret_answer,
					    struct agent_error *ret_error);

/* Appends `text` percent-encoded for one part of a path or query. */
void http_encode(struct buf *b, const char *text);
