/*
 * A coordinator's part in gossip: it is one more node, with a control plane, state directory and clock rules as an agent's. All
 * on the loop, but for what says otherwise.
 */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "control/gossip_service.h"
#include "core/buf.h"
#include "core/bytes.h"

struct coord_conf;
struct coord_events;
struct coord_gossip;
struct coord_share;

/*
 * `conf`, which outlives it, has gossip; its policies are a file's. What is changed here, and who comes and goes, goes to `events`. `in_force` is called whenever other policies than before may be in force, not
 * before the loop runs. NULL: ret_error says why.
 */
struct coord_gossip *coord_gossip_start(uv_loop_t *loop, const struct coord_conf *conf,
					struct coord_events *events, void (*in_force)(void *data),
					void *data, struct buf *ret_error);
/* Says farewell; no publisher comes any more. NULL is nothing. */
void coord_gossip_close(struct coord_gossip *g);

/* SIGHUP: the secrets, and the policies of `conf`'s file, of which those that have changed are new writes. */
void coord_gossip_reload(struct coord_gossip *g, const struct coord_conf *conf);

/* The policies in force as JSON: a new reference, NULL: out of memory. */
json_t *coord_gossip_policies(const struct coord_gossip *g);

/* For those who ask. */
const struct gossip_service *coord_gossip_service(const struct coord_gossip *g);

/*
 * Any thread: an item of weights (weights.h), as JSON text, copied. It is written as by `coordinator`, stamped now, kept and spread; what
 * is said already is not written again. Nothing, where there is no gossip, and logged, where it can't be.
 */
void coord_publish_weights(struct coord_share *share, struct slice json);

/*
 * Any thread, and only after the transaction that carries it was committed: a grant (the bytes of a ShareGrant, copied), which the nodes of
 * its region hear of by gossip as well, and may pass on for `keep_ms`. Nothing, where there is no gossip.
 */
void coord_gossip_grant(struct coord_share *share, struct slice grant, uint64_t keep_ms);
