/* The RESP front over real sockets, with an engine that does as it is told. */
#include <criterion/criterion.h>

#include "fake_engine.h"
#include "front_fixture.h"
#include "front_resp.h"

static void start(void)
{
	start_front(&front_resp, NULL, 0);
}

TestSuite(front_resp, .init = start, .fini = stop_front, .timeout = 60);

static void ask(int fd, const char *command, const char *reply)
{
	say(fd, command);
	expect(fd, reply);
}

/* ---- Limiter commands ---- */

Test(front_resp, take_and_its_answers)
{
	int fd = dial();

	ask(fd, "*3\r\n$9\r\nKOVA.TAKE\r\n$3\r\napi\r\n$4\r\nbo b\r\n",
	    "*6\r\n:1\r\n:0\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n");
	cr_assert_str_eq(fake.last, "0 api/bo b*1 wait=0 id= receipt=0 permit= refund=:-1 "
				    "throttle=0,0,0,0");
	ask(fd, "kova.take api refuse\r\n",
	    "*6\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\nlimited:user\r\n");
	ask(fd, "Kova.Take api never\r\n",
	    "*6\r\n:0\r\n:0\r\n:20\r\n:-1\r\n:2001\r\n$12\r\nlimited:user\r\n");
	close(fd);
}

Test(front_resp, options_in_any_order)
{
	int fd = dial();
	static const char *const commands[] = {
		"KOVA.TAKE a k COST 3 AND b l COST 4 AND c m WAIT 86400000 ID x RECEIPT\r\n",
		"kova.take a k wait 86400000 cost 3 receipt and b l id x cost 4 and c m\r\n",
	};

	for (int i = 0; i < 2; i++) {
		char want[100];

		snprintf(want, sizeof want,
			 "*7\r\n:1\r\n:%d\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n"
			 "$9\r\nreceipt-1\r\n",
			 i);
		ask(fd, commands[i], want);
		cr_assert_str_eq(fake.last, "0 a/k*3 b/l*4 c/m*1 wait=86400000 id=x receipt=1 "
					    "permit= refund=:-1 throttle=0,0,0,0");
	}
	close(fd);
}

Test(front_resp, a_refused_receipt_is_nil)
{
	int fd = dial();

	ask(fd, "KOVA.TAKE a refuse RECEIPT\r\n",
	    "*7\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\nlimited:user\r\n$-1\r\n");
	ask(fd, "KOVA.ACQUIRE a refuse\r\n",
	    "*8\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\nlimited:user\r\n$-1\r\n$-1\r\n");
	say(fd, "HELLO 3\r\n");
	expect(fd, "%7\r\n$6\r\nserver\r\n$4\r\nkova\r\n");
	expect(fd, "$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n"
		   "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
		   "$7\r\nmodules\r\n*0\r\n");
	ask(fd, "KOVA.TAKE a refuse RECEIPT\r\n",
	    "*7\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\nlimited:user\r\n_\r\n");
	ask(fd, "KOVA.ACQUIRE a refuse\r\n",
	    "*8\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\nlimited:user\r\n_\r\n_\r\n");
	close(fd);
}

Test(front_resp, the_other_commands)
{
	int fd = dial();

	ask(fd, "KOVA.PEEK a k\r\n", "*6\r\n:1\r\n:0\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n");
	cr_assert_eq(fake.last[0], '1');
	ask(fd, "KOVA.ACQUIRE a k WAIT 5 ID y\r\n",
	    "*8\r\n:1\r\n:1\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n$8\r\npermit-1\r\n:10000\r\n");
	cr_assert_not_null(strstr(fake.last, "wait=5 id=y"));
	ask(fd, "KOVA.RELEASE a k permit-1\r\n", ":1\r\n");
	cr_assert_not_null(strstr(fake.last, "permit=permit-1"));
	ask(fd, "KOVA.RENEW a k permit-1\r\n", ":1\r\n");
	ask(fd, "KOVA.REFUND rrr\r\n", ":1\r\n");
	cr_assert_not_null(strstr(fake.last, "refund=rrr:-1"));
	ask(fd, "KOVA.REFUND rrr 7\r\n", ":7\r\n");
	ask(fd, "KOVA.FEEDBACK a k OK\r\n", "+OK\r\n");
	ask(fd, "kova.feedback a k error retryafter 5 remaining 0 reset 9 status 429 latency 3\r\n",
	    "+OK\r\n");
	cr_assert_not_null(strstr(fake.last, "feedback=0,5,0,9"));
	close(fd);
}

