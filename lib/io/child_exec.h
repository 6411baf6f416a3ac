/* Starting another program that must not outlive us. */
#pragma once

#include <sys/types.h>

#include "core/status.h"

/*
 * Runs `argv` (NULL-terminated, found in PATH) in `directory`, in a session of its own so that
 * Ctrl-C is for us alone. Input and output are /dev/null; of our descriptors only `keep_fd` (-1:
 * none) is inherited. When the thread that called this ends, however it ends, the kernel kills the
 * child (prctl(2), PR_SET_PDEATHSIG). Blocks until the program runs or could not: KOVA_ENOTFOUND:
 * there is no such program; KOVA_EIO: errno says why.
 */
kova_status child_exec(const char *const argv[], const char *directory, int keep_fd,
		       pid_t *ret_pid) KOVA_MUST_CHECK;
