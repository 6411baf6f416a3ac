/* TLS as a listener has it, against OpenSSL's client, all in memory. */
#include <criterion/criterion.h>
#include <string.h>

#include "dice.h"
#include "io/tls_session.h"
#include "tls_fixture.h"

enum { DAY_S = 86400 };

static struct identity ca, other_ca, ours, worker, stranger, late;
static struct tls_tickets *tickets;
static uint64_t ticket_clock_s = 1000;

static uint64_t ticket_now_s(void)
{
	return ticket_clock_s;
}

static void set_up(void)
{
	ca = identity_make("ca", NULL, NULL, -60, DAY_S);
	other_ca = identity_make("other-ca", NULL, NULL, -60, DAY_S);
	ours = identity_make("kova", &ca, "DNS:localhost,IP:127.0.0.1", -60, DAY_S);
	worker = identity_make("worker-17", &ca,
			       "URI:spiffe://acme/worker,DNS:worker.acme,email:a@b.c,"
			       "URI:spiffe://acme/second",
			       -60, DAY_S);
	stranger = identity_make("stranger", &other_ca, NULL, -60, DAY_S);
	late = identity_make("late", &ca, NULL, -2 * DAY_S, -60);
	tickets = tls_tickets_new(ticket_now_s);
	cr_assert_not_null(tickets);
}

static void tear_down(void)
{
	struct identity *all[] = {&ca, &other_ca, &ours, &worker, &stranger, &late};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		identity_release(all[i]);
	tls_tickets_free(tickets);
	certs_remove();
}

TestSuite(tls_session, .init = set_up, .fini = tear_down);

static struct tls_server *serve(struct tls_terms terms)
{
	struct buf error = {0};

	terms.cert = terms.cert != NULL ? terms.cert : ours.cert_file;
	terms.key = terms.key != NULL ? terms.key : ours.key_file;

	struct tls_server *t = tls_server_new(&terms, tickets, &error);

	cr_assert_not_null(t, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
	return t;
}

/* ---- A client, and what goes between the two ---- */

struct pair {
	SSL_CTX *ctx;
	SSL *client;
	struct tls_session *session;
	enum tls_step last; /* what the session's read answered last */
	bool opened;
	struct buf received; /* by the session */
	struct buf names;
};

static void client_shows(struct pair *p, const struct identity *who)
{
	cr_assert_eq(SSL_CTX_use_certificate(p->ctx, who->cert), 1);
	cr_assert_eq(SSL_CTX_use_PrivateKey(p->ctx, who->key), 1);
}

/* Without a client yet, so that its terms can still be set. */
static struct pair pair_of(const struct tls_server *server, enum tls_inner inner)
{
	struct pair p = {.ctx = SSL_CTX_new(TLS_client_method()),
			 .session = tls_session_new(server, inner)};

