/*
 * Weights of the children of one key path, as coordinators find them from what was consumed: a configuration item of its own,
 * `{"policy":P,"parent":PATH,"weights":{"CHILD":n,…}}`.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "io/conf.h"

/* Whether `value` says weights; errors go to `r`. Each is an integer from 1 to SHARE_WEIGHT_MAX. */
bool weights_are_valid(struct conf_reader *r, const json_t *value);
