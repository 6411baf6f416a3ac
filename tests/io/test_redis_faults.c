/*
 * One server that misbehaves in every way that we know of. Whatever it does, each call ends exactly
 * once (rig_end()). Mostly waits.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fake_redis.h"
#include "store_rig.h"

enum { TIMEOUT_MS = 50, SLACK_MS = 15, RECOVERY_MS = 5000 };

static struct store_rig rig;
static struct fake_redis fake;
static char url[64];

static struct redis_conf conf_of(const char *text)
{
	return (struct redis_conf){.mode = REDIS_STANDALONE,
				   .url = (char *)text,
				   .timeout_ms = TIMEOUT_MS,
				   .connect_timeout_ms = 300};
}

static void begin(fake_script *script, void *data)
{
	rig_init(&rig);
	fake_redis_start(&fake, &rig.loop, script, data);
	snprintf(url, sizeof url, "redis://127.0.0.1:%u", fake.port);
	struct redis_conf conf = conf_of(url);
	rig_open(&rig, &conf);
}

static void begin_up(fake_script *script, void *data)
{
	begin(script, data);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
}

static void end(void)
{
	fake_redis_stop(&fake);
	rig_end(&rig);
}

static kova_status ask_and_wait(const char *words)
{
	return rig_wait(&rig, rig_ask(&rig, 0, "%s", words))->status;
}

Test(redis_faults, refused_then_there)
{
	begin(NULL, NULL);
	fake_redis_refuse(&fake);
	fake_redis_reset_all(&fake);
	rig_run(&rig, 300);
	cr_assert_eq(rig.downs, 1, "said once, not once a try");
	cr_assert_not_null(strstr(rig.why, "refused"), "%s", rig.why);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ECONN);
	cr_assert_lt(rig_own_ms(&rig.calls[0]), (double)SLACK_MS);

	fake_redis_listen(&fake);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	end();
}

Test(redis_faults, accepts_and_closes)
{
	begin(NULL, NULL);
	fake.reject = true;
	rig_run(&rig, 300);
	cr_assert_eq(rig.downs, 1);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ECONN);
	fake.reject = false;
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

static void silent(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	const bool *quiet = data;

	if (*quiet)
		fake_owe(conn, "+OK\r\n");
	else if (!fake_login(conn, command))
		fake_send(conn, "+OK\r\n");
}

Test(redis_faults, accepts_and_says_nothing)
{
	bool quiet = true;

	begin(silent, &quiet);
	rig_run(&rig, 400);
	cr_assert_eq(rig.downs, 1);
	cr_assert_not_null(strstr(rig.why, "no connection within 300 ms"), "%s", rig.why);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ECONN);
	quiet = false;
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

Test(redis_faults, falls_silent_costs_one_time_out_not_one_a_request)
{
	bool quiet = false;

	begin_up(silent, &quiet);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	rig_run(&rig, TIMEOUT_MS);
	quiet = true;
	for (int i = 0; i < 10; i++)
		rig_ask(&rig, 0, "GET a");
	for (size_t i = 1; i <= 10; i++) {
		const struct rig_call *call = rig_wait(&rig, i);
		cr_assert_eq(call->status, KOVA_ETIMEDOUT);
		cr_assert_geq(rig_took_ms(call), TIMEOUT_MS - 2);
		cr_assert_lt(rig_own_ms(call), TIMEOUT_MS + SLACK_MS);
	}
	cr_assert_eq(rig.downs, 1);
	cr_assert_not_null(strstr(rig.why, "no answer within 50 ms"), "%s", rig.why);

	for (int i = 0; i < 20; i++) {
		size_t call = rig_ask(&rig, 0, "GET a");
		cr_assert_eq(rig_wait(&rig, call)->status, KOVA_ECONN);
		cr_assert_lt(rig_own_ms(&rig.calls[call]), (double)SLACK_MS);
	}
	cr_assert_leq(redis_store_counters(rig.store).timeouts, 10 + 1, "ten calls and a probe");
	quiet = false;
	fake_pay(&fake);
	rig_wait_up(&rig, 0, true, 1000);
	cr_assert_eq(redis_store_counters(rig.store).connects, 1, "the connection was good");
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	end();
}

Test(redis_faults, silent_for_long_gets_a_new_connection)
{
	bool quiet = false;

	begin_up(silent, &quiet);
	quiet = true;
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ETIMEDOUT);
	rig_run(&rig, 1300);
	cr_assert_eq(rig.downs, 1);
	cr_assert_gt(fake.n_conns, 1);
	quiet = false;
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(redis_store_counters(rig.store).connects, 2);
	end();
}

/* "SLOW ms": answers late, in order. */
static void slow(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	(void)data;
	if (fake_is(command, "SLOW"))
		fake_send_later(conn, "+late\r\n", strtoul(command->word[1].ptr, NULL, 10));
	else if (!fake_login(conn, command))
		fake_send_later(conn, "+prompt\r\n", 30);
}

