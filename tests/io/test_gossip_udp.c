/* Gossip over sockets: nodes on one loop, and a stranger with a socket of its own who forges, repeats and listens. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#include "core/gossip_bulk.h"
#include "gossip_fixture.h"
#include "io/gossip_stream.h"
#include "io/gossip_udp.h"

enum { KEPT = 4096 };

struct node {
	struct gossip_udp *u;
	struct gossip_item *kept[KEPT];
	unsigned n_kept;
};

static uv_loop_t loop;
static unsigned n_closed;

static void came(void *data, const struct gossip_item *item)
{
	struct node *n = data;
	const void *was;

	cr_assert_lt(n->n_kept, KEPT);
	n->kept[n->n_kept] = fixture_keep(item);
	cr_assert_eq(gossip_put(gossip_udp_core(n->u), n->kept[n->n_kept++], true, &was), KOVA_OK);
}

static void member(void *data, const struct gossip_member *m, enum gossip_state was)
{
	(void)data;
	(void)m;
	(void)was;
}

static struct gossip_keys *keys_of(const char *secrets)
{
	char path[] = "/tmp/kova-keys-XXXXXX";
	int fd = mkstemp(path);
	struct gossip_keys *keys = NULL;
	struct buf errors = {0};

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, secrets, strlen(secrets)), (ssize_t)strlen(secrets));
	close(fd);
	cr_assert_eq(gossip_keys_load(path, &keys, &errors), KOVA_OK);
	unlink(path);
	buf_release(&errors);
	return keys;
}

static void start(struct node *n, const char *name, const char *seed, const char *secrets)
{
	struct gossip_udp_conf conf = {
		.core = {.name = slice_of(name), .region = SLICE("r"), .max_skew_ms = 250},
		.listen = "127.0.0.1:0",
		.seeds = &seed,
		.n_seeds = seed != NULL,
		.epoch = 1};
	struct gossip_owner owner = {
		.read = fixture_read, .came = came, .member = member, .data = n};
	struct buf error = {0};

	/* The port that the system chose for UDP may be taken for TCP. */
	for (int tries = 0; tries < 20 && n->u == NULL; tries++) {
		conf.keys = keys_of(secrets);
		n->u = gossip_udp_start(&loop, &conf, &owner, &error);
	}
	cr_assert_not_null(n->u, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
}

static void on_closed(void *data)
{
	(void)data;
	n_closed++;
}

static void stop(struct node *n)
{
	unsigned before = n_closed;

	gossip_udp_close(n->u, on_closed, NULL);
	while (n_closed == before)
		uv_run(&loop, UV_RUN_ONCE);
	for (unsigned i = 0; i < n->n_kept; i++)
		free(n->kept[i]);
	n->n_kept = 0;
}

static void on_tick(uv_timer_t *t)
{
	(void)t;
}

/* Runs the loop until `done`, at most 10 s. */
static bool run_until(bool (*done)(const void *), const void *data)
{
	uint64_t until = uv_hrtime() + UINT64_C(10000000000);
	uv_timer_t tick;

	uv_timer_init(&loop, &tick);
	uv_timer_start(&tick, on_tick, 1, 1);
	while (!done(data) && uv_hrtime() < until)
		uv_run(&loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&loop, UV_RUN_NOWAIT);
	return done(data);
}

static uint64_t rejected(const struct node *n, enum gossip_rejection why)
{
	uint64_t counts[GOSSIP_REJECTED_REASONS];

	gossip_udp_rejected(n->u, counts);
	return counts[why];
}

static bool knows_one(const void *data)
{
	return gossip_members(gossip_udp_core(((const struct node *)data)->u))->n_alive == 1;
}

static bool refused_a_key(const void *data)
{
	return rejected(data, GOSSIP_REJECTED_HMAC) > 0;
}

static struct gossip_item item_of(char *id, size_t size, unsigned i)
{
	return (struct gossip_item){.id = {id, (size_t)snprintf(id, size, "p%u", i)},
				    .value = SLICE("{\"limit\":1}"),
				    .who = SLICE("local"),
				    .writer = SLICE("a"),
				    .stamp = 1000 + i};
}

