/*
 * gRPC's server side of one connection, without its socket: HTTP/2 (by nghttp2), calls, messages, trailers. Bytes go in,
 * calls and their messages come out by callbacks; answers go back by the functions here, in any order.
 *
 * A client that only makes work is bounded: streams, the size of headers and messages, what is buffered of messages that
 * are not whole, answers that it does not fetch, and frames that ask for nothing (see GRPC_CALM).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"

enum {
	GRPC_STREAMS_MAX = 256,        /* open at once; more are refused */
	GRPC_HEADERS_MAX = 16 * 1024,  /* bytes of names and values, and 32 for each field */
	GRPC_MESSAGE_MAX = 64 * 1024,  /* bytes of a message from the client */
	GRPC_PARTIAL_MAX = 256 * 1024, /* bytes of messages not handed over yet, of all calls */
	GRPC_QUEUED_MAX = 256 * 1024,  /* bytes of answers not fetched: streaming clients wait */
	GRPC_RECEIVE_MS = 20000,       /* from a call's headers to the end of its message */
	/*
	 * PING, SETTINGS, RST_STREAM, PRIORITY and empty DATA frames that a client may send in advance; each call answered
	 * allows one more, and so does each 10 ms. Beyond: GOAWAY with ENHANCE_YOUR_CALM.
	 */
	GRPC_CALM = 1000,
};

/* The status codes of gRPC that are used here. */
enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_UNAUTHENTICATED = 16,
};

struct grpc_server;
struct grpc_call;

/* All members must be set. `data` is that of grpc_server_new(). */
struct grpc_server_ops {
	size_t extra_bytes; /* of the front's own memory in each call, zeroed at its start */
	/* Where output goes. */
	struct buf *(*out)(void *data);
	/* Whether there is a method of that path; *ret_method is what grpc_call_method() will say. */
	bool (*find)(void *data, struct slice path, unsigned *ret_method, bool *ret_client_streams);
	/* The value of a field `authorization`, as it comes. */
	void (*on_authorization)(struct grpc_call *c, struct slice value);
	/* The value of a field `traceparent` or `tracestate` (`name`). Comes after find(), before the headers of any other call. */
	void (*on_trace_field)(struct grpc_call *c, struct slice name, struct slice value);
	/* The headers are whole, and fit. May end the call. */
	void (*on_begin)(struct grpc_call *c);
	/*
	 * A message (borrowed). Of a method whose client does not stream: the one there is, when the client has ended. May
	 * end the call; else it is ended later. Of one whose client streams: once less than GRPC_QUEUED_MAX is queued.
	 */
	void (*on_message)(struct grpc_call *c, struct slice message);
	/* A streaming client has sent its last message. */
	void (*on_half_closed)(struct grpc_call *c);
	/* grpc_server_leave() is about to end a call that stays: its last message may be sent. */
	void (*on_leave)(struct grpc_call *c);
	/* Once for each on_begin, when the call was ended, by either side; no more is to be said to it. */
	void (*on_ended)(struct grpc_call *c);
	/* Nothing more will come or go: once, from within a function of the server. */
	void (*on_finished)(void *data);
};

/* NULL: out of memory. */
struct grpc_server *grpc_server_new(const struct grpc_server_ops *ops, void *data);
/* Ends all calls. NULL is nothing. */
void grpc_server_free(struct grpc_server *s);

/* Frees what it holds for the next call, until that comes. */
void grpc_server_trim(struct grpc_server *s);
/*
 * Lets an idle connection take a tenth of the memory (io/h2_memory.h) until it has something to say or to hear, which costs
 * some 20 µs more then. Does nothing when messages or answers are on their way.
 */
void grpc_server_fold(struct grpc_server *s);

/* Takes all of `bytes`. `now_ms` is any steady clock, here and below. */
void grpc_server_feed(struct grpc_server *s, struct slice bytes, uint64_t now_ms);

/* Whether the client has said what HTTP/2 begins with. */
bool grpc_server_has_begun(const struct grpc_server *s);
/*
 * To be called about once a second. Ends the calls whose time is up: that which the client gave, or GRPC_RECEIVE_MS. Goes on
 * with streaming clients that have waited for ops->out() to empty.
 */
void grpc_server_sweep(struct grpc_server *s, uint64_t now_ms);
void grpc_server_ping(struct grpc_server *s);
/* Whether the answer to a grpc_server_ping() has not come yet. */
bool grpc_server_awaits_pong(const struct grpc_server *s);
/* GOAWAY: calls that come later were not begun. Ends those that grpc_call_stays() was said of. */
void grpc_server_leave(struct grpc_server *s);

struct grpc_server_counters {
	uint64_t floods;    /* connections that were told to calm down */
	uint64_t too_large; /* calls over one of the bounds of size */
	uint64_t late;      /* calls ended by grpc_server_sweep() */
};
/* Where to count, for all servers of a loop. Borrowed; NULL: nowhere. */
void grpc_server_count(struct grpc_server *s, struct grpc_server_counters *counters);

/* ---- A call, from on_begin to on_ended ---- */

void *grpc_call_data(const struct grpc_call *c);  /* the server's */
void *grpc_call_extra(const struct grpc_call *c); /* the front's memory */
unsigned grpc_call_method(const struct grpc_call *c);

/* Sends a message: room for its `len` bytes, to be filled in at once; NULL: out of memory. */
char *grpc_call_message(struct grpc_call *c, size_t len);
/* Bytes of its messages that were not fetched yet: the client's windows are closed, or nothing was flushed. */
size_t grpc_call_queued(const struct grpc_call *c);
/* Sends the trailers and ends the call. `text` (NULL: none): what is wrong and what is allowed. */
void grpc_call_end(struct grpc_call *c, enum grpc_status status, const char *text);
/* Sends what the last calls of the two functions above have left; to be called when they come from elsewhere than a callback. */
void grpc_server_flush(struct grpc_server *s);
/* A call that may stay open for as long as both sides like: grpc_server_leave() ends it. */
void grpc_call_stays(struct grpc_call *c);
