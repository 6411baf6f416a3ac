#include "skew_watch.h"

#include <string.h>

#include "agent.h"
#include "edge_regions.h"
#include "engine_life.h"
#include "events.h"

/* NULL: there are too many. */
static struct skew_peer *peer_of(struct skew_watch *w, const char *name)
{
	for (unsigned i = 0; i < w->n; i++)
		if (strcmp(w->peers[i].name, name) == 0)
			return &w->peers[i];
	if (w->n == SKEW_PEERS_MAX)
		return NULL;
	strcpy(w->peers[w->n].name, name); /* of the same size */
	return &w->peers[w->n++];
}

static void look(struct skew_watch *w, const struct region_clock *c)
{
	for (unsigned i = 0; i < c->n_shards; i++) {
		const struct region_skew skew = region_clock_skew(c, i);
		char name[REGION_PEER_BYTES];
		struct skew_peer *peer =
			skew.refused ? peer_of(w, region_clock_peer(c, i, name)) : NULL;

		if (peer == NULL)
			continue;
		peer->now = true;
		peer->us = skew.us;
	}
}

void skew_watch_visit(struct skew_watch *w, const struct agent *a)
{
	for (unsigned i = 0; i < REGIONS_MAX; i++) {
		const struct region_clock *c = engine_clock(a->engine, i);

		if (c != NULL)
			look(w, c);
	}
}

void skew_watch_end(struct skew_watch *w, struct agent *owner)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct skew_peer *peer = &w->peers[i];

		if (peer->now && !peer->before)
			event_publish(owner, "clock_skew",
				      json_pack("{s:s, s:I}", "peer", peer->name, "skew_ms",
						(json_int_t)(peer->us / 1000)));
		peer->before = peer->now;
		peer->now = false;
	}
}
