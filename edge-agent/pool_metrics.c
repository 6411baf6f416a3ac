/* What /metrics says of pools. */
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "control/pool_def.h"
#include "ops_pools.h"

void ops_pools_add(const struct agent *a, struct ops_pools *p)
{
	const struct catalogue *c = control_catalogue(a->control);
	const struct pool_def *def;

	for (size_t i = 0; i < OPS_POOLS_MAX && (def = catalogue_pool_at(c, i)) != NULL; i++) {
		const struct pool_counts *counts;
		const struct pool_view *view;
		struct ops_pool *at = ops_pools_of(p, def->name);

		if (at == NULL || a->pools == NULL)
			continue;
		pool_service_look(a->pools, slice_of(def->name), &counts, &view);
		if (counts == NULL)
			continue;
		for (unsigned o = 0; o < POOL_OUTCOMES; o++)
			at->counts.outcomes[o] += counts->outcomes[o];
		at->counts.bad_hints += counts->bad_hints;
		for (unsigned f = 0; f < POOL_PROBES; f++)
			at->counts.probes[f] += counts->probes[f];
		at->counts.probes_put_off += counts->probes_put_off;
		at->is_probed = def->rule.health;
		if (view->known)
			at->view = *view;
	}
}

struct ops_pool *ops_pools_of(struct ops_pools *p, const char *name)
{
	for (unsigned i = 0; i < p->n; i++)
		if (strcmp(p->of[i].name, name) == 0)
			return &p->of[i];
	if (p->n == OPS_POOLS_MAX)
		return NULL;
	memcpy(p->of[p->n].name, name, strlen(name) + 1);
	return &p->of[p->n++];
}

/* ---- Writing ---- */

static void of_pool(struct metrics_writer *w, const struct ops_pool *p, double value)
{
	const struct metric_label label = {"pool", p->name};

	metrics_sample(w, &label, 1, value);
}

static void of_two(struct metrics_writer *w, const struct ops_pool *p, const char *name,
		   const char *text, double value)
{
	const struct metric_label labels[] = {{"pool", p->name}, {name, text}};

	metrics_sample(w, labels, 2, value);
}

static double ratio(uint64_t part, uint64_t all)
{
	return all > 0 ? (double)part / (double)all : 0;
}

static double numbers_escalation(const struct ops_pool *p)
{
	return ratio(p->view.totals.numbers.above, p->view.totals.numbers.tickets);
}

static double cooldowns(const struct ops_pool *p)
{
	return (double)p->view.totals.cooldowns;
}

static double cooldown_seconds(const struct ops_pool *p)
{
	return (double)p->view.totals.cooled_us / 1e6;
}

static double active_min(const struct ops_pool *p)
{
	return (double)p->view.totals.numbers.active_min;
}

static double in_flight(const struct ops_pool *p)
{
	return (double)p->view.in_flight;
}

static double is_paused(const struct ops_pool *p)
{
	return p->view.totals.pause != POOL_NOT_PAUSED;
}

static const struct view_family {
	const char *name;
	enum metric_type type;
	const char *unit, *help;
	double (*value)(const struct ops_pool *p);
} families[] = {
	{"kova_pool_cooldowns", METRIC_COUNTER, NULL, "Cooldowns that began, in the region.",
	 cooldowns},
	{"kova_pool_cooldown_seconds", METRIC_COUNTER, "seconds",
	 "Time that endpoints were in cooldown, in the region.", cooldown_seconds},
	{"kova_pool_active_min", METRIC_GAUGE, NULL,
	 "Fewest active endpoints since the last report.", active_min},
	{"kova_pool_escalation_ratio", METRIC_GAUGE, "ratio",
	 "Tickets from a tier above 1, of all since the last report.", numbers_escalation},
	{"kova_pool_in_flight", METRIC_GAUGE, NULL, "Tickets in flight, in the region.", in_flight},
	{"kova_pool_paused", METRIC_GAUGE, NULL,
	 "Whether the pool gives no endpoint now: 1, and why it does not the pool's page says.",
	 is_paused},
};

