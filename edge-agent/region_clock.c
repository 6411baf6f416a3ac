#include "region_clock.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/clock.h"
#include "io/log.h"

enum { SHARDS_MAX = 1024, SAID_AGAIN_US = 10000000 };

struct shard_clock {
	struct clock_offset offset;
	struct clock_offset steady; /* as `offset`, to CLOCK_BOOTTIME instead of our wall clock */
	bool refused;
	uint64_t heard_us; /* CLOCK_BOOTTIME of its last answer */
	uint64_t said_us;  /* ... and when that was logged last */
};

void region_clock_init(struct region_clock *c, uint64_t max_skew_ms, uint64_t patience_ms,
		       bool by_shard)
{
	*c = (struct region_clock){.max_skew_us = max_skew_ms * 1000,
				   .patience_us = patience_ms * 1000,
				   .by_shard = by_shard};
}

void region_clock_release(struct region_clock *c)
{
	free(c->shards);
}

/* NULL: nobody serves the slot now, or memory is short. Then each call is judged by itself. */
static struct shard_clock *shard_of(struct region_clock *c, unsigned shard)
{
	struct shard_clock *shards;

	if (shard < c->n_shards)
		return &c->shards[shard];
	if (shard >= SHARDS_MAX)
		return NULL;
	shards = realloc(c->shards, (shard + 1) * sizeof *shards);
	if (shards == NULL)
		return NULL;
	c->shards = shards;
	while (c->n_shards <= shard)
		c->shards[c->n_shards++] = (struct shard_clock){0};
	return &c->shards[shard];
}

/* As if our wall clock were the steady one. */
static struct clock_reading steady(const struct clock_reading *r)
{
	return (struct clock_reading){r->boot_us, r->boot_us};
}

/* When Redis's clock can be, unless it is set; where nothing is known of it, as if the clocks agree. */
static struct clock_bounds steady_bounds(const struct region_clock *c, const struct shard_clock *s,
					 const struct clock_reading *sent,
					 const struct clock_bounds *wall)
{
	struct clock_reading now = steady(sent);

	if (s == NULL || !s->steady.known)
		return *wall;
	return clock_offset_expected(&s->steady, &now, c->max_skew_us, c->patience_us);
}

struct script_call region_clock_call(struct region_clock *c, unsigned shard,
				     struct clock_reading *ret_sent)
{
	static const struct clock_offset unknown;
	const struct shard_clock *s = shard_of(c, shard);
	struct clock_bounds bounds, unset;

	*ret_sent = clock_read();
	bounds = clock_offset_bounds(s != NULL ? &s->offset : &unknown, ret_sent, c->max_skew_us,
				     c->patience_us);
	unset = steady_bounds(c, s, ret_sent, &bounds);
	return (struct script_call){
		.stamp = hlc_now(&c->hlc, ret_sent->wall_us / 1000),
		.earliest_us = bounds.earliest_us,
		.latest_us = bounds.latest_us,
		.steady_earliest_us = unset.earliest_us,
		.steady_latest_us = unset.latest_us,
	};
}

const char *region_clock_peer(const struct region_clock *c, unsigned shard,
			      char ret_name[REGION_PEER_BYTES])
{
	const char *of = c->far != NULL ? "@" : "", *far = c->far != NULL ? c->far : "";

	if (c->by_shard)
		snprintf(ret_name, REGION_PEER_BYTES, "redis:%u%s%s", shard, of, far);
	else
		snprintf(ret_name, REGION_PEER_BYTES, "redis%s%s", of, far);
	return ret_name;
}

/* While it lasts it is said again now and then. */
static void say_skew(const struct region_clock *c, struct shard_clock *s, unsigned shard,
		     uint64_t now_us)
{
	char peer[REGION_PEER_BYTES];

	if (s->refused && now_us - s->said_us < SAID_AGAIN_US)
		return;
	s->said_us = now_us;
	log_event(LOG_WARN, "clock_skew",
		  "this agent's clock and the store's differ: nothing is refilled for its calls",
		  LOG_TEXT_FIELD("peer", region_clock_peer(c, shard, peer)),
		  LOG_INT_FIELD("skew_ms", clock_offset_us(&s->offset) / 1000));
}

/*
 * Hears what `shard` says of its clock. Whether a call in which nothing was refilled met clocks that differ, before it or by
 * its answer: a call that was held up on its way is refused too, and then the clocks agree.
 */
static bool hear_shard(struct region_clock *c, struct shard_clock *s,
		       const struct clock_reading *sent, const struct clock_reading *now,
		       uint64_t redis_us)
{
	bool differed = clock_offset_differs(&s->offset, sent, c->max_skew_us);
	struct clock_reading left = steady(sent), received = steady(now);
	bool fits = clock_offset_hear(&s->offset, sent, now, redis_us);

	clock_offset_hear(&s->steady, &left, &received, redis_us);
	c->leaps += !fits;
	return differed || !fits || clock_offset_differs(&s->offset, now, c->max_skew_us);
}

void region_clock_hear(struct region_clock *c, unsigned shard, const struct clock_reading *sent,
		       uint64_t redis_us, bool refill_refused)
{
	struct shard_clock *s = shard_of(c, shard);
	struct clock_reading now = clock_read();
	bool skewed = refill_refused;

	c->heard_boot_us = now.boot_us;
	c->redis_offset_us = (int64_t)redis_us - (int64_t)now.boot_us;
	c->heard = true;
	hlc_hear(&c->hlc, redis_us / 1000 << HLC_COUNTER_BITS, now.wall_us / 1000,
		 c->max_skew_us / 1000);
	if (s != NULL) {
		skewed = hear_shard(c, s, sent, &now, redis_us) && refill_refused;
		if (skewed)
			say_skew(c, s, shard, now.boot_us);
		s->refused = skewed;
		s->heard_us = now.boot_us;
	}
	c->refusals += skewed;
}

uint64_t region_clock_now_us(const struct region_clock *c)
{
	const struct clock_reading now = clock_read();

	return c->heard ? (uint64_t)((int64_t)now.boot_us + c->redis_offset_us) : now.wall_us;
}

struct region_skew region_clock_skew(const struct region_clock *c, unsigned shard)
{
	const struct shard_clock *s = &c->shards[shard];
	const struct clock_reading now = clock_read();

	return (struct region_skew){
		.known = s->offset.known,
		.refused = s->refused && !clock_was_set(&s->offset.heard, &now),
		.us = clock_offset_us(&s->offset),
		.heard_us = s->heard_us,
	};
}
