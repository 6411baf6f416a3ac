/* The configuration of one agent: read from a file, checked, defaults filled in. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "control/rule_set.h"
#include "core/buf.h"
#include "core/status.h"
#include "edge_regions.h"
#include "io/auth_section.h"
#include "io/gossip_section.h"
#include "io/kafka_conf.h"
#include "io/redis_store.h"
#include "io/tls_section.h"
#include "tracing_conf.h"

/* All of it is owned. */
struct edge_conf {
	char *node, *region;
	char *listen_resp, *listen_http, *listen_grpc; /* "host:port" or "[v6]:port"; NULL: off */
	char *listen_unix;                             /* a path; NULL: off */
	struct auth_section auth;
	struct tls_section tls;
	bool insecure;
	unsigned threads;        /* loops: 1..64 */
	char *state_dir;         /* may not exist yet */
	struct redis_conf redis; /* of its region */
	struct edge_regions regions;
	struct kafka_conf kafka;
	struct gossip_section gossip;
	struct tracing_conf tracing;
	struct rule_lists
		lists; /* owned arrays, checked, files that pools name read in; never NULL */
};

/*
 * Reads `path` and all that it refers to. On failure *ret_errors holds what is wrong, one a line: FILE:LINE:COLUMN: what
 * is wrong and what is allowed; without secrets. KOVA_ECONFIG, KOVA_ENOMEM. May be called by any
 * thread: with many policies, off the loop (0.2 s for 50 000).
 */
KOVA_MUST_CHECK kova_status edge_conf_load(const char *path, struct edge_conf *ret_conf,
					   struct buf *ret_errors);
void edge_conf_release(struct edge_conf *conf);
