/* What has changed in a pool, said once: the agent whose call changed it has it from the script. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "engine.h"
#include "events.h"
#include "io/log.h"
#include "pool_own.h"

static const char *id_of(const struct pool_def *def, uint32_t endpoint)
{
	return endpoint < def->n_members ? def->members[endpoint].id : "";
}

static int64_t ms_of(uint64_t us)
{
	return (int64_t)((us + 999) / 1000);
}

/* A target is what a client sent: as JSON it must be UTF-8. Without one the pool itself is meant. */
static void set_target(json_t *fields, struct slice target)
{
	json_t *text = json_stringn(target.len > 0 ? target.ptr : "", target.len);

	json_object_set_new(fields, "target", text != NULL ? text : json_string(""));
}

static bool has_target(const struct pool_event *e)
{
	return e->target.len > 0 || e->kind == POOL_EVENT_HELD || e->kind == POOL_EVENT_ESCALATED;
}

static void say(struct pool_line *l, enum log_level level, const char *event, const char *message,
		const struct pool_event *e, const char *endpoint, json_t *fields)
{
	bool has_why = e->kind == POOL_EVENT_COOLED || e->kind == POOL_EVENT_CAPPED;
	char target[128];

	snprintf(target, sizeof target, "%.*s", (int)e->target.len,
		 e->target.len > 0 ? e->target.ptr : "");
	log_event(level, event, message, LOG_TEXT_FIELD("pool", l->name),
		  LOG_TEXT_FIELD_IF(endpoint[0] != '\0', "endpoint", endpoint),
		  LOG_TEXT_FIELD_IF(has_target(e), "target", target),
		  LOG_TEXT_FIELD_IF(has_why, "why", pool_outcome_names[e->why]),
		  LOG_INT_FIELD("ms", e->kind == POOL_EVENT_ESCALATED ? 0 : ms_of(e->amount)));
	if (fields != NULL && has_target(e))
		set_target(fields, e->target);
	event_publish(l->service->agent, event, fields);
}

static void on_held_done(struct request *r)
{
	request_free(r);
}

/* The target's own bucket pauses too, so that every worker of every pool sees it. */
static void feed_limiter(struct pool_line *l, const struct pool_def *def,
			 const struct pool_event *e)
{
	char seconds[32];
	struct request *r;

	if (def->target_policy[0] == '\0' || e->target.len == 0)
		return;
	r = request_new(l->service->agent->engine);
	if (r == NULL)
		return;
	snprintf(seconds, sizeof seconds, "%llu.%03llu",
		 (unsigned long long)(ms_of(e->amount) / 1000),
		 (unsigned long long)(ms_of(e->amount) % 1000));
	r->kind = REQUEST_FEEDBACK;
	r->on_done = on_held_done;
	r->n_pairs = 1;
	r->pairs[0] = (struct request_pair){
		.policy = slice_of(def->target_policy), .key = e->target, .cost = 1};
	r->feedback.ok = true;
	r->feedback.retry_after = slice_of(seconds);
	decide(l->service->agent->engine, r);
}

static void tell(struct pool_line *l, const struct pool_def *def, const struct pool_event *e)
{
	const char *id = id_of(def, e->endpoint);
	json_int_t ms = ms_of(e->amount);

	switch (e->kind) {
	case POOL_EVENT_COOLED:
		say(l, LOG_INFO, "endpoint_cooled", "an endpoint is left alone for a while", e, id,
		    json_pack("{s:s,s:s,s:s,s:I}", "pool", l->name, "endpoint", id, "why",
			      pool_outcome_names[e->why], "ms", ms));
		break;
	case POOL_EVENT_RETURNED:
		say(l, LOG_INFO, "endpoint_returned", "an endpoint is used again", e, id,
		    json_pack("{s:s,s:s}", "pool", l->name, "endpoint", id));
		break;
	case POOL_EVENT_DISABLED:
		say(l, LOG_ERROR, "endpoint_disabled",
		    "the provider does not know this key; it stays out until it is enabled", e, id,
		    json_pack("{s:s,s:s,s:s}", "pool", l->name, "endpoint", id, "why", "auth"));
		break;
	case POOL_EVENT_PAUSED:
		say(l, LOG_WARN, "pool_paused", "too few endpoints are active", e, "",
		    json_pack("{s:s,s:I,s:I,s:I}", "pool", l->name, "active",
			      (json_int_t)e->endpoint, "floor", (json_int_t)def->rule.floor_active,
			      "retry_in_ms", ms));
		break;
	case POOL_EVENT_RESUMED:
		say(l, LOG_INFO, "pool_resumed", "the pool serves again", e, "",
		    json_pack("{s:s}", "pool", l->name));
		break;
	case POOL_EVENT_HELD:
		say(l, LOG_WARN, "target_held", "a target turns everybody away", e, "",
		    json_pack("{s:s,s:I}", "pool", l->name, "ms", ms));
		feed_limiter(l, def, e);
		break;
	case POOL_EVENT_ESCALATED:
		say(l, LOG_INFO, "target_escalated", "a target is asked through a higher tier", e,
		    "", json_pack("{s:s,s:I}", "pool", l->name, "tier", (json_int_t)e->amount));
		break;
	case POOL_EVENT_CAPPED:
		say(l, LOG_WARN, "blame_capped",
		    "an endpoint stays, for too many of its tier are out already", e, id,
		    json_pack("{s:s,s:s,s:s}", "pool", l->name, "endpoint", id, "why",
			      pool_outcome_names[e->why]));
		break;
	case POOL_EVENT_EXTENDED:
		feed_limiter(l, def, e);
		break;
	}
}

void pool_events_tell(struct pool_line *l, const struct pool_def *def, struct pool_reply *reply)
{
	struct pool_event e;

	while (pool_reply_event(reply, &e))
		tell(l, def, &e);
}

void pool_events_duplicates(struct pool_service *s, const struct pool_def *def)
{
	for (size_t i = 0; i < def->n_duplicates; i++) {
		const struct pool_duplicate *d = &def->duplicates[i];

		log_event(LOG_WARN, "duplicate_endpoint", "the same address twice is one endpoint",
			  LOG_TEXT_FIELD("pool", def->name), LOG_TEXT_FIELD("endpoint", d->kept),
			  LOG_TEXT_FIELD("dropped", d->dropped));
		event_publish(s->agent, "duplicate_endpoint",
			      json_pack("{s:s,s:s,s:s}", "pool", def->name, "endpoint", d->kept,
					"dropped", d->dropped));
	}
}
