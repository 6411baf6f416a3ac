/*
 * A RESP client's session, and its replies in order. Inside of the RESP front only.
 *
 * Commands are answered at once or later (a request in progress); a client reads the replies in the
 * order of its commands all the same. While an earlier request is in progress, what comes behind it
 * waits in a ring of slots: a request, or a stretch of reply bytes in `held`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_conns.h"
#include "core/resp.h"
#include "io/auth.h"
#include "trace.h"

enum { SESSION_NAME_MAX = 64 };

/* How the answer of a request is written. */
enum reply_shape { REPLY_TAKE, REPLY_ACQUIRE, REPLY_AMOUNT, REPLY_THROTTLE, REPLY_OK };

/* A text that other loops have to be asked for: who asks fills it, session_said() makes it the reply. */
struct reply_later {
	struct resp_session
		*session; /* NULL: nobody waits for it any more. Of the session's loop only */
	struct buf text;
	bool said;       /* it is the session's to free */
	bool raw;        /* the text is the reply as it is */
	bool waits;      /* not for those who have shut their pen */
	uint8_t version; /* of RESP, when the command came */
	/* Nobody waits for it any more, and nobody will: nothing is owed. NULL: it is still owed. */
	void (*on_abandoned)(struct reply_later *later);
	void *owner;
};

struct reply_slot {
	struct request *request;   /* owned; its owner is the session while it is in progress, then
				    * NULL */
	struct reply_later *later; /* without both: bytes in `held` */
	uint32_t held_len;
	uint8_t shape;   /* enum reply_shape */
	uint8_t version; /* of RESP, when the command came */
};

struct resp_command_entry;

struct resp_session {
	struct conn *conn;
	struct resp_parser parser;
	const struct auth_token
		*certificate;           /* what that of the client stands for; NULL: nothing */
	const struct auth_token *token; /* that was shown, or the certificate's; NULL: none */
	uint8_t version;                /* of RESP: 2 or 3 */
	bool executing;                 /* a command is on the stack: replies go out after it */
	char name[SESSION_NAME_MAX + 1];
	char lib_name[SESSION_NAME_MAX + 1];
	char lib_version[SESSION_NAME_MAX + 1];
	const char *last_command;     /* static */
	struct reply_slot *slots;     /* ring, owned */
	uint32_t first, n_slots, cap; /* cap: a power of two, or 0 */
	uint32_t n_later;             /* slots with a text to come */
	struct buf held;              /* reply bytes of slots without a request, in order */
	size_t held_at;               /* those before are out already */
	struct buf *reply;            /* where the command being executed writes its reply */
};

/* A command with its arguments; argv[0] is its name. Borrowed for the call. */
struct resp_call {
	struct resp_session *session;
	const struct resp_command_entry *entry;
	uint32_t argc;
	const struct slice *argv;
};

/* ---- Replies of the command being executed ---- */

/* Starts `request` (owned from here on), whose answer is the reply. */
void session_decide(struct resp_session *s, struct request *request, enum reply_shape shape);

/* The trace of a command, if it is one that is sampled; the span's `name` is a constant. No client can say whose it is. */
struct trace *session_trace(const struct resp_session *s, const char *name);

/* The reply comes later; session_said() is owed, on this loop. NULL: out of memory, which is the reply. */
struct reply_later *session_later(struct resp_session *s);
void session_said(struct reply_later *later);

/* Replies "-CODE text". */
void session_error(struct resp_session *s, const char *code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void session_ok(struct resp_session *s);

/* At most 64 printable bytes of what a client sent, for a text. */
struct quoted {
	char text[68];
};
struct quoted session_quote(struct slice bytes);

/* Whether the client has shown a token that is valid, or none is needed. */
bool session_is_known(const struct resp_session *s);
/* Sets a text that the client tells of itself; false: the reply is an error about `what`. */
bool session_set_text(struct resp_session *s, const char *what, struct slice text,
		      char ret_text[static SESSION_NAME_MAX + 1]);

/* ---- Around a command ---- */

/* Between the two, `s->reply` is set. */
void session_begin(struct resp_session *s);
void session_commit(struct resp_session *s);

/* The peer reads on, but will not send: abandons the first request that waits and all behind it. */
void session_abandon_waiting(struct resp_session *s);
/* Abandons everything and frees what the session owns. */
void session_release(struct resp_session *s);

/* ---- Commands ---- */

typedef void resp_handler(const struct resp_call *call);

enum command_flags {
	COMMAND_CHECK = 1,  /* needs the scope `check` */
	COMMAND_NOAUTH = 2, /* may come before a token was shown */
	COMMAND_WRITE = 4,  /* for COMMAND INFO */
};

struct resp_command_entry {
	const char *name; /* small letters */
	resp_handler *run;
	int arity; /* as Redis has it: the name counts; negative: at least as many */
	unsigned flags;
	int first_key, last_key, key_step;
	const char *group;
	const char *summary;
};

/* NULL when there is no such command. */
const struct resp_command_entry *resp_command_find(struct slice name);
/* resp_limiter.c */
resp_handler resp_limiter_take, resp_limiter_peek, resp_limiter_refund, resp_limiter_acquire,
	resp_limiter_release, resp_limiter_renew, resp_limiter_throttle, resp_limiter_feedback;
/* resp_pool.c */
resp_handler resp_pool_next, resp_pool_report;
/* resp_server.c */
resp_handler server_ping, server_echo, server_hello, server_auth, server_select, server_quit,
	server_reset, server_info;
/* resp_client.c */
resp_handler client_run;
/* resp_commands.c */
resp_handler command_run;

/* The session of a connection of this front; NULL for one of another front. */
const struct resp_session *resp_session_of(const struct conn *c);
