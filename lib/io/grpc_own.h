/* What the files of the gRPC server share; no one else includes this. Its story is in grpc_server.c. */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "io/grpc_server.h"
#include "io/h2_memory.h"

struct grpc_server {
	const struct grpc_server_ops *ops;
	void *data;
	struct h2_memory *memory;              /* the session's */
	nghttp2_session *its_session;          /* by session_of() only: its memory may be folded */
	struct grpc_server_counters *counters; /* borrowed */
	struct grpc_call *calls;               /* list */
	size_t partial;                        /* bytes of messages that were not handed over */
	size_t queued;                         /* bytes of all calls' `out` */
	struct buf spare[2];                   /* for the `in` and `out` of calls to come */
	uint64_t now_ms, calm_ms;              /* of the last input; `calm` was counted to */
	unsigned pings;                        /* sent, and not answered yet */
	int calm;                              /* frames that ask for nothing and are allowed yet */
	bool feeding, flushing, begun, left, finished;
};

struct grpc_call {
	struct grpc_server *server;
	struct grpc_call *prev, *next;
	int32_t id;
	unsigned method;
	bool client_streams, stays;
	bool begun;       /* on_begin came: on_ended is owed */
	bool ended;       /* there is a status, or the stream is gone */
	bool half_closed; /* the client has ended */
	bool responded;   /* our headers are on their way */
	bool is_post, has_type, is_found, is_encoded, has_bad_timeout, is_too_large;
	enum grpc_status status;
	size_t header_bytes;
	uint64_t receive_by_ms, deadline_ms; /* 0: none */
	struct buf in;                       /* received and not handed over */
	struct buf out;                      /* messages with their prefixes ... */
	size_t sent;                         /* ... of which so much was fetched */
	struct buf text;                     /* grpc-message */
	max_align_t extra[];
};

#define COUNT_IN(s, which)                      \
	do {                                    \
		if ((s)->counters != NULL)      \
			(s)->counters->which++; \
	} while (0)

static inline nghttp2_session *session_of(struct grpc_server *s)
{
	h2_memory_unfold(s->memory);
	return s->its_session;
}

enum { GRPC_PREFIX_BYTES = 5 }; /* of a message: whether it is compressed, and its length */

/* ---- grpc_call.c: a call's buffers, its answer, its end ---- */

/* Buffers of calls: those that are done with leave theirs to the next. */
void grpc_buffer_take(struct grpc_server *s, struct buf *b);
void grpc_buffer_leave(struct grpc_server *s, struct buf *b);

/* It is no gRPC: an answer of HTTP. */
void grpc_call_refuse(struct grpc_call *c, unsigned http_status);
/* Its stream is gone. */
void grpc_call_free(struct grpc_call *c);

/* ---- grpc_receive.c: what a client says in a call ---- */

int grpc_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data);
int grpc_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		   size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		   void *user_data);
int grpc_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
		 size_t len, void *user_data);
/* Its headers are whole. */
void grpc_call_begin(struct grpc_call *c);
/* The client has ended. */
void grpc_call_half_close(struct grpc_call *c);
/* Messages that have waited for answers to be fetched. False: there are none that may be handed over. */
bool grpc_hand_over_waiting(struct grpc_server *s);
