/*
 * Against a real redis-server: logging in in every way, TLS, a restart, a stop, a swap of master
 * and replica. Mostly waits.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_group.h"
#include "store_rig.h"

enum { TIMEOUT_MS = 200, RECOVERY_MS = 5000 };

static struct store_rig rig;
static struct redis_node node;
static char url[256];

static struct redis_conf conf_of(const char *text)
{
	return (struct redis_conf){.mode = REDIS_STANDALONE,
				   .url = (char *)text,
				   .timeout_ms = TIMEOUT_MS,
				   .connect_timeout_ms = 1000};
}

static void open_up(const struct redis_conf *conf)
{
	rig_init(&rig);
	rig_open(&rig, conf);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
}

static const struct rig_call *ask(const char *words)
{
	return rig_wait(&rig, rig_ask(&rig, 0, "%s", words));
}

static void expect(const char *words, kova_status status, const char *text)
{
	const struct rig_call *call = ask(words);

	cr_assert_eq(call->status, status, "%s: %s", words, call->text);
	if (text != NULL)
		cr_assert_str_eq(call->text, text);
}

Test(redis_standalone, tcp_and_a_name_and_a_database)
{
	redis_node_start(&node, NULL, NULL);
	snprintf(url, sizeof url, "redis://localhost:%u/3", node.port);
	struct redis_conf conf = conf_of(url);

	open_up(&conf);
	cr_assert(!redis_store_is_cluster(rig.store));
	cr_assert_eq(redis_store_shards(rig.store), 1);
	expect("SET a 1", KOVA_OK, "OK");
	expect("INCR a", KOVA_OK, "2");
	expect("GET none", KOVA_OK, "");
	expect("NONSENSE", KOVA_EREPLY, NULL);
	rig_end(&rig);
	cr_assert_str_eq(redis_node_command(&node, "-n 3 GET a"), "2");
	redis_node_end(&node);
}

Test(redis_standalone, passwords_and_users)
{
	static const char *const arguments[] = {"--requirepass", "pa ss", "--user", "kova", "on",
						">s3:cret",      "~k:*",  "+@all",  NULL};
	static const char *const client[] = {"--no-auth-warning", "-a", "pa ss", NULL};

	redis_node_start(&node, arguments, client);
	snprintf(url, sizeof url, "redis://:pa%%20ss@127.0.0.1:%u", node.port);
	struct redis_conf conf = conf_of(url);
	open_up(&conf);
	expect("SET other 1", KOVA_OK, "OK");
	rig_end(&rig);

	snprintf(url, sizeof url, "redis://kova:s3%%3acret@127.0.0.1:%u", node.port);
	open_up(&conf);
	expect("SET k:a 1", KOVA_OK, "OK");
	expect("SET other 1", KOVA_EREPLY, NULL);
	rig_end(&rig);

	/* What the configuration names goes before what the URL does. */
	snprintf(url, sizeof url, "redis://nobody:wrong@127.0.0.1:%u", node.port);
	conf.user = (char *)"kova";
	conf.password = (char *)"s3:cret";
	open_up(&conf);
	expect("SET k:a 1", KOVA_OK, "OK");
	rig_end(&rig);

	conf.password = (char *)"wrong";
	rig_init(&rig);
	rig_open(&rig, &conf);
	rig_run(&rig, 300);
	cr_assert_not_null(strstr(rig.why, "WRONGPASS"), "%s", rig.why);
	cr_assert_eq(ask("PING")->status, KOVA_ECONN);
	rig_end(&rig);
	redis_node_end(&node);
}

static void restart_under_calls(void)
{
	for (int i = 0; i < 200; i++) {
		rig_ask(&rig, 0, "INCR a");
		if (i == 100)
			redis_node_kill(&node);
		rig_run(&rig, 1);
	}
}

Test(redis_standalone, comes_back_after_a_restart)
{
	redis_node_start(&node, NULL, NULL);
	snprintf(url, sizeof url, "redis://127.0.0.1:%u", node.port);
	struct redis_conf conf = conf_of(url);

	open_up(&conf);
	restart_under_calls();
	cr_assert(!redis_store_up(rig.store, 0));
	cr_assert_eq(rig.downs, 1);
	redis_node_again(&node);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	expect("INCR a", KOVA_OK, "1");
	rig_end(&rig);
	redis_node_end(&node);
}

