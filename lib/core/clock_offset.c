#include "core/clock_offset.h"

#include "core/limit.h"

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* How far the clocks may have drifted apart in that time, µs. */
static int64_t drift_us(const struct clock_reading *from, const struct clock_reading *to)
{
	return (int64_t)(distance(to->boot_us, from->boot_us) /
			 (1000000 / CLOCK_OFFSET_DRIFT_PPM)) +
	       1;
}

bool clock_was_set(const struct clock_reading *from, const struct clock_reading *to)
{
	uint64_t wall_us = to->wall_us - from->wall_us, boot_us = to->boot_us - from->boot_us;

	return (int64_t)(wall_us - boot_us) > CLOCK_OFFSET_STEP_US ||
	       (int64_t)(boot_us - wall_us) > CLOCK_OFFSET_STEP_US;
}

/* What is known of `now`. */
static struct clock_offset aged(const struct clock_offset *o, const struct clock_reading *now)
{
	struct clock_offset a = *o;

	a.known = o->known && !clock_was_set(&o->heard, now);
	a.least_us -= drift_us(&o->heard, now);
	a.most_us += drift_us(&o->heard, now);
	return a;
}

bool clock_offset_hear(struct clock_offset *o, const struct clock_reading *sent,
		       const struct clock_reading *received, uint64_t peer_us)
{
	struct clock_offset before = aged(o, received);
	struct clock_offset heard = {.known = true,
				     .least_us = (int64_t)(peer_us - received->wall_us),
				     .most_us = (int64_t)(peer_us - sent->wall_us),
				     .heard = *received};
	bool fits = !o->known || (before.known && heard.least_us <= before.most_us &&
				  before.least_us <= heard.most_us);

	if (clock_was_set(sent, received) || received->wall_us < sent->wall_us) {
		*o = (struct clock_offset){0};
		return false;
	}
	if (before.known && fits) {
		heard.least_us =
			before.least_us > heard.least_us ? before.least_us : heard.least_us;
		heard.most_us = before.most_us < heard.most_us ? before.most_us : heard.most_us;
	}
	*o = heard;
	return fits;
}

bool clock_offset_differs(const struct clock_offset *o, const struct clock_reading *now,
			  uint64_t max_skew_us)
{
	struct clock_offset a = aged(o, now);

	return a.known && (a.least_us > (int64_t)max_skew_us || a.most_us < -(int64_t)max_skew_us);
}

struct clock_bounds clock_offset_bounds(const struct clock_offset *o,
					const struct clock_reading *now, uint64_t max_skew_us,
					uint64_t patience_us)
{
	struct clock_offset a = aged(o, now);
	int64_t ahead_us = (int64_t)max_skew_us;

	if (clock_offset_differs(o, now, max_skew_us))
		return (struct clock_bounds){.earliest_us = LIMIT_FOREVER_US, .latest_us = 0};
	if (a.known && a.most_us < ahead_us)
		ahead_us = a.most_us;
	return (struct clock_bounds){
		.earliest_us = now->wall_us > max_skew_us ? now->wall_us - max_skew_us : 0,
		.latest_us = now->wall_us + patience_us + (uint64_t)ahead_us,
	};
}

struct clock_bounds clock_offset_expected(const struct clock_offset *o,
					  const struct clock_reading *now, uint64_t max_skew_us,
					  uint64_t patience_us)
{
	struct clock_offset a = aged(o, now);
	int64_t earliest_us = (int64_t)now->wall_us + a.least_us - (int64_t)max_skew_us;
	uint64_t latest_us = now->wall_us + (uint64_t)a.most_us + patience_us + max_skew_us;

	return (struct clock_bounds){
		.earliest_us = earliest_us > 0 ? (uint64_t)earliest_us : 0,
		.latest_us = latest_us < LIMIT_FOREVER_US ? latest_us : LIMIT_FOREVER_US,
	};
}

int64_t clock_offset_us(const struct clock_offset *o)
{
	return o->known ? o->least_us + (o->most_us - o->least_us) / 2 : 0;
}
