#include "io/redis_child_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "io/log.h"

enum { PATH_BYTES = 4096 };

static bool is_alive(pid_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH;
}

/*
 * The numbers of processes are used again: it has to be a redis-server, and to work in that
 * directory.
 */
static bool is_server_of(pid_t pid, const char *directory)
{
	char path[64], text[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%ld/cwd", (long)pid);
	ssize_t n = readlink(path, text, sizeof text - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	if (strcmp(text, directory) != 0)
		return false;

	snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return false;
	bool read = fgets(text, sizeof text, file) != NULL;
	fclose(file);
	return read && strncmp(text, "redis-", strlen("redis-")) == 0;
}

/* What redis_child_lock_note() wrote. */
static bool read_note(int fd, long *ret_agent, long *ret_server)
{
	char text[64];
	long agent, server;

	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	if (n <= 0)
		return false;
	text[n] = '\0';
	if (sscanf(text, "%ld %ld", &agent, &server) != 2 || agent <= 0 || server <= 1)
		return false;
	*ret_agent = agent;
	*ret_server = server;
	return true;
}

static void end_leftover(int fd, const char *directory)
{
	long agent, server;

	if (!read_note(fd, &agent, &server))
		return;
	if (is_alive((pid_t)agent) || !is_server_of((pid_t)server, directory))
		return;
	log_event(LOG_WARN, "redis_child", "ending a redis-server whose agent is gone",
		  LOG_INT_FIELD("pid", server));
	kill((pid_t)server, SIGTERM);
}

/* -1: errno says why. */
static int open_lock(const char *directory, int flags)
{
	char path[PATH_BYTES];

	int len = snprintf(path, sizeof path, "%s/lock", directory);
	if (len < 0 || (size_t)len >= sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

kova_status redis_child_lock(const char *directory, int *ret_fd)
{
	int fd = open_lock(directory, O_RDWR | O_CREAT);

	if (fd < 0)
		return KOVA_EIO;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		*ret_fd = fd;
		return KOVA_OK;
	}
	int why = errno;
	if (why == EWOULDBLOCK)
		end_leftover(fd, directory);
	close(fd);
	errno = why;
	return why == EWOULDBLOCK ? KOVA_AGAIN : KOVA_EIO;
}

pid_t redis_child_lock_holder(const char *directory)
{
	long agent = 0, server;
	int fd = open_lock(directory, O_RDONLY);

	if (fd < 0)
		return 0;
	if (!read_note(fd, &agent, &server) || !is_alive((pid_t)agent))
		agent = 0;
	close(fd);
	return (pid_t)agent;
}

void redis_child_lock_note(int fd, pid_t server)
{
	char text[64];
	int len = snprintf(text, sizeof text, "%ld %ld\n", (long)getpid(), (long)server);

	if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)len, 0) != len)
		log_event(LOG_WARN, "redis_child", "the lock file can't be written",
			  LOG_TEXT_FIELD("why", strerror(errno)));
}
