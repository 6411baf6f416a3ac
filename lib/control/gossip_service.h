/*
 * A node's part in gossip, agent or coordinator: what its control plane writes is spread, what comes is put into it, on one
 * loop; members for those who ask, and whether this node's clock agrees with theirs.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/gossip_section.h"
#include "io/gossip_udp.h"
#include "io/metrics.h"

struct control;
struct gossip_service;
struct control_written;

/* Who takes part. All is borrowed: loop, control and data until it is closed, the rest for gossip_service_start(). */
struct gossip_user {
	uv_loop_t *loop;
	struct control *control;
	const char *node, *region; /* valid names; the region "": none */
	enum gossip_role role;
	const char *state_dir; /* must exist */
	uint64_t max_skew_ms;
	const struct gossip_section *conf;
	/* What came by gossip is in force in `control`. */
	void (*in_force)(void *data);
	/* A grant of a global quota came for our region, newer than any before: a ShareGrant. NULL: it has no use for any. */
	void (*granted)(void *data, struct slice share_grant);
	/* Something happened that others should hear of; `fields` is taken, NULL: memory was out. */
	void (*event)(void *data, const char *name, json_t *fields);
	void *data;
};

/* NULL: ret_error says why. */
struct gossip_service *gossip_service_start(const struct gossip_user *user, struct buf *ret_error);
void gossip_service_close(struct gossip_service *s, void (*on_closed)(void *data), void *data);

/* What the control plane has written: it is spread. For control_on_written(). */
void gossip_service_written(struct gossip_service *s, const struct control_written *list, size_t n);

/* Tells a grant that is committed to the nodes of its region; what is too long, or kept for no time, is counted. */
void gossip_service_grant(struct gossip_service *s, const struct gossip_grant *grant);

/* Reads the secrets of `path` (NULL: none) again. KOVA_ECONFIG: ret_errors says what is wrong, and they stay as they were. */
KOVA_MUST_CHECK kova_status gossip_service_reload(struct gossip_service *s, const char *path,
						  struct buf *ret_errors);

const char *gossip_service_address(const struct gossip_service *s);

/*
 * Whether the node's clock is further than max_skew off the median of its peers, or was when it stamped what it would stamp now: then it takes no changes. *ret_ms: what they are
 * ahead of it.
 */
bool gossip_service_is_skewed(const struct gossip_service *s, int64_t *ret_ms);

/* {"members":[…]}, the node itself first; a new reference, NULL: out of memory. */
json_t *gossip_service_members(const struct gossip_service *s);

/* What metrics say of it. */
enum { GOSSIP_PEERS_TOLD = 64 };
struct gossip_numbers {
	bool on;
	uint64_t rejected[GOSSIP_REJECTED_REASONS];
	uint64_t items, alive, suspect, dead;
	uint64_t not_kept;
	uint64_t grants_sent, grants_taken, grants_dropped;
	unsigned n_peers;
	struct {
		char name[NAME_BYTES_MAX + 1];
		double skew_s;
	} peers[GOSSIP_PEERS_TOLD];
};
void gossip_service_numbers(const struct gossip_service *s, struct gossip_numbers *ret_numbers);

/* The families of metrics about them; nothing when it is off. And the samples of the peers' skews, of a family that is begun. */
void gossip_numbers_write(struct metrics_writer *w, const struct gossip_numbers *g);
void gossip_numbers_write_skews(struct metrics_writer *w, const struct gossip_numbers *g);
