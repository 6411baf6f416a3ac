/*
 * The embedded mode's Redis: a redis-server of our own, on a unix socket in STATE_DIR/redis, that
 * dies with us and is started again when it dies. Its data (an append-only file, written before
 * each answer, on disk every second) outlives both.
 */
#pragma once

#include <uv.h>

#include "core/status.h"

struct redis_child;

/*
 * `detail` says in words what went wrong; borrowed. Once; later ends and restarts are only logged.
 */
typedef void redis_child_ready(kova_status status, const char *detail, void *data);

/*
 * `state_dir` must exist. NULL: the directory can't be made or memory is out; the reason is logged,
 * nothing follows. Otherwise on_ready comes later: KOVA_OK when it answers; KOVA_ENOTFOUND: redis-
 * server isn't installed; KOVA_EIO: it can't run. Also after a failure the child has to be stopped.
 */
struct redis_child *redis_child_start(uv_loop_t *loop, const char *state_dir,
				      redis_child_ready *on_ready, void *data);

/* For redis_conf.url: "unix:PATH". Owned by the child. */
const char *redis_child_url(const struct redis_child *child);

/*
 * SIGTERM; SIGKILL if that takes longer than 10 s. on_stopped (may be NULL) comes when it is gone;
 * frees the child.
 */
void redis_child_stop(struct redis_child *child, void (*on_stopped)(void *data), void *data);
