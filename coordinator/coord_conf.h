/* The configuration of one coordinator: read from a file, checked, defaults filled in. */
#pragma once

#include <stdint.h>

#include "coord_regions.h"
#include "core/buf.h"
#include "core/name.h"
#include "core/status.h"
#include "drift_conf.h"
#include "io/auth_section.h"
#include "io/conf.h"
#include "io/gossip_section.h"
#include "io/kafka_conf.h"
#include "io/tls_section.h"

enum { COORD_LEVELS_MAX = 8 };

/* What a coordinator needs to know of a policy. */
struct coord_policy {
	char name[NAME_BYTES_MAX + 1];
	uint64_t limit; /* of the policy, or of its first level; permits or slots at once */
	char per[24];   /* a duration, or a calendar's unit */

	bool is_global; /* each region has a ledger of its own usage */
	/* Of a global one. */
	enum share_kind kind;
	uint32_t whole;     /* SHARE_RATE_WHOLE; the greatest limit of its levels */
	uint64_t window_us; /* of SHARE_WINDOW: the longest of its levels */
	bool loose;
	/* By level: of an average key, where weights are those of history; 0: they are not. */
	uint32_t weight[COORD_LEVELS_MAX];
};

/* All of it is owned. */
struct coord_conf {
	char *node;
	char *http; /* "host:port" or "[v6]:port"; NULL: off */
	struct auth_section auth;
	struct tls_section tls;
	bool insecure;
	struct kafka_conf kafka;
	uint64_t rollup_ms, session_ms;
	struct coord_regions regions;
	uint64_t grant_us, margin_us; /* D of a grant; how much longer it counts */
	uint64_t max_skew_us;
	struct gossip_section gossip;
	char *state_dir;          /* NULL without gossip */
	json_t *policies_of_file; /* an array: as the file has them */
	struct drift_conf drift;
	uint64_t half_life_ms,
		weigh_ms; /* of weights: of what was consumed; how often they are computed */
	struct coord_policy *policies; /* in the bytewise order of their names */
	size_t n_policies;
};

extern const struct conf_table coord_table;

/* As edge_conf_load() is for agents: on failure *ret_errors has a line FILE:LINE:COLUMN for each. KOVA_ECONFIG, KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status coord_conf_load(const char *path, struct coord_conf *ret_conf,
					    struct buf *ret_errors);
void coord_conf_release(struct coord_conf *conf);

/*
 * The policies of `list` as a coordinator of this configuration has them: *ret_policies is owned, in the bytewise order of names. What
 * can't be here is left out, and *ret_errors has a line for each. KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status coord_conf_read_policies(const struct coord_conf *conf,
						     const json_t *list,
						     struct coord_policy **ret_policies,
						     size_t *ret_n, struct buf *ret_errors);

/* NULL: there is none of this name. */
const struct coord_policy *coord_conf_policy(const struct coord_conf *conf, const char *name);
