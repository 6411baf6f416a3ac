/* The table of commands, and COMMAND, which shows it to clients. */
#include <string.h>

#include "resp_session.h"

static const struct resp_command_entry commands[] = {
	{"kova.take", resp_limiter_take, -3, COMMAND_CHECK | COMMAND_WRITE, 2, 2, 1, "limiter",
	 "Takes from the limits of one or more keys: from all of them or from none"},
	{"kova.peek", resp_limiter_peek, 3, COMMAND_CHECK, 2, 2, 1, "limiter",
	 "Tells what KOVA.TAKE would find, and takes nothing"},
	{"kova.acquire", resp_limiter_acquire, -3, COMMAND_CHECK | COMMAND_WRITE, 2, 2, 1,
	 "limiter", "Takes a permit of a concurrency limit"},
	{"kova.release", resp_limiter_release, 4, COMMAND_CHECK | COMMAND_WRITE, 2, 2, 1, "limiter",
	 "Gives a permit back"},
	{"kova.renew", resp_limiter_renew, 4, COMMAND_CHECK | COMMAND_WRITE, 2, 2, 1, "limiter",
	 "Holds a permit for another while"},
	{"kova.refund", resp_limiter_refund, -2, COMMAND_CHECK | COMMAND_WRITE, 0, 0, 0, "limiter",
	 "Gives back what a receipt says was taken"},
	{"kova.feedback", resp_limiter_feedback, -4, COMMAND_CHECK | COMMAND_WRITE, 2, 2, 1,
	 "limiter", "Tells what became of a request elsewhere"},
	{"cl.throttle", resp_limiter_throttle, -5, COMMAND_CHECK | COMMAND_WRITE, 1, 1, 1,
	 "limiter", "Rate limiting by GCRA, as redis-cell has it"},
	{"ping", server_ping, -1, 0, 0, 0, 0, "connection", "Returns PONG or its argument"},
	{"echo", server_echo, 2, 0, 0, 0, 0, "connection", "Returns its argument"},
	{"hello", server_hello, -1, COMMAND_NOAUTH, 0, 0, 0, "connection",
	 "Chooses the version of RESP"},
	{"auth", server_auth, -2, COMMAND_NOAUTH, 0, 0, 0, "connection", "Shows a token"},
	{"select", server_select, 2, 0, 0, 0, 0, "connection", "There is one database: 0"},
	{"client", client_run, -2, 0, 0, 0, 0, "connection", "About this connection and others"},
	{"command", command_run, -1, 0, 0, 0, 0, "server", "About the commands"},
	{"info", server_info, -1, 0, 0, 0, 0, "server", "About the agent"},
	{"quit", server_quit, -1, COMMAND_NOAUTH, 0, 0, 0, "connection", "Closes the connection"},
	{"reset", server_reset, 1, COMMAND_NOAUTH, 0, 0, 0, "connection",
	 "Brings the connection into its first state"},
	{"kova.pool.next", resp_pool_next, -2, COMMAND_CHECK | COMMAND_WRITE, 0, 0, 0, "pool",
	 "Gives an endpoint of a pool, with the permits that go with it"},
	{"kova.pool.report", resp_pool_report, -4, COMMAND_CHECK | COMMAND_WRITE, 0, 0, 0, "pool",
	 "Tells how it went with an endpoint"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0], INFO_FIELDS = 10 };

