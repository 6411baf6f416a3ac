/* What Redis clients ask of a server when they connect, and INFO. Replies are those of Redis 7. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/version.h"
#include "ops.h"
#include "resp_session.h"
#include "tour.h"

/* Clients switch features by it: none above this is used by those that the tests know. */
#define REDIS_VERSION "7.0.15"

void server_ping(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	if (call->argc > 2)
		session_error(s, "ERR", "wrong number of arguments for 'ping' command");
	else if (call->argc == 2)
		resp_write_bulk(s->reply, call->argv[1]);
	else
		resp_write_simple(s->reply, "PONG");
}

void server_echo(const struct resp_call *call)
{
	resp_write_bulk(call->session->reply, call->argv[1]);
}

void server_select(const struct resp_call *call)
{
	int64_t db;

	if (resp_integer(call->argv[1], &db) != KOVA_OK)
		session_error(call->session, "ERR", "invalid DB index");
	else if (db != 0)
		session_error(call->session, "ERR", "DB index is out of range; there is 0 only");
	else
		session_ok(call->session);
}

void server_quit(const struct resp_call *call)
{
	session_ok(call->session);
	conn_finish(call->session->conn);
}

void server_reset(const struct resp_call *call)
{
	struct resp_session *s = call->session;

	s->token = s->certificate;
	s->version = 2;
	s->name[0] = '\0';
	resp_write_simple(s->reply, "RESET");
}

/* ---- AUTH and HELLO ---- */

/* Redis's "default" user needs no password when none is set, and any is right then. */
static bool log_in(struct resp_session *s, struct slice user, struct slice token)
{
	const struct auth *auth = conn_agent(s->conn)->auth;
	const struct auth_token *found = auth_find(auth, token);
	bool is_default = slice_equal(user, SLICE("default"));

	if (!auth_required(auth) && is_default)
		return true;
	if (found == NULL || (!is_default && !slice_equal(user, slice_of(found->name)))) {
		session_error(s, "WRONGPASS",
			      "invalid username-password pair or user is disabled.");
		return false;
	}
	s->token = found;
	return true;
}

void server_auth(const struct resp_call *call)
{
	struct resp_session *s = call->session;
	bool has_user = call->argc == 3;

	if (call->argc > 3)
		session_error(s, "ERR", "syntax error");
	else if (!has_user && !auth_required(conn_agent(s->conn)->auth))
		session_error(s, "ERR",
			      "AUTH called without any tokens configured: none is needed");
	else if (log_in(s, has_user ? call->argv[1] : SLICE("default"), call->argv[call->argc - 1]))
		session_ok(s);
}

static bool valid_name(struct slice name)
{
	if (name.len > SESSION_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		if (name.ptr[i] < '!' || name.ptr[i] > '~')
			return false;
	}
	return true;
}

bool session_set_text(struct resp_session *s, const char *what, struct slice text,
		      char ret_text[static SESSION_NAME_MAX + 1])
{
	if (!valid_name(text)) {
		session_error(s, "ERR",
			      "%s cannot contain spaces, newlines or special characters, and "
			      "has at most %d bytes",
			      what, SESSION_NAME_MAX);
		return false;
	}
	if (text.len > 0)
		memcpy(ret_text, text.ptr, text.len);
	ret_text[text.len] = '\0';
	return true;
}

struct hello {
	int version;
	bool has_auth, has_name;
	struct slice user, token, name;
};

static bool hello_version(const struct resp_call *call, struct hello *h)
{
	int64_t version;

	if (call->argc < 2)
		return true;
	if (resp_integer(call->argv[1], &version) != KOVA_OK) {
		session_error(call->session, "ERR",
			      "Protocol version is not an integer or out of range");
		return false;
	}
	if (version != 2 && version != 3) {
		session_error(call->session, "NOPROTO", "unsupported protocol version");
		return false;
	}
	h->version = (int)version;
	return true;
}

