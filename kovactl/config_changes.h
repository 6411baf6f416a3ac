/* kovactl config log, diff and rollback: the changes that the agent has kept (GET /v1/changes). */
#pragma once

#include <stdbool.h>

#include "session.h"

/* Each returns an exit status. `version` is the word that was given. */
int config_log(struct session *s, uint64_t most);
int config_diff(struct session *s, const char *version);
/* `force`: also when it was changed again since. */
int config_rollback(struct session *s, const char *version, bool force);
