#include "core/allocator.h"

#include <assert.h>

#include "core/share_plan.h"

#define EVER UINT64_MAX

/* Of what a region has, so small a part is not moved. */
enum { HYSTERESIS = 50 };

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

/* How long what was used in a region's window may be in it by our clock. */
static uint64_t window_us(const struct allocator_terms *t)
{
	return t->window_us + allocator_least_margin_us(t->window_us, t->max_skew_us);
}

/* Until when something counts that was granted now. */
static uint64_t counts_until_us(const struct allocator_terms *t, uint64_t now_us,
				uint64_t duration_us)
{
	uint64_t least_us = allocator_least_margin_us(duration_us, t->max_skew_us);
	uint64_t until_us =
		now_us + duration_us + (t->margin_us > least_us ? t->margin_us : least_us);

	if (t->kind == SHARE_CALENDAR)
		return EVER;
	return t->kind == SHARE_WINDOW ? until_us + window_us(t) : until_us;
}

/* ---- What counts ---- */

static uint32_t granted_now(const struct allocator_region *r, uint64_t now_us)
{
	return now_us < r->granted_until_us ? r->granted : 0;
}

static uint32_t before_now(const struct allocator_region *r, uint64_t now_us)
{
	return now_us < r->before_until_us ? r->before : 0;
}

static uint32_t used_now(const struct allocator_region *r, uint64_t now_us)
{
	return now_us < r->used_until_us ? r->used : 0;
}

/* Beyond its floor: grants, and what windows remember. */
static uint32_t held_now(const struct allocator_region *r, uint64_t now_us)
{
	return greater(greater(granted_now(r, now_us), before_now(r, now_us)), used_now(r, now_us));
}

/* The part of its floor that a region keeps, for grants that count until then. */
static uint32_t own_floor(const struct allocator_region *r, uint64_t until_us)
{
	if (until_us > r->lent_until_us)
		return r->floor;
	return r->floor > r->lent ? r->floor - r->lent : 0;
}

/* What region r may have while grants that count until then are in force; in a calendar, in that window. */
static uint32_t counted_for(const struct allocator_region *r, const struct allocator_terms *t,
			    uint64_t now_us, uint64_t until_us, uint32_t window)
{
	uint32_t own = own_floor(r, until_us);

	if (t->kind != SHARE_CALENDAR || window == r->window)
		return greater(own, held_now(r, now_us));
	if (window > r->window) /* its grants end with their window */
		return own;
	return window + 1 == r->window ? greater(own, r->held) : t->whole;
}

uint32_t allocator_counted(const struct allocator *a, const struct allocator_terms *t,
			   unsigned region, uint64_t now_us)
{
	const struct allocator_region *r = &a->region[region];

	return counted_for(r, t, now_us, EVER, r->window);
}

uint32_t allocator_excess(const struct allocator *a, const struct allocator_terms *t,
			  uint64_t now_us)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < t->n_regions; i++) {
		const struct allocator_region *r = &a->region[i];
		uint32_t kept = t->loose ? greater(r->granted, r->before) : 0;

		sum += greater(kept, allocator_counted(a, t, i, now_us));
	}
	return sum > t->whole ? (uint32_t)(sum - t->whole) : 0;
}

/* ---- The beginning ---- */

void allocator_init(struct allocator *a, const struct allocator_terms *t, uint64_t epoch)
{
	assert(epoch != 0 && t->n_regions >= 1 && t->n_regions <= ALLOCATOR_REGIONS_MAX);
	*a = (struct allocator){.epoch = epoch};
	for (unsigned i = 0; i < t->n_regions; i++)
		a->region[i].floor = t->region[i].before;
}

void allocator_restore(struct allocator *a, const struct allocator_terms *t, unsigned region,
		       uint64_t now_us, const struct share_grant *g)
{
	uint64_t until_us = counts_until_us(t, now_us, g->duration_us);

	a->newest = greater(a->newest, g->floors);
	a->region[region] = (struct allocator_region){
		.clock = g->clock,
		.t0_us = g->t0_us,
		.seq = g->seq,
		.granted = share_scale_up(g->parts, g->whole, t->whole),
		.granted_until_us = until_us,
		.before = share_scale_up(g->before, g->whole, t->whole),
		.before_until_us = until_us,
		.floor = share_scale_up(g->floor, g->whole, t->whole),
		.confirmed = g->floors,
		.window = g->window,
		.held = t->whole,
		.answered = true,
	};
}