/* HELLO [version [AUTH user token] [SETNAME name]] */
static bool hello_parse(const struct resp_call *call, struct hello *h)
{
	uint32_t i = 2;

	if (!hello_version(call, h))
		return false;
	while (i < call->argc) {
		uint32_t left = call->argc - i - 1;

		if (resp_word_is(call->argv[i], "auth") && left >= 2) {
			h->has_auth = true;
			h->user = call->argv[i + 1];
			h->token = call->argv[i + 2];
			i += 3;
		} else if (resp_word_is(call->argv[i], "setname") && left >= 1) {
			h->has_name = true;
			h->name = call->argv[i + 1];
			i += 2;
		} else {
			session_error(call->session, "ERR", "Syntax error in HELLO option '%s'",
				      session_quote(call->argv[i]).text);
			return false;
		}
	}
	return true;
}

static void hello_reply(const struct resp_session *s)
{
	struct buf *b = s->reply;

	resp_write_map(b, s->version, 7);
	resp_write_bulk_text(b, "server");
	resp_write_bulk_text(b, "kova");
	resp_write_bulk_text(b, "version");
	resp_write_bulk_text(b, REDIS_VERSION);
	resp_write_bulk_text(b, "proto");
	resp_write_int(b, s->version);
	resp_write_bulk_text(b, "id");
	resp_write_int(b, (int64_t)s->conn->id);
	resp_write_bulk_text(b, "mode");
	resp_write_bulk_text(b, "standalone");
	resp_write_bulk_text(b, "role");
	resp_write_bulk_text(b, "master");
	resp_write_bulk_text(b, "modules");
	resp_write_array(b, 0);
}

void server_hello(const struct resp_call *call)
{
	struct resp_session *s = call->session;
	struct hello h = {.version = s->version};

	if (!hello_parse(call, &h))
		return;
	if (h.has_auth && !log_in(s, h.user, h.token))
		return;
	if (!session_is_known(s)) {
		session_error(s, "NOAUTH",
			      "HELLO must be called with the client already authenticated, "
			      "otherwise the HELLO <proto> AUTH <user> <pass> option can be used "
			      "to authenticate the client and select the RESP protocol version "
			      "at the same time");
		return;
	}
	if (h.has_name && !session_set_text(s, "Client names", h.name, s->name))
		return;
	s->version = (uint8_t)h.version;
	hello_reply(s);
}

/* ---- INFO ---- */

/* Goes from loop to loop, and adds up. */
struct info_errand {
	struct tour tour; /* first */
	struct reply_later *later;
	unsigned sections; /* bits by info_sections[] */
	uint64_t uptime_s;
	struct ops_totals totals;
	char resp[CONN_ADDRESS_MAX],
		http[CONN_ADDRESS_MAX]; /* where the owner listens; "": nowhere */
};

static void info_server(struct buf *b, const struct info_errand *e)
{
	const struct agent *a = e->tour.home;

	buf_printf(b,
		   "# Server\r\nkova_version:%s\r\nredis_version:%s\r\nredis_mode:standalone\r\n"
		   "process_id:%ld\r\n",
		   KOVA_VERSION, REDIS_VERSION, (long)getpid());
	buf_printf(b, "kova_node:%s\r\nkova_region:%s\r\n", a->conf.node ? a->conf.node : "",
		   a->conf.region ? a->conf.region : "");
	buf_printf(b, "kova_resp:%s\r\n", e->resp);
	if (e->http[0] != '\0')
		buf_printf(b, "kova_http:%s\r\nkova_http_tls:%d\r\n", e->http,
			   (a->conf.tls.fronts & TLS_FRONT_HTTP) != 0);
	buf_printf(b, "uptime_in_seconds:%" PRIu64 "\r\n", e->uptime_s);
}

