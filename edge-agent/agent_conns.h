/* The agent's connections (io/conn.h), of one of its loops. */
#pragma once

#include "agent.h"
#include "io/conn.h"

/* As conn_pool_new(), on the loop of `a` (borrowed; outlives the pool). */
struct conn_pool *agent_conns_new(struct agent *a, uint32_t max_clients);

static inline struct agent *conn_agent(const struct conn *c)
{
	return c->owner;
}