Test(front_resp, throttle_speaks_whole_seconds_rounded_up)
{
	int fd = dial();

	ask(fd, "CL.THROTTLE k 19 30 60\r\n", "*5\r\n:0\r\n:20\r\n:0\r\n:-1\r\n:3\r\n");
	cr_assert_not_null(strstr(fake.last, "6 /k*1"));
	cr_assert_not_null(strstr(fake.last, "throttle=19,30,60,1"));
	ask(fd, "cl.throttle refuse 19 30 60 2\r\n", "*5\r\n:1\r\n:20\r\n:0\r\n:2\r\n:3\r\n");
	ask(fd, "cl.throttle refuse 19 30 60 0\r\n", "*5\r\n:0\r\n:20\r\n:0\r\n:-1\r\n:3\r\n");
	cr_assert_not_null(strstr(fake.last, "throttle=19,30,60,0"));
	ask(fd, "CL.THROTTLE never 19 30 60 99\r\n", "*5\r\n:1\r\n:20\r\n:0\r\n:-1\r\n:3\r\n");
	close(fd);
}

static const struct {
	const char *command, *reply;
} faults[] = {
	{"KOVA.TAKE a k COST 0", "-RANGE COST must be 1 to 1000000000, not 0"},
	{"KOVA.TAKE a k COST -5", "-RANGE COST must be 1 to 1000000000, not -5"},
	{"KOVA.TAKE a k COST 1000000001", "-RANGE COST must be 1 to 1000000000, not 1000000001"},
	{"KOVA.TAKE a k COST 9223372036854775807",
	 "-RANGE COST must be 1 to 1000000000, not 9223372036854775807"},
	{"KOVA.TAKE a k COST 99999999999999999999",
	 "-RANGE COST must be 1 to 1000000000, not 99999999999999999999"},
	{"KOVA.TAKE a k COST 1e3", "-ERR COST must be an integer, not '1e3'"},
	{"KOVA.TAKE a k COST abc", "-ERR COST must be an integer, not 'abc'"},
	{"KOVA.TAKE a k COST +1", "-ERR COST must be an integer, not '+1'"},
	{"KOVA.TAKE a k COST \"\"", "-ERR COST must be an integer, not ''"},
	{"KOVA.TAKE a k COST \" 1\"", "-ERR COST must be an integer, not ' 1'"},
	{"KOVA.TAKE a k COST", "-ERR syntax error: COST n, once for a policy and key"},
	{"KOVA.TAKE a k COST 1 COST 1",
	 "-ERR syntax error: given twice: COST n, once for a policy and key"},
	{"KOVA.TAKE a k AND b", "-ERR syntax error: AND policy key"},
	{"KOVA.TAKE a k WAIT -1", "-RANGE WAIT must be 0 to 86400000, not -1"},
	{"KOVA.TAKE a k WAIT 86400001", "-RANGE WAIT must be 0 to 86400000, not 86400001"},
	{"KOVA.TAKE a k WAIT x", "-ERR WAIT must be an integer, not 'x'"},
	{"KOVA.TAKE a k WAIT 1 WAIT 1", "-ERR syntax error: given twice: WAIT ms"},
	{"KOVA.TAKE a k ID \"\"", "-RANGE ID must have 1 to 256 bytes"},
	{"KOVA.TAKE a k RECEIPT RECEIPT", "-ERR syntax error: given twice: RECEIPT"},
	{"KOVA.TAKE a k \"x\\r\\ny\"",
	 "-ERR syntax error: 'x??y' is no option; allowed are COST n, AND policy key, WAIT ms, "
	 "ID id and RECEIPT"},
	{"KOVA.TAKE a", "-ERR wrong number of arguments for 'kova.take' command"},
	{"KOVA.PEEK a k COST 1", "-ERR wrong number of arguments for 'kova.peek' command"},
	{"KOVA.ACQUIRE a k COST 1",
	 "-ERR syntax error: 'COST' is no option; allowed are WAIT ms and ID id"},
	{"KOVA.REFUND r -1", "-RANGE n must be 0 to 1000000000, not -1"},
	{"KOVA.REFUND r 1 2", "-ERR syntax error: KOVA.REFUND receipt [n]"},
	{"CL.THROTTLE k 1 0 60", "-RANGE count must be 1 to 1000000000, not 0"},
	{"CL.THROTTLE k 1 1 0", "-RANGE period must be 1 to 34560000, not 0"},
	{"CL.THROTTLE k -1 1 1", "-RANGE max_burst must be 0 to 999999999, not -1"},
	{"CL.THROTTLE k 1 1 1 -1", "-RANGE quantity must be 0 to 1000000000, not -1"},
	{"CL.THROTTLE k a 1 1", "-ERR max_burst must be an integer, not 'a'"},
	{"CL.THROTTLE k 1 1", "-ERR wrong number of arguments for 'cl.throttle' command"},
	{"KOVA.TAKE nope k", "-NOPOLICY no policy 'no  pe'"},
	{"KOVA.TAKE malformed k", "-ERR use KOVA.ACQUIRE"},
	{"KOVA.TAKE range k", "-RANGE a key must have 1 to 1024 bytes"},
	{"KOVA.RELEASE down k p", "-ERR the store can't be reached"},
	{"FOO bar \"b az\"", "-ERR unknown command 'FOO', with args beginning with: 'bar' 'b az' "},
	{"SELECT 1", "-ERR DB index is out of range; there is 0 only"},
	{"SELECT x", "-ERR invalid DB index"},
	{"HELLO 4", "-NOPROTO unsupported protocol version"},
	{"HELLO x", "-ERR Protocol version is not an integer or out of range"},
	{"HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'"},
	{"CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP."},
	{"CLIENT SETNAME \"a b\"",
	 "-ERR Client names cannot contain spaces, newlines or special characters, and has at "
	 "most 64 bytes"},
};

