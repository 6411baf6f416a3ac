/* The section `regions`: which regions there are, and where their Redis is. */
#pragma once

#include "core/rendezvous.h"
#include "edge_fields.h"
#include "io/conf_copy.h"
#include "io/redis_store.h"

enum { REGIONS_MAX = 64, REGIONS_BEFORE_MAX = 8, REGIONS_VERSION_MAX = 1000000 };

struct region_conf {
	char *name;
	uint32_t
		floor_ppm; /* millionths of every global limit; of all together at most 1 000 000 */
	bool has_redis;
	bool is_dead;            /* and its weight is 0 */
	struct redis_conf redis; /* of the own region all zeros: edge_conf.redis is it */
};

/* All of it is owned; all zeros: there is no such section. */
struct edge_regions {
	size_t n;                      /* up to REGIONS_MAX */
	size_t own;                    /* the node's own region */
	struct region_conf *of;        /* in the bytewise order of their names */
	struct rendezvous_site *sites; /* likewise */
	uint64_t version;              /* of `sites` */
	uint64_t
		grant_us; /* a share may take so long to follow demand: a report and a round of the coordinator's */
	size_t n_before;
	struct rendezvous_site
		*before[REGIONS_BEFORE_MAX]; /* of earlier versions, each as `sites` */
};

/*
 * Checks and copies it. The Redis of the own region may be given there or as `redis` of the document `root`; *ret_redis is
 * the one that holds.
 */
void edge_regions_read(struct conf_copier *c, const struct edge_fields *f, const json_t *root,
		       struct edge_regions *ret_regions, struct redis_conf *ret_redis);
void edge_regions_release(struct edge_regions *regions);

/* Whether every key has the same home by both, and had before; and every region the same floor. */
bool edge_regions_are_alike(const struct edge_regions *a, const struct edge_regions *b);

/* Of the weights above 0, in the order of their regions' names; `n` of them. */
uint64_t edge_regions_digest(const struct rendezvous_site *sites, size_t n);

/* The region at which a key is at home; there are some. */
size_t edge_regions_home(const struct edge_regions *regions, struct slice key);
