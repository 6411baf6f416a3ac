/*
 * Who is told of a grant: the nodes of its region, each of which tells others of it; and sometimes anybody else, for the one who
 * has it may not reach that region. Such a stranger tells the region a little, and nobody else. So a grant costs what its
 * region is large, and however many there are, a node sends GRANT_MESSAGES a round.
 */
#include "core/gossip_own.h"

/* A live member of `region`, or of others, by chance; NULL: there is none. */
static struct gossip_member *choose(struct gossip *g, struct slice region, bool is_of_it)
{
	uint32_t n = g->members.n, from = n > 0 ? (uint32_t)gossip_below(g, n) : 0;

	for (uint32_t i = 0; i < n; i++) {
		struct gossip_member *m = g->members.list[(from + i) % n];

		if (m->state != GOSSIP_DEAD && slice_equal(m->region, region) == is_of_it)
			return m;
	}
	return NULL;
}

static void send_grants(struct gossip *g, struct gossip_time now, struct slice region,
			bool to_stranger, struct gossip_out *out)
{
	struct gossip_member *to = choose(g, region, !to_stranger);
	struct message m;

	if (to == NULL && g->self.role == GOSSIP_COORDINATOR)
		to = choose(g, region, to_stranger);
	message_begin(g, &m, GOSSIP_GRANTS, 0, now);
	gossip_grants_write(&g->grants, region, now.mono_ms, &m.w);
	if (to != NULL)
		message_send(&m, &to->address, out);
}

void grants_turn(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	char name[NAME_BYTES_MAX];
	struct slice region;

	if (now.mono_ms < g->grants_due_ms)
		return;
	g->grants_due_ms = now.mono_ms + GOSSIP_INTERVAL_MS;
	gossip_grants_expire(&g->grants, now.mono_ms);
	for (int i = 0; i < GRANT_MESSAGES || !GOSSIP_RULE(GRANTS_BOUNDED); i++) {
		if (!gossip_grants_next(&g->grants, &region))
			return;
		memcpy(name, region.ptr, region.len);
		send_grants(g, now, (struct slice){name, region.len},
			    g->self.role == GOSSIP_COORDINATOR && i == GRANT_MESSAGES - 1, out);
	}
}

/* What came: passed on in our region; of another's, a little. */
static void take_grant(struct gossip *g, struct gossip_time now, const struct gossip_grant *grant,
		       struct gossip_out *out)
{
	bool ours = slice_equal(grant->region, g->self.region);

	gossip_grants_expire(&g->grants, now.mono_ms);
	if (!gossip_grants_put(&g->grants, grant, ours ? gossip_sends(g) : RELAY_SENDS,
			       now.mono_ms) ||
	    !ours)
		return;
	g->counts.grants++;
	struct gossip_output *o = gossip_output(out, GOSSIP_GRANTED);

	if (o != NULL)
		o->grant = *grant;
}

bool grants_take(struct gossip *g, struct gossip_time now, struct wire_reader *r, bool take,
		 struct gossip_out *out)
{
	unsigned n = (unsigned)wire_get(r, 1);
	struct gossip_grant grant;

	for (unsigned i = 0; i < n; i++) {
		wire_get_grant(r, &grant);
		if (r->failed)
			return false;
		if (take)
			take_grant(g, now, &grant, out);
	}
	return !r->failed;
}

kova_status gossip_grant(struct gossip *g, struct gossip_time now, const struct gossip_grant *grant)
{
	if (grant->bytes.len < 1 || grant->bytes.len > GOSSIP_GRANT_BYTES_MAX)
		return KOVA_ETOOBIG;
	if (grant->keep_ms < 1 || grant->keep_ms > GOSSIP_GRANT_KEEP_MS_MAX)
		return KOVA_ERANGE;
	(void)gossip_grants_put(&g->grants, grant, gossip_sends(g), now.mono_ms);
	return KOVA_OK;
}

uint64_t gossip_grants_dropped(const struct gossip *g)
{
	return g->grants.dropped;
}