Test(front_resp, faults_have_their_errors)
{
	int fd = dial();

	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		say(fd, faults[i].command);
		say(fd, "\r\n");
		expect(fd, faults[i].reply);
		expect(fd, "\r\n");
	}
	ask(fd, "PING\r\n", "+PONG\r\n");
	close(fd);
}

Test(front_resp, too_many_pairs)
{
	int fd = dial();
	struct buf b = {0};

	buf_add_text(&b, "KOVA.TAKE a k");
	for (int i = 0; i < 16; i++)
		buf_add_text(&b, " AND a k");
	buf_add_text(&b, "\r\n");
	say_bytes(fd, b.ptr, b.len);
	expect(fd, "-ERR at most 16 pairs of policy and key are allowed\r\n");
	buf_release(&b);
	close(fd);
}

Test(front_resp, no_request_to_be_had)
{
	int fd = dial();

	fake.max = 1;
	say(fd, "KOVA.TAKE a later\r\nKOVA.TAKE a k\r\n");
	TURN_UNTIL(fake.later != NULL);
	fake_answer_all();
	expect(fd, "*6\r\n:1\r\n:0\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n"
		   "-ERR too many requests are in progress; try again\r\n");
	close(fd);
}

/* ---- Order ---- */

Test(front_resp, a_long_pipeline_in_order)
{
	int fd = dial();
	struct buf all = {0};
	enum { N = 3000 };

	for (int i = 0; i < N; i++)
		buf_add_text(&all, "*3\r\n$9\r\nKOVA.TAKE\r\n$1\r\na\r\n$1\r\nk\r\n");
	say_bytes(fd, all.ptr, all.len);
	for (int i = 0; i < N; i++) {
		char want[64];

		snprintf(want, sizeof want, "*6\r\n:1\r\n:%d\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n",
			 i);
		expect(fd, want);
	}
	cr_assert_lt(conn_pool_counters(pool).writes, N / 10, "replies are not written together");
	buf_release(&all);
	close(fd);
}

