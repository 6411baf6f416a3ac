#include "event_kinds.h"

#include <string.h>

#include "agent.h"
#include "control/catalogue.h"
#include "control/control.h"
#include "events.h"

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

/* null for one that is not there. */
static json_t *item_of(struct slice text)
{
	json_t *item = text.len > 0 ? json_loadb(text.ptr, text.len, 0, NULL) : NULL;

	return item != NULL ? item : json_null();
}

static void set_text(json_t *fields, const char *name, struct slice text)
{
	json_t *value = text.len > 0 ? json_stringn(text.ptr, text.len) : NULL;

	if (value != NULL) /* else there is none, or it is no UTF-8 */
		json_object_set_new(fields, name, value);
}

void event_config(const struct control_write *w, void *agent)
{
	json_t *fields = json_pack("{s:s, s:o, s:o}", "kind", w->kind, "before", item_of(w->before),
				   "after", item_of(w->after));

	set_text(fields, "name", w->policy);
	if (w->member != NULL)
		set_text(fields, w->member, w->key);
	set_text(fields, "who", w->who);
	event_publish(agent, "config_changed", fields);
}
