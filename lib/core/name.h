/* Names of policies, levels, nodes and regions: they need no quoting in a key, a URL, a label or a log line. */
#pragma once

#include <stdbool.h>

#include "core/bytes.h"

enum { NAME_BYTES_MAX = 64 };

/* 1 to NAME_BYTES_MAX of A-Z a-z 0-9 . _ - */
bool name_is_valid(struct slice name);
