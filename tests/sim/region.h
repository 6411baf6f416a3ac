/*
 * A simulated region: clients, agents and one Redis, each with a clock of its own, and what may go wrong between them.
 *
 * An admission is recorded at the instant at which it was decided, as Redis's clock would have shown it: by the store
 * when it carries a take out (whether or not its answer ever comes), by an agent when it spends from a lease.
 *
 *   scenario.c  what a seed makes of it: limits, clients, faults       agent.c  leases, turns, doubts
 *   store.c     Redis: operations over all levels or none              quota.c  one key in it
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "checker.h"
#include "core/lease.h"
#include "quota.h"
#include "world.h"

enum {
	AGENTS_MAX = 4,
	CHILDREN_MAX = 3,
	LEVELS_MAX = 2,
	QUOTAS_MAX = 1 + CHILDREN_MAX,
	EDGES_MAX = 4096,
	REQUESTS_MAX = 1 << 20,
};

struct region;

/* What a client wants. */
struct ask {
	uint32_t serial;
	uint16_t cost;
	uint8_t child, tries; /* repeats that are left; only with an id: */
	bool has_id;          /* its serial */
};

struct asks {
	struct ask *ask;
	uint32_t n, room;
};

/* ---- Calls ---- */

enum call_kind { CALL_TAKE, CALL_LEASE, CALL_UNLEASE, CALL_GIVE };

/* One operation on its way to Redis and back. Freed with the last of the events that know it. */
struct call {
	enum call_kind kind;
	unsigned refs;
	struct agent *agent;
	uint64_t epoch, generation; /* the agent's and the connection's when it left */
	struct ask ask;
	uint64_t amount, lease, ttl_us, sharers; /* LEASE; amount: UNLEASE as well */
	uint64_t stamp_us;                       /* GIVE: when it was taken, by Redis */
	uint64_t sent_us, sent_boot_us; /* by the clock that the holder uses; by CLOCK_BOOTTIME */
	bool done;                      /* answered, or in doubt */

	/* The answer. */
	bool executed, allowed, leased;
	uint64_t granted, wait_us, redis_us, freed_us; /* freed: when Redis lets go of the lease */
};

/* ---- Agents ---- */

/* A lease as its holder has it. All zeros: none. */
struct held {
	uint64_t id, left, granted, ttl_us;
	uint64_t granted_us, freed_us; /* by Redis */
	uint64_t ends_us;              /* as the holder believes */
	uint64_t truly_ends_us;        /* as it should, on its CLOCK_BOOTTIME */
};

/* What an agent knows of a key path. */
struct entry {
	struct lease_demand demand;
	struct held spent, next;
	bool asking;
	uint64_t refused_until_us, refused_cost;
	struct asks pending;
};

struct agent {
	struct region *region;
	unsigned number;
	struct sim_clock boot; /* CLOCK_BOOTTIME: never set, but runs unevenly */
	uint64_t slept_us;     /* of which its machine slept */
	uint64_t epoch;        /* counts its lives */
	bool alive;
	uint64_t paused_until_us, down_until_us; /* the process; its connection */
	uint64_t pause_in_turn_us;               /* so long, once it has read requests */
	struct sim_link link;
	struct entry entries[CHILDREN_MAX];
	struct asks inbox, turn; /* on the socket; read, to be judged */
	bool turning;
	uint64_t read_us; /* the clock as it was before the requests of this turn were read */
	struct call **calls;
	unsigned n_calls, calls_room;
};

void agent_init(struct agent *a, struct region *r, unsigned number);
void agent_release(struct agent *a);
/* A client's request arrives. */
void agent_hear(struct agent *a, struct ask ask);
/* It does nothing until then, if `asleep` with its whole machine. */
void agent_pause(struct agent *a, uint64_t us, bool asleep);
void agent_kill(struct agent *a);
void agent_start(struct agent *a);
/* The connection breaks. */
void agent_cut(struct agent *a);
/* Permits of leases under `child` that may still be spent, those on their way included. */
uint64_t agent_spendable(const struct agent *a, unsigned child);
/* An event of the store's: the answer is there. */
void agent_on_reply(void *owner, void *call);

/* ---- Redis ---- */

struct store {
	struct region *region;
	struct sim_clock clock;
	bool up;
	uint64_t paused_until_us;
	struct quota quotas[QUOTAS_MAX], saved[QUOTAS_MAX];
	struct checker checkers[QUOTAS_MAX];
	unsigned n_quotas;
	unsigned char *charged; /* by serial */
};

uint64_t store_now_us(const struct store *s);
/* An event of an agent's: the call is there. */
void store_on_call(void *owner, void *call);
/* `cost` was admitted under `child`, now, from a lease that was granted at `granted_us`, or (UINT64_MAX) by a take. */
void store_admitted(struct store *s, unsigned child, uint64_t cost, uint64_t granted_us);
/* The quotas of a key path, from the root; returns how many. */
unsigned store_path(const struct store *s, unsigned child, unsigned ret_path[LEVELS_MAX]);

/* ---- All together ---- */

/* What a seed makes of a region. Faults: about one in so many µs; 0: never. */
struct scenario {
	bool quiet; /* no faults; demand over the limit */
	bool calm; /* demand for one key by one agent, under the limit: what others take at once is there */
	unsigned n_agents, n_children, n_levels;
	bool leases, returns; /* returns: what is left of a lease goes back before its end */
	uint64_t ttl_us, duration_us, flood_us, rest_us, id_one_in, refund_one_in;
	int64_t drift_ppm;
	uint64_t pause_us, kill_us, cut_us, weather_us, redis_pause_us, redis_crash_us, step_us;
};

struct region {
	struct world world;
	struct scenario scenario;
	struct limit limits[QUOTAS_MAX];
	uint64_t edges[EDGES_MAX];
	struct sim_weather weather;
	struct store store;
	struct agent agents[AGENTS_MAX];
	bool over; /* what still happens has no consequences */
	uint32_t n_asks;
	uint64_t plans_from_us; /* region_leased(): not before */
	uint64_t rest_until_us; /* what is leased is left for its end */
	uint64_t last_lease, n_leases, n_by_lease, n_faults;
};

void call_unref(struct call *c);

/* Draws what the seed makes of it. */
void scenario_draw(struct region *r, bool quiet);
/* Clients begin to ask, and faults to happen. */
void scenario_start(struct region *r);

struct region *region_new(uint64_t seed, enum mutation m, bool quiet, bool logging);
/* To the end, or the first violation: world.violation. */
void region_run(struct region *r);
/* Clients may have plans for the end of this lease, which its holder has for `left_us` of its own clock. */
void region_leased(struct region *r, struct agent *holder, unsigned child, uint64_t amount,
		   uint64_t left_us);
/* A client whose answer did not come asks again, with the same id. */
void region_in_doubt(struct region *r, struct ask ask);
/* What was admitted under the first limit, of what it refilled: it is a bucket, and its burst is left out. */
double region_utilisation(const struct region *r);
void region_free(struct region *r);