	cr_assert_not_null(p.session);
	X509_STORE_add_cert(SSL_CTX_get_cert_store(p.ctx), ca.cert);
	SSL_CTX_set_verify(p.ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(p.ctx, SSL_SESS_CACHE_OFF); /* it outlives the context */
	return p;
}

static void client_begins(struct pair *p)
{
	p->client = SSL_new(p->ctx);
	SSL_set_connect_state(p->client);
	SSL_set_bio(p->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set1_host(p->client, "localhost");
	(void)SSL_do_handshake(p->client);
}

static void pair_release(struct pair *p)
{
	SSL_free(p->client);
	SSL_CTX_free(p->ctx);
	tls_session_free(p->session);
	buf_release(&p->received);
	buf_release(&p->names);
}

static void session_reads(struct pair *p, struct slice bytes)
{
	char plain[TLS_RECORD_MAX];
	size_t n;

	tls_session_feed(p->session, bytes);
	for (;;) {
		p->last = tls_session_read(p->session, plain, sizeof plain, &n);
		if (p->last == TLS_DATA) {
			buf_add(&p->received, plain, n);
		} else if (p->last == TLS_OPENED) {
			cr_assert(!p->opened);
			p->opened = true;
			tls_session_names(p->session, &p->names);
		} else {
			return;
		}
	}
}

/* Bytes go to and fro until there are none; `piece`: how many at a time. */
static void carry_in(struct pair *p, size_t piece)
{
	struct buf *wire = tls_session_wire(p->session);
	char bytes[65536];

	for (bool moved = true; moved;) {
		int n;

		moved = false;
		while ((n = BIO_read(SSL_get_wbio(p->client), bytes,
				     (int)(piece < sizeof bytes ? piece : sizeof bytes))) > 0) {
			moved = true;
			if (p->last != TLS_FAILED && p->last != TLS_ENDED)
				session_reads(p, (struct slice){bytes, (size_t)n});
		}
		if (wire->len > 0) {
			moved = true;
			BIO_write(SSL_get_rbio(p->client), wire->ptr, (int)wire->len);
			buf_clear(wire);
			if (!SSL_is_init_finished(p->client))
				(void)SSL_do_handshake(p->client);
		}
	}
}

static void carry(struct pair *p)
{
	carry_in(p, 65536);
}

static void expect_open(struct pair *p)
{
	carry(p);
	cr_assert(p->opened, "%s",
		  p->last == TLS_FAILED ? tls_session_why(p->session) : "not open");
	cr_assert(SSL_is_init_finished(p->client));
}

static void expect_failure(struct pair *p, enum tls_failure failure)
{
	carry(p);
	cr_assert_eq(p->last, TLS_FAILED);
	cr_assert_not(p->opened);
	cr_assert_eq(tls_session_failure(p->session), failure, "%s: %s",
		     tls_failure_label(tls_session_failure(p->session)),
		     tls_session_why(p->session));
	cr_assert_not(tls_session_write(p->session, SLICE("x")));
}

static void expect_text(struct pair *p, const char *text)
{
	cr_assert_eq(p->received.len, strlen(text));
	cr_assert_eq(memcmp(p->received.ptr, text, strlen(text)), 0);
	buf_clear(&p->received);
}

/* ---- The happy path ---- */

Test(tls_session, carries_bytes_both_ways_and_ends)
{
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, TLS_INNER_ANY);
	char answer[8];

	client_begins(&p);
	expect_open(&p);
	cr_assert_eq(SSL_write(p.client, "ping", 4), 4);
	carry(&p);
	expect_text(&p, "ping");
	cr_assert(tls_session_write(p.session, SLICE("pong")));
	carry(&p);
	cr_assert_eq(SSL_read(p.client, answer, sizeof answer), 4);
	cr_assert_eq(p.names.len, 0);

	SSL_shutdown(p.client);
	carry(&p);
	cr_assert_eq(p.last, TLS_ENDED);
	cr_assert(tls_session_write(p.session, SLICE("late"))); /* half-closed: we may still */
	tls_session_end(p.session);
	tls_session_end(p.session);
	carry(&p);
	cr_assert_eq(SSL_read(p.client, answer, sizeof answer), 4);
	cr_assert_eq(SSL_read(p.client, answer, sizeof answer), 0);
	cr_assert_eq(SSL_get_error(p.client, 0), SSL_ERROR_ZERO_RETURN);
	cr_assert_not(tls_session_write(p.session, SLICE("x")));
	pair_release(&p);
	tls_server_unref(server);
}

Test(tls_session, byte_by_byte)
{
	struct tls_server *server = serve(
		(struct tls_terms){.client_ca = ca.cert_file, .client_auth = TLS_CLIENT_REQUIRED});
	struct pair p = pair_of(server, TLS_INNER_ANY);

	client_shows(&p, &worker);
	client_begins(&p);
	carry_in(&p, 1);
	cr_assert(p.opened);
	cr_assert_eq(SSL_write(p.client, "ping", 4), 4);
	carry_in(&p, 1);
	expect_text(&p, "ping");
	pair_release(&p);
	tls_server_unref(server);
}

Test(tls_session, large_output_is_whole)
{
	enum { BYTES = 3 << 20 };
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, TLS_INNER_ANY);
	char *sent = malloc(BYTES), *got = malloc(BYTES);
	size_t at = 0, n;

	for (size_t i = 0; i < BYTES; i++)
		sent[i] = (char)(i * 7 + i / 251);
	client_begins(&p);
	expect_open(&p);
	cr_assert(tls_session_write(p.session, (struct slice){sent, BYTES}));
	carry(&p);
	while (at < BYTES && SSL_read_ex(p.client, got + at, BYTES - at, &n) == 1)
		at += n;
	cr_assert_eq(at, BYTES);
	cr_assert_eq(memcmp(sent, got, BYTES), 0);
	free(sent);
	free(got);
	pair_release(&p);
	tls_server_unref(server);
}

/* ---- What is spoken inside ---- */

static void try_alpn(enum tls_inner inner, const char *offer, const char *agreed)
{
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, inner);
	const unsigned char *name;
	unsigned len;

