/* The leases of a key that are outstanding: granted, neither returned nor ended. Twin of what lua/ keeps of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { OUTSTANDING_MAX = 32 }; /* SCRIPT_LEASES_MAX */

struct outstanding_lease {
	uint64_t id;
	uint64_t amount; /* tokens, 1..LIMIT_MAX */
	uint64_t end_us; /* from then on it counts no more */
};

/* The id of what was taken while the clock was doubted: spent at once, it ends with the last take. */
#define OUTSTANDING_DOUBTED UINT64_C(0)

/* All zeros: none. */
struct outstanding {
	struct outstanding_lease
		lease[OUTSTANDING_MAX + 1]; /* ascending by end; one more: DOUBTED */
	uint32_t n;
	uint64_t amount; /* of all */
};

/* Whether there is room for one more, and none is called `id`. */
bool outstanding_has_room(const struct outstanding *o, uint64_t id);

/* There is room: outstanding_has_room(), or the id is OUTSTANDING_DOUBTED and none is called so. */
void outstanding_add(struct outstanding *o, uint64_t id, uint64_t amount, uint64_t end_us);

/* Returns the amount of the lease `id`, which is outstanding no longer; 0: there is none. */
uint64_t outstanding_remove(struct outstanding *o, uint64_t id);

/* When the lease `id` ends; 0: there is none. */
uint64_t outstanding_end_us(const struct outstanding *o, uint64_t id);

/* outstanding_remove() of the lease that ends first; there is one. */
uint64_t outstanding_remove_first(struct outstanding *o);
