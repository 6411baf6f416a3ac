/*
 * The happy path: bytes come (on_bytes), one command after another is parsed and executed; a
 * command of the limiter becomes a request (resp_limiter.c) whose answer is written when it comes,
 * in the order of the commands (resp_session.c); the others are answered at once.
 *
 * What may go wrong:
 * - a command is not whole: its first bytes stay with the connection, the parser remembers how far
 * it was;
 * - it is no RESP: an error is the last reply, then the connection is finished;
 * - it is HTTP: a web page may be made to send commands to a local port; closed without a word;
 * - too much is in progress or unread: nothing more is parsed until conn_may_read();
 * - the peer ends its side: what waits for a limit is abandoned, what is being decided is answered;
 * - the connection is lost: all requests in progress are abandoned.
 */
#include "front_resp.h"

#include <stdlib.h>

#include "io/conn_auth.h"
#include "io/log.h"
#include "resp_session.h"

enum { UNKNOWN_BYTES_MAX = 16 * 1024 }; /* of a command whose sender has not shown a token yet */

/* Used up by each command before the next one is parsed, so that one a thread is enough. */
static _Thread_local struct resp_command command;

/* ---- Executing ---- */

bool session_is_known(const struct resp_session *s)
{
	if (!auth_required(conn_agent(s->conn)->auth))
		return true;
	return s->token != NULL && s->token->scopes != 0;
}

static void unknown_command(struct resp_session *s, const struct resp_command *cmd)
{
	struct buf text = {0};

	buf_printf(&text, "unknown command '%s', with args beginning with: ",
		   session_quote(cmd->argv[0]).text);
	for (uint32_t i = 1; i < cmd->argc && text.len < 256; i++)
		buf_printf(&text, "'%s' ", session_quote(cmd->argv[i]).text);
	session_error(s, "ERR", "%.*s", (int)text.len, text.ptr == NULL ? "" : text.ptr);
	buf_release(&text);
}

static bool arity_fits(const struct resp_command_entry *e, uint32_t argc)
{
	return e->arity >= 0 ? argc == (uint32_t)e->arity : argc >= (uint32_t)-e->arity;
}

static bool may_run(struct resp_session *s, const struct resp_command_entry *e)
{
	if ((e->flags & COMMAND_NOAUTH) != 0)
		return true;
	if (!session_is_known(s)) {
		session_error(s, "NOAUTH", "Authentication required.");
		return false;
	}
	if ((e->flags & COMMAND_CHECK) != 0 && auth_required(conn_agent(s->conn)->auth) &&
	    (s->token->scopes & AUTH_CHECK) == 0) {
		session_error(s, "NOPERM", "the %s lacks the scope 'check', which '%s' needs",
			      s->token->is_certificate ? "certificate" : "token", e->name);
		return false;
	}
	return true;
}

static void execute(struct resp_session *s, const struct resp_command *cmd)
{
	const struct resp_command_entry *e = resp_command_find(cmd->argv[0]);

	s->conn->commands++;
	session_begin(s);
	if (e == NULL) {
		unknown_command(s, cmd);
	} else if (!arity_fits(e, cmd->argc)) {
		session_error(s, "ERR", "wrong number of arguments for '%s' command", e->name);
	} else if (may_run(s, e)) {
		s->last_command = e->name;
		e->run(&(struct resp_call){s, e, cmd->argc, cmd->argv});
	}
	session_commit(s);
}

/* A client that begins TLS on a plain port waits for an answer to what is no command, and no line. */
static bool is_tls(struct slice bytes)
{
	return bytes.len > 1 && bytes.ptr[0] == '\x16' && bytes.ptr[1] == '\x03';
}

/* Browsers can be made to send HTTP to any port: its lines would be taken for commands. */
static bool is_http(const struct resp_command *cmd)
{
	return resp_word_is(cmd->argv[0], "post") || resp_word_is(cmd->argv[0], "host:");
}

static void protocol_error(struct resp_session *s, const char *text)
{
	session_begin(s);
	session_error(s, "ERR", "%s", text);
	session_commit(s);
	conn_finish(s->conn);
}

/* ---- The connection's events ---- */

static bool on_open(struct conn *c)
{
	struct resp_session *s = calloc(1, sizeof *s);

	if (s == NULL)
		return false;
	s->conn = c;
	s->version = 2;
	s->last_command = "NULL";
	s->token = s->certificate = conn_auth_certificate(c, conn_agent(c)->auth);
	c->front = s;
	return true;
}

static size_t on_bytes(struct conn *c, struct slice bytes)
{
	struct resp_session *s = c->front;
	size_t used = 0;

	while (used < bytes.len && conn_may_read(c)) {
		struct slice rest = {bytes.ptr + used, bytes.len - used};
		size_t n;

		if (is_tls(rest)) {
			protocol_error(s, "Protocol error: this port speaks no TLS");
			break;
		}

		kova_status st = resp_parse(&s->parser, rest, &command, &n);

		if (st == KOVA_AGAIN) {
			if (rest.len > UNKNOWN_BYTES_MAX && !session_is_known(s))
				protocol_error(s, "Protocol error: too big before AUTH");
			break;
		}
		if (st != KOVA_OK) {
			protocol_error(s, command.error);
			break;
		}
		used += n;
		if (command.argc == 0)
			continue;
		if (is_http(&command)) {
			log_event(LOG_WARN, "http_on_resp", "HTTP came to the RESP port; closed");
			conn_close(c);
			break;
		}
		execute(s, &command);
	}
	return used;
}

static void on_end(struct conn *c)
{
	session_abandon_waiting(c->front);
}

static void on_closed(struct conn *c)
{
	struct resp_session *s = c->front;

	session_release(s);
	free(s);
}

#define FULL_TEXT "-ERR max number of clients reached\r\n"
#define PLAIN_TEXT "-ERR this port speaks TLS only\r\n"

const struct front_ops front_resp = {
	.name = "resp",
	.full_text = {FULL_TEXT, sizeof FULL_TEXT - 1},
	.plain_text = {PLAIN_TEXT, sizeof PLAIN_TEXT - 1},
	.on_open = on_open,
	.on_bytes = on_bytes,
	.on_end = on_end,
	.on_closed = on_closed,
};

const struct resp_session *resp_session_of(const struct conn *c)
{
	return c->ops == &front_resp ? c->front : NULL;
}
