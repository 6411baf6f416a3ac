/*
 * One life in the consumer group: reads kova.usage.v1, keeps the ledger, publishes the rollup. Blocks, in a thread of its own.
 */
#pragma once

#include "share.h"

/* Until `share->stop`, or something fails: what was not committed is then given up. Returns whether it was stopped. */
bool session_run(struct coord_share *share);
