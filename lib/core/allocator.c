#include "core/allocator.h"

#include <assert.h>

#include "core/share_plan.h"

#define EVER UINT32_MAX

/* Of what a region has, so small a part is not moved. */
enum { HYSTERESIS = 50 };

/* A month, with hours set back and clocks that run apart. */
#define CALENDAR_LONGEST_US (UINT64_C(32) * 86400000000)

enum { FLOORS_MAX = (1 << 24) - 1 };
#define SEQ_MAX (UINT32_MAX - 1)

static uint64_t at_most(uint64_t a, uint64_t most)
{
	return a < most ? a : most;
}

static uint32_t greater(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

uint64_t allocator_least_margin_us(uint64_t duration_us, uint64_t max_skew_us)
{
	return 2 * max_skew_us + (duration_us + 99) / 100;
}

/* ---- Ticks ---- */

/* The tick that an instant is in. */
static uint32_t tick_of(uint64_t now_us)
{
	return (uint32_t)at_most(now_us / ALLOCATOR_TICK_US, EVER - 1);
}

/* The first one that is not before it. */
static uint32_t tick_after(uint64_t end_us)
{
	return (uint32_t)at_most((end_us + ALLOCATOR_TICK_US - 1) / ALLOCATOR_TICK_US, EVER);
}

/* How long what was used in a region's window may be in it by our clock. */
static uint64_t window_us(const struct allocator_terms *t)
{
	return t->window_us + allocator_least_margin_us(t->window_us, t->max_skew_us);
}

/* How long something counts that is granted; in a calendar, whatever its window. */
static uint64_t counts_us(const struct allocator_terms *t, uint64_t duration_us)
{
	uint64_t least_us = allocator_least_margin_us(duration_us, t->max_skew_us);
	uint64_t for_us = duration_us + (t->margin_us > least_us ? t->margin_us : least_us);

	return t->kind == SHARE_WINDOW ? for_us + window_us(t) : for_us;
}

/* ---- What counts ---- */

/* What was granted in a calendar window is in it to its end. */
static bool grants_count(const struct allocator_region *r, const struct allocator_terms *t,
			 uint32_t now)
{
	return t->kind == SHARE_CALENDAR || now < r->granted_until;
}

static uint32_t granted_now(const struct allocator_region *r, const struct allocator_terms *t,
			    uint32_t now)
{
	return grants_count(r, t, now) ? r->granted : 0;
}

/* Of a rate nothing is remembered. */
static uint32_t used_now(const struct allocator_region *r, const struct allocator_terms *t,
			 uint32_t now)
{
	bool counts =
		t->kind == SHARE_CALENDAR ||
		(t->kind == SHARE_WINDOW && now < r->heard + (uint64_t)tick_after(window_us(t)));

	return counts ? r->used : 0;
}

/* Beyond its floor: grants, and what windows remember. */
static uint32_t held_now(const struct allocator_region *r, const struct allocator_terms *t,
			 uint32_t now)
{
	uint32_t granted = grants_count(r, t, now) ? greater(r->granted, r->before) : 0;

	return greater(granted, used_now(r, t, now));
}

/* The part of its floor that a region keeps, for grants that count until then. */
static uint32_t own_floor(const struct allocator_region *r, const struct allocator_terms *t,
			  uint32_t until)
{
	if (t->kind == SHARE_CALENDAR || until > r->lent_until)
		return r->floor;
	return r->floor > r->lent ? r->floor - r->lent : 0;
}

/* What region r may have while grants that count until then are in force; in a calendar, in that window. */
static uint32_t counted_for(const struct allocator_region *r, const struct allocator_terms *t,
			    uint32_t now, uint32_t until, uint32_t window)
{
	uint32_t own = own_floor(r, t, until);

	if (t->kind != SHARE_CALENDAR || window == r->window)
		return greater(own, held_now(r, t, now));
	if (window > r->window) /* its grants end with their window */
		return own;
	return window + 1 == r->window ? greater(own, r->held) : t->whole;
}

static uint32_t window_of(const struct allocator_region *r, const struct allocator_terms *t)
{
	return t->kind == SHARE_CALENDAR ? r->window : 0;
}

static uint32_t counted_at(const struct allocator_region *r, const struct allocator_terms *t,
			   uint32_t now)
{
	return counted_for(r, t, now, EVER, window_of(r, t));
}

uint32_t allocator_counted(const struct allocator *a, const struct allocator_terms *t,
			   unsigned region, uint64_t now_us)
{
	return counted_at(&a->region[region], t, tick_of(now_us));
}

uint32_t allocator_share(const struct allocator *a, const struct allocator_terms *t,
			 unsigned region, uint64_t now_us)
{
	const struct allocator_region *r = &a->region[region];
	uint64_t over_us = counts_us(t, t->duration_us) - t->duration_us;
	bool is_granted = now_us + over_us < (uint64_t)r->granted_until * ALLOCATOR_TICK_US;

	return greater(is_granted ? r->granted : 0, own_floor(r, t, tick_of(now_us)));
}

static bool is_silent(const struct allocator_region *r, const struct allocator_terms *t,
		      uint32_t now)
{
	return r->heard == 0 || now > r->heard + (uint64_t)tick_after(t->duration_us);
}

bool allocator_is_silent(const struct allocator *a, const struct allocator_terms *t,
			 uint64_t now_us)
{
	for (unsigned i = 0; i < t->n_regions; i++)
		if (!is_silent(&a->region[i], t, tick_of(now_us)))
			return false;
	return true;
}

static bool region_rests(const struct allocator_region *r, const struct allocator_terms *t,
			 uint32_t now)
{
	if (r->confirmed > 1 || (t->loose && r->granted > 0))
		return false;
	if (t->kind == SHARE_CALENDAR) /* whoever was in its window is no more */
		return true;
	return counted_at(r, t, now) <= r->floor && now > r->lent_until;
}

bool allocator_is_at_rest(const struct allocator *a, const struct allocator_terms *t,
			  uint64_t now_us, uint64_t idle_us)
{
	uint64_t quiet_us = t->kind == SHARE_CALENDAR ? CALENDAR_LONGEST_US : 0;
	uint32_t now = tick_of(now_us), quiet = tick_after(quiet_us > idle_us ? quiet_us : idle_us);
	bool rests = a->newest <= 1;

	for (unsigned i = 0; rests && i < t->n_regions; i++) {
		const struct allocator_region *r = &a->region[i];

		rests = now > r->heard + (uint64_t)quiet && region_rests(r, t, now);
	}
	return rests;
}

uint32_t allocator_excess(const struct allocator *a, const struct allocator_terms *t,
			  uint64_t now_us)
{
	uint32_t now = tick_of(now_us);
	uint64_t sum = 0;

	for (unsigned i = 0; i < t->n_regions; i++) {
		const struct allocator_region *r = &a->region[i];
		uint32_t kept = t->loose ? greater(r->granted, r->before) : 0;

		sum += greater(kept, counted_at(r, t, now));
	}
	return sum > t->whole ? (uint32_t)(sum - t->whole) : 0;
}

/* ---- The beginning ---- */

void allocator_init(struct allocator *a, const struct allocator_terms *t)
{
	assert(t->n_regions >= 1 && t->n_regions <= ALLOCATOR_REGIONS_MAX);
	a->confirmed = a->newest = a->wanted = 0;
	for (unsigned i = 0; i < t->n_regions; i++)
		a->region[i] = (struct allocator_region){.floor = t->region[i].before};
}

void allocator_restore(struct allocator *a, const struct allocator_terms *t, unsigned region,
		       uint64_t now_us, const struct share_grant *g)
{
	struct allocator_region *r = &a->region[region];

	a->newest = greater(a->newest, g->floors);
	*r = (struct allocator_region){
		.clock = g->clock,
		.t0_us = g->t0_us,
		.seq = (uint32_t)at_most(g->seq, SEQ_MAX),
		.granted = share_scale_up(g->parts, g->whole, t->whole),
		.granted_until = tick_after(now_us + counts_us(t, g->duration_us)),
		.before = share_scale_up(g->before, g->whole, t->whole),
		.floor = share_scale_up(g->floor, g->whole, t->whole),
		.confirmed = (uint32_t)at_most(g->floors, FLOORS_MAX) & FLOORS_MAX,
		.answered = true,
		.restored = true,
	};
	if (t->kind == SHARE_CALENDAR) {
		r->window = g->window;
		r->held = t->whole;
	}
}

void allocator_set_whole(struct allocator *a, const struct allocator_terms *t, uint32_t was)
{
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct allocator_region *r = &a->region[i];

		r->granted = share_scale_up(r->granted, was, t->whole);
		r->before = share_scale_up(r->before, was, t->whole);
		r->used = share_scale_up(r->used, was, t->whole);
		r->floor = share_scale_up(r->floor, was, t->whole);
		r->demand = share_scale_down(r->demand, was, t->whole);
		if (t->kind == SHARE_CALENDAR)
			r->held = share_scale_up(r->held, was, t->whole);
		else
			r->lent = share_scale_down(r->lent, was, t->whole);
	}
}

