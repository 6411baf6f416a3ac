#include "core/region_share.h"

#include <assert.h>

static uint64_t at_least(uint64_t a, uint64_t least)
{
	return a > least ? a : least;
}

/* The clock as the share sees it: never back. */
static uint64_t see(struct region_share *s, uint64_t now_us)
{
	s->seen_us = at_least(now_us, s->seen_us);
	return s->seen_us;
}

static uint32_t share_at(const struct region_share *s, uint64_t at_us)
{
	uint32_t own = at_us < s->lent_until_us ? s->floor - s->lent : s->floor;

	return at_us < s->until_us && s->granted > own ? s->granted : own;
}

/* The plan from now on, as it follows from the rest. */
static void plan(struct region_share *s, uint64_t now_us)
{
	uint64_t first_us = s->until_us, second_us = s->lent_until_us;

	if (second_us < first_us) {
		first_us = s->lent_until_us;
		second_us = s->until_us;
	}
	share_plan_set(&s->plan, now_us, share_at(s, now_us));
	if (first_us > now_us)
		share_plan_then(&s->plan, first_us, share_at(s, first_us));
	if (second_us > now_us && second_us > first_us)
		share_plan_then(&s->plan, second_us, share_at(s, second_us));
}

void region_share_init(struct region_share *s, uint64_t clock, uint64_t now_us, uint32_t whole,
		       uint32_t floor)
{
	*s = (struct region_share){.whole = whole, .seen_us = now_us, .floor = floor};
	share_plan_init(&s->plan, clock, now_us, floor);
}

uint32_t region_share_now(struct region_share *s, uint64_t now_us)
{
	return share_plan_at(&s->plan, see(s, now_us));
}

bool region_share_is_granted(const struct region_share *s, uint64_t now_us)
{
	return at_least(now_us, s->seen_us) < s->until_us;
}

/* ---- Reports wait for leases ---- */

/*
 * From now on less may be in force than leases hold: until these have ended, reports say what they would have said. Called
 * before anything changes.
 */
static void settle(struct region_share *s, uint64_t now_us, uint64_t until_us)
{
	if (until_us <= now_us)
		return;
	if (s->settles_us <= s->seen_us) {
		s->told_seq = s->seq;
		s->told_floors = s->floors;
		s->told_live = s->seen_us < s->until_us;
	}
	s->settles_us = until_us;
}

void region_share_report(struct region_share *s, uint64_t now_us, struct share_report *ret_report)
{
	bool settled, lends;

	now_us = see(s, now_us);
	settled = s->settles_us <= now_us;
	lends = now_us < s->lent_until_us;
	*ret_report = (struct share_report){
		.clock = s->plan.clock,
		.t0_us = now_us,
		.whole = s->whole,
		.seq = settled ? s->seq : s->told_seq,
		.live = settled ? region_share_is_granted(s, now_us) : s->told_live,
		.floors = settled ? s->floors : s->told_floors,
		.lent = lends ? s->lent : 0,
		.lent_epoch = lends ? s->lent_epoch : 0,
		.lent_c0_us = lends ? s->lent_c0_us : 0,
	};
}

/* ---- Grants ---- */

static void confirm_floors(struct region_share *s, uint32_t floors)
{
	if (floors <= s->confirmed)
		return;
	s->confirmed = floors;
	if (s->risen_at != 0 && floors >= s->risen_at) {
		s->floor = s->risen;
		s->risen_at = 0;
	}
}

static uint64_t grant_end_us(const struct region_share *s, const struct region_share_terms *t,
			     uint64_t now_us, const struct share_grant *g, uint64_t window_end_us)
{
	uint64_t end_us = t->loose ? LIMIT_FOREVER_US : g->t0_us + g->duration_us;

	if (g->clock != s->plan.clock || g->t0_us > now_us)
		return 0;
	end_us = end_us < window_end_us ? end_us : window_end_us;
	return end_us > now_us ? end_us : 0;
}

