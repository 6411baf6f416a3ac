/*
 * The agent: one loop with its configuration, control plane, engine and fronts. Holds nothing that decides:
 * it starts the parts in order and stops them in the opposite one.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "edge_conf.h"
#include "ops.h"
#include "request.h"

struct auth;
struct control;

struct agent {
	uv_loop_t *loop;
	struct edge_conf conf; /* of the file as it was at the start */
	struct auth *auth;     /* tokens and their scopes */
	struct control *control;
	struct engine *engine;
	struct ops ops;
	unsigned index; /* of the loop, from 0 on */
	bool draining;  /* SIGTERM was received: no new connections, readyz says so */
};