Test(front_resp, replies_wait_for_their_turn)
{
	int fd = dial(), other = dial();

	say(fd, "ECHO 1\r\nKOVA.TAKE a later WAIT 9\r\nPING\r\nECHO 2\r\nKOVA.TAKE a k\r\n"
		"KOVA.TAKE a later\r\nFOO\r\nKOVA.TAKE a refuse\r\n");
	expect(fd, "$1\r\n1\r\n");
	TURN_UNTIL(fake.decided == 4);
	expect_silence(fd);
	ask(other, "PING\r\n", "+PONG\r\n");
	fake_answer(1); /* the second one that was put off: not its turn yet */
	expect_silence(fd);
	fake_answer(0);
	expect(fd, "*6\r\n:1\r\n:2\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n"
		   "+PONG\r\n$1\r\n2\r\n"
		   "*6\r\n:1\r\n:0\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n"
		   "*6\r\n:1\r\n:1\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n"
		   "-ERR unknown command 'FOO', with args beginning with: \r\n"
		   "*6\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\nlimited:user\r\n");
	close(fd);
	close(other);
}

Test(front_resp, the_version_is_that_of_the_command)
{
	static const char first[] = "*7\r\n:0\r\n:0\r\n:20\r\n:1500\r\n:2001\r\n$12\r\n"
				    "limited:user\r\n$-1\r\n%7\r\n";
	int fd = dial();
	char *all;

	say(fd, "KOVA.TAKE a later-refuse RECEIPT\r\nHELLO 3\r\nCLIENT GETNAME\r\nHELLO 2\r\n"
		"CLIENT GETNAME\r\nQUIT\r\n");
	TURN_UNTIL(fake.later != NULL);
	fake.later->pairs[0].key = SLICE("refuse");
	fake_answer_all();
	all = hear_all(fd);
	cr_assert_eq(strncmp(all, first, strlen(first)), 0, "%s", all);
	cr_assert_not_null(strstr(all, "*0\r\n_\r\n*14\r\n"), "%s", all);
	cr_assert_not_null(strstr(all, "*0\r\n$-1\r\n+OK\r\n"), "%s", all);
	free(all);
	close(fd);
}

/* Random mix of what is answered at once, later, and in which order: the replies tell the order. */
Test(front_resp, any_order_of_answers)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		int fd = dial();
		unsigned state = seed, decided = fake.decided;
		struct buf want = {0};

		for (int i = 0; i < 300; i++) {
			char line[40];

			if (rand_r(&state) % 2 == 0) {
				say(fd, "KOVA.REFUND r 5\r\n");
				buf_add_text(&want, ":5\r\n");
				decided++;
			} else if (rand_r(&state) % 2 == 0) {
				say(fd, "KOVA.RELEASE a later p\r\n");
				buf_add_text(&want, ":1\r\n");
				decided++;
			} else {
				snprintf(line, sizeof line, "ECHO %d\r\n", i + 1000);
				say(fd, line);
				buf_printf(&want, "$4\r\n%d\r\n", i + 1000);
			}
			if (rand_r(&state) % 3 == 0 && fake.later != NULL) {
				unsigned n = 0;

				for (struct request *r = fake.later; r != NULL; r = *fake_next(r))
					n++;
				fake_answer((unsigned)rand_r(&state) % n);
			}
		}
		TURN_UNTIL(fake.decided == decided);
		fake_answer_all();
		buf_add(&want, "", 1);
		expect(fd, want.ptr);
		buf_release(&want);
		close(fd);
	}
}