bool region_share_read(struct region_share *s, const struct region_share_terms *t, uint64_t now_us,
		       const struct share_grant *g, uint64_t window_end_us)
{
	uint64_t until_us;
	uint32_t parts;

	now_us = see(s, now_us);
	if (g->seq <= s->seq)
		return false;
	until_us = grant_end_us(s, t, now_us, g, window_end_us);
	parts = share_scale_down(g->parts, g->whole, s->whole);
	if (until_us == 0 || parts < s->granted || until_us < s->until_us)
		settle(s, now_us, s->leases_until_us);
	s->seq = g->seq;
	s->granted = until_us > 0 ? parts : 0;
	s->until_us = until_us;
	s->epoch = g->epoch;
	s->c0_us = g->c0_us;
	s->read_us = now_us;
	confirm_floors(s, g->floors);
	plan(s, now_us);
	return true;
}

/* ---- Floors ---- */

void region_share_set_floor(struct region_share *s, uint64_t now_us, uint32_t floors,
			    uint32_t floor)
{
	now_us = see(s, now_us);
	if (floors <= s->floors)
		return;
	if (floor < s->floor) {
		settle(s, now_us, s->leases_until_us);
		s->floor = floor;
		s->lent = s->lent < floor ? s->lent : floor;
	}
	s->floors = floors;
	s->risen = floor;
	s->risen_at = floor > s->floor ? floors : 0;
	if (s->risen_at != 0 && s->confirmed >= floors) {
		s->floor = floor;
		s->risen_at = 0;
	}
	plan(s, now_us);
}

/* ---- The limit ---- */

void region_share_set_whole(struct region_share *s, uint64_t now_us, uint32_t whole,
			    uint32_t floors, uint32_t floor)
{
	uint32_t was = s->whole;

	now_us = see(s, now_us);
	settle(s, now_us, s->leases_until_us);
	s->whole = whole;
	s->granted = share_scale_down(s->granted, was, whole);
	s->floor = share_scale_down(s->floor, was, whole);
	s->risen = share_scale_down(s->risen, was, whole);
	if (floors == s->floors && s->risen_at == 0)
		s->floor = floor;
	else if (floors == s->floors)
		s->risen = floor > s->floor ? floor : s->floor;
	s->lent = share_scale_up(s->lent, was, whole);
	s->lent = s->lent < s->floor ? s->lent : s->floor;
	share_plan_scale(&s->plan, was, whole);
	plan(s, now_us);
}

/* ---- The clock ---- */

void region_share_jump(struct region_share *s, const struct region_share_terms *t, uint64_t now_us)
{
	bool lends = s->seen_us < s->lent_until_us;

	settle(s, now_us, now_us + t->lease_max_us);
	s->leases_until_us = now_us + t->lease_max_us;
	s->seen_us = now_us;
	s->until_us = 0;
	s->granted = 0;
	s->read_us = 0;
	s->epoch = 0;
	s->lent_until_us = lends ? now_us + t->lend_us : 0;
	s->lent = lends ? s->lent : 0;
	share_plan_restart(&s->plan, s->plan.clock + 1, now_us, share_at(s, now_us));
	plan(s, now_us);
}

/* ---- Lending ---- */

bool region_share_lend(struct region_share *s, const struct region_share_terms *t, uint64_t now_us,
		       uint32_t parts, uint32_t used)
{
	bool lends;

	now_us = see(s, now_us);
	lends = now_us < s->lent_until_us;
	assert(parts > 0);
	if (parts > s->floor || used > s->floor - parts || (lends && parts < s->lent))
		return false;
	if (s->epoch == 0 || now_us >= s->read_us + t->lend_us / 2 || s->leases_until_us > now_us)
		return false;
	s->lent = parts;
	s->lent_until_us = at_least(s->lent_until_us, s->read_us + t->lend_us);
	s->lent_epoch = s->epoch;
	s->lent_c0_us = s->c0_us;
	plan(s, now_us);
	return true;
}

/* ---- Leases ---- */

uint64_t region_share_lease_end_us(const struct region_share *s, const struct region_share_terms *t,
				   uint64_t now_us)
{
	uint64_t end_us = at_least(now_us, s->seen_us) + t->lease_max_us;

	return now_us < s->until_us && s->until_us < end_us ? s->until_us : end_us;
}

void region_share_leased(struct region_share *s, uint64_t end_us)
{
	s->leases_until_us = at_least(s->leases_until_us, end_us);
}
