/*
 * The way of a change: from elsewhere by gossip_service into the control plane, from the file by control_reload_async(), from this
 * coordinator by a message to the loop; from the control plane, once it is kept, to gossip, and in_force() has the policies read
 * again by whoever grants or tells by them.
 */
#include "coord_gossip.h"

#include <stdlib.h>
#include <string.h>

#include "control/control.h"
#include "control/write_fields.h"
#include "coord_conf.h"
#include "core/hash.h"
#include "io/log.h"
#include "io/share_codec.h"
#include "io/state_dir.h"
#include "share.h"

struct coord_gossip {
	uv_loop_t *loop;
	struct control *control;
	struct gossip_service *service;
	void (*in_force)(void *data);
	void *data;
	struct coord_events *events;
	const char *node;
	bool reloading;
	json_t *again; /* policies of a file that was read meanwhile; NULL: none */
};

/* ---- What the control plane tells ---- */

static void on_change(void *data)
{
	struct coord_gossip *g = data;

	g->in_force(g->data);
}

static void on_written(const struct control_written *list, size_t n, void *data)
{
	struct coord_gossip *g = data;

	if (g->service != NULL)
		gossip_service_written(g->service, list, n);
}

/* on_change() has told already. */
static void on_taken(void *data)
{
	(void)data;
}

/* `fields` is taken. Out of memory: there will be others. */
static void on_event(void *data, const char *name, json_t *fields)
{
	struct coord_gossip *g = data;
	char *text = fields != NULL ? json_dumps(fields, JSON_COMPACT) : NULL;

	if (text != NULL) /* without its braces */
		coord_event(g->events, name, g->node, NULL,
			    (struct slice){text + 1, strlen(text) - 2});
	free(text);
	json_decref(fields);
}

static void on_write(const struct control_write *w, void *data)
{
	on_event(data, "config_changed", write_fields(w));
}

/* ---- Life ---- */

static bool start(struct coord_gossip *g, const struct coord_conf *conf, struct buf *ret_error)
{
	const struct control_lacks nothing = {0};
	struct control_error error = {""};
	json_t *none = json_array();

	if (none != NULL && state_dir_make(conf->state_dir))
		g->control = control_new(conf->state_dir, conf->node, nothing,
					 (struct rule_lists){conf->policies_of_file, none, NULL},
					 &error);
	else
		snprintf(error.text, sizeof error.text, "%.400s: %s", conf->state_dir,
			 strerror(errno));
	json_decref(none);
	if (g->control == NULL) {
		buf_printf(ret_error, "%s\n", error.text);
		return false;
	}
	const struct gossip_user user = {.loop = g->loop,
					 .control = g->control,
					 .node = conf->node,
					 .region = "",
					 .role = GOSSIP_COORDINATOR,
					 .state_dir = conf->state_dir,
					 .max_skew_ms = conf->max_skew_us / 1000,
					 .conf = &conf->gossip,
					 .in_force = on_taken,
					 .event = on_event,
					 .data = g};

	g->service = gossip_service_start(&user, ret_error);
	return g->service != NULL;
}

struct coord_gossip *coord_gossip_start(uv_loop_t *loop, const struct coord_conf *conf,
					struct coord_events *events, void (*in_force)(void *data),
					void *data, struct buf *ret_error)
{
	struct coord_gossip *g = calloc(1, sizeof *g);

	if (g == NULL) {
		buf_printf(ret_error, "%s\n", kova_status_text(KOVA_ENOMEM));
		return NULL;
	}
	g->loop = loop;
	g->events = events;
	g->node = conf->node;
	g->in_force = in_force;
	g->data = data;
	if (!start(g, conf, ret_error)) {
		control_free(g->control);
		free(g);
		return NULL;
	}
	control_on_change(g->control, on_change, g);
	control_on_written(g->control, on_written, g);
	control_on_write(g->control, on_write, g);
	log_event(LOG_INFO, "listening", "ready for other nodes",
		  LOG_TEXT_FIELD("protocol", "gossip"),
		  LOG_TEXT_FIELD("address", gossip_service_address(g->service)));
	return g;
}

static void on_closed(void *data)
{
	struct coord_gossip *g = data;

	control_free(g->control);
	json_decref(g->again);
	free(g);
}

void coord_gossip_close(struct coord_gossip *g)
{
	if (g != NULL)
		gossip_service_close(g->service, on_closed, g);
}

/* ---- The file ---- */

static void reload(struct coord_gossip *g, json_t *policies);

