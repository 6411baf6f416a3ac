/*
 * The coordinator's side of a global quota: who may have which share, so that at every instant the shares that may be in
 * force add up to the whole at most. It compares no two clocks: what it granted counts until its own time + D + margin,
 * whatever became of the grant; floors count always, used or not (docs/global.md). One allocator a quota (policy and key root).
 *
 * Pure: times are µs of one steady clock of the caller's, which neither goes back nor is set, from 1. There may be a million of
 * these: what is kept of times are ticks, rounded so that more counts. What would end after ALLOCATOR_NOW_MAX_US (of a window of months) ends
 * when its region reports, or with the owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/share_record.h"
#include "core/waterfill.h"

enum { ALLOCATOR_REGIONS_MAX = 8, ALLOCATOR_TICK_US = 1 << 12 };

/*
 * What no region wanted for so long gets no grants any more: else regions that are idle, each of which reports for a while because another one
 * was granted something, would go on with it for ever.
 */
#define ALLOCATOR_WANTED_US (UINT64_C(60) * 1000000)

/* 203 days; an owner that comes near begins anew. */
#define ALLOCATOR_NOW_MAX_US ((uint64_t)ALLOCATOR_TICK_US * (UINT32_MAX - 1))

enum share_kind {
	SHARE_RATE,     /* token bucket */
	SHARE_WINDOW,   /* sliding window: what was used stays used for window_us */
	SHARE_CALENDAR, /* what was used stays used until the window's end, and there is no lending */
};

/* The same for all quotas of a policy. */
struct allocator_terms {
	enum share_kind kind;
	unsigned n_regions;   /* 1..ALLOCATOR_REGIONS_MAX */
	uint32_t whole;       /* 1..WATERFILL_WHOLE_MAX: share_whole() of the limit */
	uint64_t duration_us; /* D of a grant */
	uint64_t margin_us;   /* at least allocator_least_margin_us(D) */
	uint64_t window_us;   /* of SHARE_WINDOW */
	uint64_t lend_us;     /* what region_share_terms say; 0: nobody lends */
	uint64_t
		max_skew_us; /* what a region's clock may be set by without anybody noticing, each way */
	bool loose;          /* for allocator_excess() */
	uint32_t floors; /* version of these: */
	struct {
		uint32_t floor; /* all together: at most the whole */
		uint32_t
			before; /* the most that it may be while this version was not heard of from the
				    region; the same in the first version */
		uint32_t weight; /* 0..WATERFILL_WEIGHT_MAX */
	} region[ALLOCATOR_REGIONS_MAX];
};

/* Amounts are parts, times are ticks. */
struct allocator_region {
	uint64_t clock, t0_us;  /* of the newest report; clock 0: there was none */
	uint32_t seq;           /* of the newest grant; 0: there is none */
	uint32_t heard;         /* when the newest report came */
	uint32_t granted_until; /* how long grants count, in a calendar: beside their window */
	uint32_t granted;       /* the newest grant */
	uint32_t before; /* the largest of the grants before that one that may still be in force */
	uint32_t used;   /* what windows which begin before now remember */
	uint32_t floor;  /* the most that the floor can be */
	uint32_t demand; /* with hysteresis */
	union {
		struct {
			uint32_t lent;
			uint32_t
				lent_until; /* grants that rest on the lent floor are dead by then */
		};
		struct {                 /* of a calendar */
			uint32_t window; /* the newest that the region was heard of in ... */
			uint32_t
				held; /* ... and what it held in the one before; that of others is not known */
		};
	};
	uint32_t confirmed : 24; /* version of the floors that the region was told may rise */
	uint32_t answered : 1;   /* the newest report got its grant */
	uint32_t restored : 1;   /* the newest grant is of an owner before */
	uint32_t cut : 1;        /* reported this version of the floors */
};

struct allocator {
	uint32_t confirmed;               /* version of the floors whose rises may be in force */
	uint32_t newest;                  /* the same, and of owners before */
	uint32_t wanted;                  /* when some region had demand; 0: none had */
	struct allocator_region region[]; /* as many as the terms have */
};

/* What an allocator of n regions takes. */
#define ALLOCATOR_BYTES(n) (sizeof(struct allocator) + (n) * sizeof(struct allocator_region))

/* 2 · max_skew + 1 % of D: what a region's clock may hold a grant longer than ours counts D. */
uint64_t allocator_least_margin_us(uint64_t duration_us, uint64_t max_skew_us);

/* Before any quota was granted in the topic, or before allocator_restore(). `a` has ALLOCATOR_BYTES(t->n_regions). */
void allocator_init(struct allocator *a, const struct allocator_terms *t);

/*
 * A new owner found this grant, the region's newest that is committed: it and the largest before it count as if they were
 * granted now; of another whole, by their fraction. Before the first report.
 */
void allocator_restore(struct allocator *a, const struct allocator_terms *t, unsigned region,
		       uint64_t now_us, const struct share_grant *g);

/*
 * The limit of a window or calendar is another: `t` has the new whole, and the floors in parts of it; the old one was `was`. What
 * counts keeps its fraction, rounded up.
 */
void allocator_set_whole(struct allocator *a, const struct allocator_terms *t, uint32_t was);

/*
 * The terms have floors of a new version. Who has terms older than what an owner before confirmed, which allocator_restore()
 * tells, lowers no floor that it counts.
 */
void allocator_set_floors(struct allocator *a, const struct allocator_terms *t);

/*
 * A report of the region's. One that is not newer than the newest says nothing. `epoch`: of this owner, no other has it, and not
 * 0; a promise that echoes another one is none.
 */
void allocator_report(struct allocator *a, const struct allocator_terms *t, uint64_t epoch,
		      unsigned region, uint64_t now_us, const struct share_report *r);

/*
 * Decides which regions get a grant now: those whose report is unanswered, and whose share changes or a third of whose
 * time is over; none, if none had demand for ALLOCATOR_WANTED_US. Each of these counts from now on, committed or not. Sets bit i of the result for region i,
 * whose record is ret_grant[i].
 */
uint32_t allocator_grant(struct allocator *a, const struct allocator_terms *t, uint64_t epoch,
			 uint64_t now_us, struct share_grant ret_grant[ALLOCATOR_REGIONS_MAX]);

/* What a region has now, if it has read its grant; its floor included. */
uint32_t allocator_share(const struct allocator *a, const struct allocator_terms *t,
			 unsigned region, uint64_t now_us);

/* Whether nothing was heard of any region for D. */
bool allocator_is_silent(const struct allocator *a, const struct allocator_terms *t,
			 uint64_t now_us);

/*
 * Whether all of it may be forgotten: nothing was heard for `idle_us` (of a calendar, for its longest window), nothing counts but floors, and
 * nobody was told of other floors than those of the first version. One that begins anew finds the numbers of grants in
 * reports.
 */
bool allocator_is_at_rest(const struct allocator *a, const struct allocator_terms *t,
			  uint64_t now_us, uint64_t idle_us);

/* What counts for a region: the most that it may have now, lent floors taken as its own. */
uint32_t allocator_counted(const struct allocator *a, const struct allocator_terms *t,
			   unsigned region, uint64_t now_us);

/*
 * "loose": how many parts beyond the whole may be in force now, for silent regions go on with a share that the allocator
 * has given to others. 0 for as long as all are in touch.
 */
uint32_t allocator_excess(const struct allocator *a, const struct allocator_terms *t,
			  uint64_t now_us);
