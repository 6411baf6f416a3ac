/*
 * Replaces a file whole: readers, and whoever comes after a crash, see the old content or the new one. In two
 * steps, so that the slow one (writing and fsync) can run in another thread.
 */
#pragma once

#include "core/bytes.h"
#include "core/status.h"

/*
 * Writes `data` to PATH.tmp and syncs it; nothing is replaced yet. KOVA_EIO: errno says why, and there is no PATH.tmp.
 */
KOVA_MUST_CHECK kova_status atomic_file_prepare(const char *path, struct slice data);

/* Puts PATH.tmp in the place of `path` and syncs the directory. KOVA_EIO: errno says why. */
KOVA_MUST_CHECK kova_status atomic_file_commit(const char *path);

/* Gives PATH.tmp up. */
void atomic_file_abort(const char *path);

/* Syncs the directory that `path` is in, so that its entry lasts. */
KOVA_MUST_CHECK kova_status atomic_file_sync_directory(const char *path);