/* ---- Hanging up ---- */

Test(front_resp, who_hangs_up_leaves_nothing)
{
	int fd = dial();

	say(fd, "KOVA.TAKE a later WAIT 1000\r\nPING\r\nKOVA.TAKE a later WAIT 1000\r\n");
	TURN_UNTIL(fake.decided == 2);
	close(fd);
	TURN_UNTIL(fake.abandoned == 2);
	TURN_UNTIL(conn_pool_count(pool) == 0);
}

Test(front_resp, a_half_close_gets_what_does_not_wait)
{
	int fd = dial();

	say(fd, "KOVA.TAKE a later\r\nPING\r\nKOVA.TAKE a later WAIT 1000\r\nPING\r\n");
	TURN_UNTIL(fake.decided == 2);
	shutdown(fd, SHUT_WR);
	TURN_UNTIL(fake.abandoned == 1);
	expect_silence(fd);
	fake_answer_all();
	expect_end(fd, "*6\r\n:1\r\n:0\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n+PONG\r\n");
	close(fd);
}

Test(front_resp, who_hangs_up_while_nothing_is_read)
{
	int fd = dial();

	for (int i = 0; i < 1100; i++)
		say(fd, "KOVA.TAKE a later WAIT 1000\r\n");
	TURN_UNTIL(fake.decided == CONN_REQUESTS_MAX);
	close(fd);
	TURN_UNTIL(fake.abandoned == CONN_REQUESTS_MAX);
	TURN_UNTIL(conn_pool_count(pool) == 0);
}

/* ---- Bounds ---- */

Test(front_resp, at_most_1024_in_progress)
{
	int fd = dial();

	for (int i = 0; i < 3000; i++)
		say(fd, "KOVA.RELEASE a later p\r\nPING\r\n");
	turn_for(20);
	cr_assert_eq(fake.live, CONN_REQUESTS_MAX);
	cr_assert_geq(conn_pool_counters(pool).paused, 1);
	for (int i = 0; i < 3000; i++) {
		TURN_UNTIL(fake.later != NULL || fake.decided == 3000);
		if (fake.later != NULL)
			fake_answer(0);
		expect(fd, ":1\r\n+PONG\r\n");
		cr_assert_leq(fake.live, CONN_REQUESTS_MAX);
	}
	close(fd);
}

/* Replies that wait behind one in progress are bounded too. */
Test(front_resp, held_replies_are_bounded)
{
	int fd = dial();
	struct buf echo = {0};
	char *part = malloc(60000);
	ssize_t sent = 0, n;

	cr_assert_not_null(part);
	memset(part, 'x', 60000);
	buf_add_text(&echo, "*2\r\n$4\r\nECHO\r\n$60000\r\n");
	buf_add(&echo, part, 60000);
	buf_add_text(&echo, "\r\n");
	say(fd, "KOVA.RELEASE a later p\r\n");
	TURN_UNTIL(fake.later != NULL);
	for (int i = 0; i < 3000; i++) {
		n = send(fd, echo.ptr, echo.len, MSG_NOSIGNAL);
		if (n > 0)
			sent += n;
		if (n > 0 && (size_t)n < echo.len)
			break; /* the kernel's buffers are full: it is not read any more */
		turn();
	}
	turn_for(20);
	cr_assert_leq(conn_out_bytes(first_conn()), CONN_OUT_PAUSE_BYTES + 70000);
	cr_assert_gt(sent, CONN_OUT_PAUSE_BYTES);
	fake_answer_all();
	expect(fd, ":1\r\n$60000\r\n");
	for (ssize_t i = 0; i < sent / (ssize_t)echo.len - 1; i++) {
		hear_bytes(fd, part, 60000);
		cr_assert_eq(part[59999], 'x');
		expect(fd, i < sent / (ssize_t)echo.len - 2 ? "\r\n$60000\r\n" : "\r\n");
	}
	free(part);
	buf_release(&echo);
	close(fd);
}

