/*
 * The server's side of one HTTP/1.1 connection (RFC 9110, 9112): bytes in, requests out; answers in
 * the order of their requests, whenever they come. Knows no sockets, no clocks and nothing of what
 * is served; parsing is llhttp's. Bodies come whole.
 *
 * One request: http_server_feed() … ops->on_request() → (at once or later) http_exchange_answer() →
 * ops->on_answered(). A request that can't be served as HTTP goes to ops->on_error() instead, and
 * is the last of its connection. Every exchange ends in on_answered or on_abandoned, exactly once; one that streams in
 * on_abandoned.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "io/http_request.h"

enum {
	HTTP_HEAD_MAX = 16 * 1024, /* request line and fields, bytes */
	HTTP_FIELDS_MAX = 100,
};

struct http_server;
struct http_exchange;

struct http_server_ops {
	size_t extra_bytes; /* of http_exchange_extra() */
	/* Where answers are written. */
	struct buf *(*out)(void *data);
	/* Whether another request may be taken now; asked between two requests. */
	bool (*may_read)(void *data);
	/* Whether the connection ends anyway after what is in progress: the last answer says so. */
	bool (*is_ending)(void *data);
	/* How long a body this request may have, bytes. `r` has no body yet. */
	size_t (*body_max)(void *data, const struct http_request *r);
	void (*on_request)(struct http_exchange *x, const struct http_request *r);
	/* Must answer with `status` at once. `detail`: static text, a sentence's start. */
	void (*on_error)(struct http_exchange *x, unsigned status, const char *detail);
	/* Its answer is in the output. */
	void (*on_answered)(struct http_exchange *x);
	/* It will never be answered; what works for it must forget it. */
	void (*on_abandoned)(struct http_exchange *x);
	/* The last answer is in the output: close once it is written. */
	void (*on_finished)(void *data);
};

/* `ops` is borrowed for ever. NULL: out of memory. */
struct http_server *http_server_new(const struct http_server_ops *ops, void *data);
/* Abandons what is in progress. NULL is nothing. */
void http_server_free(struct http_server *s);

/* Frees what it holds for the next request, until that comes. */
void http_server_trim(struct http_server *s);

/*
 * Takes bytes of the peer; returns how many it is done with: less than all only when may_read()
 * became false. After the last request of a connection everything is swallowed.
 */
size_t http_server_feed(struct http_server *s, struct slice bytes);

/* Part of a request has come and not the rest. */
bool http_server_is_receiving(const struct http_server *s);
/* Exchanges that are not in the output yet. */
unsigned http_server_in_progress(const struct http_server *s);
/* Answers that wait for an earlier one, in bytes. */
size_t http_server_held_bytes(const struct http_server *s);
/* Requests that have begun since the start: tells one being received from the next. */
unsigned long http_server_begun(const struct http_server *s);
/* Gives up on the request that is being received: on_error with `status`, then the end. */
void http_server_refuse(struct http_server *s, unsigned status, const char *detail);
/*
 * Abandons the first exchange for which `is_futile` is true, and all behind it (their answers could
 * not be told apart any more).
 */
void http_server_abandon_from(struct http_server *s, bool (*is_futile)(struct http_exchange *x));

/* Whole answers, as slices, to who can't be served: one too many; one who does not speak TLS where that is spoken. */
#define HTTP_WHOLE_ANSWER(text)          \
	{                                \
		(text), sizeof(text) - 1 \
	}
#define HTTP_FULL_TEXT                                                                \
	HTTP_WHOLE_ANSWER("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n" \
			  "Retry-After: 1\r\nContent-Length: 0\r\n\r\n")
#define HTTP_PLAIN_TEXT                                                                          \
	HTTP_WHOLE_ANSWER("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"                    \
			  "Content-Type: application/problem+json\r\nContent-Length: 97\r\n\r\n" \
			  "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"  \
			  "\"detail\":\"this port speaks HTTPS only\"}\n")

struct http_answer {
	unsigned status;
	const char *media_type; /* NULL: no Content-Type */
	struct slice fields;    /* whole lines, each with its CR LF; may be empty */
	struct slice body;
};

/*
 * Once for each exchange. `x` is gone afterwards if all before it have been answered, so don't
 * touch it.
 */
void http_exchange_answer(struct http_exchange *x, const struct http_answer *a);

/*
 * Answers with a body that has no end yet, instead of http_exchange_answer() and from on_request only: `a->body` begins it,
 * http_exchange_write() goes on with it. Its connection takes no more requests. The end is that of the connection: `x` stays
 * until it is abandoned (http_server_abandon_from(), http_server_free()). Not for HEAD.
 */
void http_exchange_stream(struct http_exchange *x, const struct http_answer *a);
/* The head of such an answer that is server-sent events (HTML Living Standard), which no proxy is to keep or gather. */
extern const struct http_answer http_event_stream;
/* More of that body. False: its turn has not come, since one before it has no answer yet; nothing is written. */
bool http_exchange_write(struct http_exchange *x, struct slice bytes);
bool http_exchange_is_head(const struct http_exchange *x);

void *http_exchange_extra(struct http_exchange *x);      /* zeroed when the exchange begins */
void *http_exchange_data(const struct http_exchange *x); /* the server's `data` */
/* The reason phrase of `status` ("Not Found"); never NULL. */
const char *http_status_text(unsigned status);