	if (offer != NULL)
		SSL_CTX_set_alpn_protos(p.ctx, (const unsigned char *)offer,
					(unsigned)strlen(offer));
	client_begins(&p);
	if (agreed == NULL) {
		expect_failure(&p, TLS_FAILED_ALPN);
	} else {
		expect_open(&p);
		SSL_get0_alpn_selected(p.client, &name, &len);
		cr_assert_eq(len, strlen(agreed));
		cr_assert(len == 0 || memcmp(name, agreed, len) == 0);
	}
	pair_release(&p);
	tls_server_unref(server);
}

Test(tls_session, alpn)
{
	try_alpn(TLS_INNER_H2, "\2h2", "h2");
	try_alpn(TLS_INNER_H2, "\10http/1.1\2h2", "h2");
	try_alpn(TLS_INNER_H2, "\10http/1.1", NULL);
	try_alpn(TLS_INNER_H2, NULL, NULL);
	try_alpn(TLS_INNER_HTTP1, "\2h2\10http/1.1", "http/1.1");
	try_alpn(TLS_INNER_HTTP1, "\2h2", NULL);
	try_alpn(TLS_INNER_HTTP1, NULL, "");
	try_alpn(TLS_INNER_ANY, "\2h2", "");
}

/* ---- Versions ---- */

Test(tls_session, versions)
{
	struct tls_server *from_12 = serve((struct tls_terms){0});
	struct tls_server *from_13 = serve((struct tls_terms){.min_version = TLS_FROM_1_3});
	struct pair p = pair_of(from_12, TLS_INNER_ANY);

	SSL_CTX_set_max_proto_version(p.ctx, TLS1_2_VERSION);
	client_begins(&p);
	expect_open(&p);
	pair_release(&p);

	p = pair_of(from_13, TLS_INNER_ANY);
	SSL_CTX_set_max_proto_version(p.ctx, TLS1_2_VERSION);
	client_begins(&p);
	expect_failure(&p, TLS_FAILED_VERSION);
	pair_release(&p);

	p = pair_of(from_12, TLS_INNER_ANY);
	SSL_CTX_set_security_level(p.ctx, 0);
	SSL_CTX_set_min_proto_version(p.ctx, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(p.ctx, TLS1_1_VERSION);
	client_begins(&p);
	expect_failure(&p, TLS_FAILED_VERSION);
	pair_release(&p);

	p = pair_of(from_12, TLS_INNER_ANY);
	SSL_CTX_set_max_proto_version(p.ctx, TLS1_2_VERSION);
	SSL_CTX_set_cipher_list(p.ctx, "ECDHE-ECDSA-AES128-SHA256");
	client_begins(&p);
	expect_failure(&p, TLS_FAILED_CIPHER);
	pair_release(&p);
	tls_server_unref(from_12);
	tls_server_unref(from_13);
}

Test(tls_session, renegotiation_is_refused)
{
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, TLS_INNER_ANY);

	SSL_CTX_set_max_proto_version(p.ctx, TLS1_2_VERSION);
	client_begins(&p);
	expect_open(&p);
	cr_assert_eq(SSL_renegotiate(p.client), 1);
	(void)SSL_do_handshake(p.client);
	carry(&p);
	cr_assert_not(SSL_is_init_finished(p.client) && p.last == TLS_AGAIN);
	pair_release(&p);
	tls_server_unref(server);
}

/* ---- Clients' certificates ---- */

static void try_client(enum tls_client_auth auth, const struct identity *who, int max_version,
		       int failure)
{
	struct tls_server *server =
		serve((struct tls_terms){.client_ca = ca.cert_file, .client_auth = auth});
	struct pair p = pair_of(server, TLS_INNER_ANY);

	if (who != NULL)
		client_shows(&p, who);
	SSL_CTX_set_max_proto_version(p.ctx, max_version);
	client_begins(&p);
	if (failure < 0)
		expect_open(&p);
	else
		expect_failure(&p, (enum tls_failure)failure);
	pair_release(&p);
	tls_server_unref(server);
}

