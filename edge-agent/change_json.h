/* A change of policies, overrides and pools as it is kept, listed and shown. */
#pragma once

#include <jansson.h>

#include "control/control.h"

/*
 * {"version","at","kind","name","key"|"prefix","who","node","before","after"}, a new reference; of a pool without addresses and keys.
 * NULL: `w` changes nothing that people see (weights, stamps, what a fresh node finds in its file), or out of memory.
 */
json_t *change_json(const struct control_written *w);
