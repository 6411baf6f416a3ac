/*
 * Other threads may hold any lock at the moment of fork(): between it and exec the child calls only
 * what is async-signal-safe (signal-safety(7)), and allocates nothing.
 * A pipe that exec closes tells how it went: nothing in it: well; an errno: not.
 */
#include "io/child_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_OTHER_FD = 3, PATH_BYTES = 4096 };

/* Finds the program before fork(): execvp() is not async-signal-safe. */
static bool find_program(const char *name, char *ret_path, size_t size)
{
	const char *path = getenv("PATH");
	size_t name_len = strlen(name);

	if (path == NULL)
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	while (*path != '\0') {
		size_t len = strcspn(path, ":");

		if (len > 0 && len + name_len + 2 <= size) {
			memcpy(ret_path, path, len);
			ret_path[len] = '/';
			memcpy(ret_path + len + 1, name, name_len + 1);
			if (access(ret_path, X_OK) == 0)
				return true;
		}
		path += len + (path[len] == ':');
	}
	return false;
}

/* Moves `fd` to `to`; closes on exec unless kept. */
static int place(int fd, int to)
{
	return fd == to ? fcntl(fd, F_SETFD, 0) : dup2(fd, to);
}

/* Descriptors of the child: 0–2 /dev/null, 3 the pipe (closed by exec), 4 `keep_fd`. */
static int arrange_descriptors(int keep_fd, int pipe_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* Above all places that are filled below, so that none is overwritten before it is used. */
	int high_pipe = fcntl(pipe_fd, F_DUPFD_CLOEXEC, FIRST_OTHER_FD + 2);
	int high_keep = keep_fd >= 0 ? fcntl(keep_fd, F_DUPFD_CLOEXEC, FIRST_OTHER_FD + 2) : -1;

	if (null < 0 || high_pipe < 0 || (keep_fd >= 0 && high_keep < 0))
		return -1;
	for (int fd = 0; fd < FIRST_OTHER_FD; fd++)
		if (place(null, fd) < 0)
			return -1;
	if (place(high_pipe, FIRST_OTHER_FD) < 0 || fcntl(FIRST_OTHER_FD, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	if (high_keep >= 0 && place(high_keep, FIRST_OTHER_FD + 1) < 0)
		return -1;
	/* A kernel that can't do it: ours close on exec anyway, and libraries' should. */
	return close_range(FIRST_OTHER_FD + (high_keep >= 0 ? 2U : 1U), ~0U, 0) != 0 &&
			       errno != ENOSYS
		       ? -1
		       : 0;
}

static void reset_signals(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &action, NULL); /* fails for SIGKILL and SIGSTOP: nothing to reset */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void run_child(const char *program, const char *const argv[],
						const char *directory, int keep_fd, int pipe_fd,
						pid_t parent)
{
	int report_fd = pipe_fd;

	reset_signals();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && chdir(directory) == 0 &&
	    setsid() >= 0 && arrange_descriptors(keep_fd, pipe_fd) == 0) {
		report_fd = FIRST_OTHER_FD;
		execv(program, (char *const *)argv);
	}
	int why = errno;
	ssize_t written = write(report_fd, &why, sizeof why);
	_exit(written == sizeof why ? 127 : 126);
}

/* What the child wrote: 0 when it was nothing. */
static int read_report(int fd)
{
	int why = 0;
	ssize_t n;

	do
		n = read(fd, &why, sizeof why);
	while (n < 0 && errno == EINTR);
	return n == 0 ? 0 : n == sizeof why ? why : EIO;
}

kova_status child_exec(const char *const argv[], const char *directory, int keep_fd, pid_t *ret_pid)
{
	char program[PATH_BYTES];
	int pipe_fds[2];
	pid_t parent = getpid();

	if (!find_program(argv[0], program, sizeof program))
		return KOVA_ENOTFOUND;
	if (pipe2(pipe_fds, O_CLOEXEC) != 0)
		return KOVA_EIO;
	pid_t pid = fork();
	if (pid == 0)
		run_child(program, argv, directory, keep_fd, pipe_fds[1], parent);
	int fork_error = errno;
	close(pipe_fds[1]);
	int why = pid < 0 ? fork_error : read_report(pipe_fds[0]);
	close(pipe_fds[0]);
	if (why != 0) {
		if (pid > 0)
			waitpid(pid, NULL, 0);
		errno = why;
		return KOVA_EIO;
	}
	*ret_pid = pid;
	return KOVA_OK;
}