static void write_views(struct metrics_writer *w, const struct ops_pools *p)
{
	for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
		metrics_family(w, families[f].name, families[f].type, families[f].unit,
			       families[f].help);
		for (unsigned i = 0; i < p->n; i++)
			if (p->of[i].view.known)
				of_pool(w, &p->of[i], families[f].value(&p->of[i]));
	}
	metrics_family(
		w, "kova_pool_return_ok_ratio", METRIC_GAUGE, "ratio",
		"Successes among the first ten outcomes after each cooldown's end, since the "
		"last report.");
	for (unsigned i = 0; i < p->n; i++)
		if (p->of[i].view.totals.numbers.back > 0)
			of_pool(w, &p->of[i],
				ratio(p->of[i].view.totals.numbers.good,
				      p->of[i].view.totals.numbers.back));
}

static void write_shares(struct metrics_writer *w, const struct ops_pools *p)
{
	metrics_family(w, "kova_pool_share_ratio", METRIC_GAUGE, "ratio",
		       "Each endpoint's share of the tickets since the last report; pools of up to "
		       "100 endpoints.");
	for (unsigned i = 0; i < p->n; i++)
		for (size_t e = 0; e < p->of[i].view.n_shares; e++)
			of_two(w, &p->of[i], "endpoint", p->of[i].view.share[e].id,
			       ratio(p->of[i].view.share[e].tickets,
				     p->of[i].view.totals.numbers.tickets));
}

static void write_states(struct metrics_writer *w, const struct ops_pools *p)
{
	metrics_family(w, "kova_pool_endpoints", METRIC_GAUGE, NULL, "Endpoints by state.");
	for (unsigned i = 0; i < p->n; i++) {
		const struct ops_pool *at = &p->of[i];

		if (!at->view.known)
			continue;
		of_two(w, at, "state", "active", (double)at->view.active);
		of_two(w, at, "state", "cooldown", (double)at->view.cooling);
		of_two(w, at, "state", "disabled", (double)at->view.disabled);
	}
}

static void write_probes(struct metrics_writer *w, const struct ops_pools *p)
{
	metrics_family(w, "kova_pool_probes", METRIC_COUNTER, NULL,
		       "Probes of endpoints in cooldown by this agent, by what they found.");
	for (unsigned i = 0; i < p->n; i++)
		for (unsigned f = POOL_PROBE_OK; f < POOL_PROBES && p->of[i].is_probed; f++)
			of_two(w, &p->of[i], "result", pool_probe_names[f],
			       (double)p->of[i].counts.probes[f]);
	metrics_family(w, "kova_pool_probes_put_off", METRIC_COUNTER, NULL,
		       "How often more probes were due than there was room for.");
	for (unsigned i = 0; i < p->n; i++)
		if (p->of[i].is_probed)
			of_pool(w, &p->of[i], (double)p->of[i].counts.probes_put_off);
}

void ops_pools_write(struct metrics_writer *w, const struct ops_pools *p)
{
	if (p->n == 0)
		return;
	write_shares(w, p);
	write_views(w, p);
	write_states(w, p);
	metrics_family(w, "kova_pool_outcomes", METRIC_COUNTER, NULL,
		       "Reports to this agent, by outcome.");
	for (unsigned i = 0; i < p->n; i++)
		for (unsigned o = 0; o < POOL_OUTCOMES; o++)
			of_two(w, &p->of[i], "outcome", pool_outcome_names[o],
			       (double)p->of[i].counts.outcomes[o]);
	metrics_family(
		w, "kova_pool_bad_hints", METRIC_COUNTER, NULL,
		"Waits and resets of reports that are no numbers, negative or of more than a "
		"day: left aside.");
	for (unsigned i = 0; i < p->n; i++)
		of_pool(w, &p->of[i], (double)p->of[i].counts.bad_hints);
	write_probes(w, p);
}
