/*
 * A simulated world of regions that share global quotas (docs/global.md): each region one Redis with a clock of its own, two
 * coordinators in a consumer group, and a broker with a log of reports and a log of grants in transactions.
 *
 *   globe.c              what a seed makes of it: limits, floors, demand, faults
 *   globe_region.c       a region: keys under its share, leases, reports, promises
 *   globe_agents.c       its agents, of two versions while floors change
 *   globe_coordinator.c  reads reports, grants in transactions, takes over
 *   globe_broker.c       logs, transactions, the group and its generations
 *   globe_checker.c      what was admitted everywhere, against the limit
 *
 * An admission is recorded when it is made, in the order of true time.
 */
#pragma once

#include <stddef.h>

#include "core/allocator.h"
#include "core/region_share.h"
#include "core/shared_bucket.h"
#include "core/window.h"
#include "world.h"

enum {
	GLOBE_REGIONS = ALLOCATOR_REGIONS_MAX,
	GLOBE_COORDINATORS = 2,
	GLOBE_KEYS = 2,
	GLOBE_VERSIONS = 2,   /* of the floors */
	GLOBE_WINDOWS = 4096, /* of a calendar that a run can see */
};

#define GLOBE_SECOND UINT64_C(1000000)
#define GLOBE_START_US (UINT64_C(1796000000) * GLOBE_SECOND)
#define GLOBE_MAX_SKEW_US UINT64_C(250000)
#define GLOBE_DURATION_US (5 * GLOBE_SECOND)

struct globe;

/* ---- What was admitted ---- */

struct globe_admission {
	uint64_t at_us, cost;
};

/* Of one key, everywhere. */
struct globe_checker {
	double level; /* rate: what was admitted less what the fastest clock refilled since, not below 0 */
	struct globe_admission *log; /* window: [first, n) */
	uint64_t first, n, room, inside;
	uint64_t *calendar; /* by window */
	uint64_t admitted;
};

void globe_checkers_init(struct globe *g);
void globe_checkers_release(struct globe *g);
/* The limit is another from now on; what was admitted before is not asked for. */
void globe_checkers_begin(struct globe *g, const struct limit *l);
/* Before and after a clock is set. */
void globe_observe(struct globe *g);
/* Was admitted now, in calendar window `window`. */
void globe_admitted(struct globe *g, unsigned key, uint64_t cost, uint32_t window);

struct globe_message {
	struct globe_message *next;
	max_align_t payload[];
};

/* ---- The broker ---- */

enum txn_state { TXN_OPEN, TXN_COMMITTED, TXN_ABORTED };

struct globe_txn {
	enum txn_state state;
	uint64_t begun_us;
	bool has_offsets;
	uint64_t offset;
};

struct globe_record {
	unsigned region;
	struct share_grant grant;
	uint32_t txn;
};

struct globe_usage {
	unsigned region;
	struct share_report report;
};

struct globe_broker {
	struct globe_usage *usage;
	uint64_t n_usage, usage_room;
	struct globe_record *grants;
	uint64_t n_grants, grants_room;
	struct globe_txn *txns;
	uint32_t n_txns, txns_room;
	uint64_t generation, committed; /* of the group; the next report to read */
	unsigned owner;
};

void broker_release(struct globe_broker *b);
void broker_report(struct globe_broker *b, unsigned region, const struct share_report *r);
uint32_t broker_begin(struct globe_broker *b, uint64_t now_us);
/* False: the transaction was aborted by the broker, or the generation is not the group's any more. */
bool broker_produce(struct globe_broker *b, uint32_t txn, unsigned region,
		    const struct share_grant *g);
bool broker_offsets(struct globe *g, uint32_t txn, uint64_t generation, uint64_t offset);
bool broker_commit(struct globe_broker *b, uint32_t txn);
void broker_abort(struct globe_broker *b, uint32_t txn);
/* Grants before this are decided, one way or the other. */
uint64_t broker_last_stable(const struct globe_broker *b);
/* Whether the offsets that are committed are all that there will be: no open transaction has some. */
bool broker_has_stable_offsets(const struct globe_broker *b);
/* Aborts what is open for too long; gives the partition to another when its owner is not heard of. */
void broker_start(struct globe *g);

/* ---- Coordinators ---- */

enum coordinator_phase { IDLE, RESTORING, RUNNING, IN_TXN };

struct globe_coordinator {
	struct globe *globe;
	unsigned number;
	struct sim_clock clock;
	bool alive;
	uint64_t life; /* counts its lives: what it was about to do in another is not done */
	uint64_t paused_until_us, cut_until_us;
	uint64_t heard_us; /* by the broker */
	enum coordinator_phase phase;
	uint64_t generation, position, high_watermark;
	uint32_t floors, limit; /* versions that its configuration has */
	struct allocator *allocator;
	uint64_t epoch;
	uint32_t txn, given;
	struct share_grant grants[GLOBE_REGIONS];
};

void coordinator_init(struct globe_coordinator *c, struct globe *g, unsigned number);
void coordinator_kill(struct globe_coordinator *c);
bool coordinator_reaches_broker(const struct globe_coordinator *c);
struct allocator_terms coordinator_terms(const struct globe *g, uint32_t floors, uint32_t limit);

/* ---- Regions ---- */

