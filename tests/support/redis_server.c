#include "redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 32, START_TRIES = 1000 };

static void fail(const char *what)
{
	fprintf(stderr, "redis_server: %s: %s\n", what, strerror(errno));
	abort();
}

static void run(const struct redis_server *s, const char *const arguments[])
{
	const char *argv[ARGUMENTS_MAX + 12] = {
		"redis-server", "--port", "0",     "--unixsocket", s->socket_path, "--save", "",
		"--appendonly", "no",     "--dir", s->directory};
	int null = open("/dev/null", O_RDWR);

	for (size_t i = 0; arguments != NULL && arguments[i] != NULL && i < ARGUMENTS_MAX; i++)
		argv[11 + i] = arguments[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		_exit(126);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static int can_connect(const struct redis_server *s)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), result;

	if (fd < 0)
		fail("socket");
	strcpy(to.sun_path, s->socket_path);
	result = connect(fd, (const struct sockaddr *)&to, sizeof to);
	close(fd);
	return result == 0;
}

void redis_server_start(struct redis_server *s, const char *const arguments[])
{
	const struct timespec pause = {0, 10000000};

	strcpy(s->directory, "/tmp/kova-test-redis-XXXXXX");
	if (mkdtemp(s->directory) == NULL)
		fail("mkdtemp");
	snprintf(s->socket_path, sizeof s->socket_path, "%s/redis.sock", s->directory);
	s->pid = fork();
	if (s->pid < 0)
		fail("fork");
	if (s->pid == 0)
		run(s, arguments);
	for (int i = 0; i < START_TRIES; i++) {
		if (can_connect(s))
			return;
		if (waitpid(s->pid, NULL, WNOHANG) != 0)
			fail("redis-server ended (is it installed?)");
		nanosleep(&pause, NULL);
	}
	fail("redis-server does not answer");
}

void redis_server_stop(struct redis_server *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	unlink(s->socket_path);
	rmdir(s->directory);
}