void allocator_set_floors(struct allocator *a, const struct allocator_terms *t)
{
	for (unsigned i = 0; i < t->n_regions; i++)
		a->region[i].cut = false;
}

/* ---- Reports ---- */

static bool is_news(const struct allocator_region *r, const struct allocator_terms *t,
		    const struct share_report *p)
{
	if (t->kind == SHARE_CALENDAR && p->window < r->window)
		return false;
	return p->clock != r->clock ? p->clock > r->clock : p->t0_us > r->t0_us;
}

/* The demand follows at once when it rises, and when it falls by much; with room to grow, for it is known only afterwards. */
static void note_demand(struct allocator_region *r, const struct allocator_terms *t,
			uint32_t demand)
{
	uint32_t wanted = (uint32_t)at_most((uint64_t)demand + demand / 4, t->whole);

	if (wanted > r->demand || wanted < r->demand - r->demand / 4)
		r->demand = wanted;
}

static void note_window(struct allocator_region *r, const struct allocator_terms *t, uint32_t now,
			uint32_t window)
{
	if (t->kind != SHARE_CALENDAR || window == r->window)
		return;
	r->held = counted_for(r, t, now, EVER, window - 1);
	r->window = window;
	r->granted = r->before = r->used = 0;
}

static void note_floors(struct allocator *a, struct allocator_region *r,
			const struct allocator_terms *t, unsigned region, uint32_t floors)
{
	uint32_t floor = t->region[region].floor;

	if (floors < t->floors || t->floors < a->newest)
		return;
	r->cut = true;
	if (floor < r->floor || a->confirmed >= t->floors)
		r->floor = floor;
}

