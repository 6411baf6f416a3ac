/* The embedded Redis: it runs, keeps its data, comes back, and never outlives us. Mostly waits. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "io/redis_child.h"

enum {
	PATIENCE_MS = 20000,
	NOBODY = 0x3ffffffe, /* more than any process number */
};

static char directory[256];

struct outcome {
	int ready;
	kova_status status;
	char detail[256];
	int stopped;
};

static void on_ready(kova_status status, const char *detail, void *data)
{
	struct outcome *o = data;

	o->ready++;
	o->status = status;
	snprintf(o->detail, sizeof o->detail, "%s", detail);
}

static void on_stopped(void *data)
{
	((struct outcome *)data)->stopped++;
}

static void run_until(uv_loop_t *loop, const int *flag)
{
	uint64_t until = uv_hrtime() + PATIENCE_MS * UINT64_C(1000000);

	while (*flag == 0 && uv_hrtime() < until) {
		uv_run(loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	cr_assert(*flag > 0, "it did not happen in time");
}

static struct redis_child *start(uv_loop_t *loop, struct outcome *o)
{
	*o = (struct outcome){0};
	uv_loop_init(loop);
	struct redis_child *child = redis_child_start(loop, directory, on_ready, o);

	cr_assert_not_null(child);
	run_until(loop, &o->ready);
	return child;
}

static void stop(uv_loop_t *loop, struct redis_child *child, struct outcome *o)
{
	redis_child_stop(child, on_stopped, o);
	run_until(loop, &o->stopped);
	cr_assert_eq(o->ready, 1);
	cr_assert_eq(o->stopped, 1);
	cr_assert_eq(uv_loop_close(loop), 0);
}

static long long command(const struct redis_child *child, const char *text)
{
	redisContext *c = redisConnectUnix(redis_child_url(child) + strlen("unix:"));
	cr_assert(c != NULL && c->err == 0, "%s", c != NULL ? c->errstr : "out of memory");
	redisReply *reply = redisCommand(c, text);
	cr_assert_not_null(reply);
	cr_assert_eq(reply->type, REDIS_REPLY_INTEGER);
	long long n = reply->integer;
	freeReplyObject(reply);
	redisFree(c);
	return n;
}

/* Of the lock file: "agent server". */
static pid_t server_pid(void)
{
	char path[300];
	long agent = 0, server = 0;

	snprintf(path, sizeof path, "%s/redis/lock", directory);
	FILE *file = fopen(path, "r");
	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%ld %ld", &agent, &server), 2);
	fclose(file);
	return (pid_t)server;
}

static bool is_gone(pid_t pid)
{
	for (int i = 0; i < 500; i++) {
		if (kill(pid, 0) != 0 && errno == ESRCH)
			return true;
		usleep(10000);
	}
	return false;
}

static void set_up(void)
{
	signal(SIGPIPE, SIG_IGN);
	strcpy(directory, "/tmp/kova-child-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
}

static void tear_down(void)
{
	char line[400];

	snprintf(line, sizeof line, "rm -rf '%s'", directory);
	cr_assert_eq(system(line), 0);
}

TestSuite(redis_child, .init = set_up, .fini = tear_down);

Test(redis_child, keeps_its_data_and_its_directory_to_itself)
{
	struct outcome o;
	struct stat info;
	char path[300];
	uv_loop_t loop;

	struct redis_child *child = start(&loop, &o);
	cr_assert_eq(o.status, KOVA_OK, "%s", o.detail);
	cr_assert_eq(command(child, "INCR survives"), 1);
	snprintf(path, sizeof path, "%s/redis", directory);
	cr_assert_eq(stat(path, &info), 0);
	cr_assert_eq(info.st_mode & 0777, 0700);
	pid_t pid = server_pid();
	stop(&loop, child, &o);
	cr_assert(is_gone(pid));

	child = start(&loop, &o);
	cr_assert_eq(command(child, "INCR survives"), 2);
	stop(&loop, child, &o);
}

Test(redis_child, is_started_again_when_it_dies)
{
	struct outcome o;
	uv_loop_t loop;
	struct redis_child *child = start(&loop, &o);
	pid_t first = server_pid();

	cr_assert_eq(command(child, "INCR survives"), 1);
	cr_assert_eq(kill(first, SIGKILL), 0);
	for (int i = 0; i < 5000 && server_pid() == first; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	cr_assert_neq(server_pid(), first);
	for (int i = 0; i < 500; i++) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	cr_assert_eq(command(child, "INCR survives"), 2);
	stop(&loop, child, &o);
}

Test(redis_child, dies_with_a_killed_agent_and_the_next_one_starts)
{
	struct outcome o;
	uv_loop_t loop;
	char byte;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	pid_t agent = fork();
	if (agent == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		struct redis_child *child = start(&loop, &o);
		command(child, "INCR survives");
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			uv_run(&loop, UV_RUN_DEFAULT);
	}
	cr_assert_eq(read(fds[0], &byte, 1), 1);
	pid_t server = server_pid();
	kill(agent, SIGKILL);
	waitpid(agent, NULL, 0);
	cr_assert(is_gone(server), "redis-server outlives a killed agent");

	struct redis_child *child = start(&loop, &o);
	cr_assert_eq(o.status, KOVA_OK, "%s", o.detail);
	cr_assert_eq(command(child, "INCR survives"), 2);
	stop(&loop, child, &o);
}

Test(redis_child, a_server_left_behind_is_ended_first)
{
	struct outcome o;
	uv_loop_t loop;
	char path[300], text[64];

	/*
	 * As it would be if the kernel had not killed it: it holds the lock, and its agent is gone.
	 */
	snprintf(path, sizeof path, "%s/redis", directory);
	cr_assert_eq(mkdir(path, 0700), 0);
	pid_t server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = chdir(path) == 0 ? open("lock", O_RDWR | O_CREAT, 0600) : -1;
		int len = snprintf(text, sizeof text, "%d %d\n", NOBODY, (int)getpid());
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 ||
		    write(fd, text, (size_t)len) != len)
			_exit(1);
		execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", "redis.sock",
		       "--daemonize", "no", "--logfile", "/dev/null", "--save", "", NULL);
		_exit(1);
	}
	snprintf(path, sizeof path, "%s/redis/redis.sock", directory);
	for (int i = 0; i < 500 && access(path, F_OK) != 0; i++)
		usleep(10000);
	cr_assert_eq(access(path, F_OK), 0);

	struct redis_child *child = start(&loop, &o);
	cr_assert_eq(o.status, KOVA_OK, "%s", o.detail);
	cr_assert_eq(waitpid(server, NULL, 0), server);
	cr_assert_eq(command(child, "INCR n"), 1);
	stop(&loop, child, &o);
}

Test(redis_child, two_agents_do_not_share_a_directory)
{
	struct outcome a, b;
	uv_loop_t loop_a, loop_b;
	struct redis_child *first = start(&loop_a, &a);
	struct redis_child *second = start(&loop_b, &b);

	cr_assert_eq(b.status, KOVA_EIO);
	cr_assert(strstr(b.detail, "another agent") != NULL, "%s", b.detail);
	stop(&loop_b, second, &b);
	cr_assert_eq(command(first, "INCR n"), 1);
	stop(&loop_a, first, &a);
}

Test(redis_child, says_that_redis_server_is_missing)
{
	struct outcome o;
	uv_loop_t loop;

	setenv("PATH", "/nonexistent", 1);
	struct redis_child *child = start(&loop, &o);
	setenv("PATH", "/usr/bin:/bin", 1);
	cr_assert_eq(o.status, KOVA_ENOTFOUND);
	cr_assert(strstr(o.detail, "install Redis") != NULL, "%s", o.detail);
	stop(&loop, child, &o);
}

Test(redis_child, says_that_the_server_ended)
{
	struct outcome o;
	uv_loop_t loop;
	char line[600];

	snprintf(line, sizeof line, "mkdir -p '%s/redis' && touch '%s/redis/appendonlydir'",
		 directory, directory);
	cr_assert_eq(system(line), 0);
	struct redis_child *child = start(&loop, &o);
	cr_assert_eq(o.status, KOVA_EIO);
	cr_assert(strstr(o.detail, "status 1") != NULL, "%s", o.detail);
	stop(&loop, child, &o);
}

Test(redis_child, a_long_state_dir_is_no_obstacle)
{
	struct outcome o;
	uv_loop_t loop;
	char line[600], base[sizeof directory];

	strcpy(base, directory);
	memset(directory + strlen(directory), 0, 1);
	size_t len = strlen(directory);
	directory[len] = '/';
	memset(directory + len + 1, 'd', 120);
	directory[len + 121] = '\0';
	snprintf(line, sizeof line, "mkdir -p '%s'", directory);
	cr_assert_eq(system(line), 0);
	struct redis_child *child = start(&loop, &o);
	cr_assert_eq(o.status, KOVA_OK, "%s", o.detail);
	cr_assert_eq(command(child, "INCR n"), 1);
	stop(&loop, child, &o);
	strcpy(directory, base);
}
