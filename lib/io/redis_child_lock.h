/*
 * Whose data directory it is. The lock (flock(2)) is shared with the redis-server that works there,
 * so it is held as long as either of the two lives; the file names both, so that a server that was
 * left behind can be found.
 */
#pragma once

#include <sys/types.h>

#include "core/status.h"

/*
 * Takes the lock of `directory` without waiting. KOVA_AGAIN: somebody has it; a redis-server there
 * whose agent is dead was told to end, so asking again soon makes sense. KOVA_EIO: errno says why.
 * The descriptor is the caller's.
 */
kova_status redis_child_lock(const char *directory, int *ret_fd) KOVA_MUST_CHECK;

/* The agent that has it, by what it wrote down. 0: it wrote nothing, or does not live any more. */
pid_t redis_child_lock_holder(const char *directory);

/*
 * Writes down who has it. `server`: 0 when there is none. A failure only makes leftovers harder to
 * find.
 */
void redis_child_lock_note(int fd, pid_t server);
