#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent.h"
#include "tracer.h"

enum { NS_OF_MS = 1000000 };

struct trace {
	struct tracer *tracer;
	struct agent *agent; /* of the loop, for random ids */
	struct span *call, *last;
	unsigned n_spans;
	uint64_t n_redis;
	uint64_t wall_ns, steady_ns; /* when it began: all its times are steady from there */
};

/* ---- Whose it is ---- */

void trace_origin_parent(struct trace_origin *o, struct slice value)
{
	o->n_parents++;
	o->is_valid = trace_context_parse(value, &o->parent) == KOVA_OK && o->n_parents == 1;
}

void trace_origin_state(struct trace_origin *o, struct slice value)
{
	size_t comma = o->state_len > 0, room = sizeof o->state - o->state_len;

	if (o->state_is_long || value.len + comma > room) {
		o->state_is_long = true;
		return;
	}
	if (comma > 0)
		o->state[o->state_len++] = ',';
	if (value.len > 0)
		memcpy(o->state + o->state_len, value.ptr, value.len);
	o->state_len = (uint16_t)(o->state_len + value.len);
}

/* NULL: there is none that can be passed on. */
static char *passed_state(const struct trace_origin *o)
{
	struct slice state = {o->state, o->state_len};

	if (o->state_is_long || !trace_state_is_valid(state))
		return NULL;
	return strndup(state.ptr, state.len);
}

/* ---- Times and ids ---- */

static uint64_t read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(const struct trace *t)
{
	return t->wall_ns + (read_ns(CLOCK_MONOTONIC) - t->steady_ns);
}

/* Not all zeros, which is no id. */
static void random_id(struct agent *a, unsigned char *ret_id, size_t len)
{
	random_take(&a->random, ret_id, len);
	ret_id[0] |= ret_id[0] == 0;
}

/* ---- Life ---- */

static bool is_sampled(struct agent *a, const struct trace_origin *o,
		       unsigned char ret_id[TRACE_ID_BYTES])
{
	if (o != NULL && o->is_valid) {
		memcpy(ret_id, o->parent.trace_id, TRACE_ID_BYTES);
		return (o->parent.flags & TRACE_SAMPLED) != 0;
	}
	if (tracer_sample(a->tracer) == 0)
		return false;
	random_id(a, ret_id, TRACE_ID_BYTES);
	return trace_id_is_sampled(ret_id, tracer_sample(a->tracer));
}

struct trace *trace_begin(struct agent *a, const char *name, const struct trace_origin *o)
{
	unsigned char id[TRACE_ID_BYTES];
	struct trace *t;
	struct span *s;

	if (a->tracer == NULL || !is_sampled(a, o, id))
		return NULL;
	t = calloc(1, sizeof *t);
	s = span_new();
	if (t == NULL || s == NULL) {
		free(t);
		span_free(s);
		return NULL;
	}
	*t = (struct trace){.tracer = a->tracer, .agent = a, .call = s, .last = s, .n_spans = 1};
	t->wall_ns = read_ns(CLOCK_REALTIME);
	t->steady_ns = read_ns(CLOCK_MONOTONIC);
	memcpy(s->trace_id, id, sizeof s->trace_id);
	random_id(a, s->span_id, sizeof s->span_id);
	s->name = name;
	s->kind = SPAN_SERVER;
	s->start_ns = t->wall_ns;
	if (o != NULL && o->is_valid) {
		s->has_parent = s->parent_is_far = true;
		memcpy(s->parent_id, o->parent.span_id, sizeof s->parent_id);
		s->trace_state = passed_state(o);
	}
	return t;
}

void trace_end(struct trace *t)
{
	if (t == NULL)
		return;
	if (t->n_redis > 0)
		span_set_int(t->call, "kova.redis.calls", (int64_t)t->n_redis);
	for (struct span *s = t->call; s != NULL; s = s->next)
		if (s->end_ns == 0)
			s->end_ns = now_ns(t);
	tracer_take(t->tracer, t->call, t->last, t->n_spans);
	free(t);
}

/* ---- What is in it ---- */

struct span *trace_call(struct trace *t)
{
	return t->call;
}

struct span *trace_span_begin(struct trace *t, const char *name, enum span_kind kind)
{
	struct span *s = t->n_spans < TRACE_SPANS_MAX ? span_new() : NULL;

	if (s == NULL)
		return NULL;
	t->n_spans++;
	t->last->next = s;
	t->last = s;
	memcpy(s->trace_id, t->call->trace_id, sizeof s->trace_id);
	random_id(t->agent, s->span_id, sizeof s->span_id);
	s->has_parent = true;
	memcpy(s->parent_id, t->call->span_id, sizeof s->parent_id);
	s->name = name;
	s->kind = kind;
	s->start_ns = now_ns(t);
	return s;
}

void trace_span_end(const struct trace *t, struct span *s)
{
	if (s != NULL)
		s->end_ns = now_ns(t);
}

struct span *trace_redis_begin(struct trace *t, const char *region)
{
	struct span *s = trace_span_begin(t, "kova.redis", SPAN_CLIENT);

	t->n_redis++;
	if (s != NULL) {
		span_set_text(s, "db.system.name", SLICE("redis"));
		span_set_text(s, "kova.region", slice_of(region));
	}
	return s;
}

void trace_wait_end(struct trace *t, struct span *wait)
{
	trace_span_end(t, wait);
	span_set_int(t->call, "kova.wait.ms",
		     (int64_t)((wait->end_ns - wait->start_ns) / NS_OF_MS));
}

void trace_abandoned(struct trace *t)
{
	span_set_bool(t->call, "kova.abandoned", true);
}

struct trace_id_text trace_id_text(const struct trace *t)
{
	struct trace_id_text id = {""};

	if (t != NULL)
		trace_id_write(t->call->trace_id, id.text);
	return id;
}