/* Of one version of the floors; those of a region are as one. True times. */
struct globe_agent {
	uint64_t from_us, until_us;
	uint64_t away_us, back_us; /* it neither asks nor is heard between these */
	uint32_t says;             /* in its reports, at most */
};

struct globe_region {
	struct globe *globe;
	unsigned number;
	struct sim_clock clock;
	uint64_t checked_us; /* what it showed when the checkers looked last */
	bool jumped;
	const struct limit *limit; /* that it knows */
	int64_t off_us;            /* by steps that nobody notices */
	struct region_share share;
	struct shared_bucket buckets[GLOBE_KEYS];
	struct window windows[GLOBE_KEYS];
	uint64_t totals[GLOBE_KEYS]; /* of the calendar window: */
	uint32_t window;
	uint64_t read, last_lease;
	uint64_t cannot_write_until_us, cannot_read_until_us;
	uint64_t demand, until_us; /* costs a second, and for how long */
	uint64_t asked, asked_from_us;
	uint64_t admitted;
	struct globe_agent agents[GLOBE_VERSIONS];
	uint64_t heard_us[GLOBE_VERSIONS]; /* when Redis heard an agent of it last; 0: not lately */
	bool forgotten;                    /* the share */
	uint64_t later_calls;              /* one in so many, while agents of both versions live */
	uint32_t caller;                   /* version of the agent whose call it is */
};

void region_init(struct globe_region *r, struct globe *g, unsigned number);
void region_release(struct globe_region *r);
/* Its Redis's clock is set; `noticed`: by more than the skew guard lets pass. */
void region_step(struct globe_region *r, int64_t step_us, bool noticed);
/* Asks for `cost` of a key, or (0) for all that is there. */
void region_ask(struct globe_region *r, unsigned key, uint64_t cost);
/*
 * Redis forgets the share where nothing but floors is to be known of it: because it expires, which one that knows later floors does
 * not; or `emptied`, and then who was heard as well.
 */
void region_forget(struct globe_region *r, bool emptied);
/* It learns of the second limit. */
void region_limit(struct globe_region *r);
/* A committed grant arrives, by whichever way, in `delay_us`. */
void region_tell(struct globe_region *r, const struct share_grant *grant, uint64_t delay_us);

/* ---- Agents ---- */

void agents_init(struct globe_region *r);
/* From now on some are of the second version. */
void agents_change(struct globe_region *r);
/* The version of one that calls now. */
uint32_t agents_any(const struct globe_region *r);
/* What one says of a share whose floors are of that version. */
uint32_t agents_say(const struct globe_region *r, uint32_t version, uint32_t floors);

/* ---- All together ---- */

/* What a seed makes of it. Faults: about one in so many µs; 0: never. */
struct globe_scenario {
	bool quiet, loose, leases, steps, drifts;
	bool calm; /* little is asked, whatever is reported: buckets are full when all is taken at once */
	unsigned n_regions;
	enum share_kind kind;
	uint64_t duration_us, delay_us, lease_us;
	bool second_key; /* clients ask for it all the time */
	uint64_t cut_us, jump_us, coordinator_us, rebalance_us, gulp_us, forget_us;
	bool floors_change, limit_changes;
	bool strays; /* agents of the first version are away during the change; then no Redis is emptied */
	uint32_t floors[GLOBE_VERSIONS][GLOBE_REGIONS]; /* by version */
};

struct globe {
	struct world world;
	struct globe_scenario scenario;
	struct limit limits[2]; /* by version */
	struct limit
		limit; /* what the checkers allow: of two the greater, until all know the second */
	unsigned n_know;        /* regions that do */
	uint32_t whole;         /* of the first limit */
	uint32_t calendar_from; /* from this window on `limit` is, before it: */
	uint64_t calendar_most;
	uint64_t window_us; /* of a window or calendar */
	struct region_share_terms region_terms;
	struct globe_broker broker;
	struct globe_region regions[GLOBE_REGIONS];
	struct globe_coordinator coordinators[GLOBE_COORDINATORS];
	struct globe_checker checkers[GLOBE_KEYS];
	uint32_t excess; /* loose: the most that an allocator said, in parts */
	bool exceeded; /* loose: more than the limit was admitted, within what the excess allows */
	uint64_t n_faults, n_grants, n_lends, n_by_lease, n_takeovers;
	uint64_t trace; /* hash of all that was admitted, when and where */
	struct globe_message *messages;
};

enum globe_mode {
	GLOBE_FAULTY,
	GLOBE_QUIET, /* no faults; the caller moves the demand */
	GLOBE_LOOSE, /* faulty, and grants go on without news */
};

struct globe *globe_new(uint64_t seed, enum mutation m, enum globe_mode mode, bool logging);
/* To the end of the scenario, or the first violation: world.violation. */
void globe_run(struct globe *g);
void globe_free(struct globe *g);

/* All regions take all that is there of a key, in `delay_us`. */
void globe_gulp(struct globe *g, unsigned key, uint64_t delay_us);
/* A message's time on its way. */
uint64_t globe_delay_us(struct globe *g);
/* Memory for a message, for as long as the world lives. */
void *globe_alloc(struct globe *g, size_t bytes);
static inline uint64_t coordinator_now_us(const struct globe_coordinator *c)
{
	return sim_clock_read(&c->clock, c->globe->world.now_us);
}