Test(redis_faults, a_late_reply_is_dropped_and_the_next_one_is_not_shifted)
{
	begin_up(slow, NULL);
	rig_run(&rig, TIMEOUT_MS);
	size_t late = rig_ask(&rig, 0, "SLOW 80");
	cr_assert_eq(rig_wait(&rig, late)->status, KOVA_ETIMEDOUT);
	rig_wait_up(&rig, 0, true, 1000);
	size_t next = rig_ask(&rig, 0, "GET a");
	cr_assert_eq(rig_wait(&rig, next)->status, KOVA_OK);
	cr_assert_str_eq(rig.calls[next].text, "prompt");
	cr_assert_eq(redis_store_counters(rig.store).connects, 1);
	end();
}

static void on_reply_be_long(struct store_rig *r)
{
	r->on_event = NULL;
	rig_ask(r, 0, "GET a");
	uv_sleep(2 * TIMEOUT_MS);
}

Test(redis_faults, a_loop_that_was_late_is_no_outage)
{
	begin_up(NULL, NULL);
	rig_run(&rig, TIMEOUT_MS);
	rig.on_event = on_reply_be_long;
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	cr_assert_eq(rig_wait(&rig, 1)->status, KOVA_OK);
	cr_assert_eq(rig.downs, 0, "%s", rig.why);
	end();
}

Test(redis_faults, a_late_loop_gives_a_silent_server_a_second_look_and_no_third)
{
	bool quiet = false;

	begin_up(silent, &quiet);
	rig_run(&rig, TIMEOUT_MS);
	rig.on_event = on_reply_be_long;
	size_t first = rig_ask(&rig, 0, "GET a");
	while (rig.calls[first].ended == 0)
		uv_run(&rig.loop, UV_RUN_ONCE);
	quiet = true;
	const struct rig_call *call = rig_wait(&rig, first + 1);
	cr_assert_eq(call->status, KOVA_ETIMEDOUT);
	cr_assert_lt(rig_own_ms(call), 2 * TIMEOUT_MS + SLACK_MS);
	cr_assert_eq(rig.downs, 1);
	end();
}

static int bytes_that_came(const struct fake_conn *conn)
{
	uv_os_fd_t fd = -1;
	int n = 0;

	uv_fileno((const uv_handle_t *)&conn->tcp, &fd);
	ioctl(fd, FIONREAD, &n);
	return n;
}

Test(redis_faults, a_flush_writes_at_once_and_all_together)
{
	static const char both[] = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n";

	begin_up(NULL, NULL);
	rig_ask(&rig, 0, "GET a");
	rig_ask(&rig, 0, "GET b");
	cr_assert_eq(bytes_that_came(fake.conns[0]), 0);
	redis_store_flush(rig.store);
	cr_assert_eq(bytes_that_came(fake.conns[0]), (int)sizeof both - 1);
	redis_store_flush(rig.store);
	cr_assert_eq(rig_wait(&rig, 0)->status, KOVA_OK);
	cr_assert_eq(rig_wait(&rig, 1)->status, KOVA_OK);
	cr_assert_eq(bytes_that_came(fake.conns[0]), 0, "none was sent twice");
	end();
}