void allocator_set_whole(struct allocator *a, const struct allocator_terms *t, uint32_t was)
{
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct allocator_region *r = &a->region[i];

		r->granted = share_scale_up(r->granted, was, t->whole);
		r->before = share_scale_up(r->before, was, t->whole);
		r->used = share_scale_up(r->used, was, t->whole);
		r->held = share_scale_up(r->held, was, t->whole);
		r->floor = share_scale_up(r->floor, was, t->whole);
		r->demand = share_scale_down(r->demand, was, t->whole);
		r->lent = share_scale_down(r->lent, was, t->whole);
	}
}

void allocator_set_floors(struct allocator *a, const struct allocator_terms *t)
{
	for (unsigned i = 0; i < t->n_regions; i++)
		a->region[i].cut = false;
}

/* ---- Reports ---- */

static bool is_news(const struct allocator_region *r, const struct share_report *p)
{
	if (p->clock != r->clock)
		return p->clock > r->clock && p->window >= r->window;
	return p->t0_us > r->t0_us && p->window >= r->window;
}

/* The demand follows at once when it rises, and when it falls by much; with room to grow, for it is known only afterwards. */
static void note_demand(struct allocator_region *r, const struct allocator_terms *t,
			uint32_t demand)
{
	uint32_t wanted = (uint32_t)at_most((uint64_t)demand + demand / 4, t->whole);

	if (wanted > r->demand || wanted < r->demand - r->demand / 4)
		r->demand = wanted;
}

static void note_window(struct allocator_region *r, const struct allocator_terms *t,
			uint64_t now_us, uint32_t window)
{
	if (t->kind != SHARE_CALENDAR || window == r->window)
		return;
	r->held = counted_for(r, t, now_us, EVER, window - 1);
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

static void note_used(struct allocator_region *r, const struct allocator_terms *t, uint64_t now_us,
		      uint32_t used)
{
	if (t->kind == SHARE_RATE)
		return;
	r->used = used;
	r->used_until_us = t->kind == SHARE_CALENDAR ? EVER : now_us + window_us(t);
}

/* A promise made to another epoch echoes a time of another clock. */
static void note_promise(const struct allocator *a, struct allocator_region *r,
			 const struct allocator_terms *t, const struct share_report *p)
{
	uint64_t margin_us = allocator_least_margin_us(t->lend_us, t->max_skew_us);

	r->lent = 0;
	if (p->lent_epoch != a->epoch || t->kind == SHARE_CALENDAR || t->lend_us <= margin_us)
		return;
	r->lent = share_scale_down(p->lent, p->whole, t->whole);
	r->lent_until_us = p->lent_c0_us + t->lend_us - margin_us;
}

void allocator_report(struct allocator *a, const struct allocator_terms *t, unsigned region,
		      uint64_t now_us, const struct share_report *p)
{
	struct allocator_region *r = &a->region[region];

	if (!is_news(r, p))
		return;
	r->clock = p->clock;
	r->t0_us = p->t0_us;
	r->heard_us = now_us;
	r->answered = false;
	note_demand(r, t, share_scale_down(p->demand, p->whole, t->whole));
	note_window(r, t, now_us, p->window);
	note_floors(a, r, t, region, p->floors);
	if (p->seq >= r->seq) {
		r->before = 0;
		r->granted = p->live ? r->granted : 0;
	}
	note_used(r, t, now_us, share_scale_up(p->used, p->whole, t->whole));
	note_promise(a, r, t, p);
}

/* ---- Grants ---- */

/* Whether what counts now is of one calendar window: what others held in one that a region is still in may not be known. */
static bool are_in_one_window(const struct allocator *a, const struct allocator_terms *t)
{
	for (unsigned i = 1; i < t->n_regions; i++)
		if (a->region[i].window != a->region[0].window)
			return false;
	return true;
}

/* Rises of floors are in force for whoever is told so; before that there must be room for all of them. */
static void confirm_floors(struct allocator *a, const struct allocator_terms *t, uint64_t now_us)
{
	uint64_t sum = 0;

	if (a->confirmed >= t->floors || t->floors < a->newest || !are_in_one_window(a, t))
		return;
	for (unsigned i = 0; i < t->n_regions; i++)
		sum += greater(allocator_counted(a, t, i, now_us), t->region[i].floor);
	if (sum > t->whole)
		return;
	a->confirmed = a->newest = t->floors;
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct allocator_region *r = &a->region[i];

		r->floor = r->cut ? t->region[i].floor : greater(r->floor, t->region[i].floor);
		r->confirmed = t->floors;
	}
}

