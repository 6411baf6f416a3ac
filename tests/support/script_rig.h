/* Runs batches of the decide script in a private Redis. */
#pragma once

#include "core/script.h"
#include "redis_client.h"
#include "redis_server.h"

struct script_rig {
	struct redis_server server;
	struct redis_client client;
	struct script_batch *batch;
	struct redis_answer reply; /* of the last run; answers' echoes point into it */
	uint64_t stamp;
	bool doubted;      /* to be filled in: the agent's clock and Redis's differ */
	bool jumped;       /* to be filled in: the agent's steady clock says that Redis's was set */
	uint64_t clock_us; /* Redis's, as of the last run: for the choice of a calendar's edges */
	uint64_t
		virtual_us; /* not 0: the script is told that it is this late; must be later than it is */
	char virtual_sha1[41];
	const char *rule,
		*instead; /* with virtual_us: the script has `instead` where it has `rule`, once; NULL: as it is */
};

void script_rig_start(struct script_rig *r);
void script_rig_stop(struct script_rig *r);

/* Runs `n` operations as one batch, by EVALSHA and, if Redis doesn't know the script, by EVAL. Aborts on anything that is not
 * a whole reply. */
void script_rig_run(struct script_rig *r, const struct script_op *op, uint32_t n,
		    struct script_answer *ret_answer);

/* One operation of one check. */
struct script_answer script_rig_one(struct script_rig *r, enum script_op_kind kind,
				    const struct limit *l, const char *key, uint64_t cost);
