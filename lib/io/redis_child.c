/*
 * Happy path: lock the directory → start redis-server → a link comes up → on_ready → running →
 * stop: SIGTERM → it ends → on_stopped.
 * The directory is locked by another: tried again for a while (a server that was left behind is
 * told to end), then on_ready with KOVA_EIO. The program is missing, or ends before it answers:
 * on_ready with why. It ends later: started again after a back-off. It does not end when it should:
 * SIGKILL. It can't outlive us: see child_exec.h.
 */
#include "io/redis_child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/backoff.h"
#include "core/buf.h"
#include "core/redis_url.h"
#include "io/child_exec.h"
#include "io/log.h"
#include "io/redis_child_lock.h"
#include "io/redis_link.h"
#include "io/redis_store.h"

#define DIRECTORY_NAME "redis" /* in the state directory */
#define SOCKET_NAME "redis.sock"

enum {
	LOCK_WAIT_MS = 5000,
	LOCK_POLL_MS = 50,
	READY_MS = 120000, /* a large append-only file takes a while to load */
	STOP_MS = 10000,
	RESTART_MIN_MS = 100,
	RESTART_MAX_MS = 5000,
	PROBE_TIMEOUT_MS = 1000,
};

enum child_state {
	CHILD_LOCKING,
	CHILD_STARTING, /* runs, has not answered yet */
	CHILD_RUNNING,
	CHILD_RESTARTING, /* ended; the timer runs */
	CHILD_FAILED,     /* on_ready has said so */
	CHILD_STOPPING,
};

struct redis_child {
	uv_loop_t *loop;
	uv_timer_t timer;
	uv_signal_t child_signal;
	unsigned parts_open;
	enum child_state state;
	char *directory;           /* absolute; owned */
	int directory_fd, lock_fd; /* -1: none */
	pid_t pid;                 /* 0: none runs */
	uint64_t lock_until_ms;
	bool lock_awaited;
	struct backoff restart;
	struct redis_link *link;        /* while it has not answered */
	struct redis_counters counters; /* of that link: of no interest */
	char url[sizeof "unix:" + REDIS_UNIX_PATH_MAX];
	redis_child_ready *on_ready; /* NULL: was called */
	void *data;
	void (*on_stopped)(void *data);
	void *stopped_data;
};

static void on_timer(uv_timer_t *timer);

/* ---- the end of it all ---- */

static void child_free(struct redis_child *child)
{
	if (child->directory_fd >= 0)
		close(child->directory_fd);
	if (child->lock_fd >= 0)
		close(child->lock_fd);
	free(child->directory);
	free(child);
}

static void on_part_closed(void *data)
{
	struct redis_child *child = data;

	assert(child->parts_open > 0);
	if (--child->parts_open > 0)
		return;
	void (*on_stopped)(void *) = child->on_stopped;
	void *stopped_data = child->stopped_data;
	child_free(child);
	if (on_stopped != NULL)
		on_stopped(stopped_data);
}

static void on_handle_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

static void close_link(struct redis_child *child)
{
	if (child->link == NULL)
		return;
	redis_link_close(child->link, on_part_closed, child);
	child->link = NULL;
}

static void close_all(struct redis_child *child)
{
	close_link(child);
	uv_close((uv_handle_t *)&child->timer, on_handle_closed);
	uv_close((uv_handle_t *)&child->child_signal, on_handle_closed);
}

/* ---- starting ---- */

static void say_ready(struct redis_child *child, kova_status status, const char *detail)
{
	redis_child_ready *on_ready = child->on_ready;

	assert(on_ready != NULL);
	child->on_ready = NULL;
	child->state = status == KOVA_OK ? CHILD_RUNNING : CHILD_FAILED;
	uv_timer_stop(&child->timer);
	on_ready(status, detail, child->data);
}

static void on_link_changed(bool up, const char *why, void *data)
{
	struct redis_child *child = data;

	(void)why;
	if (!up || child->state != CHILD_STARTING)
		return;
	close_link(child);
	log_event(LOG_INFO, "redis_child", "the embedded redis-server is running",
		  LOG_INT_FIELD("pid", child->pid));
	if (child->on_ready != NULL)
		say_ready(child, KOVA_OK, "running");
	else
		child->state = CHILD_RUNNING;
}