static bool has_all(const void *data)
{
	return gossip_n_items(gossip_udp_core(((const struct node *)data)->u)) == KEPT;
}

static void open_loop(void)
{
	uv_loop_init(&loop);
}

static void close_loop(void)
{
	cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
	cr_expect_eq(uv_loop_close(&loop), 0, "something is open still");
}

TestSuite(gossip_udp, .init = open_loop, .fini = close_loop, .timeout = 60);

Test(gossip_udp, one_who_joins_gets_everything_from_one_seed)
{
	static struct node a, b;
	char seed[GOSSIP_ADDRESS_TEXT], id[16];

	start(&a, "a", NULL, "0123456789abcdef\n");
	for (unsigned i = 0; i < KEPT; i++) {
		struct gossip_item item = item_of(id, sizeof id, i);

		came(&a, &item);
	}
	snprintf(seed, sizeof seed, "%s", gossip_udp_address(a.u));
	start(&b, "b", seed, "0123456789abcdef\n");
	cr_expect(run_until(has_all, &b), "it has %zu", gossip_n_items(gossip_udp_core(b.u)));
	cr_expect_eq(gossip_digest(gossip_udp_core(a.u)), gossip_digest(gossip_udp_core(b.u)));
	stop(&a);
	stop(&b);
}

Test(gossip_udp, who_has_another_secret_changes_nothing)
{
	static struct node a, b;
	char seed[GOSSIP_ADDRESS_TEXT], id[16];

	start(&a, "a", NULL, "0123456789abcdef\n");
	snprintf(seed, sizeof seed, "%s", gossip_udp_address(a.u));
	start(&b, "b", seed, "0123456789abcdeF\n");
	struct gossip_item item = item_of(id, sizeof id, 1);

	came(&b, &item);
	cr_expect(run_until(refused_a_key, &a));
	cr_expect_eq(gossip_members(gossip_udp_core(a.u))->n, 0);
	cr_expect_eq(gossip_n_items(gossip_udp_core(a.u)), 0);
	stop(&a);
	stop(&b);
}

/* The new secret goes behind the old one everywhere, then before it, then the old one goes. */
Test(gossip_udp, secrets_change_step_by_step)
{
	static struct node a, b;
	char seed[GOSSIP_ADDRESS_TEXT];

	start(&a, "a", NULL, "# old first\nold-old-old-old-old\nnew-new-new-new-new\n");
	snprintf(seed, sizeof seed, "%s", gossip_udp_address(a.u));
	start(&b, "b", seed, "new-new-new-new-new\nold-old-old-old-old\n");
	cr_expect(run_until(knows_one, &a));
	cr_expect(run_until(knows_one, &b));
	gossip_udp_set_keys(a.u, keys_of("new-new-new-new-new\n"));
	gossip_udp_set_keys(b.u, keys_of("other-other-other-other\n"));
	cr_expect(run_until(refused_a_key, &a));
	stop(&a);
	stop(&b);
}

/* ---- A stranger ---- */

struct stranger {
	uv_udp_t udp;
	char heard[2048];
	size_t len;
};

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *b)
{
	struct stranger *s = h->data;

	(void)suggested;
	*b = uv_buf_init(s->heard, s->len == 0 ? sizeof s->heard : 0);
}

static void on_heard(uv_udp_t *h, ssize_t n, const uv_buf_t *b, const struct sockaddr *from,
		     unsigned flags)
{
	struct stranger *s = h->data;

	(void)b;
	(void)flags;
	if (n > 0 && from != NULL)
		s->len = (size_t)n;
}

static bool has_heard(const void *data)
{
	return ((const struct stranger *)data)->len > 0;
}