static void info_clients(struct buf *b, const struct info_errand *e)
{
	buf_printf(b,
		   "# Clients\r\nconnected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64
		   "\r\nblocked_clients:%" PRIu64 "\r\n",
		   e->totals.connections, e->totals.max_clients, e->totals.health.waiters);
}

static void info_persistence(struct buf *b, const struct info_errand *e)
{
	(void)e;
	buf_add_text(b, "# Persistence\r\nloading:0\r\n"); /* ioredis waits for it */
}

static void info_stats(struct buf *b, const struct info_errand *e)
{
	const struct engine_health *health = &e->totals.health;
	const struct conn_counters *n = &e->totals.conns;

	buf_printf(b,
		   "# Stats\r\ntotal_connections_received:%" PRIu64
		   "\r\ntotal_commands_processed:%" PRIu64 "\r\ntotal_net_input_bytes:%" PRIu64
		   "\r\ntotal_net_output_bytes:%" PRIu64 "\r\nrejected_connections:%" PRIu64 "\r\n",
		   n->accepted, n->commands, n->bytes_in, n->bytes_out, n->refused_full);
	buf_printf(b,
		   "kova_requests_in_progress:%" PRIu64 "\r\nkova_waiters:%" PRIu64
		   "\r\nkova_shards:%u\r\nkova_shards_up:%u\r\n",
		   health->requests, health->waiters, health->shards, health->shards_up);
}

static void info_replication(struct buf *b, const struct info_errand *e)
{
	(void)e;
	buf_add_text(b, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
}

static const struct {
	const char *name;
	void (*write)(struct buf *b, const struct info_errand *e);
} info_sections[] = {
	{"server", info_server},           {"clients", info_clients},
	{"persistence", info_persistence}, {"stats", info_stats},
	{"replication", info_replication},
};

enum { N_SECTIONS = sizeof info_sections / sizeof info_sections[0] };

static bool info_wants(const struct resp_call *call, const char *section)
{
	if (call->argc == 1)
		return true;
	for (uint32_t i = 1; i < call->argc; i++) {
		if (resp_word_is(call->argv[i], section) || resp_word_is(call->argv[i], "all") ||
		    resp_word_is(call->argv[i], "default") ||
		    resp_word_is(call->argv[i], "everything"))
			return true;
	}
	return false;
}

static void visit_info(struct tour *t, struct agent *a)
{
	struct info_errand *e = (struct info_errand *)t;

	ops_add(a, &e->totals);
	if (a->owner == NULL && a->ops.conns != NULL) {
		snprintf(e->resp, sizeof e->resp, "%s", conn_pool_address(a->ops.conns, "resp"));
		snprintf(e->http, sizeof e->http, "%s", conn_pool_address(a->ops.conns, "http"));
	}
}

static void on_info(struct tour *t)
{
	struct info_errand *e = (struct info_errand *)t;
	struct buf *text = &e->later->text;

	for (unsigned i = 0; i < N_SECTIONS && e->later->session != NULL; i++) {
		if ((e->sections & 1U << i) == 0)
			continue;
		if (text->len > 0)
			buf_add_text(text, "\r\n");
		info_sections[i].write(text, e);
	}
	session_said(e->later);
	free(e);
}

void server_info(const struct resp_call *call)
{
	struct info_errand *e = calloc(1, sizeof *e);
	const struct conn *c = call->session->conn;

	if (e == NULL) {
		session_error(call->session, "ERR", "%s", kova_status_text(KOVA_ENOMEM));
		return;
	}
	e->uptime_s = (uv_now(conn_agent(c)->loop) - conn_pool_started_ms(c->pool)) / 1000;
	for (unsigned i = 0; i < N_SECTIONS; i++)
		if (info_wants(call, info_sections[i].name))
			e->sections |= 1U << i;
	e->later = session_later(call->session);
	if (e->later == NULL)
		free(e);
	else
		tour_start(&e->tour, conn_agent(c), visit_info, on_info);
}
