/* What metrics say of gossip, in agents and coordinators. */
#include "control/gossip_service.h"

void gossip_numbers_write(struct metrics_writer *w, const struct gossip_numbers *g)
{
	const struct {
		const char *state;
		uint64_t n;
	} members[] = {{"alive", g->alive}, {"suspect", g->suspect}, {"dead", g->dead}};

	const struct {
		const char *fate;
		uint64_t n;
	} grants[] = {{"told", g->grants_sent},
		      {"taken", g->grants_taken},
		      {"dropped", g->grants_dropped}};

	if (!g->on)
		return;
	metrics_family(w, "kova_gossip_rejected", METRIC_COUNTER, NULL,
		       "Datagrams, streams and items that were refused.");
	for (unsigned i = 0; i < GOSSIP_REJECTED_REASONS; i++) {
		const struct metric_label label = {
			"reason", gossip_rejection_label((enum gossip_rejection)i)};

		metrics_sample(w, &label, 1, (double)g->rejected[i]);
	}
	metrics_family(w, "kova_gossip_members", METRIC_GAUGE, NULL,
		       "Nodes that gossip, this one included.");
	for (unsigned i = 0; i < 3; i++) {
		const struct metric_label label = {"state", members[i].state};

		metrics_sample(w, &label, 1, (double)members[i].n);
	}
	metrics_family(
		w, "kova_gossip_grants", METRIC_COUNTER, NULL,
		"Grants of global quotas: told by this node, taken for its region, not told for "
		"want of room.");
	for (unsigned i = 0; i < 3; i++) {
		const struct metric_label label = {"fate", grants[i].fate};

		metrics_sample(w, &label, 1, (double)grants[i].n);
	}
	metrics_number(
		w, "kova_gossip_not_kept", METRIC_COUNTER, NULL,
		"Times that what came could not be kept on disk: it is not in force, and comes "
		"again.",
		(double)g->not_kept);
	metrics_number(w, "kova_gossip_items", METRIC_GAUGE, NULL,
		       "Policies, overrides and deletions that are known.", (double)g->items);
}

void gossip_numbers_write_skews(struct metrics_writer *w, const struct gossip_numbers *g)
{
	for (unsigned i = 0; i < g->n_peers; i++) {
		const struct metric_label label = {"peer", g->peers[i].name};

		metrics_sample(w, &label, 1, g->peers[i].skew_s);
	}
}