/* Fills all buffers between us and a client that does not read. */
static void stuff(int fd)
{
	static char payload[60024];
	size_t at = 0;

	memset(payload, 'x', sizeof payload);
	memcpy(payload, "*2\r\n$4\r\nECHO\r\n$60000\r\n", 22);
	memcpy(payload + 60022, "\r\n", 2);
	for (int i = 0; i < 2000; i++) {
		ssize_t n = send(fd, payload + at, 60024 - at, MSG_NOSIGNAL);

		at = n > 0 ? (at + (size_t)n) % 60024 : at;
		turn();
	}
}

Test(front_resp, a_slow_reader_costs_bounded_memory_and_is_cut)
{
	int fd = dial(), other = dial();
	struct conn *c;

	turn_for(5);
	c = first_conn();
	stuff(fd);
	cr_assert(c->writing);
	cr_assert(!c->reading);
	cr_assert_leq(conn_out_bytes(c), CONN_OUT_PAUSE_BYTES + 70000);
	ask(other, "PING\r\n", "+PONG\r\n");
	turn_for(600);
	cr_assert_eq(conn_pool_counters(pool).closed_slow, 0);
	c->write_since_ms -= CONN_WRITE_TIMEOUT_MS + 1; /* as if it had been that long */
	TURN_UNTIL(conn_pool_counters(pool).closed_slow == 1);
	TURN_UNTIL(conn_pool_count(pool) == 1);
	close(fd);
	close(other);
}

Test(front_resp, an_idle_connection_keeps_no_buffers)
{
	int fd = dial();

	ask(fd, "PING\r\n", "+PONG\r\n");
	say(fd, "KOVA.TAKE a");
	say(fd, " k\r\n");
	expect(fd, "*6\r\n:1\r\n:0\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n");
	TURN_UNTIL(first_conn()->in.cap == 0 && first_conn()->out.cap == 0);
	cr_assert_lt(sizeof(struct conn), 2048);
	close(fd);
}

/* ---- Ends ---- */

Test(front_resp, a_protocol_error_is_the_last_reply)
{
	int fd = dial();

	say(fd, "PING\r\nKOVA.RELEASE a later p\r\n*1\r\n:1\r\nPING\r\n");
	TURN_UNTIL(fake.later != NULL);
	expect(fd, "+PONG\r\n");
	fake_answer_all();
	expect_end(fd, ":1\r\n-ERR Protocol error: expected '$', got ':'\r\n");
	close(fd);
}

/* Closing with unread bytes would reset the connection and take the reply with it. */
Test(front_resp, the_error_arrives_though_more_is_sent)
{
	int fd = dial();
	char junk[5000];

	memset(junk, 'j', sizeof junk);
	say(fd, "*9999\r\n");
	for (int i = 0; i < 50; i++)
		say_bytes(fd, junk, sizeof junk);
	expect_end(fd, "-ERR Protocol error: invalid multibulk length\r\n");
	close(fd);
	TURN_UNTIL(conn_pool_count(pool) == 0);
}

Test(front_resp, quit_answers_and_closes)
{
	int fd = dial();

	say(fd, "PING\r\nQUIT\r\nPING\r\n");
	expect_end(fd, "+PONG\r\n+OK\r\n");
	TURN_UNTIL(conn_pool_count(pool) == 0); /* though the client does not close: lingers 1 s */
	close(fd);
}

Test(front_resp, a_drain_answers_what_is_in_progress)
{
	int busy = dial(), idle = dial();

	ask(idle, "PING\r\n", "+PONG\r\n");
	say(busy, "KOVA.RELEASE a later p\r\n");
	TURN_UNTIL(fake.later != NULL);
	listener_stop(listener);
	listener = NULL;
	conn_pool_drain(pool);
	expect_end(idle, "");
	turn_for(20);
	cr_assert_eq(conn_pool_count(pool), 1);
	fake_answer_all();
	expect_end(busy, ":1\r\n");
	TURN_UNTIL(conn_pool_count(pool) == 0);
	close(busy);
	close(idle);
}