static void send_to(struct stranger *s, const struct node *n, const char *bytes, size_t len)
{
	struct sockaddr_in to;
	const char *colon = strrchr(gossip_udp_address(n->u), ':');
	uv_buf_t b = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);

	uv_ip4_addr("127.0.0.1", atoi(colon + 1), &to);
	cr_assert_eq(uv_udp_try_send(&s->udp, &b, 1, (struct sockaddr *)&to), (int)len);
	for (int i = 0; i < 20; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

Test(gossip_udp, what_was_heard_is_taken_once_and_only_as_it_was)
{
	static struct node a, b;
	static struct stranger s;
	struct sockaddr_in here;
	char seed[GOSSIP_ADDRESS_TEXT];
	int size = sizeof here;

	uv_udp_init(&loop, &s.udp);
	s.udp.data = &s;
	uv_ip4_addr("127.0.0.1", 0, &here);
	cr_assert_eq(uv_udp_bind(&s.udp, (struct sockaddr *)&here, 0), 0);
	cr_assert_eq(uv_udp_getsockname(&s.udp, (struct sockaddr *)&here, &size), 0);
	uv_udp_recv_start(&s.udp, on_alloc, on_heard);
	snprintf(seed, sizeof seed, "127.0.0.1:%u", ntohs(here.sin_port));
	start(&a, "a", NULL, "0123456789abcdef\n");
	start(&b, "b", seed, "0123456789abcdef\n");
	cr_assert(run_until(has_heard, &s), "b does not ask its seed");

	for (size_t i = 0; i < s.len; i++) {
		uint64_t before = rejected(&a, GOSSIP_REJECTED_HMAC) +
				  rejected(&a, GOSSIP_REJECTED_VERSION) +
				  rejected(&a, GOSSIP_REJECTED_MALFORMED);

		if (i % 7 != 0 && i > 20)
			continue;
		s.heard[i] ^= 1;
		send_to(&s, &a, s.heard, s.len);
		s.heard[i] ^= 1;
		cr_expect_eq(rejected(&a, GOSSIP_REJECTED_HMAC) +
				     rejected(&a, GOSSIP_REJECTED_VERSION) +
				     rejected(&a, GOSSIP_REJECTED_MALFORMED),
			     before + 1, "byte %zu", i);
	}
	cr_expect_eq(gossip_members(gossip_udp_core(a.u))->n, 0, "a forged one counts");
	send_to(&s, &a, s.heard, s.len);
	cr_expect_eq(gossip_members(gossip_udp_core(a.u))->n_alive, 1);
	cr_expect_eq(rejected(&a, GOSSIP_REJECTED_REPLAY), 0);
	send_to(&s, &a, s.heard, s.len);
	cr_expect_eq(rejected(&a, GOSSIP_REJECTED_REPLAY), 1);
	uv_close((uv_handle_t *)&s.udp, NULL);
	stop(&a);
	stop(&b);
}

/* Asks for everything by a stream, with a tag that is none. */
Test(gossip_udp, who_has_no_secret_gets_nothing_by_a_stream)
{
	enum { HELLO = 20, FRAME = 4 + GOSSIP_PULL_BYTES + GOSSIP_TAG_BYTES };
	static struct node a;
	static char said[HELLO + FRAME], heard[4096];
	char id[16];
	struct sockaddr_in to;
	ssize_t n, len = 0;

	start(&a, "a", NULL, "0123456789abcdef\n");
	struct gossip_item item = item_of(id, sizeof id, 1);

	came(&a, &item);
	memcpy(said, "KGS\x01", 4);
	memcpy(said + HELLO, "\x00\x00\x80", 3);
	uv_ip4_addr("127.0.0.1", atoi(strrchr(gossip_udp_address(a.u), ':') + 1), &to);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	cr_assert_eq(write(fd, said, sizeof said), (ssize_t)sizeof said);
	cr_expect(run_until(refused_a_key, &a));
	for (int i = 0; i < 20; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	while ((n = read(fd, heard + len, sizeof heard - (size_t)len)) > 0)
		len += n;
	cr_expect_eq(len, HELLO, "it has heard %zd bytes", len);
	close(fd);
	stop(&a);
}

Test(gossip_udp, strangers_that_say_nothing_keep_no_member_out)
{
	enum { STRANGERS = 16 };
	static struct node a, b;
	char seed[GOSSIP_ADDRESS_TEXT], id[16], byte;
	struct sockaddr_in to;
	int fd[STRANGERS], open = 0;

	start(&a, "a", NULL, "0123456789abcdef\n");
	for (unsigned i = 0; i < KEPT; i++) {
		struct gossip_item item = item_of(id, sizeof id, i);

		came(&a, &item);
	}
	snprintf(seed, sizeof seed, "%s", gossip_udp_address(a.u));
	uv_ip4_addr("127.0.0.1", atoi(strrchr(seed, ':') + 1), &to);
	for (int i = 0; i < STRANGERS; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		cr_assert_eq(connect(fd[i], (struct sockaddr *)&to, sizeof to), 0);
	}
	for (int i = 0; i < STRANGERS; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	start(&b, "b", seed, "0123456789abcdef\n");
	cr_expect(run_until(has_all, &b), "it has %zu", gossip_n_items(gossip_udp_core(b.u)));
	for (int i = 0; i < STRANGERS; i++) {
		open += recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
		close(fd[i]);
	}
	cr_expect_geq(open, STRANGERS / 2, "b had to wait until %d of them had gone",
		      STRANGERS - open);
	cr_expect_gt(rejected(&a, GOSSIP_REJECTED_OVERFLOW), 0);
	stop(&a);
	stop(&b);
}

/* ---- A server that is none: it says hello, and then a byte from time to time ---- */

struct dribbler {
	int fd;
	uint64_t next_ns;
};

static bool is_left(const void *data)
{
	struct dribbler *d = (struct dribbler *)(uintptr_t)data;
	char heard[4096];
	ssize_t n;

	if (uv_hrtime() >= d->next_ns) {
		(void)send(d->fd, "", 1, MSG_NOSIGNAL);
		d->next_ns = uv_hrtime() + UINT64_C(500000000);
	}
	while ((n = recv(d->fd, heard, sizeof heard, MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno == ECONNRESET;
}

static void ignore_part(void *data, struct slice part)
{
	(void)data;
	(void)part;
}

static void ignore_rejection(void *data, enum gossip_rejection why)
{
	(void)data;
	(void)why;
}

static const struct gossip_keys *own_keys(void *data)
{
	return data;
}

Test(gossip_udp, a_server_that_dribbles_is_left)
{
	static struct node a;
	struct gossip_keys *keys = keys_of("0123456789abcdef\n");
	struct sockaddr_in any, to;
	socklen_t len = sizeof to;
	struct gossip_streams *streams;
	struct dribbler d = {0};
	unsigned before = n_closed;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	uv_ip4_addr("127.0.0.1", 0, &any);
	cr_assert_eq(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	start(&a, "a", NULL, "0123456789abcdef\n");
	const struct gossip_stream_user user = {.loop = &loop,
						.core = gossip_udp_core(a.u),
						.part = ignore_part,
						.reject = ignore_rejection,
						.keys = own_keys,
						.data = keys};

	cr_assert_eq(gossip_streams_open(&user, (struct sockaddr *)&any, &streams), 0);
	gossip_streams_pull(streams, (struct sockaddr *)&to);
	uv_run(&loop, UV_RUN_NOWAIT);
	d.fd = accept(listener, NULL, NULL);
	cr_assert_eq(send(d.fd, "KGS\x01nonce of 16 bytes", 20, MSG_NOSIGNAL), 20);
	cr_expect(run_until(is_left, &d), "it waits for the end of a frame for ever");
	gossip_streams_close(streams, on_closed, NULL);
	while (n_closed == before)
		uv_run(&loop, UV_RUN_ONCE);
	close(d.fd);
	close(listener);
	gossip_keys_free(keys);
	stop(&a);
}

Test(gossip_udp, a_secret_has_to_be_long_enough)
{
	struct gossip_keys *keys = NULL;
	struct buf errors = {0};

	cr_expect_eq(gossip_keys_load("tests/io/test_gossip_udp.c", &keys, &errors), KOVA_ECONFIG);
	cr_expect(strstr(errors.ptr, "16 to 256 bytes") != NULL || errors.len > 0);
	buf_release(&errors);
	cr_expect_eq(gossip_keys_load("/nowhere", &keys, &errors), KOVA_ECONFIG);
	buf_release(&errors);
	cr_expect_eq(gossip_keys_load(NULL, &keys, &errors), KOVA_OK);
	gossip_keys_free(keys);
}
