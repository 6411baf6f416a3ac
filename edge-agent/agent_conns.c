#include "agent_conns.h"

#include "engine_life.h"

static void on_batch(void *owner)
{
	engine_new_batch(((struct agent *)owner)->engine);
}

struct conn_pool *agent_conns_new(struct agent *a, uint32_t max_clients)
{
	const struct conn_place place = {.loop = a->loop,
					 .mailbox = a->mailbox,
					 .index = a->index,
					 .loops = a->loops,
					 .tls = &a->tls,
					 .owner = a,
					 .on_batch = on_batch};

	return conn_pool_new(&place, max_clients);
}
