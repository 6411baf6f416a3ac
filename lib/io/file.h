/* Files that are read whole. */
#pragma once

#include <stddef.h>

#include "core/buf.h"
#include "core/status.h"

/*
 * Appends all of the file at `path`, which may be a pipe. KOVA_ENOTFOUND: there is none; KOVA_EIO: errno says why, EFBIG that
 * it has more than `max` bytes; KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status file_read(const char *path, size_t max, struct buf *ret_text);
