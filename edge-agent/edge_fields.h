/* The option tables of the node's configuration, and the struct that they fill (io/conf.h). */
#pragma once

#include "io/auth_section.h"
#include "io/conf.h"
#include "io/gossip_section.h"
#include "io/kafka_conf.h"
#include "io/redis_section.h"
#include "io/tls_section.h"
#include "tracing_conf.h"

/* A member of `regions`. */
struct region_fields {
	const json_t *redis;   /* NULL: not given */
	int64_t weight, floor; /* floor: millionths; CONF_ABSENT */
	bool dead;
};

struct edge_fields {
	const char *node, *region;
	struct listen_fields {
		const char *resp, *http, *grpc, *unix_path; /* NULL: off */
	} listen;
	int64_t threads;
	struct auth_fields auth;
	struct tls_fields tls;
	bool insecure;
	const char *state_dir;
	struct redis_fields redis;
	struct kafka_fields kafka;
	struct gossip_fields gossip;
	struct tracing_fields tracing;
	const json_t *regions; /* NULL: none */
	int64_t regions_version;
	const json_t *regions_before; /* NULL: none */
	struct {
		int64_t max_skew; /* ms */
	} clock;
	const json_t *policies, *overrides, *pools; /* NULL: none */
};

extern const struct conf_table edge_table, region_table;
