/*
 * The permits that go with an endpoint, taken by the pool script in the step that gives it: the limiter's program for one TAKE, which
 * the script hands to the decide script that it has as a function (lua/pool_permits.lua; layout: lua/README.md). Which endpoint is
 * next is only known there, so what is kept by the endpoint's account is asked for under a name of its own, and put in its place.
 */
#pragma once

#include <stdint.h>

#include "core/buf.h"
#include "core/pool.h"
#include "core/script.h"

/* The key by which the account's own permits are resolved: no group and no id of an endpoint is spelled so. */
#define POOL_PERMITS_HOLDER "@"

/* What the endpoint's own permits are kept by: its group, or else its id as people know it, without what depends on its address. */
struct slice pool_permits_holder(const struct pool_endpoint *e);

/* All zeros: nothing goes with the endpoint. */
struct pool_permits {
	size_t n_keys;
	struct buf text;
};

/*
 * What goes with the endpoint: `take`, whose first `own` checks (0: none) are of `policy` and the key POOL_PERMITS_HOLDER, and no other
 * of that policy. `batch` is cleared and used; what its reply is read by (script_batch_plain()) is there until it is again. `now_us` as
 * of script_batch_add(); `call` as of script_batch_command(), its stamp unlike that of any other in the call. KOVA_ENOMEM; KOVA_ETOOBIG:
 * more keys or checks than the layout has room for.
 */
KOVA_MUST_CHECK kova_status pool_permits_write(struct pool_permits *p, struct script_batch *batch,
					       const struct script_op *take, unsigned own,
					       struct slice policy, uint64_t now_us,
					       const struct script_call *call);
void pool_permits_release(struct pool_permits *p);
