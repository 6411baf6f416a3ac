/*
 * A pool as the agent's page of it says (GET /v1/pools/{pool}), for people.
 */
#pragma once

#include <jansson.h>

/* On stdout. Returns EXIT_ALLOWED, or EXIT_USAGE after a complaint. */
int pool_show(const json_t *body);

/* Of one of the page's endpoints, 0: drained. */
json_int_t pool_weight(const json_t *endpoint);
