#include "world.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Clocks ---- */

uint64_t sim_clock_read(const struct sim_clock *c, uint64_t true_us)
{
	int64_t passed_us = (int64_t)(true_us - c->from_us);

	return c->was_us + (uint64_t)(passed_us + passed_us * c->ppm / 1000000);
}

void sim_clock_set(struct sim_clock *c, uint64_t true_us, int64_t ppm, int64_t step_us)
{
	c->was_us = sim_clock_read(c, true_us) + (uint64_t)step_us;
	c->from_us = true_us;
	c->ppm = ppm;
}

/* ---- Events ---- */

/* The heap orders by time and, within a µs, by the number of the event: 2^38 µs are three days. */
enum { EVENTS_IN_US = 1 << 26 };

struct event {
	struct timer_entry timer;
	event_handler *on_event;
	void *owner, *what;
};

void world_init(struct world *w, uint64_t seed, enum mutation m, bool logging)
{
	*w = (struct world){.dice = {seed}, .mutation = m, .logging = logging};
	if (logging)
		w->log = calloc(WORLD_LOG_LINES, sizeof *w->log);
}

static struct event *first_event(struct world *w)
{
	struct timer_entry *t = timer_heap_first(&w->events);

	return t == NULL ? NULL : (struct event *)((char *)t - offsetof(struct event, timer));
}

void world_release(struct world *w)
{
	struct event *e;

	while ((e = first_event(w)) != NULL) {
		timer_heap_remove(&w->events, &e->timer);
		free(e);
	}
	timer_heap_release(&w->events);
	free(w->log);
}

void world_at(struct world *w, uint64_t at_us, event_handler *on_event, void *owner, void *what)
{
	struct event *e = calloc(1, sizeof *e);
	uint64_t at = at_us > w->now_us ? at_us : w->now_us;

	if (e == NULL)
		abort();
	*e = (struct event){.on_event = on_event, .owner = owner, .what = what};
	if (timer_heap_set(&w->events, &e->timer,
			   at * EVENTS_IN_US + w->n_events++ % EVENTS_IN_US) != KOVA_OK)
		abort();
}

void world_run(struct world *w, uint64_t until_us)
{
	struct event *e;

	while (w->violation[0] == '\0' && (e = first_event(w)) != NULL &&
	       e->timer.at / EVENTS_IN_US < until_us) {
		struct event was = *e;

		timer_heap_remove(&w->events, &e->timer);
		w->now_us = was.timer.at / EVENTS_IN_US;
		free(e);
		was.on_event(was.owner, was.what);
	}
	w->now_us = until_us;
}

uint64_t world_any_size(struct world *w, uint64_t most)
{
	uint64_t size = 1 + world_below(w, most);

	for (uint64_t halves = world_below(w, 12); halves > 0 && size > 1; halves--)
		size /= 2;
	return size;
}

/* ---- The log ---- */

void world_log(struct world *w, const char *format, ...)
{
	va_list arguments;
	char *line;
	int n;

	if (!w->logging)
		return;
	line = w->log[w->n_logged++ % WORLD_LOG_LINES];
	n = snprintf(line, WORLD_LOG_BYTES, "%12.6f  ", (double)w->now_us / 1e6);
	va_start(arguments, format);
	vsnprintf(line + n, WORLD_LOG_BYTES - (size_t)n, format, arguments);
	va_end(arguments);
}

void world_violated(struct world *w, const char *format, ...)
{
	va_list arguments;

	if (w->violation[0] != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(w->violation, sizeof w->violation, format, arguments);
	va_end(arguments);
	world_log(w, "VIOLATED: %s", w->violation);
}

void world_print_log(const struct world *w)
{
	uint64_t from = w->n_logged > WORLD_LOG_LINES ? w->n_logged - WORLD_LOG_LINES : 0;

	for (uint64_t i = from; i < w->n_logged; i++)
		printf("%s\n", w->log[i % WORLD_LOG_LINES]);
}

uint64_t world_option(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- A connection ---- */

uint64_t sim_link_arrival(struct world *w, const struct sim_weather *weather, uint64_t *last_us)
{
	uint64_t delay_us = 20 + world_below(w, weather->delay_us);

	if (world_one_in(w, weather->lose_one_in))
		return UINT64_MAX;
	if (world_one_in(w, weather->slow_one_in))
		delay_us += world_below(w, weather->slow_us);
	if (*last_us < w->now_us + delay_us)
		*last_us = w->now_us + delay_us;
	return *last_us;
}