/* A promise made to another epoch echoes a time of another clock. */
static void note_promise(struct allocator_region *r, const struct allocator_terms *t,
			 uint64_t epoch, const struct share_report *p)
{
	uint64_t margin_us = allocator_least_margin_us(t->lend_us, t->max_skew_us);

	if (t->kind == SHARE_CALENDAR)
		return;
	r->lent = 0;
	if (p->lent_epoch != epoch || t->lend_us <= margin_us)
		return;
	r->lent = share_scale_down(p->lent, p->whole, t->whole);
	r->lent_until = tick_of(p->lent_c0_us + t->lend_us - margin_us);
}

/*
 * Grants up to the reported one are in force or never will be. One that is not known here is of an owner before whose records are
 * gone: it may be all.
 */
static void note_seq(struct allocator_region *r, const struct allocator_terms *t, uint64_t now_us,
		     const struct share_report *p)
{
	if (p->seq < r->seq)
		return;
	r->before = 0;
	if (p->seq > r->seq) {
		r->seq = (uint32_t)at_most(p->seq, SEQ_MAX);
		r->granted = t->whole;
		r->granted_until = tick_after(now_us + counts_us(t, t->duration_us));
	}
	r->granted = p->live ? r->granted : 0;
}

/* Amounts that are more than all are all. */
static struct share_report clipped(const struct share_report *p)
{
	struct share_report r = *p;

	r.demand = (uint32_t)at_most(r.demand, r.whole);
	r.used = (uint32_t)at_most(r.used, r.whole);
	r.lent = (uint32_t)at_most(r.lent, r.whole);
	return r;
}

void allocator_report(struct allocator *a, const struct allocator_terms *t, uint64_t epoch,
		      unsigned region, uint64_t now_us, const struct share_report *report)
{
	struct allocator_region *r = &a->region[region];
	const struct share_report p = clipped(report);

	assert(now_us > 0 && now_us <= ALLOCATOR_NOW_MAX_US);
	if (!is_news(r, t, &p))
		return;
	r->clock = p.clock;
	r->t0_us = p.t0_us;
	note_demand(r, t, share_scale_down(p.demand, p.whole, t->whole));
	note_window(r, t, tick_of(now_us), p.window);
	note_floors(a, r, t, region, p.floors);
	note_seq(r, t, now_us, &p);
	r->used = t->kind == SHARE_RATE ? 0 : share_scale_up(p.used, p.whole, t->whole);
	r->heard = tick_after(now_us);
	if (p.demand > 0)
		a->wanted = r->heard;
	r->answered = false;
	note_promise(r, t, epoch, &p);
}

/* ---- Grants ---- */

/* Whether what counts now is of one calendar window: what others held in one that a region is still in may not be known. */
static bool are_in_one_window(const struct allocator *a, const struct allocator_terms *t)
{
	for (unsigned i = 1; i < t->n_regions; i++)
		if (window_of(&a->region[i], t) != window_of(&a->region[0], t))
			return false;
	return true;
}

/* Rises of floors are in force for whoever is told so; before that there must be room for all of them. */
static void confirm_floors(struct allocator *a, const struct allocator_terms *t, uint32_t now)
{
	uint64_t sum = 0;

	if (a->confirmed >= t->floors || t->floors < a->newest || !are_in_one_window(a, t))
		return;
	for (unsigned i = 0; i < t->n_regions; i++)
		sum += greater(counted_at(&a->region[i], t, now), t->region[i].floor);
	if (sum > t->whole)
		return;
	a->confirmed = a->newest = t->floors;
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct allocator_region *r = &a->region[i];

		r->floor = r->cut ? t->region[i].floor : greater(r->floor, t->region[i].floor);
		r->confirmed = (uint32_t)at_most(t->floors, FLOORS_MAX) & FLOORS_MAX;
	}
}

