/* Listening addresses, unix sockets, the limit on clients, and tokens, by way of the RESP front. */
#include <criterion/criterion.h>
#include <sys/stat.h>

#include "fake_engine.h"
#include "front_fixture.h"
#include "front_resp.h"

static char directory[64], path[96];

static void make_directory(void)
{
	snprintf(directory, sizeof directory, "/tmp/kova-test-listener-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
}

static void remove_directory(void)
{
	(void)unlink(path);
	(void)rmdir(directory);
}

TestSuite(listener, .init = make_directory, .fini = remove_directory, .timeout = 60);

static struct listener *try_listen(const char *address, const char *error_has)
{
	struct buf error = {0};
	struct listener *l = listener_start(pool, address, &front_resp, false, &error);

	buf_add(&error, "", 1);
	if (error_has == NULL)
		cr_assert_not_null(l, "%s", error.ptr);
	else
		cr_assert(l == NULL && strstr(error.ptr, error_has) != NULL, "%s", error.ptr);
	buf_release(&error);
	return l;
}

Test(listener, bad_addresses_are_refused)
{
	static const char *const bad[] = {
		"",
		"7411",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:x",
		"127.0.0.1:-1",
		"127.0.0.1:65536",
		"example.com:80",
		"[::1:80",
		"[]:80",
		"::1:80",
		"unix:",
		":80",
		"127.1:80x",
		"[::1]80",
	};

	start_front(&front_resp, NULL, 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		(void)try_listen(bad[i], "is not an address");
	(void)try_listen(listener_address(listener), "address already in use");
	stop_front();
}

Test(listener, knows_what_is_local)
{
	cr_assert(listener_address_is_local("127.0.0.1:1"));
	cr_assert(listener_address_is_local("127.9.9.9:1"));
	cr_assert(listener_address_is_local("localhost:1"));
	cr_assert(listener_address_is_local("[::1]:1"));
	cr_assert(listener_address_is_local("unix:x"));
	cr_assert(listener_address_is_local("/x"));
	cr_assert(!listener_address_is_local("0.0.0.0:1"));
	cr_assert(!listener_address_is_local("10.0.0.1:1"));
	cr_assert(!listener_address_is_local("[::]:1"));
	cr_assert(!listener_address_is_local("nonsense"));
}

static int dial_unix(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

Test(listener, unix_socket)
{
	struct listener *l;
	struct stat st;
	char text[CONN_ADDRESS_MAX], want[128];
	int fd;

	start_front(&front_resp, NULL, 0);
	l = try_listen(path, NULL);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0660);
	fd = dial_unix();
	say(fd, "PING\r\n");
	expect(fd, "+PONG\r\n");
	snprintf(want, sizeof want, "unix:%s", path);
	conn_peer(first_conn(), text);
	cr_assert_str_eq(text, want);
	cr_assert_str_eq(listener_address(l), want);
	(void)try_listen(path, "another process listens there");
	cr_assert_eq(stat(path, &st), 0, "the socket in use is still there");
	listener_stop(l);
	cr_assert_neq(stat(path, &st), 0, "the socket file is left behind");
	close(fd);
	stop_front();
}

Test(listener, a_stale_socket_is_replaced_and_nothing_else)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	FILE *f;

	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	close(fd); /* the file stays, nobody listens */
	start_front(&front_resp, NULL, 0);
	listener_stop(try_listen(path, NULL));
	turn();
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fclose(f);
	(void)try_listen(path, "not a socket");
	stop_front();
}

Test(listener, a_path_that_is_too_long)
{
	char text[256];

	start_front(&front_resp, NULL, 0);
	memset(text, 'a', sizeof text - 1);
	text[0] = '/';
	text[sizeof text - 1] = '\0';
	(void)try_listen(text, "is not an address");
	stop_front();
}

/* A socket connected to [::1] at the port of `address`, or -1. */
static int dial_ipv6(const char *address)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin6_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
		close(fd);
		return -1;
	}
	cr_assert(fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

Test(listener, ipv6)
{
	struct buf error = {0};
	struct listener *l;
	char text[CONN_ADDRESS_MAX];
	int fd;

	start_front(&front_resp, NULL, 0);
	l = listener_start(pool, "[::1]:0", &front_resp, false, &error);
	if (l == NULL) { /* a machine without IPv6 */
		buf_release(&error);
		stop_front();
		return;
	}
	fd = dial_ipv6(listener_address(l));
	cr_assert_geq(fd, 0);
	say(fd, "PING\r\n");
	expect(fd, "+PONG\r\n");
	conn_peer(first_conn(), text);
	cr_assert_eq(strncmp(text, "[::1]:", 6), 0, "%s", text);
	conn_local(first_conn(), text);
	cr_assert_str_eq(text, listener_address(l));
	close(fd);
	listener_stop(l);
	stop_front();
}

Test(listener, localhost_is_both)
{
	char taken[CONN_ADDRESS_MAX], again[CONN_ADDRESS_MAX + 16];
	struct listener *l, *six;
	int fd;

	start_front(&front_resp, NULL, 0);
	l = try_listen("localhost:0", NULL);
	snprintf(taken, sizeof taken, "%s", listener_address(l));
	cr_assert_eq(strncmp(taken, "127.0.0.1:", 10), 0, "%s", taken);
	fd = dial_ipv6(taken);
	if (fd < 0) { /* a machine without IPv6 */
		listener_stop(l);
		stop_front();
		return;
	}
	say(fd, "PING\r\n");
	expect(fd, "+PONG\r\n");
	close(fd);
	listener_stop(l);
	turn();
	cr_assert_lt(dial_ipv6(taken), 0, "both are stopped");

	snprintf(again, sizeof again, "[::1]:%s", strrchr(taken, ':') + 1);
	six = try_listen(again, NULL);
	snprintf(again, sizeof again, "localhost:%s", strrchr(taken, ':') + 1);
	(void)try_listen(again, "address already in use on [::1]");
	turn();
	listener_stop(try_listen(taken, NULL));
	listener_stop(six);
	stop_front();
}

Test(listener, the_limit_on_clients)
{
	int a, b, c;

	start_front(&front_resp, NULL, 2);
	a = dial();
	b = dial();
	TURN_UNTIL(conn_pool_count(pool) == 2);
	c = dial();
	expect_end(c, "-ERR max number of clients reached\r\n");
	cr_assert_eq(conn_pool_counters(pool).refused_full, 1);
	close(c);
	close(a);
	TURN_UNTIL(conn_pool_count(pool) == 1);
	c = dial();
	say(c, "PING\r\n");
	expect(c, "+PONG\r\n");
	close(b);
	close(c);
	stop_front();
}

/* ---- Tokens ---- */

static void write_tokens(const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

static void ask(int fd, const char *command, const char *reply)
{
	say(fd, command);
	expect(fd, reply);
}

#define TAKEN "*6\r\n:1\r\n:%d\r\n:20\r\n:0\r\n:2001\r\n$2\r\nok\r\n"
#define NEEDS_TOKEN "-NOAUTH Authentication required.\r\n"
#define WRONG "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

Test(listener, nothing_without_a_token)
{
	int fd;

	write_tokens("worker s3cr3t-1 check\nops s3cr3t-2 admin\n");
	start_front(&front_resp, path, 0);
	fd = dial();
	ask(fd, "KOVA.TAKE a k\r\n", NEEDS_TOKEN);
	ask(fd, "PING\r\n", NEEDS_TOKEN);
	ask(fd, "INFO\r\n", NEEDS_TOKEN);
	ask(fd, "CLIENT LIST\r\n", NEEDS_TOKEN);
	say(fd, "HELLO 3\r\n");
	expect(fd, "-NOAUTH HELLO must be called with the client already authenticated, otherwise "
		   "the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the "
		   "client and select the RESP protocol version at the same time\r\n");
	ask(fd, "AUTH nonsense\r\n", WRONG);
	ask(fd, "AUTH ops s3cr3t-1\r\n", WRONG);
	ask(fd, "HELLO 3 AUTH default nonsense\r\n", WRONG);
	cr_assert_eq(fake.decided, 0);
	ask(fd, "AUTH s3cr3t-1\r\n", "+OK\r\n");
	ask(fd, "KOVA.RELEASE a k p\r\n", ":1\r\n");
	ask(fd, "RESET\r\n", "+RESET\r\n");
	ask(fd, "PING\r\n", NEEDS_TOKEN);
	ask(fd, "AUTH worker s3cr3t-1\r\n", "+OK\r\n");
	ask(fd, "AUTH default s3cr3t-1\r\n", "+OK\r\n");
	say(fd, "QUIT\r\n");
	expect_end(fd, "+OK\r\n");
	close(fd);
	stop_front();
}

Test(listener, scopes_and_revocation)
{
	struct buf error = {0};
	int fd;

	write_tokens("worker s3cr3t-1 check\nops s3cr3t-2 admin\n");
	start_front(&front_resp, path, 0);
	fd = dial();
	ask(fd, "AUTH s3cr3t-2\r\n", "+OK\r\n");
	ask(fd, "PING\r\n", "+PONG\r\n");
	ask(fd, "KOVA.TAKE a k\r\n",
	    "-NOPERM the token lacks the scope 'check', which 'kova.take' needs\r\n");
	ask(fd, "AUTH s3cr3t-1\r\n", "+OK\r\n");
	ask(fd, "KOVA.RELEASE a k p\r\n", ":1\r\n");
	write_tokens("ops s3cr3t-2 admin\n");
	cr_assert_eq(auth_reload(agent.auth, &(struct auth_terms){.tokens_file = path}, &error),
		     KOVA_OK);
	ask(fd, "KOVA.RELEASE a k p\r\n", NEEDS_TOKEN);
	close(fd);
	stop_front();
}

/* Who has shown no token can't make us hold a megabyte. */
Test(listener, little_is_held_for_strangers)
{
	int fd;
	char junk[20000];

	memset(junk, 'j', sizeof junk);
	write_tokens("s3cr3t-1\n");
	start_front(&front_resp, path, 0);
	fd = dial();
	say(fd, "*2\r\n$4\r\nAUTH\r\n$60000\r\n");
	say_bytes(fd, junk, sizeof junk);
	expect_end(fd, "-ERR Protocol error: too big before AUTH\r\n");
	close(fd);
	stop_front();
}
