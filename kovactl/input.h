/*
 * JSON that the user gives: a file, or "-" for the standard input.
 */
#pragma once

#include <jansson.h>

/*
 * NULL after a complaint, FILE:LINE:COLUMN where it is not JSON. The same field twice is an
 * error. The value is the caller's.
 */
json_t *input_json(const char *name);

/*
 * Items as the agent tells them, without what is not theirs to be set: `version` and `who`.
 * Changes `items`.
 */
void input_strip_stamps(json_t *items);
