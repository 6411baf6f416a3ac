#include "core/admission_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* As far as the script walks; beyond, the caller waits for the newest. */
enum { WALK_MAX = 1024 };

void admission_log_release(struct admission_log *g)
{
	free(g->entry);
	*g = (struct admission_log){0};
}

static struct admission *entry_at(const struct admission_log *g, size_t i)
{
	return &g->entry[g->first + i];
}

/* The first that still counts; *ret_dead: the weight of those before it. In doubt all do. */
static size_t first_live(const struct admission_log *g, uint64_t now_us, uint64_t span_us,
			 bool doubted, uint64_t *ret_dead)
{
	size_t i = 0;

	*ret_dead = 0;
	while (!doubted && i < g->n && entry_at(g, i)->at_us + span_us <= now_us)
		*ret_dead += entry_at(g, i++)->weight;
	return i;
}

uint64_t admission_log_used(const struct admission_log *g, uint64_t now_us, uint64_t span_us,
			    bool doubted)
{
	uint64_t dead;

	first_live(g, now_us, span_us, doubted, &dead);
	return g->total - dead;
}

void admission_log_expire(struct admission_log *g, uint64_t now_us, uint64_t span_us)
{
	uint64_t dead;
	size_t live = first_live(g, now_us, span_us, false, &dead);

	g->total -= dead;
	g->n -= live;
	g->first = g->n == 0 ? 0 : g->first + live;
}

/* Room for one more at the end: entries move to the front when half of the room is behind them. */
static bool make_room(struct admission_log *g)
{
	size_t room = g->room == 0 ? 16 : g->room * 2;
	struct admission *entry;

	if (g->first + g->n < g->room)
		return true;
	if (g->first > 0 && g->first >= g->room / 2) {
		memmove(g->entry, entry_at(g, 0), g->n * sizeof *g->entry);
		g->first = 0;
		return true;
	}
	entry = realloc(g->entry, room * sizeof *entry);
	if (entry == NULL)
		return false;
	g->entry = entry;
	g->room = room;
	return true;
}

static void merge_latest(struct admission_log *g)
{
	struct admission *last = entry_at(g, g->n - 1);

	entry_at(g, g->n - 2)->at_us = last->at_us;
	entry_at(g, g->n - 2)->weight += last->weight;
	g->n--;
}

bool admission_log_add(struct admission_log *g, uint64_t at_us, uint64_t weight, uint64_t name)
{
	size_t i;

	if (g->n == ADMISSION_LOG_MAX)
		merge_latest(g);
	for (i = g->n; i > 0 && entry_at(g, i - 1)->at_us > at_us; i--)
		;
	g->total += weight;
	if (i > 0 && name == 0 && entry_at(g, i - 1)->at_us == at_us &&
	    entry_at(g, i - 1)->name == 0) {
		entry_at(g, i - 1)->weight += weight;
		return true;
	}
	if (!make_room(g)) {
		g->total -= weight;
		return false;
	}
	memmove(entry_at(g, i + 1), entry_at(g, i), (g->n - i) * sizeof *g->entry);
	*entry_at(g, i) = (struct admission){at_us, weight, name};
	g->n++;
	return true;
}

struct admission *admission_log_find(struct admission_log *g, uint64_t name)
{
	assert(name != 0);
	for (size_t i = 0; i < g->n; i++)
		if (entry_at(g, i)->name == name)
			return entry_at(g, i);
	return NULL;
}

void admission_log_remove(struct admission_log *g, struct admission *entry)
{
	size_t i = (size_t)(entry - entry_at(g, 0));

	assert(i < g->n);
	g->total -= entry->weight;
	memmove(entry, entry + 1, (g->n - i - 1) * sizeof *entry);
	g->n--;
}

/* By a clock that is behind it is not the latest; and it may be part of a later one. */
void admission_log_untake(struct admission_log *g, uint64_t at_us, uint64_t weight)
{
	size_t i = g->n;

	while (i > 0 && entry_at(g, i - 1)->at_us >= at_us)
		i--;
	assert(i < g->n && entry_at(g, i)->weight >= weight);
	if (entry_at(g, i)->weight == weight) {
		admission_log_remove(g, entry_at(g, i));
		return;
	}
	entry_at(g, i)->weight -= weight;
	g->total -= weight;
}

/* µs until entries with a weight of `need` have left; by a clock that is doubted they may have. */
static int64_t wait_us(const struct admission_log *g, uint64_t now_us, uint64_t span_us,
		       uint64_t need, bool doubted)
{
	uint64_t dead, left = 0;
	size_t from = first_live(g, now_us, span_us, doubted, &dead);

	for (size_t i = from; i < g->n && i < from + WALK_MAX; i++) {
		left += entry_at(g, i)->weight;
		if (left >= need)
			return (int64_t)(entry_at(g, i)->at_us + span_us - now_us);
	}
	return (int64_t)(entry_at(g, g->n - 1)->at_us + span_us - now_us);
}

void admission_log_verdict(const struct admission_log *g, uint64_t limit, uint64_t now_us,
			   uint64_t span_us, uint64_t cost, bool allowed, bool doubted,
			   struct limiter_verdict *ret_verdict)
{
	struct limiter_verdict v = {.allowed = allowed, .wait_us = VERDICT_NEVER};
	uint64_t used = admission_log_used(g, now_us, span_us, doubted);
	uint64_t need = allowed ? 1 : used + cost - limit;

	v.remaining = limit > used ? limit - used : 0;
	if (used > 0)
		v.reset_us = (uint64_t)verdict_later_us(
			(int64_t)(entry_at(g, g->n - 1)->at_us + span_us - now_us), doubted);
	if (allowed || cost <= limit)
		v.wait_us = verdict_later_us(wait_us(g, now_us, span_us, need, doubted), doubted);
	*ret_verdict = v;
}
