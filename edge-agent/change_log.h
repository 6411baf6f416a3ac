/*
 * The audit trail of this node: the last changes of policies and overrides that were put in force here, by whomever and
 * wherever they were made; in memory and in `changes.log` of the state directory, a line of JSON each. Bounded: older ones
 * are gone. On the owner's loop.
 */
#pragma once

#include <jansson.h>

#include "control/control.h"

enum {
	CHANGE_LOG_MAX = 1000,
	CHANGE_LOG_BATCH_MAX = 256 /* of what came at once, the last so many */
};

struct change_log;

/* With what is in `state_dir`; what can't be read there is left out. NULL: out of memory. */
struct change_log *change_log_new(const char *state_dir);
void change_log_free(struct change_log *l); /* NULL is nothing */

/* For control_on_written(). What can't be written is in memory only, and logged. */
void change_log_add(struct change_log *l, const struct control_written *list, size_t n);

/* {"changes":[…]}, the newest first, at most `most`; a new reference, NULL: out of memory. */
json_t *change_log_list(const struct change_log *l, size_t most);