/* What each should have, were there nothing to wait for. */
static void find_targets(const struct allocator *a, const struct allocator_terms *t,
			 uint64_t now_us, uint64_t until_us, uint32_t *ret_target)
{
	struct waterfill_claim claims[ALLOCATOR_REGIONS_MAX];
	uint64_t floors = 0;

	for (unsigned i = 0; i < t->n_regions; i++) {
		const struct allocator_region *r = &a->region[i];
		bool silent = now_us > r->heard_us + t->duration_us;

		claims[i] = (struct waterfill_claim){own_floor(r, until_us), silent ? 0 : r->demand,
						     t->region[i].weight};
		floors += claims[i].floor;
		ret_target[i] = claims[i].floor;
	}
	if (floors <= t->whole)
		waterfill(t->whole, claims, t->n_regions, ret_target);
}

/* What nobody else may have. */
static uint32_t room_for(const struct allocator *a, const struct allocator_terms *t,
			 unsigned region, uint64_t now_us, uint64_t until_us)
{
	uint64_t others = 0;

	for (unsigned i = 0; i < t->n_regions; i++)
		if (i != region)
			others += counted_for(&a->region[i], t, now_us, until_us,
					      a->region[region].window);
	return others < t->whole ? (uint32_t)(t->whole - others) : 0;
}

/*
 * How much of the target it gets; what it has, if that is nearly it. Not its floor as a matter of course: that may be lent by a
 * promise to another epoch, which is not known here, and a grant would take it back too early.
 */
static uint32_t choose(const struct allocator_region *r, const struct allocator_terms *t,
		       uint64_t now_us, uint32_t target, uint32_t room)
{
	uint32_t has = granted_now(r, now_us);
	uint32_t apart = has > target ? has - target : target - has;

	if (apart <= t->whole / HYSTERESIS && has <= room)
		return has;
	return target < room ? target : room;
}

static void give(struct allocator_region *r, const struct allocator_terms *t, uint64_t now_us,
		 uint64_t until_us, uint32_t parts)
{
	uint32_t granted = t->loose ? r->granted : granted_now(r, now_us);
	uint32_t before = t->loose ? r->before : before_now(r, now_us);

	/* Where a grant goes on without news, what counts no more may be in force all the same. */
	if (before == 0 || r->granted_until_us > r->before_until_us)
		r->before_until_us = r->granted_until_us;
	r->before = greater(granted, before);
	r->granted = parts;
	r->granted_us = now_us;
	r->granted_until_us = until_us;
	r->seq++;
	r->answered = true;
}

uint32_t allocator_grant(struct allocator *a, const struct allocator_terms *t, uint64_t now_us,
			 struct share_grant ret_grant[ALLOCATOR_REGIONS_MAX])
{
	uint64_t until_us = counts_until_us(t, now_us, t->duration_us);
	uint32_t target[ALLOCATOR_REGIONS_MAX], given = 0;

	confirm_floors(a, t, now_us);
	find_targets(a, t, now_us, until_us, target);
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct allocator_region *r = &a->region[i];
		uint32_t parts;

		if (r->answered || r->clock == 0)
			continue;
		parts = choose(r, t, now_us, target[i], room_for(a, t, i, now_us, until_us));
		if (parts == granted_now(r, now_us) && now_us < r->granted_us + t->duration_us / 3)
			continue;
		give(r, t, now_us, until_us, parts);
		given |= UINT32_C(1) << i;
		ret_grant[i] = (struct share_grant){
			.seq = r->seq,
			.clock = r->clock,
			.t0_us = r->t0_us,
			.duration_us = t->duration_us,
			.whole = t->whole,
			.parts = parts,
			.before = greater(r->before, used_now(r, now_us)),
			.window = r->window,
			.floor = r->floor,
			.floors = r->confirmed,
			.epoch = a->epoch,
			.c0_us = now_us,
		};
	}
	return given;
}