Test(tls_session, client_certificates)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

	for (int i = 0; i < 2; i++) {
		int v = versions[i];

		try_client(TLS_CLIENT_REQUIRED, &worker, v, -1);
		try_client(TLS_CLIENT_REQUIRED, NULL, v, TLS_FAILED_NO_CERTIFICATE);
		try_client(TLS_CLIENT_REQUIRED, &stranger, v, TLS_FAILED_CERTIFICATE);
		try_client(TLS_CLIENT_REQUIRED, &late, v, TLS_FAILED_CERTIFICATE_EXPIRED);
		try_client(TLS_CLIENT_OPTIONAL, NULL, v, -1);
		try_client(TLS_CLIENT_OPTIONAL, &worker, v, -1);
		try_client(TLS_CLIENT_OPTIONAL, &stranger, v, TLS_FAILED_CERTIFICATE);
	}
}

static void expect_names(const struct identity *who, const char *expected, size_t len)
{
	struct tls_server *server = serve(
		(struct tls_terms){.client_ca = ca.cert_file, .client_auth = TLS_CLIENT_REQUIRED});
	struct pair p = pair_of(server, TLS_INNER_ANY);

	client_shows(&p, who);
	client_begins(&p);
	expect_open(&p);
	cr_assert_eq(p.names.len, len, "%.*s", (int)p.names.len, p.names.ptr);
	cr_assert_eq(len == 0 ? 0 : memcmp(p.names.ptr, expected, len), 0);
	pair_release(&p);
	tls_server_unref(server);
}

Test(tls_session, names)
{
	static const char all[] = "uri:spiffe://acme/worker\0uri:spiffe://acme/second\0"
				  "dns:worker.acme";

	expect_names(&worker, all, sizeof all);
}

/* The CN beside a name of the other kinds would be one more that nobody meant. */
Test(tls_session, names_that_are_not_first_or_not_usable)
{
	static const struct {
		const char *alternatives;
		const char *expected;
	} cases[] = {
		{NULL, "cn:one"},
		{"email:a@b.c,IP:127.0.0.1", "cn:one"},
		{"IP:1.1.1.1,IP:1.1.1.2,IP:1.1.1.3,IP:1.1.1.4,IP:1.1.1.5,IP:1.1.1.6,IP:1.1.1.7,"
		 "IP:1.1.1.8,IP:1.1.1.9,email:a@b.a,email:a@b.b,email:a@b.c,email:a@b.d,email:a@b."
		 "e,"
		 "email:a@b.f,email:a@b.g,email:a@b.h,DNS:seventeen.acme",
		 "dns:seventeen.acme"},
		{"DNS:not usable.acme", NULL},
		{"URI:spiffe://acme/not usable,email:a@b.c", NULL},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct identity one = identity_make("one", &ca, cases[i].alternatives, -60, DAY_S);

		expect_names(&one, cases[i].expected,
			     cases[i].expected != NULL ? strlen(cases[i].expected) + 1 : 0);
		identity_release(&one);
	}
}

Test(tls_session, no_more_than_sixteen_names)
{
	struct buf list = {0}, expected = {0};
	struct identity many;

	for (int i = 1; i <= TLS_NAMES_MAX + 1; i++) {
		buf_printf(&list, "%sDNS:n%d.acme", i > 1 ? "," : "", i);
		if (i <= TLS_NAMES_MAX)
			buf_printf(&expected, "dns:n%d.acme%c", i, '\0');
	}
	buf_add(&list, "", 1);
	many = identity_make("many", &ca, list.ptr, -60, DAY_S);
	expect_names(&many, expected.ptr, expected.len);
	identity_release(&many);
	buf_release(&list);
	buf_release(&expected);
}

Test(tls_session, client_that_believes_another_authority)
{
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, TLS_INNER_ANY);

	SSL_CTX_set_cert_store(p.ctx, X509_STORE_new());
	client_begins(&p);
	expect_failure(&p, TLS_FAILED_REFUSED);
	pair_release(&p);
	tls_server_unref(server);
}

/* ---- Tickets ---- */

static SSL_SESSION *kept; /* of the last connection */

