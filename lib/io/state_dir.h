/* Where a program keeps what must outlive it. */
#pragma once

#include <stdbool.h>

#include "core/status.h"

/*
 * By the XDG base directory specification, unless systemd says: $STATE_DIRECTORY (of several the first), else
 * $XDG_STATE_HOME/`name`, else ~/.local/state/`name`. Owned by the caller. KOVA_ENOTFOUND: none of these; KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status state_dir_default(const char *name, char **ret_path);

/* As `mkdir -p`, the last part readable by us only. False: errno says why. */
bool state_dir_make(const char *path);
