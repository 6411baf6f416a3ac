/*
 * One call of the gRPC interface: what its handler gets and answers with. Inside of the gRPC front only. A handler ends
 * each call exactly once, at once or later; a check in progress whose call ends otherwise is given up (rls_abandon()).
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "agent_conns.h"
#include "io/auth.h"
#include "io/grpc_server.h"
#include "trace.h"

struct grpc_conn {
	struct conn *conn;
	struct grpc_server *server;
	const struct auth_token
		*certificate; /* what that of the client stands for; NULL: nothing */
	uint64_t pinged_ms;   /* loop time; 0: no answer is awaited */
	/* What the headers of the call say that are being read; owned; NULL: none has said anything yet. */
	struct trace_origin *origin;
	/* By rlqs_now_us(): when a PING followed what a quota stream was told. */
	uint64_t quota_pinged_us;
};

/* Zeroed at its start; lives in its call. */
struct grpc_task {
	struct grpc_call *call;
	struct grpc_conn *front;
	const struct auth_token *token; /* or a certificate's; NULL: none that is known here */
	bool shown;                     /* there was a token, known or not */
	bool counted;                   /* a request in progress of its connection */
	bool watches;                   /* the health of a service that there is */
	uint64_t begun_us;
	struct rls_check *check;    /* in progress; NULL: none */
	struct trace *trace;        /* ended with the call; NULL: none */
	struct rlqs_stream *quotas; /* NULL: it has not reported yet, or is none */
};

static inline struct agent *task_agent(const struct grpc_task *t)
{
	return conn_agent(t->front->conn);
}

/* Sends a message. */
void task_send(struct grpc_task *t, const ProtobufCMessage *message);
/* The same, and ends the call. */
void task_answer(struct grpc_task *t, const ProtobufCMessage *message);
void task_fail(struct grpc_task *t, enum grpc_status status, const char *text);

typedef void grpc_handler(struct grpc_task *t, struct slice message);

grpc_handler rls_should_rate_limit, rlqs_stream, health_check, health_watch, health_list,
	reflection_answer;
/* The agent is about to leave: what a watcher hears last. */
void health_leave(struct grpc_task *t);
/* Its call has ended without its answer: the client is gone, or its time is up. */
void rls_abandon(struct rls_check *check);
/* Frees the checks that the loop of `a` keeps for calls to come. */
void rls_spare_release(struct agent *a);

/* The stream has ended, by either side. */
void rlqs_stream_end(struct rlqs_stream *st);

/* The services that there are, NULL-terminated. */
extern const char *const grpc_services[];
