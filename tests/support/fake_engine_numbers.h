/* What an engine that decides nothing says of itself. */
#pragma once

#include "engine_life.h"
#include "pool_service.h"
#include "top_keys.h"
#include "usage.h"

void engine_report_usage(struct engine *e)
{
	(void)e;
}

void engine_may_have_more(struct engine *e, struct slice policy, struct slice root)
{
	(void)e;
	(void)policy;
	(void)root;
}

const struct region_clock *engine_clock(const struct engine *e, unsigned i)
{
	(void)e;
	(void)i;
	return NULL;
}

struct site_health engine_site_health(const struct engine *e, unsigned i)
{
	(void)e;
	(void)i;
	return (struct site_health){0};
}

struct home_counters engine_home_counters(const struct engine *e)
{
	(void)e;
	return (struct home_counters){0};
}

struct region_counters engine_region_counters(const struct engine *e)
{
	(void)e;
	return (struct region_counters){0};
}

uint32_t engine_least_version(const struct engine *e)
{
	(void)e;
	return 1;
}

void engine_new_batch(struct engine *e)
{
	(void)e;
}

struct leases_counters engine_leases_counters(const struct engine *e)
{
	(void)e;
	return (struct leases_counters){0};
}

/* ---- The pools: there are none ---- */

struct pool_request *pool_request_new(struct pool_service *s, enum pool_request_kind kind)
{
	(void)s;
	(void)kind;
	return NULL;
}

void pool_request_free(struct pool_request *r)
{
	(void)r;
}

void pool_ask(struct pool_request *r)
{
	(void)r;
}

void pool_request_abandon(struct pool_request *r)
{
	(void)r;
}

void pool_service_look(const struct pool_service *s, struct slice pool,
		       const struct pool_counts **ret_counts, const struct pool_view **ret_view)
{
	(void)s;
	(void)pool;
	*ret_counts = NULL;
	*ret_view = NULL;
}

/* Nothing was counted. */
const struct top_keys *usage_get_top(const struct engine *e)
{
	static struct top_keys *none;

	(void)e;
	if (none == NULL)
		none = top_keys_new();
	return none;
}