Test(redis_standalone, stopped_and_continued)
{
	redis_node_start(&node, NULL, NULL);
	snprintf(url, sizeof url, "redis://127.0.0.1:%u", node.port);
	struct redis_conf conf = conf_of(url);

	conf.timeout_ms = 50;
	open_up(&conf);
	expect("INCR a", KOVA_OK, "1");
	rig_run(&rig, 60);
	kill(node.pid, SIGSTOP);
	const struct rig_call *call = ask("INCR a");
	cr_assert_eq(call->status, KOVA_ETIMEDOUT);
	cr_assert_lt(rig_own_ms(call), 65);
	cr_assert_eq(ask("INCR a")->status, KOVA_ECONN);
	rig_run(&rig, 300);
	kill(node.pid, SIGCONT);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	expect("INCR a", KOVA_OK, "3"); /* the one in doubt was executed */
	rig_end(&rig);
	redis_node_end(&node);
}

Test(redis_standalone, readonly_until_it_is_a_master_again)
{
	redis_node_start(&node, NULL, NULL);
	snprintf(url, sizeof url, "redis://127.0.0.1:%u", node.port);
	struct redis_conf conf = conf_of(url);

	open_up(&conf);
	redis_node_command(&node, "REPLICAOF 127.0.0.1 1");
	expect("INCR a", KOVA_EREPLY, NULL);
	rig_run(&rig, 300);
	cr_assert(!redis_store_up(rig.store, 0));
	cr_assert_not_null(strstr(rig.why, "READONLY"), "%s", rig.why);
	redis_node_command(&node, "REPLICAOF NO ONE");
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	expect("INCR a", KOVA_OK, "1");
	rig_end(&rig);
	redis_node_end(&node);
}

/* ---- TLS ---- */

static char certs[64];

__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	cr_assert_eq(system(line), 0, "%s", line);
}

/* A certificate `name` signed by `ca`. */
static void make_cert(const char *ca, const char *name, const char *names)
{
	shell("cd %s && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
	      "%s.key -out %s.csr "
	      "-subj /CN=%s 2>/dev/null && printf 'subjectAltName=%s' > %s.ext && openssl x509 "
	      "-req -in %s.csr "
	      "-CA %s.crt -CAkey %s.key -CAcreateserial -days 2 -extfile %s.ext -out %s.crt "
	      "2>/dev/null",
	      certs, name, name, name, names, name, name, ca, ca, name, name);
}

static void make_ca(const char *name)
{
	shell("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	      "-keyout %s.key -out %s.crt "
	      "-days 2 -subj /CN=%s 2>/dev/null",
	      certs, name, name, name);
}

static void make_certs(void)
{
	strcpy(certs, "/tmp/kova-certs-XXXXXX");
	cr_assert_not_null(mkdtemp(certs));
	make_ca("ca");
	make_ca("stranger");
	make_cert("ca", "server", "DNS:localhost,IP:127.0.0.1");
	make_cert("ca", "client", "DNS:client");
	make_cert("stranger", "intruder", "DNS:intruder");
}

static const char *in_certs(const char *name)
{
	static char paths[64][128]; /* all that one test needs */
	static int n;
	char *path = paths[n++ % 64];

	snprintf(path, sizeof paths[0], "%s/%s", certs, name);
	return path;
}

static struct redis_conf tls_conf(const char *host, const char *ca, const char *identity)
{
	struct redis_conf conf = conf_of(url);
	char name[64];

	snprintf(url, sizeof url, "rediss://%s:%u", host, node.port);
	conf.ca = ca != NULL ? (char *)in_certs(ca) : NULL;
	if (identity != NULL) {
		snprintf(name, sizeof name, "%s.crt", identity);
		conf.cert = (char *)in_certs(name);
		snprintf(name, sizeof name, "%s.key", identity);
		conf.key = (char *)in_certs(name);
	}
	return conf;
}

static void expect_refused(const struct redis_conf *conf, const char *why)
{
	rig_init(&rig);
	rig_open(&rig, conf);
	rig_run(&rig, 400);
	cr_assert_eq(rig.ups, 0);
	cr_assert_not_null(strstr(rig.why, why), "%s", rig.why);
	cr_assert_eq(ask("PING")->status, KOVA_ECONN);
	rig_end(&rig);
}