static bool watch_until_up(struct redis_child *child)
{
	const struct redis_link_options options = {
		.path = child->url + strlen("unix:"),
		.timeout_ms = PROBE_TIMEOUT_MS,
		.connect_timeout_ms = PROBE_TIMEOUT_MS,
		.counters = &child->counters,
		.on_changed = on_link_changed,
		.data = child,
	};

	close_link(child);
	child->link = redis_link_new(child->loop, &options);
	if (child->link == NULL)
		return false;
	child->parts_open++;
	return true;
}

/* Why it could not be started. */
static const char *start_error(kova_status status)
{
	if (status == KOVA_ENOTFOUND)
		return "there is no program `redis-server` in PATH: install Redis (Debian: "
		       "redis-server), or set "
		       "redis.mode to `standalone`";
	return status == KOVA_ENOMEM ? "out of memory" : strerror(errno);
}

static kova_status start_server(struct redis_child *child)
{
	/* Relative: a unix socket's path is short, a state directory's need not be. */
	const char *const argv[] = {"redis-server",
				    "--port",
				    "0",
				    "--unixsocket",
				    SOCKET_NAME,
				    "--unixsocketperm",
				    "700",
				    "--dir",
				    ".",
				    "--appendonly",
				    "yes",
				    "--appendfsync",
				    "everysec",
				    "--save",
				    "",
				    "--daemonize",
				    "no",
				    "--databases",
				    "1",
				    "--logfile",
				    "redis.log",
				    NULL};

	kova_status status = child_exec(argv, child->directory, child->lock_fd, &child->pid);
	if (status != KOVA_OK)
		return status;
	redis_child_lock_note(child->lock_fd, child->pid);
	child->state = CHILD_STARTING;
	if (!watch_until_up(child))
		return KOVA_ENOMEM;
	if (child->on_ready != NULL)
		uv_timer_start(&child->timer, on_timer, READY_MS, 0);
	return KOVA_OK;
}

static void start_again(struct redis_child *child)
{
	child->state = CHILD_RESTARTING;
	uv_timer_start(&child->timer, on_timer, backoff_next(&child->restart), 0);
}

/* Who has the directory, and what to do. NULL: memory is out. */
static const char *locked_text(const struct redis_child *child, struct buf *b)
{
	long holder = (long)redis_child_lock_holder(child->directory);

	buf_printf(b, "another agent uses this state_dir, %.*s",
		   (int)(strlen(child->directory) - strlen("/" DIRECTORY_NAME)), child->directory);
	if (holder > 0)
		buf_printf(b, " (pid %ld)", holder);
	buf_printf(b, ": stop it, or set another `state_dir` and other addresses in `listen`");
	buf_add(b, "", 1);
	return buf_failed(b) ? NULL : b->ptr;
}

/* It may be about to end, as when a new agent is started while the old one drains. */
static void await_lock(struct redis_child *child)
{
	struct buf b = {0};

	if (uv_now(child->loop) >= child->lock_until_ms) {
		say_ready(child, KOVA_EIO, locked_text(child, &b));
	} else {
		if (!child->lock_awaited)
			log_event(LOG_WARN, "redis_child",
				  "waiting for who uses this state_dir, 5 s at most",
				  LOG_TEXT_FIELD("why", locked_text(child, &b)));
		child->lock_awaited = true;
		uv_timer_start(&child->timer, on_timer, LOCK_POLL_MS, 0);
	}
	buf_release(&b);
}

static void try_lock(struct redis_child *child)
{
	kova_status status = redis_child_lock(child->directory, &child->lock_fd);

	if (status == KOVA_AGAIN) {
		await_lock(child);
		return;
	}
	if (status == KOVA_OK)
		status = start_server(child);
	if (status != KOVA_OK)
		say_ready(child, status, start_error(status));
}

/* ---- time passes, children end ---- */

static void on_timer(uv_timer_t *timer)
{
	struct redis_child *child = timer->data;

	switch (child->state) {
	case CHILD_LOCKING:
		try_lock(child);
		break;
	case CHILD_STARTING:
		say_ready(
			child, KOVA_EIO,
			"redis-server does not answer; see redis/redis.log in the state directory");
		break;
	case CHILD_RESTARTING:
		if (start_server(child) != KOVA_OK && child->pid == 0) {
			log_event(LOG_ERROR, "redis_child",
				  "the embedded redis-server can't be started again");
			start_again(child);
		}
		break;
	case CHILD_STOPPING:
		log_event(LOG_WARN, "redis_child",
			  "the embedded redis-server does not end: killed");
		kill(child->pid, SIGKILL);
		break;
	case CHILD_RUNNING:
	case CHILD_FAILED:
		break;
	}
}

