/* The durable regions of an agent: one for each durability that its policies ask for, made when it is first needed. */
#pragma once

#include "durable.h"

struct durables;

/* `conf` is copied, its texts are not: they outlive it. NULL: out of memory. */
struct durables *durables_new(uv_loop_t *loop, const struct redis_conf *conf,
			      durable_changed *on_changed, void *data);
void durables_free(struct durables *s); /* without any; NULL is nothing */
/* Closes all and frees it; `on_closed` may come from within. */
void durables_close(struct durables *s, void (*on_closed)(void *data), void *data);

/* The one for what `wanted` asks for (something). NULL: out of memory. */
struct durable *durables_get(struct durables *s, struct durability wanted);
/* Those that single policies of `c` ask for, so that they are connected before the first request. */
void durables_prepare(struct durables *s, const struct catalogue *c);

/* False: one is connecting for the first time. */
bool durables_have_started(const struct durables *s);
bool durables_are_idle(const struct durables *s);
/* The sum over all. */
struct durable_health durables_health(const struct durables *s);
void durables_count(const struct durables *s, struct redis_counters *redis,
		    struct region_counters *region);