Test(front_resp, http_is_not_taken_for_commands)
{
	int fd = dial();

	say(fd, "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nKOVA.TAKE a k\r\n");
	TURN_UNTIL(conn_pool_count(pool) == 0);
	cr_assert_eq(fake.decided, 0);
	close(fd);
}

/* ---- What libraries ask ---- */

static void expect_part(int fd, const char *command, const char *part)
{
	char *all;

	say(fd, command);
	say(fd, "QUIT\r\n");
	all = hear_all(fd);
	cr_assert_not_null(strstr(all, part), "%s: %s", command, all);
	free(all);
	close(fd);
}

Test(front_resp, connection_commands)
{
	int fd = dial();

	ask(fd, "PING\r\n", "+PONG\r\n");
	ask(fd, "PING hi\r\n", "$2\r\nhi\r\n");
	ask(fd, "ECHO hi\r\n", "$2\r\nhi\r\n");
	ask(fd, "SELECT 0\r\n", "+OK\r\n");
	ask(fd, "CLIENT ID\r\n", ":1\r\n");
	ask(fd, "CLIENT GETNAME\r\n", "$-1\r\n");
	ask(fd, "CLIENT SETNAME me\r\n", "+OK\r\n");
	ask(fd, "CLIENT GETNAME\r\n", "$2\r\nme\r\n");
	ask(fd, "CLIENT SETINFO LIB-NAME redis-py\r\n", "+OK\r\n");
	ask(fd, "CLIENT SETINFO lib-ver 5.0\r\n", "+OK\r\n");
	ask(fd, "CLIENT NO-EVICT on\r\n", "+OK\r\n");
	ask(fd, "CLIENT NO-TOUCH off\r\n", "+OK\r\n");
	ask(fd, "CLIENT REPLY ON\r\n", "+OK\r\n");
	ask(fd, "CLIENT TRACKING OFF\r\n", "+OK\r\n");
	ask(fd, "CLIENT GETREDIR\r\n", ":-1\r\n");
	ask(fd, "AUTH default x\r\n", "+OK\r\n");
	ask(fd, "AUTH x\r\n", "-ERR AUTH called without any tokens configured: none is needed\r\n");
	ask(fd, "RESET\r\n", "+RESET\r\n");
	ask(fd, "CLIENT GETNAME\r\n", "$-1\r\n");
	ask(fd, "COMMAND COUNT\r\n", ":20\r\n");
	ask(fd, "COMMAND INFO nope\r\n", "*1\r\n$-1\r\n");
	ask(fd, "COMMAND DOCS nope\r\n", "*0\r\n");
	ask(fd, "COMMAND INFO KOVA.TAKE\r\n",
	    "*1\r\n*10\r\n$9\r\nkova.take\r\n:-3\r\n*3\r\n+fast\r\n+write\r\n+movablekeys\r\n"
	    ":2\r\n:2\r\n:1\r\n*1\r\n+@check\r\n*0\r\n*0\r\n*0\r\n");
	close(fd);
}

Test(front_resp, info_and_client_list)
{
	char want[64];

	snprintf(want, sizeof want, "kova_resp:127.0.0.1:%d\r\n", port);
	expect_part(dial(), "INFO\r\n", want);
	expect_part(dial(), "INFO\r\n", "kova_version:");
	expect_part(dial(), "INFO clients\r\n", "connected_clients:1\r\n");
	expect_part(dial(), "INFO nope\r\n", "$0\r\n\r\n");
	expect_part(dial(), "CLIENT LIST\r\n", "cmd=client user=default");
	expect_part(dial(), "CLIENT SETNAME joe\r\nCLIENT INFO\r\n", "name=joe");
	expect_part(dial(), "COMMAND LIST\r\n", "cl.throttle");
	expect_part(dial(), "COMMAND DOCS\r\n", "redis-cell");
}