Test(redis_faults, a_flush_to_a_connection_that_is_gone_calls_nobody_back)
{
	begin_up(NULL, NULL);
	fake_redis_reset_all(&fake);
	size_t call = rig_ask(&rig, 0, "GET a");
	redis_store_flush(rig.store);
	cr_assert_eq(rig.calls[call].ended, 0);
	cr_assert_eq(rig_wait(&rig, call)->status, KOVA_ECONN);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

static void mid_reply(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	(void)data;
	if (fake_login(conn, command))
		return;
	if (fake_is(command, "GET"))
		fake_send(conn, "$5\r\nwhole\r\n");
	else
		fake_send(conn, "$100\r\nbroken off he");
	if (conn->n_commands >= 5)
		fake_reset(conn);
}

Test(redis_faults, a_reset_ends_what_was_not_answered_and_keeps_what_was)
{
	begin_up(mid_reply, NULL); /* ROLE and PING were the first two */
	rig_ask(&rig, 0, "GET a");
	rig_ask(&rig, 0, "BREAK a");
	rig_ask(&rig, 0, "GET a");
	rig_ask(&rig, 0, "GET a");
	for (size_t i = 0; i < 4; i++)
		rig_wait(&rig, i);
	/*
	 * The kernel may throw away what it had not delivered when the reset came: then none was
	 * answered.
	 */
	cr_assert(rig.calls[0].status == KOVA_OK || rig.calls[0].status == KOVA_ECONN);
	for (size_t i = 1; i < 4; i++)
		cr_assert_eq(rig.calls[i].status, KOVA_ECONN);
	cr_assert_eq(rig.downs, 1);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

static void saying(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	if (!fake_login(conn, command))
		fake_send(conn, data);
}

static void expect_lost(const char *says)
{
	begin_up(saying, (void *)says);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ECONN, "%s", says);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(redis_store_counters(rig.store).connects, 2);
	end();
}

Test(redis_faults, garbage)
{
	expect_lost("HTTP/1.1 400 Bad Request\r\n\r\n");
	expect_lost("*2000000000\r\n");
	expect_lost(":abc\r\n");
	expect_lost("$-7\r\n");
	expect_lost("*-9\r\n");
}

struct swallower {
	unsigned replies; /* how many go astray from now on */
};

static void swallowing(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	struct swallower *s = data;

	if (s->replies > 0)
		s->replies--;
	else if (!fake_login(conn, command))
		fake_send(conn, "+OK\r\n");
}

/* What follows a lost reply comes to the call before its own: the answer to a probe that nobody waits for any more. */
static void recovers_from_lost_replies(unsigned n)
{
	struct swallower s = {0};

	begin_up(swallowing, &s);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	rig_run(&rig, TIMEOUT_MS);
	s.replies = n;
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ETIMEDOUT);
	rig_wait_up(&rig, 0, false, 1000);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	end();
}

Test(redis_faults, a_lost_reply)
{
	recovers_from_lost_replies(1);
}

Test(redis_faults, a_lost_reply_and_a_lost_pong)
{
	recovers_from_lost_replies(2);
}