const struct resp_command_entry *resp_command_find(struct slice name)
{
	for (unsigned i = 0; i < N_COMMANDS; i++) {
		if (resp_word_is(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

/* ---- What is written of one ---- */

typedef void entry_writer(struct resp_session *s, const struct resp_command_entry *e);

static void write_flags(struct resp_session *s, const struct resp_command_entry *e)
{
	bool limiter = (e->flags & COMMAND_CHECK) != 0;
	bool no_auth = (e->flags & COMMAND_NOAUTH) != 0;
	bool movable = limiter && e->run == resp_limiter_take; /* AND */

	resp_write_set(s->reply, s->version, 1U + limiter + no_auth + movable);
	resp_write_simple(s->reply, "fast");
	if (limiter)
		resp_write_simple(s->reply, e->flags & COMMAND_WRITE ? "write" : "readonly");
	if (no_auth)
		resp_write_simple(s->reply, "no_auth");
	if (movable)
		resp_write_simple(s->reply, "movablekeys");
}

static void write_info(struct resp_session *s, const struct resp_command_entry *e)
{
	struct buf *b = s->reply;

	resp_write_array(b, INFO_FIELDS);
	resp_write_bulk_text(b, e->name);
	resp_write_int(b, e->arity);
	write_flags(s, e);
	resp_write_int(b, e->first_key);
	resp_write_int(b, e->last_key);
	resp_write_int(b, e->key_step);
	resp_write_set(b, s->version, 1);
	resp_write_simple(b, e->flags & COMMAND_CHECK ? "@check" : "@connection");
	resp_write_array(b, 0); /* tips */
	resp_write_array(b, 0); /* key specifications */
	resp_write_array(b, 0); /* subcommands */
}

static void write_docs(struct resp_session *s, const struct resp_command_entry *e)
{
	struct buf *b = s->reply;

	resp_write_bulk_text(b, e->name);
	resp_write_map(b, s->version, 3);
	resp_write_bulk_text(b, "summary");
	resp_write_bulk_text(b, e->summary);
	resp_write_bulk_text(b, "since");
	resp_write_bulk_text(b, "0.1.0");
	resp_write_bulk_text(b, "group");
	resp_write_bulk_text(b, e->group);
}

static void write_name(struct resp_session *s, const struct resp_command_entry *e)
{
	resp_write_bulk_text(s->reply, e->name);
}

static void write_all(struct resp_session *s, entry_writer *write)
{
	for (unsigned i = 0; i < N_COMMANDS; i++)
		write(s, &commands[i]);
}

/* ---- COMMAND ---- */

static void command_info(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	if (call->argc <= 2) {
		resp_write_array(s->reply, N_COMMANDS);
		write_all(s, write_info);
		return;
	}
	resp_write_array(s->reply, call->argc - 2);
	for (uint32_t i = 2; i < call->argc; i++) {
		const struct resp_command_entry *e = resp_command_find(call->argv[i]);

		if (e != NULL)
			write_info(s, e);
		else
			resp_write_null(s->reply, s->version);
	}
}

static void command_docs(const struct resp_call *call)
{
	struct resp_session *s = call->session;
	uint32_t n = 0;

	if (call->argc == 2) {
		resp_write_map(s->reply, s->version, N_COMMANDS);
		write_all(s, write_docs);
		return;
	}
	for (uint32_t i = 2; i < call->argc; i++)
		n += resp_command_find(call->argv[i]) != NULL;
	resp_write_map(s->reply, s->version, n);
	for (uint32_t i = 2; i < call->argc; i++) {
		const struct resp_command_entry *e = resp_command_find(call->argv[i]);

		if (e != NULL)
			write_docs(s, e);
	}
}

void command_run(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	if (call->argc == 1 || resp_word_is(call->argv[1], "info")) {
		command_info(call);
	} else if (resp_word_is(call->argv[1], "docs")) {
		command_docs(call);
	} else if (resp_word_is(call->argv[1], "count") && call->argc == 2) {
		resp_write_int(s->reply, N_COMMANDS);
	} else if (resp_word_is(call->argv[1], "list") && call->argc == 2) {
		resp_write_array(s->reply, N_COMMANDS);
		write_all(s, write_name);
	} else {
		session_error(s, "ERR",
			      "unknown subcommand '%s', or its arguments; allowed are COUNT, DOCS, "
			      "INFO and LIST",
			      session_quote(call->argv[1]).text);
	}
}
