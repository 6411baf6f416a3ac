#include "core/usage_ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct usage_agent {
	uint64_t epoch, window, hlc;
	struct usage_counts counts;
	uint8_t length;
	char name[];
};

void usage_ledger_release(struct usage_ledger *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->agents[i]);
	free(l->agents);
	*l = (struct usage_ledger){0};
}

static struct usage_agent *find(const struct usage_ledger *l, struct slice name, uint64_t epoch)
{
	for (size_t i = 0; i < l->n; i++) {
		struct usage_agent *a = l->agents[i];

		if (a->epoch == epoch && slice_equal((struct slice){a->name, a->length}, name))
			return a;
	}
	return NULL;
}

static struct usage_agent *add(struct usage_ledger *l, struct slice name, uint64_t epoch)
{
	struct usage_agent *agent, **agents = l->agents;

	if (l->n == l->room) {
		uint32_t room = l->room > 0 ? 2 * l->room : 1;

		agents = realloc(agents, room * sizeof(*agents));
		if (agents == NULL)
			return NULL;
		l->agents = agents;
		l->room = room;
	}
	agent = malloc(sizeof *agent + name.len);
	if (agent == NULL)
		return NULL;
	*agent = (struct usage_agent){.epoch = epoch, .length = (uint8_t)name.len};
	memcpy(agent->name, name.ptr, name.len);
	l->agents[l->n++] = agent;
	return agent;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static struct usage_counts sum(struct usage_counts a, struct usage_counts b)
{
	return (struct usage_counts){a.admitted + b.admitted, a.refused + b.refused,
				     a.waited + b.waited};
}

kova_status usage_ledger_read(struct usage_ledger *l, const struct usage_record *r)
{
	struct usage_agent *a = find(l, r->agent, r->epoch);

	assert(r->agent.len >= 1 && r->agent.len <= USAGE_AGENT_MAX);
	if (a == NULL)
		a = add(l, r->agent, r->epoch);
	if (a == NULL)
		return KOVA_ENOMEM;
	a->hlc = greater(a->hlc, r->hlc);
	if (r->window > a->window) {
		l->final = sum(l->final, a->counts);
		a->window = r->window;
		a->counts = r->counts;
	} else if (r->window == a->window) {
		a->counts.admitted = greater(a->counts.admitted, r->counts.admitted);
		a->counts.refused = greater(a->counts.refused, r->counts.refused);
		a->counts.waited = greater(a->counts.waited, r->counts.waited);
	}
	return KOVA_OK;
}

struct usage_counts usage_ledger_total(const struct usage_ledger *l)
{
	struct usage_counts total = l->final;

	for (size_t i = 0; i < l->n; i++)
		total = sum(total, l->agents[i]->counts);
	return total;
}

struct usage_record usage_ledger_agent(const struct usage_ledger *l, size_t i)
{
	const struct usage_agent *a = l->agents[i];

	assert(i < l->n);
	return (struct usage_record){{a->name, a->length}, a->epoch, a->window, a->hlc, a->counts};
}

static bool is_over(const struct usage_ledger *l, const struct usage_agent *a)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct usage_agent *later = l->agents[i];

		if (later->epoch > a->epoch &&
		    slice_equal((struct slice){later->name, later->length},
				(struct slice){a->name, a->length}))
			return true;
	}
	return false;
}

bool usage_ledger_forget(struct usage_ledger *l, uint64_t before_hlc)
{
	size_t n = l->n;

	for (size_t i = l->n; i-- > 0;) {
		struct usage_agent *a = l->agents[i];

		if (a->hlc >= before_hlc || !is_over(l, a))
			continue;
		l->final = sum(l->final, a->counts);
		free(a);
		l->agents[i] = l->agents[--l->n];
	}
	return l->n < n;
}
