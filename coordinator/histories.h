/*
 * What the children of each parent (policy and key path) of one partition have consumed lately, and the weights that were published for
 * them. Bounded: of more children than have a share at a time, those that consumed least are forgotten; of more parents than there is room
 * for, the newcomers are not taken up.
 */
#pragma once

#include "core/bytes.h"
#include "core/history.h"
#include "core/name.h"
#include "core/request_bounds.h"
#include "core/shares.h"
#include "core/status.h"

enum { HISTORY_CHILDREN_MAX = SHARES_MAX, HISTORY_PARENTS_MAX = 16384 };

struct history_child {
	struct history history;
	uint32_t weight; /* that was published; 0: none */
	uint16_t len;
	char name[]; /* what comes after the parent's path and a '/' */
};

struct history_parent {
	struct history_parent *next; /* of those with this hash */
	uint64_t hash;
	char policy[NAME_BYTES_MAX + 1];
	struct history_child *child[HISTORY_CHILDREN_MAX]; /* owned */
	uint8_t n;
	bool kept; /* the topic has it as it is */
	bool told; /* what was published may be all that there is to say */
	uint16_t len;
	char path[];
};

/* All zeros: nothing was consumed. */
struct histories {
	struct history_parent **table; /* chains by hash */
	size_t n, n_chains;
	uint64_t overflows; /* parents that were not taken up */
};

void histories_release(struct histories *h);

struct child_usage {
	struct slice policy, parent, child; /* a name; up to REQUEST_KEY_MAX bytes each */
	uint64_t admitted, at_ms;
};

/* Consumption. KOVA_ENOMEM: it is not counted. */
KOVA_MUST_CHECK kova_status histories_read(struct histories *h, const struct child_usage *u,
					   uint64_t half_life_ms);

/* Gives the weight of an average child of the parent; 0: its children have none now. */
typedef uint32_t histories_average(const struct history_parent *p, void *data);
/* The weights of the parent's children are others now, or, where there were some, were not told by this coordinator: `weight` of each. */
typedef void histories_told(const struct history_parent *p, void *data);

/* Weighs the children of every parent; what has faded is forgotten. */
void histories_weigh(struct histories *h, uint64_t now_ms, uint64_t half_life_ms,
		     histories_average *average, histories_told *told, void *data);

/* Those of which `kept` is false were kept; those without children are forgotten. */
void histories_settle(struct histories *h);

/*
 * A parent that was kept: first without children, then each. KOVA_ETOOBIG: there is no room for it. KOVA_EPROTO: no such child can be; KOVA_ENOMEM.
 * What was published counts as not told by this coordinator.
 */
KOVA_MUST_CHECK kova_status histories_begin(struct histories *h, struct slice policy,
					    struct slice path, struct history_parent **ret_parent);
KOVA_MUST_CHECK kova_status histories_add(struct history_parent *p, struct slice name,
					  struct history history, uint32_t weight);
