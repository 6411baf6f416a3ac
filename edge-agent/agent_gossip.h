/* How an agent takes part in gossip: what comes goes to all its loops. */
#pragma once

#include "control/gossip_service.h"

struct agent;

/* On the loop of `owner`, whose control plane and configuration it has. NULL: ret_error says why. */
struct gossip_service *agent_gossip_start(struct agent *owner, struct buf *ret_error);