Test(redis_standalone, tls_with_client_certificates)
{
	char tls_port[16];

	make_certs();
	node.port = redis_group_free_port();
	snprintf(tls_port, sizeof tls_port, "%u", node.port);
	const char *arguments[] = {"--port",
				   "0",
				   "--tls-port",
				   tls_port,
				   "--tls-cert-file",
				   in_certs("server.crt"),
				   "--tls-key-file",
				   in_certs("server.key"),
				   "--tls-ca-cert-file",
				   in_certs("ca.crt"),
				   NULL};
	const char *client[] = {"--tls",
				"--cacert",
				in_certs("ca.crt"),
				"--cert",
				in_certs("client.crt"),
				"--key",
				in_certs("client.key"),
				NULL};
	redis_node_start(&node, arguments, client);

	struct redis_conf conf = tls_conf("localhost", "ca.crt", "client");
	open_up(&conf);
	expect("INCR a", KOVA_OK, "1");
	for (int i = 0; i < 1000; i++)
		rig_ask(&rig, 0, "APPEND long %0200d", i);
	for (size_t i = 1; i <= 1000; i++)
		cr_assert_eq(rig_wait(&rig, i)->status, KOVA_OK);
	size_t long_call = rig_ask(&rig, 0, "GETRANGE long 0 190000");
	cr_assert_eq(rig_wait(&rig, long_call)->status, KOVA_OK);
	rig_end(&rig);

	conf = tls_conf("127.0.0.1", "ca.crt", "client");
	open_up(&conf);
	redis_node_kill(&node);
	rig_wait_up(&rig, 0, false, 1000);
	redis_node_again(&node);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	expect("INCR a", KOVA_OK, "1");
	rig_end(&rig);

	conf = tls_conf("localhost", "stranger.crt", "client");
	expect_refused(&conf, "certificate verify failed");
	conf = tls_conf("localhost", NULL, "client");
	expect_refused(&conf, "certificate verify failed");
	/* TLS 1.3: the client is connected before the server has looked at its certificate. */
	conf = tls_conf("localhost", "ca.crt", NULL);
	expect_refused(&conf, "TLS: ");
	conf = tls_conf("localhost", "ca.crt", "intruder");
	expect_refused(&conf, "TLS: ");
	/* Plain TCP to a TLS port. */
	snprintf(url, sizeof url, "redis://localhost:%u", node.port);
	conf = conf_of(url);
	expect_refused(&conf, "");
	redis_node_end(&node);
	shell("rm -rf %s", certs);
}

Test(redis_standalone, tls_wants_the_name_that_was_asked_for)
{
	make_certs();
	make_cert("ca", "other", "DNS:other.example");
	node.port = redis_group_free_port();
	char tls_port[16];
	snprintf(tls_port, sizeof tls_port, "%u", node.port);
	const char *arguments[] = {"--port",
				   "0",
				   "--tls-port",
				   tls_port,
				   "--tls-cert-file",
				   in_certs("other.crt"),
				   "--tls-key-file",
				   in_certs("other.key"),
				   "--tls-ca-cert-file",
				   in_certs("ca.crt"),
				   "--tls-auth-clients",
				   "no",
				   NULL};
	const char *client[] = {"--tls", "--cacert", in_certs("ca.crt"), NULL};
	redis_node_start(&node, arguments, client);

	struct redis_conf conf = tls_conf("localhost", "ca.crt", NULL);
	expect_refused(&conf, "certificate verify failed");
	/* An address, and an authority of one's own: the authority is enough. */
	conf = tls_conf("127.0.0.1", "ca.crt", NULL);
	open_up(&conf);
	expect("PING", KOVA_OK, "PONG");
	rig_end(&rig);
	redis_node_end(&node);
	shell("rm -rf %s", certs);
}

static void on_any(unsigned shard, bool up, const char *why, void *data)
{
	(void)shard;
	(void)up;
	(void)why;
	(void)data;
}

Test(redis_standalone, what_cannot_be_used_is_refused_at_once)
{
	struct redis_conf conf = conf_of("redis://host:0");
	uv_loop_t loop;

	uv_loop_init(&loop);
	cr_assert_null(redis_store_new(&loop, &conf, on_any, NULL));
	conf.url = (char *)"rediss://host";
	conf.ca = (char *)"/nonexistent/ca.crt";
	cr_assert_null(redis_store_new(&loop, &conf, on_any, NULL));
	conf.ca = NULL;
	conf.cert = (char *)"/nonexistent/client.crt";
	cr_assert_null(redis_store_new(&loop, &conf, on_any, NULL));
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
}