/* What each should have, were there nothing to wait for. */
static void find_targets(const struct allocator *a, const struct allocator_terms *t, uint32_t now,
			 uint32_t until, uint32_t *ret_target)
{
	struct waterfill_claim claims[ALLOCATOR_REGIONS_MAX];
	uint64_t floors = 0;

	for (unsigned i = 0; i < t->n_regions; i++) {
		const struct allocator_region *r = &a->region[i];

		claims[i] = (struct waterfill_claim){own_floor(r, t, until),
						     is_silent(r, t, now) ? 0 : r->demand,
						     t->region[i].weight};
		floors += claims[i].floor;
		ret_target[i] = claims[i].floor;
	}
	if (floors <= t->whole)
		waterfill(t->whole, claims, t->n_regions, ret_target);
}

/* What nobody else may have. */
static uint32_t room_for(const struct allocator *a, const struct allocator_terms *t,
			 unsigned region, uint32_t now, uint32_t until)
{
	uint32_t window = window_of(&a->region[region], t);
	uint64_t others = 0;

	for (unsigned i = 0; i < t->n_regions; i++)
		if (i != region)
			others += counted_for(&a->region[i], t, now, until, window);
	return others < t->whole ? (uint32_t)(t->whole - others) : 0;
}

/*
 * How much of the target it gets; what it has, if that is nearly it. Not its floor as a matter of course: that may be lent by a
 * promise to another epoch, which is not known here, and a grant would take it back too early.
 */
static uint32_t choose(const struct allocator_terms *t, uint32_t has, uint32_t target,
		       uint32_t room)
{
	uint32_t apart = has > target ? has - target : target - has;

	if (apart <= t->whole / HYSTERESIS && has <= room)
		return has;
	return target < room ? target : room;
}

/* Whether a third of the newest grant's time is over. */
static bool is_due(const struct allocator_region *r, const struct allocator_terms *t,
		   uint64_t now_us)
{
	uint64_t until_us = (uint64_t)r->granted_until * ALLOCATOR_TICK_US;

	return r->restored ||
	       now_us + counts_us(t, t->duration_us) >= until_us + t->duration_us / 3;
}

/* The grants of before count for as long as the longest of all. */
static void give(struct allocator_region *r, const struct allocator_terms *t, uint32_t now,
		 uint32_t until, uint32_t parts)
{
	/* Where a grant goes on without news, what counts no more may be in force all the same. */
	bool lasts = t->loose || grants_count(r, t, now);

	r->before = lasts ? greater(r->granted, r->before) : 0;
	r->granted = parts;
	r->granted_until = greater(until, r->granted_until);
	r->seq += r->seq < SEQ_MAX;
	r->answered = true;
	r->restored = false;
}

static struct share_grant record_of(const struct allocator_region *r,
				    const struct allocator_terms *t, uint64_t epoch,
				    uint64_t now_us)
{
	return (struct share_grant){
		.seq = r->seq,
		.clock = r->clock,
		.t0_us = r->t0_us,
		.duration_us = t->duration_us,
		.whole = t->whole,
		.parts = r->granted,
		.before = greater(r->before, used_now(r, t, tick_of(now_us))),
		.window = window_of(r, t),
		.floor = r->floor,
		.floors = r->confirmed,
		.epoch = epoch,
		.c0_us = now_us,
	};
}

static bool is_wanted(const struct allocator *a, uint32_t now)
{
	return a->wanted > 0 && now <= a->wanted + (uint64_t)tick_after(ALLOCATOR_WANTED_US);
}

uint32_t allocator_grant(struct allocator *a, const struct allocator_terms *t, uint64_t epoch,
			 uint64_t now_us, struct share_grant ret_grant[ALLOCATOR_REGIONS_MAX])
{
	uint32_t now = tick_of(now_us), until = tick_after(now_us + counts_us(t, t->duration_us));
	uint32_t target[ALLOCATOR_REGIONS_MAX], given = 0;

	assert(epoch != 0 && now_us > 0 && now_us <= ALLOCATOR_NOW_MAX_US);
	if (!is_wanted(a, now))
		return 0;
	confirm_floors(a, t, now);
	find_targets(a, t, now, until, target);
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct allocator_region *r = &a->region[i];
		uint32_t has = granted_now(r, t, now), parts;

		if (r->answered || r->clock == 0)
			continue;
		parts = choose(t, has, target[i], room_for(a, t, i, now, until));
		if (parts == has && !is_due(r, t, now_us))
			continue;
		give(r, t, now, until, parts);
		given |= UINT32_C(1) << i;
		ret_grant[i] = record_of(r, t, epoch, now_us);
	}
	return given;
}