/* Connects, with what is kept if it is to; returns whether it was taken up. */
static bool connect_again(const struct tls_server *server, int version, const struct identity *who,
			  bool resume)
{
	struct pair p = pair_of(server, TLS_INNER_ANY);
	char byte;
	bool resumed;

	if (who != NULL)
		client_shows(&p, who);
	SSL_CTX_set_max_proto_version(p.ctx, version);
	p.client = SSL_new(p.ctx);
	SSL_set_connect_state(p.client);
	SSL_set_bio(p.client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	if (resume)
		SSL_set_session(p.client, kept);
	(void)SSL_do_handshake(p.client);
	expect_open(&p);
	(void)SSL_read(p.client, &byte, 1); /* takes the ticket in */
	resumed = SSL_session_reused(p.client) == 1;
	cr_assert_eq(tls_session_is_resumed(p.session), resumed);
	if (who != NULL)
		cr_assert_gt(p.names.len, 0); /* a ticket stands for the certificate as well */
	SSL_SESSION_free(kept);
	kept = SSL_get1_session(p.client);
	SSL_set_shutdown(p.client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* else forgotten */
	pair_release(&p);
	return resumed;
}

static void try_tickets(int version)
{
	const struct tls_terms mutual = {.client_ca = ca.cert_file,
					 .client_auth = TLS_CLIENT_REQUIRED};
	struct tls_terms wider = mutual;
	struct tls_server *server = serve(mutual);

	cr_assert_not(connect_again(server, version, &worker, false));
	cr_assert(connect_again(server, version, &worker, true));
	tls_server_unref(server);
	server = serve(mutual); /* a reload */
	cr_assert(connect_again(server, version, &worker, true));
	ticket_clock_s += TLS_TICKETS_LIFE_S;
	cr_assert(connect_again(server, version, &worker, true), "the last key still opens");
	cr_assert(connect_again(server, version, &worker, true));
	cr_assert_not(connect_again(server, version, &worker, false));
	ticket_clock_s += 2 * TLS_TICKETS_LIFE_S;
	cr_assert_not(connect_again(server, version, &worker, true), "that key is forgotten");
	tls_server_unref(server);

	wider.client_auth = TLS_CLIENT_OPTIONAL;
	server = serve(wider);
	cr_assert_not(connect_again(server, version, &worker, true), "other terms");
	tls_server_unref(server);
	SSL_SESSION_free(kept);
	kept = NULL;
}

Test(tls_session, tickets)
{
	try_tickets(TLS1_2_VERSION);
	try_tickets(TLS1_3_VERSION);
}

/* ---- What strangers send ---- */

Test(tls_session, plain_text)
{
	static const char *const texts[] = {"GET / HTTP/1.1\r\n\r\n", "PING\r\n", "\r\n",
					    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
	struct tls_server *server = serve((struct tls_terms){0});

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct pair p = pair_of(server, TLS_INNER_ANY);

		session_reads(&p, slice_of(texts[i]));
		cr_assert_eq(p.last, TLS_FAILED);
		cr_assert_eq(tls_session_failure(p.session), TLS_FAILED_PLAIN_TEXT);
		cr_assert_eq(tls_session_wire(p.session)->len, 0);
		pair_release(&p);
	}
	tls_server_unref(server);
}

Test(tls_session, garbage_is_refused_and_holds_no_memory)
{
	struct tls_server *server = serve(
		(struct tls_terms){.client_ca = ca.cert_file, .client_auth = TLS_CLIENT_OPTIONAL});
	struct dice dice = {7};

	for (int round = 0; round < 2000; round++) {
		struct pair p = pair_of(server, TLS_INNER_H2);
		char bytes[2048];
		size_t total = 0;

		/* The head of a handshake record, most of the time, and then anything. */
		while (p.last == TLS_AGAIN && total < 256 * 1024) {
			for (size_t i = 0; i < sizeof bytes; i++)
				bytes[i] = (char)dice_next(&dice);
			if (dice_below(&dice, 4) > 0)
				memcpy(bytes, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
			session_reads(&p,
				      (struct slice){bytes, 1 + dice_below(&dice, sizeof bytes)});
			total += sizeof bytes;
		}
		cr_assert_not(p.opened);
		cr_assert_eq(p.last, TLS_FAILED);
		cr_assert_leq(tls_session_wire(p.session)->cap, 4096);
		pair_release(&p);
	}
	tls_server_unref(server);
}

/* A byte of a client's hello is changed (but of the record's head, which nothing vouches for): no session opens by it. */
Test(tls_session, tampered_with)
{
	struct tls_server *server = serve((struct tls_terms){0});
	char bytes[4096];

	for (int at = 0; at < 400; at++) {
		struct pair p = pair_of(server, TLS_INNER_ANY);
		int n;

		client_begins(&p);
		n = BIO_read(SSL_get_wbio(p.client), bytes, sizeof bytes);
		cr_assert_gt(n, 0);
		bytes[5 + at % (n - 5)] ^= 0x41;
		session_reads(&p, (struct slice){bytes, (size_t)n});
		carry(&p);
		cr_assert_not(p.opened && SSL_is_init_finished(p.client));
		pair_release(&p);
	}
	tls_server_unref(server);
}

Test(tls_session, endless_hello_is_too_large)
{
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, TLS_INNER_ANY);
	char record[5 + 4 + 4096] = "\x16\x03\x01\x10\x04\x01\x01\xff\x00"; /* a hello of 128 KiB */
	size_t sent = 0;

	session_reads(&p, (struct slice){record, sizeof record});
	memcpy(record, "\x16\x03\x01\x10\x00", 5);
	while (p.last == TLS_AGAIN && sent < 1 << 20) {
		session_reads(&p, (struct slice){record, 5 + 4096});
		sent += 4096;
	}
	cr_assert_eq(p.last, TLS_FAILED);
	cr_assert_eq(tls_session_failure(p.session), TLS_FAILED_PROTOCOL);
	cr_assert_leq(sent, TLS_HANDSHAKE_MAX + 8192);
	pair_release(&p);
	tls_server_unref(server);
}

Test(tls_session, broken_record_ends_an_open_session)
{
	struct tls_server *server = serve((struct tls_terms){0});
	struct pair p = pair_of(server, TLS_INNER_ANY);
	char bytes[256];
	int n;

	client_begins(&p);
	expect_open(&p);
	SSL_write(p.client, "ping", 4);
	n = BIO_read(SSL_get_wbio(p.client), bytes, sizeof bytes);
	bytes[n - 1] ^= 1;
	session_reads(&p, (struct slice){bytes, (size_t)n});
	cr_assert_eq(p.last, TLS_FAILED);
	cr_assert_eq(tls_session_failure(p.session), TLS_FAILED_PROTOCOL);
	cr_assert_gt(tls_session_wire(p.session)->len, 0); /* the alert */
	cr_assert_eq(p.received.len, 0);
	pair_release(&p);
	tls_server_unref(server);
}

/* ---- Files ---- */

static void expect_fault(struct tls_terms terms, const char *begins, const char *says)
{
	struct buf error = {0};

	cr_assert_null(tls_server_new(&terms, tickets, &error));
	buf_add(&error, "", 1);
	cr_assert_eq(strncmp(error.ptr, begins, strlen(begins)), 0, "%s", error.ptr);
	cr_assert_not_null(strstr(error.ptr, says), "%s", error.ptr);
	cr_assert_null(strchr(error.ptr, '\n'));
	buf_release(&error);
}

Test(tls_session, files_that_can_not_be_used)
{
	char locked[128], empty[128];
	FILE *f;
	struct identity soon = identity_make("soon", &ca, NULL, DAY_S, 2 * DAY_S);

	snprintf(locked, sizeof locked, "%s", certs_path("locked", ".key"));
	f = fopen(locked, "w");
	PEM_write_PKCS8PrivateKey(f, ours.key, EVP_aes_256_cbc(), "secret", 6, NULL, NULL);
	fclose(f);
	snprintf(empty, sizeof empty, "%s", certs_path("empty", ".pem"));
	fclose(fopen(empty, "w"));

	expect_fault((struct tls_terms){.cert = empty, .key = ours.key_file}, "`cert`: /tmp/",
		     "no certificate");
	expect_fault((struct tls_terms){.cert = ours.cert_file, .key = empty}, "`key`: /tmp/", ":");
	expect_fault((struct tls_terms){.cert = ours.cert_file, .key = worker.key_file},
		     "`key`: ", "is not the certificate's");
	expect_fault((struct tls_terms){.cert = ours.cert_file, .key = locked},
		     "`key`: ", "password");
	expect_fault((struct tls_terms){.cert = late.cert_file, .key = late.key_file},
		     "`cert`: ", "expired at 20");
	expect_fault((struct tls_terms){.cert = soon.cert_file, .key = soon.key_file},
		     "`cert`: ", "not valid before 20");
	expect_fault((struct tls_terms){.cert = ours.cert_file,
					.key = ours.key_file,
					.client_ca = empty,
					.client_auth = TLS_CLIENT_REQUIRED},
		     "`client_ca`: ", "no certificate");
	identity_release(&soon);
}
