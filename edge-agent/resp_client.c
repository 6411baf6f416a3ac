/* CLIENT and its subcommands, as far as libraries use them when they connect, and for people who
 * look. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "resp_session.h"
#include "tour.h"

struct subcommand {
	const char *name;
	resp_handler *run;
	uint32_t argc_min, argc_max; /* CLIENT and the name count */
};

static bool word_or_error(const struct resp_call *call, uint32_t i, const char *a, const char *b)
{
	if (resp_word_is(call->argv[i], a) || resp_word_is(call->argv[i], b))
		return true;
	session_error(call->session, "ERR", "syntax error");
	return false;
}

static void client_id(const struct resp_call *call)
{
	resp_write_int(call->session->reply, (int64_t)call->session->conn->id);
}

static void client_getname(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	if (s->name[0] == '\0')
		resp_write_null(s->reply, s->version);
	else
		resp_write_bulk_text(s->reply, s->name);
}

static void client_setname(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	if (session_set_text(s, "Client names", call->argv[2], s->name))
		session_ok(s);
}

static void client_setinfo(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	if (resp_word_is(call->argv[2], "lib-name")) {
		if (session_set_text(s, "lib-name", call->argv[3], s->lib_name))
			session_ok(s);
	} else if (resp_word_is(call->argv[2], "lib-ver")) {
		if (session_set_text(s, "lib-ver", call->argv[3], s->lib_version))
			session_ok(s);
	} else {
		session_error(s, "ERR", "Unrecognized option '%s'",
			      session_quote(call->argv[2]).text);
	}
}

static void client_no(const struct resp_call *call)
{
	if (word_or_error(call, 2, "on", "off"))
		session_ok(call->session);
}

static void client_reply(const struct resp_call *call)
{
	if (resp_word_is(call->argv[2], "on"))
		session_ok(call->session);
	else if (word_or_error(call, 2, "off", "skip"))
		session_error(
			call->session, "ERR",
			"CLIENT REPLY OFF and SKIP are not supported: a verdict is to be read");
}

static void client_tracking(const struct resp_call *call)
{
	if (resp_word_is(call->argv[2], "off"))
		session_ok(call->session);
	else if (word_or_error(call, 2, "on", "on"))
		session_error(call->session, "ERR",
			      "client-side caching is not supported: there are no values to cache");
}

static void client_trackinginfo(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	resp_write_map(s->reply, s->version, 3);
	resp_write_bulk_text(s->reply, "flags");
	resp_write_set(s->reply, s->version, 1);
	resp_write_bulk_text(s->reply, "off");
	resp_write_bulk_text(s->reply, "redirect");
	resp_write_int(s->reply, -1);
	resp_write_bulk_text(s->reply, "prefixes");
	resp_write_array(s->reply, 0);
}

static void client_getredir(const struct resp_call *call)
{
	resp_write_int(call->session->reply, -1);
}

/* ---- INFO and LIST ---- */

static const char *user_name(const struct resp_session *s)
{
	return s->token != NULL && s->token->scopes != 0 ? s->token->name : "default";
}

/* The fields and their order are those of Redis 7 and no others: go-redis refuses what it does not
 * know. */
static void describe(const struct conn *c, void *data)
{
	const struct resp_session *s = resp_session_of(c);
	struct buf *b = data;
	char peer[CONN_ADDRESS_MAX], local[CONN_ADDRESS_MAX];
	uint64_t now_ms = uv_now(conn_agent(c)->loop);

	if (s == NULL)
		return;
	const uint32_t requests = c->requests - s->n_later; /* who asks for this does not wait */

	conn_peer(c, peer);
	conn_local(c, local);
	buf_printf(b,
		   "id=%" PRIu64 " addr=%s laddr=%s fd=-1 name=%s age=%" PRIu64 " idle=%" PRIu64
		   " flags=%s db=0 sub=0 psub=0 multi=-1 qbuf=%zu oll=%" PRIu32 " omem=%zu cmd=%s"
		   " user=%s lib-name=%s lib-ver=%s resp=%d\n",
		   c->id, peer, local, s->name, (now_ms - c->opened_ms) / 1000,
		   (now_ms - c->last_active_ms) / 1000, requests > 0 ? "b" : "N", c->in.len,
		   requests, conn_out_bytes(c), s->last_command, user_name(s), s->lib_name,
		   s->lib_version, s->version);
}

static void reply_text(struct resp_session *s, struct buf *text)
{
	if (buf_failed(text))
		session_error(s, "ERR", "%s", kova_status_text(KOVA_ENOMEM));
	else
		resp_write_verbatim(s->reply, s->version, buf_slice(text));
	buf_release(text);
}

static void client_info(const struct resp_call *call)
{
	struct buf text = {0};

	describe(call->session->conn, &text);
	reply_text(call->session, &text);
}

/* CLIENT LIST goes from loop to loop. */
struct list_errand {
	struct tour tour; /* first */
	struct reply_later *later;
};

static void visit_list(struct tour *t, struct agent *a)
{
	if (a->ops.conns != NULL)
		conn_pool_each(a->ops.conns, describe, &((struct list_errand *)t)->later->text);
}

static void on_list(struct tour *t)
{
	session_said(((struct list_errand *)t)->later);
	free(t);
}

static void client_list(const struct resp_call *call)
{
	struct list_errand *e = calloc(1, sizeof *e);

	if (e == NULL) {
		session_error(call->session, "ERR", "%s", kova_status_text(KOVA_ENOMEM));
		return;
	}
	e->later = session_later(call->session);
	if (e->later == NULL)
		free(e);
	else
		tour_start(&e->tour, conn_agent(call->session->conn), visit_list, on_list);
}

/* ---- The table ---- */

static void client_help(const struct resp_call *call);

static const struct subcommand subcommands[] = {
	{"id", client_id, 2, 2},
	{"getname", client_getname, 2, 2},
	{"setname", client_setname, 3, 3},
	{"setinfo", client_setinfo, 4, 4},
	{"info", client_info, 2, 2},
	{"list", client_list, 2, 2},
	{"no-evict", client_no, 3, 3},
	{"no-touch", client_no, 3, 3},
	{"reply", client_reply, 3, 3},
	{"tracking", client_tracking, 3, RESP_ARGS_MAX},
	{"trackinginfo", client_trackinginfo, 2, 2},
	{"getredir", client_getredir, 2, 2},
	{"help", client_help, 2, 2},
};

enum { N_SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static void client_help(const struct resp_call *call)
{
	resp_write_array(call->session->reply, N_SUBCOMMANDS);
	for (unsigned i = 0; i < N_SUBCOMMANDS; i++)
		resp_write_simple(call->session->reply, subcommands[i].name);
}

void client_run(const struct resp_call *call)
{
	for (unsigned i = 0; i < N_SUBCOMMANDS; i++) {
		const struct subcommand *sub = &subcommands[i];

		if (!resp_word_is(call->argv[1], sub->name))
			continue;
		if (call->argc < sub->argc_min || call->argc > sub->argc_max)
			session_error(call->session, "ERR",
				      "wrong number of arguments for 'client|%s' command",
				      sub->name);
		else
			sub->run(call);
		return;
	}
	session_error(call->session, "ERR", "unknown subcommand '%s'. Try CLIENT HELP.",
		      session_quote(call->argv[1]).text);
}
