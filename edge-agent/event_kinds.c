#include "event_kinds.h"

#include <string.h>

#include "agent.h"
#include "change_json.h"
#include "control/catalogue.h"
#include "control/control.h"
#include "control/control_item.h"
#include "control/write_fields.h"
#include "events.h"
#include "live.h"

/* {"local": 3, "deny": 1}: how many policies do what without their store. */
static json_t *policy_actions(const struct agent *a)
{
	static const char *const names[] = {
		[OUTAGE_LOCAL] = "local", [OUTAGE_DENY] = "deny", [OUTAGE_ALLOW] = "allow"};
	json_int_t counts[sizeof names / sizeof names[0]] = {0};
	const struct catalogue *c = control_catalogue(a->control);
	const struct policy *p;
	json_t *actions = json_object();

	for (size_t i = 0; (p = catalogue_policy_at(c, i)) != NULL; i++)
		counts[p->on_outage]++;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (counts[i] > 0)
			json_object_set_new(actions, names[i], json_integer(counts[i]));
	return actions;
}

void event_outage(struct agent *a, const char *part, int shard, bool up)
{
	bool of_store = strcmp(part, "kafka") != 0;

	event_publish(a, up ? "outage_ended" : "outage_begun",
		      json_pack("{s:s, s:i, s:o}", "part", part, "shard", shard, "policy_action",
				of_store ? policy_actions(a) : json_object()));
}

void event_breaker(struct agent *a, const char *event, const char *policy)
{
	if (a != NULL)
		event_publish(a, event, json_pack("{s:s}", "policy", policy));
}

void event_config(const struct control_write *w, void *agent)
{
	event_publish(agent, "config_changed", write_fields(w));
}

void event_config_seen(struct agent *owner, const struct control_written *list, size_t n)
{
	live_config_changed(owner->live);
	for (size_t i = n > LIVE_EVENTS_MAX ? n - LIVE_EVENTS_MAX : 0; i < n; i++) {
		bool is_own = list[i].item == NULL ||
			      slice_equal(list[i].item->writer, slice_of(owner->conf.node));
		bool is_told = is_own && owner->publisher != NULL;
		json_t *change = is_told ? NULL : change_json(&list[i]);

		if (change == NULL)
			continue;
		json_object_set_new(change, "event", json_string("config_changed"));
		json_object_set(change, "hlc", json_object_get(change, "version"));
		json_object_del(change, "version");
		if (is_own)
			json_object_set_new(change, "region", json_string(owner->conf.region));
		live_happened(owner->live, change);
		json_decref(change);
	}
}