Test(redis_faults, a_reply_that_nobody_asked_for_is_no_end_of_the_process)
{
	begin_up(saying, (void *)"+one\r\n+two\r\n");
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	rig_wait_up(&rig, 0, false, 1000);
	cr_assert_not_null(strstr(rig.why, "not asked for"), "%s", rig.why);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

struct moody {
	const char *role, *ping, *other;
};

static void moody(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	const struct moody *m = data;

	if (fake_is(command, "ROLE"))
		fake_send(conn, m->role);
	else if (fake_is(command, "PING"))
		fake_send(conn, m->ping);
	else if (!fake_login(conn, command))
		fake_send(conn, m->other);
}

#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define REPLICA "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"

Test(redis_faults, loading_is_down_until_ping_is_answered)
{
	struct moody m = {MASTER, "+PONG\r\n", "+OK\r\n"};

	begin_up(moody, &m);
	m.ping = m.other = "-LOADING Redis is loading the dataset in memory\r\n";
	cr_assert_eq(ask_and_wait("GET a"), KOVA_EREPLY);
	cr_assert_eq(rig.downs, 1);
	cr_assert_not_null(strstr(rig.why, "LOADING"));
	cr_assert_eq(ask_and_wait("GET a"), KOVA_ECONN);
	rig_run(&rig, 200);
	cr_assert_eq(rig.ups, 1);
	m.ping = "+PONG\r\n";
	rig_wait_up(&rig, 0, true, 2000);
	cr_assert_eq(redis_store_counters(rig.store).connects, 1);
	end();
}

Test(redis_faults, loading_at_the_start)
{
	struct moody m = {MASTER, "-LOADING Redis is loading the dataset in memory\r\n", "+OK\r\n"};

	begin(moody, &m);
	rig_run(&rig, 200);
	cr_assert_eq(rig.downs, 1);
	m.ping = "+PONG\r\n";
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

Test(redis_faults, readonly_waits_for_a_master)
{
	struct moody m = {MASTER, "+PONG\r\n",
			  "-READONLY You can't write against a read only replica.\r\n"};

	begin_up(moody, &m);
	m.role = REPLICA;
	cr_assert_eq(ask_and_wait("SET a b"), KOVA_EREPLY);
	rig_run(&rig, 300);
	cr_assert(!redis_store_up(rig.store, 0));
	cr_assert_eq(rig.downs, 1);
	m.role = MASTER;
	m.other = "+OK\r\n";
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(ask_and_wait("SET a b"), KOVA_OK);
	end();
}

Test(redis_faults, a_server_without_role_is_believed)
{
	struct moody m = {"-ERR unknown command 'ROLE'\r\n", "-NOPERM this user may not\r\n",
			  "+OK\r\n"};

	begin_up(moody, &m);
	cr_assert_eq(ask_and_wait("GET a"), KOVA_OK);
	end();
}

static void no_entry(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	(void)data;
	if (fake_is(command, "AUTH"))
		fake_send(conn,
			  "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	else
		fake_send(conn, "-NOAUTH Authentication required.\r\n");
}

Test(redis_faults, a_wrong_password_is_said_and_not_shown)
{
	rig_init(&rig);
	fake_redis_start(&fake, &rig.loop, no_entry, NULL);
	snprintf(url, sizeof url, "redis://kova:s3cret@127.0.0.1:%u", fake.port);
	struct redis_conf conf = conf_of(url);
	rig_open(&rig, &conf);
	rig_run(&rig, 200);
	cr_assert_eq(rig.downs, 1);
	cr_assert_not_null(strstr(rig.why, "WRONGPASS"), "%s", rig.why);
	cr_assert_null(strstr(rig.why, "s3cret"));
	end();
}

Test(redis_faults, reset_ends_what_is_under_way_in_doubt)
{
	bool quiet = false;

	begin_up(silent, &quiet);
	quiet = true;
	size_t call = rig_ask(&rig, 0, "GET a");
	redis_store_reset(rig.store, 0, "out of step");
	cr_assert(!redis_store_up(rig.store, 0));
	size_t next = rig_ask(&rig, 0, "GET a");
	cr_assert_eq(rig_wait(&rig, call)->status, KOVA_ECONN);
	cr_assert_eq(rig_wait(&rig, next)->status, KOVA_ECONN);
	cr_assert_str_eq(rig.why, "out of step");
	quiet = false;
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	end();
}

/* ---- closing from within every callback ---- */

static unsigned close_at;

static void close_sometime(struct store_rig *r)
{
	if (r->store == NULL || close_at-- > 0)
		return;
	struct redis_store *store = r->store;
	r->store = NULL;
	redis_store_close(store, NULL, NULL);
}

Test(redis_faults, closing_is_safe_in_every_callback)
{
	for (unsigned at = 0; at < 12; at++) {
		bool quiet = false;

		close_at = UINT32_MAX;
		begin_up(silent, &quiet);
		close_at = at;
		rig.on_event = close_sometime;
		for (int i = 0; i < 3 && rig.store != NULL; i++)
			rig_ask(&rig, 0, "GET a");
		rig_run(&rig, 5);
		quiet = true;
		for (int i = 0; i < 3 && rig.store != NULL; i++)
			rig_ask(&rig, 0, "GET a");
		rig_run(&rig, TIMEOUT_MS + 20);
		quiet = false;
		rig_run(&rig, 100);
		for (int i = 0; i < 3 && rig.store != NULL; i++)
			rig_ask(&rig, 0, "GET a");
		fake_redis_reset_all(&fake);
		rig_run(&rig, 20);
		end();
	}
}

Test(redis_faults, pending_calls_end_closed)
{
	bool quiet = false;

	begin_up(silent, &quiet);
	quiet = true;
	rig_ask(&rig, 0, "GET a");
	redis_store_reset(rig.store, 0, "down, so that the next one waits for its turn");
	rig_ask(&rig, 0, "GET a");
	redis_store_close(rig.store, NULL, NULL);
	rig.store = NULL;
	cr_assert_eq(rig.calls[0].ended, 1);
	cr_assert_eq(rig.calls[0].status, KOVA_ECLOSED);
	cr_assert_eq(rig.calls[1].status, KOVA_ECLOSED);
	end();
}

/* ---- everything at once ---- */

static void mad(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	unsigned *seed = data;
	int n = rand_r(seed) % 100;

	if (n < 2)
		fake_send(conn, "*1\r\n*2\r\n:1\r\nX");
	else if (n < 4)
		fake_reset(conn);
	else if (n < 6)
		return; /* and out of step from here on */
	else if (n < 8)
		fake_send(conn, "+twice\r\n+twice\r\n");
	else if (n < 10)
		fake_send_later(conn, "+late\r\n", (uint64_t)rand_r(seed) % 120);
	else if (n < 12)
		fake_send(conn, "-READONLY no\r\n");
	else if (n < 14)
		fake_send(conn, "-BUSY no\r\n");
	else if (!fake_login(conn, command))
		fake_send(conn, "+OK\r\n");
}

Test(redis_faults, a_mad_server_never_makes_a_call_end_twice_or_never, .timeout = 100)
{
	for (unsigned round = 1; round <= 8; round++) {
		unsigned seed = round;

		begin(mad, &seed);
		for (int i = 0; i < 500; i++) {
			rig_ask(&rig, 0, "GET %d", i);
			if (i % 10 == 0)
				rig_run(&rig, 4);
			if (i % 170 == 0)
				redis_store_reset(rig.store, 0, "now and then");
		}
		end();
	}
}
