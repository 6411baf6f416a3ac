/*
 * Operations: the agent's own metrics, whether it is ready, and the clock that requests are timed
 * by. The numbers are their owners'; here they get their names.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"

struct agent;
struct conn_pool;

enum ops_protocol { OPS_HTTP, OPS_RESP, OPS_PROTOCOLS };

/* Policies that have labels of their own in metrics; those beyond are summed up as `(other)`. */
enum { OPS_POLICIES_MAX = 1000 };

/*
 * Registers the collectors of `a` and `conns` (borrowed until ops_unregister()) and starts the
 * clock. `a` has its loop, control and engine.
 */
void ops_register(struct agent *a, struct conn_pool *conns);
/*
 * Before the pool is freed and the engine is closed; the loop must run once more. Nothing, if not
 * registered.
 */
void ops_unregister(struct agent *a);

/*
 * Monotonic µs, read once in a phase of the loop's turn: cheap, and as fine as the batches that are
 * timed.
 */
uint64_t ops_now_us(void);
/* A request that was whole at `begun_us` has got its answer. */
void ops_observe(enum ops_protocol protocol, uint64_t begun_us);

/*
 * The body of /readyz, one JSON object that names what is degraded. True while requests can be
 * answered: by the store, or by each policy's on_outage without it; false when the agent drains.
 */
bool ops_ready(const struct agent *a, struct buf *ret_json);