static void on_reloaded(kova_status status, const struct control_error *error, void *data)
{
	struct coord_gossip *g = data;
	json_t *again = g->again;

	g->reloading = false;
	g->again = NULL;
	if (status == KOVA_OK)
		log_event(LOG_INFO, "reloaded", "the policies of the file are in force");
	else
		log_event(LOG_ERROR, "reload_failed", "the policies stay as they were",
			  LOG_TEXT_FIELD("why", error->text));
	if (again != NULL)
		reload(g, again);
	json_decref(again);
}

static void reload(struct coord_gossip *g, json_t *policies)
{
	json_t *none = json_array();

	g->reloading = true;
	control_reload_async(g->control, g->loop, (struct rule_lists){policies, none, NULL},
			     on_reloaded, g);
	json_decref(none);
}

void coord_gossip_reload(struct coord_gossip *g, const struct coord_conf *conf)
{
	struct buf errors = {0};
	int64_t skew_ms;

	if (gossip_service_reload(g->service, conf->gossip.secret_file, &errors) != KOVA_OK)
		log_lines("reload_failed", &errors);
	buf_release(&errors);
	if (gossip_service_is_skewed(g->service, &skew_ms)) {
		log_event(LOG_ERROR, "reload_failed",
			  "clock_skew: this node's clock is off the median of its peers; it takes "
			  "no changes until they agree",
			  LOG_INT_FIELD("skew_ms", skew_ms));
	} else if (g->reloading) {
		json_decref(g->again);
		g->again = json_incref(conf->policies_of_file);
	} else {
		reload(g, conf->policies_of_file);
	}
}

/* ---- What it publishes ---- */

struct publication {
	struct message message; /* first */
	struct coord_share *share;
	uint64_t keep_ms; /* of a grant */
	size_t len;
	char text[];
};

static void post(struct coord_share *share, void (*run)(struct message *m), struct slice bytes,
		 uint64_t keep_ms)
{
	struct publication *p = share->gossip != NULL ? malloc(sizeof *p + bytes.len) : NULL;

	if (p == NULL)
		return; /* out of memory: there will be others */
	p->message.run = run;
	p->share = share;
	p->keep_ms = keep_ms;
	p->len = bytes.len;
	memcpy(p->text, bytes.ptr, bytes.len);
	mailbox_post(&share->box, &p->message);
}

static void not_published(const char *why)
{
	log_event(LOG_WARN, "weights_not_published", "an item of weights is not written",
		  LOG_TEXT_FIELD("why", why));
}

static void publish(struct coord_gossip *g, const json_t *weights)
{
	struct control_error error;
	int64_t skew_ms;

	if (gossip_service_is_skewed(g->service, &skew_ms))
		not_published("clock_skew");
	else if (control_put_weights(g->control, weights, "coordinator", &error) != KOVA_OK)
		not_published(error.text);
}

static void on_publication(struct message *m)
{
	struct publication *p = (struct publication *)m;
	json_t *weights = json_loadb(p->text, p->len, JSON_ALLOW_NUL, NULL);

	publish(p->share->gossip, weights);
	json_decref(weights);
	free(p);
}

void coord_publish_weights(struct coord_share *share, struct slice json)
{
	post(share, on_publication, json, 0);
}

/* Which share of which quota: the same for all coordinators. */
static uint64_t quota_hash(const struct share_quota *q)
{
	return gossip_hash(q->region) ^ hash_mix(gossip_hash(q->policy)) ^
	       hash_mix(hash_mix(gossip_hash(q->root)));
}

static void on_grant(struct message *m)
{
	struct publication *p = (struct publication *)m;
	const struct slice bytes = {p->text, p->len};
	struct share_grant_message said;

	if (share_grant_parse(bytes, &said) == KOVA_OK) {
		const struct gossip_grant grant = {.quota = quota_hash(&said.quota),
						   .seq = said.grant.seq,
						   .keep_ms = p->keep_ms < GOSSIP_GRANT_KEEP_MS_MAX
								      ? (uint32_t)p->keep_ms
								      : GOSSIP_GRANT_KEEP_MS_MAX,
						   .region = said.quota.region,
						   .bytes = bytes};

		gossip_service_grant(p->share->gossip->service, &grant);
		share_grant_release(&said);
	}
	free(p);
}

void coord_gossip_grant(struct coord_share *share, struct slice grant, uint64_t keep_ms)
{
	post(share, on_grant, grant, keep_ms);
}

/* ---- What others ask ---- */

json_t *coord_gossip_policies(const struct coord_gossip *g)
{
	return control_policies_in_force(g->control);
}

const struct gossip_service *coord_gossip_service(const struct coord_gossip *g)
{
	return g->service;
}
