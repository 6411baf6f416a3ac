#include "agent_gossip.h"

#include <stdlib.h>

#include "agent.h"
#include "control/control.h"
#include "control/control_state.h"
#include "events.h"
#include "grants.h"
#include "tour.h"

struct follow {
	struct tour tour; /* first */
	struct control_state *state;
};

static void visit_follow(struct tour *t, struct agent *a)
{
	if (a->owner != NULL)
		control_follow(a->control, ((struct follow *)t)->state);
}

static void on_followed(struct tour *t)
{
	control_state_unref(((struct follow *)t)->state);
	free(t);
}

/* The other loops get what is in force. */
static void in_force(void *data)
{
	struct agent *owner = data;
	struct follow *f = calloc(1, sizeof *f);

	if (f == NULL)
		return; /* they get it with the next change */
	f->state = control_snapshot(owner->control);
	tour_start(&f->tour, owner, visit_follow, on_followed);
}

static void event(void *data, const char *name, json_t *fields)
{
	event_publish(data, name, fields);
}

static void granted(void *data, struct slice share_grant)
{
	grants_read(data, share_grant);
}

struct gossip_service *agent_gossip_start(struct agent *owner, struct buf *ret_error)
{
	const struct edge_conf *conf = &owner->conf;
	const struct gossip_user user = {.loop = owner->loop,
					 .control = owner->control,
					 .node = conf->node,
					 .region = conf->region,
					 .role = GOSSIP_AGENT,
					 .state_dir = conf->state_dir,
					 .max_skew_ms = conf->redis.max_skew_ms,
					 .conf = &conf->gossip,
					 .in_force = in_force,
					 .event = event,
					 .granted = granted,
					 .data = owner};

	return gossip_service_start(&user, ret_error);
}