static void on_server_end(struct redis_child *child, int wait_status)
{
	char detail[160];

	snprintf(detail, sizeof detail,
		 "redis-server ended with %s %d; see redis/redis.log in the state directory",
		 WIFSIGNALED(wait_status) ? "signal" : "status",
		 WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
	child->pid = 0;
	if (child->state == CHILD_STOPPING) {
		close_all(child);
	} else if (child->on_ready != NULL) {
		close_link(child);
		say_ready(child, KOVA_EIO, detail);
	} else if (child->state != CHILD_FAILED) {
		log_event(LOG_ERROR, "redis_child",
			  "the embedded redis-server ended and is started again",
			  LOG_TEXT_FIELD("why", detail));
		if (child->state == CHILD_RUNNING)
			backoff_reset(&child->restart);
		close_link(child);
		start_again(child);
	}
}

static void on_child_signal(uv_signal_t *handle, int signum)
{
	struct redis_child *child = handle->data;
	int wait_status;

	(void)signum;
	if (child->pid > 0 && waitpid(child->pid, &wait_status, WNOHANG) == child->pid)
		on_server_end(child, wait_status);
}

/* ---- the interface ---- */

static bool make_directory(struct redis_child *child, const char *state_dir)
{
	char *given = NULL;

	if (asprintf(&given, "%s/" DIRECTORY_NAME, state_dir) < 0)
		return false;
	if (mkdir(given, 0700) == 0 || errno == EEXIST)
		child->directory = realpath(given, NULL);
	free(given);
	if (child->directory == NULL || chmod(child->directory, 0700) != 0)
		return false;
	child->directory_fd = open(child->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return child->directory_fd >= 0;
}

/* A path that is too long for a socket has a short name in /proc, good for this process. */
static void write_url(struct redis_child *child)
{
	int len = snprintf(child->url, sizeof child->url, "unix:%s/" SOCKET_NAME, child->directory);

	if (len < 0 || (size_t)len >= sizeof child->url)
		snprintf(child->url, sizeof child->url, "unix:/proc/self/fd/%d/" SOCKET_NAME,
			 child->directory_fd);
}

struct redis_child *redis_child_start(uv_loop_t *loop, const char *state_dir,
				      redis_child_ready *on_ready, void *data)
{
	struct redis_child *child = calloc(1, sizeof(*child));

	if (child == NULL)
		return NULL;
	child->directory_fd = child->lock_fd = -1;
	if (!make_directory(child, state_dir)) {
		log_event(LOG_ERROR, "redis_child",
			  "the directory of the embedded Redis can't be made",
			  LOG_TEXT_FIELD("state_dir", state_dir),
			  LOG_TEXT_FIELD("why", strerror(errno)));
		child_free(child);
		return NULL;
	}
	write_url(child);
	child->loop = loop;
	child->on_ready = on_ready;
	child->data = data;
	backoff_init(&child->restart, RESTART_MIN_MS, RESTART_MAX_MS, (uint64_t)getpid());
	uv_timer_init(loop, &child->timer);
	uv_signal_init(loop, &child->child_signal);
	child->timer.data = child->child_signal.data = child;
	child->parts_open = 2;
	uv_signal_start(&child->child_signal, on_child_signal, SIGCHLD);
	child->lock_until_ms = uv_now(loop) + LOCK_WAIT_MS;
	uv_timer_start(&child->timer, on_timer, 0, 0);
	return child;
}

const char *redis_child_url(const struct redis_child *child)
{
	return child->url;
}

void redis_child_stop(struct redis_child *child, void (*on_stopped)(void *data), void *data)
{
	assert(child->state != CHILD_STOPPING);
	child->state = CHILD_STOPPING;
	child->on_stopped = on_stopped;
	child->stopped_data = data;
	if (child->pid == 0) {
		close_all(child);
		return;
	}
	kill(child->pid, SIGTERM);
	uv_timer_start(&child->timer, on_timer, STOP_MS, 0);
}
