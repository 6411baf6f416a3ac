/*
 * Every allocation of the store fails once, each in a run of its own: the store can't be made, or
 * each call ends exactly once and it works again afterwards; nothing leaks. The program replaces
 * malloc() (glibc manual, "Replacing malloc"), which sanitizers do as well: under them it is
 * skipped. Mostly waits.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "failing_malloc.h"
#include "io/log.h"
#include "io/redis_store.h"
#include "redis_group.h"

#ifdef SANITIZED
int main(void)
{
	puts("SKIPPED: a sanitizer has replaced malloc()");
	return 77;
}
#else

enum { CALLS = 6, PATIENCE_MS = 5000, RUN_MS = 40 };

static long nth;

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "allocation %ld: line %d: %s\n", nth, __LINE__, \
				#condition);                                            \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

static struct redis_store *store;
static unsigned ended[CALLS + 1];
static kova_status last;

static void on_reply(kova_status status, const struct redisReply *reply, void *data)
{
	(void)reply;
	++*(unsigned *)data;
	last = status;
}

static void on_changed(unsigned shard, bool up, const char *why, void *data)
{
	(void)shard;
	(void)up;
	(void)why;
	(void)data;
}

static void on_tick(uv_timer_t *tick)
{
	(void)tick;
}

/*
 * libuv ends the process when it can't remember a descriptor: it is made to remember many before.
 */
static void make_room(uv_loop_t *loop)
{
	uv_poll_t poll;
	int fds[2];

	CHECK(pipe(fds) == 0);
	int high = fcntl(fds[0], F_DUPFD, 100);
	CHECK(high >= 100 && uv_poll_init(loop, &poll, high) == 0);
	uv_poll_start(&poll, UV_READABLE, NULL);
	uv_poll_stop(&poll);
	uv_close((uv_handle_t *)&poll, NULL);
	uv_run(loop, UV_RUN_NOWAIT);
	close(high);
	close(fds[0]);
	close(fds[1]);
}

static bool is_up(void)
{
	return redis_store_up(store, redis_store_shard(store, 0));
}

static void run_until_up(uv_loop_t *loop, uint64_t patience_ms)
{
	for (uint64_t until = uv_hrtime() + patience_ms * 1000000; !is_up() && uv_hrtime() < until;)
		uv_run(loop, UV_RUN_ONCE);
}

static void run_for(uv_loop_t *loop, uint64_t ms)
{
	for (uint64_t until = uv_hrtime() + ms * 1000000; uv_hrtime() < until;)
		uv_run(loop, UV_RUN_ONCE);
}

static void ask(unsigned n)
{
	redis_store_call(store, 0, SLICE("*1\r\n$4\r\nPING\r\n"), on_reply, &ended[n]);
}

static void use(uv_loop_t *loop)
{
	run_until_up(loop, RUN_MS);
	for (unsigned i = 0; i < CALLS; i++) {
		ask(i);
		if (i == CALLS / 2)
			redis_store_reset(store, 0, "once");
		run_for(loop, 2);
	}
}

static void recover(uv_loop_t *loop)
{
	run_until_up(loop, PATIENCE_MS);
	CHECK(is_up());
	ask(CALLS);
	run_for(loop, 50);
	CHECK(last == KOVA_OK);
	for (unsigned i = 0; i <= CALLS; i++)
		CHECK(ended[i] == 1);
}

/* False: the allocation that was to fail was never made. */
static bool run_with(const struct redis_conf *conf)
{
	uv_loop_t loop;
	uv_timer_t tick;

	memset(ended, 0, sizeof ended);
	uv_loop_init(&loop);
	make_room(&loop);
	uv_timer_init(&loop, &tick);
	uv_timer_start(&tick, on_tick, 1, 1);
	long before = live;

	left = nth;
	store = redis_store_new(&loop, conf, on_changed, NULL);
	if (store != NULL)
		use(&loop);
	bool reached = left < 0;
	left = -1;
	CHECK(store != NULL || reached);
	if (store != NULL) {
		recover(&loop);
		redis_store_close(store, NULL, NULL);
	}
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&loop) == 0);
	if (live > before)
		fprintf(stderr, "%ld blocks are left\n", live - before);
	CHECK(live <= before);
	return reached;
}

static void run_all(const struct redis_conf *conf, const char *what)
{
	nth = -1;
	run_with(conf); /* what is allocated once in the life of a process */
	for (nth = 0; run_with(conf); nth++)
		;
	printf("%s: %ld allocations\n", what, nth);
	CHECK(nth > 20);
}

int main(void)
{
	static struct redis_node node, cluster;
	char url[64], address[32], *addresses[] = {address};

	signal(SIGPIPE, SIG_IGN);
	log_event(LOG_INFO, "test", "what the first line allocates stays");
	redis_node_start(&node, NULL, NULL);
	snprintf(url, sizeof url, "redis://:none@127.0.0.1:%u/1", node.port);
	redis_node_command(&node, "CONFIG SET requirepass none");
	struct redis_conf conf = {
		.mode = REDIS_STANDALONE, .url = url, .timeout_ms = 200, .connect_timeout_ms = 500};
	run_all(&conf, "standalone");
	redis_node_end(&node);

	redis_cluster_start(&cluster, 1);
	snprintf(address, sizeof address, "127.0.0.1:%u", cluster.port);
	conf = (struct redis_conf){.mode = REDIS_CLUSTER,
				   .addresses = addresses,
				   .n_addresses = 1,
				   .timeout_ms = 200,
				   .connect_timeout_ms = 500};
	run_all(&conf, "cluster");
	redis_node_end(&cluster);
	return 0;
}
#endif
