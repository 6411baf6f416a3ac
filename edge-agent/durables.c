#include "durables.h"

#include <assert.h>
#include <stdlib.h>

enum { KINDS = 2 * (DURABILITY_REPLICAS_MAX + 1) };

struct durables {
	uv_loop_t *loop;
	struct redis_conf conf; /* texts borrowed */
	durable_changed *on_changed;
	void *changed_data;
	struct durable *of[KINDS]; /* NULL: nobody has asked for it */
	unsigned open;
	void (*on_closed)(void *data);
	void *closed_data;
};

struct durables *durables_new(uv_loop_t *loop, const struct redis_conf *conf,
			      durable_changed *on_changed, void *data)
{
	struct durables *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->loop = loop;
	s->conf = *conf;
	s->on_changed = on_changed;
	s->changed_data = data;
	return s;
}

void durables_free(struct durables *s)
{
	free(s);
}

static void part_closed(void *data)
{
	struct durables *s = data;

	if (--s->open > 0)
		return;
	s->on_closed(s->closed_data);
	free(s);
}

void durables_close(struct durables *s, void (*on_closed)(void *data), void *data)
{
	s->on_closed = on_closed;
	s->closed_data = data;
	s->open = 1; /* until all are closing */
	for (unsigned i = 0; i < KINDS; i++)
		if (s->of[i] != NULL) {
			s->open++;
			durable_close(s->of[i], part_closed, s);
		}
	part_closed(s);
}

struct durable *durables_get(struct durables *s, struct durability wanted)
{
	unsigned i = wanted.replicas * 2u + wanted.aof;

	assert(i > 0 && i < KINDS);
	if (s->of[i] == NULL)
		s->of[i] = durable_new(s->loop, &s->conf, wanted, s->on_changed, s->changed_data);
	return s->of[i];
}

void durables_prepare(struct durables *s, const struct catalogue *c)
{
	const struct policy *p;

	for (size_t i = 0; (p = catalogue_policy_at(c, i)) != NULL; i++)
		if (durability_is_wanted(p->durability))
			durables_get(s,
				     p->durability); /* out of memory: tried again by the request */
}

bool durables_have_started(const struct durables *s)
{
	for (unsigned i = 0; i < KINDS; i++)
		if (s->of[i] != NULL && durable_is_starting(s->of[i]))
			return false;
	return true;
}

bool durables_are_idle(const struct durables *s)
{
	for (unsigned i = 0; i < KINDS; i++)
		if (s->of[i] != NULL && !durable_is_idle(s->of[i]))
			return false;
	return true;
}

struct durable_health durables_health(const struct durables *s)
{
	struct durable_health sum = {0};

	for (unsigned i = 0; i < KINDS; i++)
		if (s->of[i] != NULL) {
			const struct durable_health h = durable_health(s->of[i]);

			sum.shards += h.shards;
			sum.shards_up += h.shards_up;
		}
	return sum;
}

void durables_count(const struct durables *s, struct redis_counters *redis,
		    struct region_counters *region)
{
	for (unsigned i = 0; i < KINDS; i++)
		if (s->of[i] != NULL)
			durable_count(s->of[i], redis, region);
}
