#include "records.h"

#include <kova_ledger.pb-c.h>
#include <kova_usage.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* ---- Both ---- */

static bool key_of(const char *policy, const char *region, ProtobufCBinaryData root, bool other,
		   struct book_key *ret_key)
{
	*ret_key = (struct book_key){
		slice_of(policy), slice_of(region), {(const char *)root.data, root.len}, other};
	return name_is_valid(ret_key->policy) && name_is_valid(ret_key->region) &&
	       root.len <= BOOK_ROOT_MAX && !(other && root.len > 0);
}

static bool agent_is_valid(struct slice agent)
{
	return agent.len >= 1 && agent.len <= USAGE_AGENT_MAX;
}

/* ---- Usage ---- */

kova_status usage_message_parse(struct slice value, struct usage_message *ret_m)
{
	Kova__V1__Usage *u = kova__v1__usage__unpack(NULL, value.len, (const uint8_t *)value.ptr);

	if (u == NULL)
		return KOVA_EPROTO;
	*ret_m = (struct usage_message){.owner = u};
	ret_m->record = (struct usage_record){slice_of(u->agent),
					      u->epoch,
					      u->window,
					      u->hlc,
					      {u->admitted, u->refused, u->waited}};
	if (key_of(u->policy, u->region, u->root, u->other, &ret_m->key) &&
	    agent_is_valid(ret_m->record.agent))
		return KOVA_OK;
	usage_message_release(ret_m);
	return KOVA_EPROTO;
}

void usage_message_release(struct usage_message *m)
{
	kova__v1__usage__free_unpacked(m->owner, NULL);
	m->owner = NULL;
}

/* ---- The ledger ---- */

static struct usage_counts counts_of(const Kova__V1__UsageCounts *c)
{
	return c != NULL ? (struct usage_counts){c->admitted, c->refused, c->waited}
			 : (struct usage_counts){0};
}

static kova_status read_counters(const Kova__V1__Ledger *l, struct ledger_message *m)
{
	m->counters = calloc(l->n_counters + 1, sizeof *m->counters);
	if (m->counters == NULL)
		return KOVA_ENOMEM;
	for (size_t i = 0; i < l->n_counters; i++) {
		const Kova__V1__LedgerCounter *c = l->counters[i];

		m->counters[i] = (struct usage_record){slice_of(c->agent), c->epoch, c->window,
						       c->hlc, counts_of(c->counts)};
		if (!agent_is_valid(m->counters[i].agent))
			return KOVA_EPROTO;
	}
	m->kept = (struct book_kept){counts_of(l->final), m->counters, l->n_counters};
	return KOVA_OK;
}

kova_status ledger_message_parse(struct slice value, struct ledger_message *ret_m)
{
	Kova__V1__Ledger *l = kova__v1__ledger__unpack(NULL, value.len, (const uint8_t *)value.ptr);
	kova_status status = KOVA_EPROTO;

	if (l == NULL)
		return KOVA_EPROTO;
	*ret_m = (struct ledger_message){.owner = l};
	if (key_of(l->policy, l->region, l->root, l->other, &ret_m->key))
		status = read_counters(l, ret_m);
	if (status != KOVA_OK)
		ledger_message_release(ret_m);
	return status;
}

void ledger_message_release(struct ledger_message *m)
{
	free(m->counters);
	m->counters = NULL;
	kova__v1__ledger__free_unpacked(m->owner, NULL);
	m->owner = NULL;
}

void ledger_key_write(const struct book_key *key, struct buf *out)
{
	buf_add_slice(out, key->policy);
	buf_add_slice(out, SLICE("/"));
	if (!key->other) {
		buf_add_slice(out, key->root);
		buf_add_slice(out, SLICE("/"));
	}
	buf_add_slice(out, key->region);
}

/* What a counter's message is made of, in one piece. */
struct counter_parts {
	Kova__V1__LedgerCounter counter;
	Kova__V1__UsageCounts counts;
	char agent[USAGE_AGENT_MAX + 1];
};

static Kova__V1__UsageCounts counts_message(struct usage_counts c)
{
	Kova__V1__UsageCounts m = KOVA__V1__USAGE_COUNTS__INIT;

	m.admitted = c.admitted;
	m.refused = c.refused;
	m.waited = c.waited;
	return m;
}

static void counter_message(const struct usage_record *r, struct counter_parts *ret_parts)
{
	memcpy(ret_parts->agent, r->agent.ptr, r->agent.len);
	ret_parts->agent[r->agent.len] = '\0';
	ret_parts->counts = counts_message(r->counts);
	kova__v1__ledger_counter__init(&ret_parts->counter);
	ret_parts->counter.agent = ret_parts->agent;
	ret_parts->counter.epoch = r->epoch;
	ret_parts->counter.window = r->window;
	ret_parts->counter.hlc = r->hlc;
	ret_parts->counter.counts = &ret_parts->counts;
}

kova_status ledger_value_write(const struct book_key *key, const struct usage_ledger *l,
			       const struct intern *processes, struct buf *out)
{
	char policy[NAME_BYTES_MAX + 1] = "", region[NAME_BYTES_MAX + 1] = "";
	struct counter_parts *parts = malloc((l->n + 1) * sizeof *parts);
	Kova__V1__LedgerCounter **counters = malloc((l->n + 1) * sizeof(*counters));
	Kova__V1__UsageCounts final = counts_message(l->final);
	Kova__V1__Ledger m = KOVA__V1__LEDGER__INIT;
	char *to = NULL;

	memcpy(policy, key->policy.ptr, key->policy.len);
	memcpy(region, key->region.ptr, key->region.len);
	m.policy = policy;
	m.region = region;
	m.root = (ProtobufCBinaryData){key->root.len, (uint8_t *)(uintptr_t)key->root.ptr};
	m.other = key->other;
	m.final = &final;
	m.n_counters = l->n;
	m.counters = counters;
	for (size_t i = 0; parts != NULL && counters != NULL && i < l->n; i++) {
		const struct usage_record r = usage_ledger_agent(l, processes, i);

		counter_message(&r, &parts[i]);
		counters[i] = &parts[i].counter;
	}
	if (parts != NULL && counters != NULL)
		to = buf_reserve(out, kova__v1__ledger__get_packed_size(&m));
	if (to != NULL)
		out->len += kova__v1__ledger__pack(&m, (uint8_t *)to);
	free(parts);
	free(counters);
	return to != NULL ? KOVA_OK : KOVA_ENOMEM;
}
