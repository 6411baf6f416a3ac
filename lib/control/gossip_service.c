/*
 * The way of a change from elsewhere: came() makes an item of it; at the end of the turn, or a little later while many come,
 * apply() has the control plane take all that came, and in_force() tells the user. What the control plane has
 * written, whoever wrote it, gossip_service_written() puts into gossip, which spreads it. So an item is spread only once it is in
 * force and persisted here; if it can't be persisted, it is not known here, and comes again.
 */
#include "control/gossip_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/control.h"
#include "control/control_item.h"
#include "control/control_state.h"
#include "core/name.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/log.h"

enum {
	BUSY_MS = 20,     /* until the control plane is asked again while it works */
	APART_MS = 100,   /* between two takes of many */
	FEW = 64,         /* so many are taken on the loop ... */
	ITEMS_FEW = 2000, /* ... while there are no more than so many */
	SAVE_MS = 2000,
	FORGET_MS = 3600000,
	STATE_BYTES_MAX = 65536,
};

struct gossip_service {
	struct gossip_user user; /* of it loop, control, the functions and data */
	struct control *control;
	struct gossip_udp *udp;
	struct gossip *core;
	char *path; /* of gossip.json */
	uint64_t max_skew_ms, epoch;
	struct control_item **came; /* not taken yet */
	size_t n_came, room;
	struct control_item **taking; /* by the control plane, in a thread */
	size_t n_taking;
	uv_timer_t apply, save;
	uint64_t grants_sent, grants_refused;
	uint64_t not_kept;
	uint64_t forget_due_ms;
	uint64_t saved_refusals; /* a digest of what was saved */
	bool skewed;             /* as it was said last */
	bool closing;
	unsigned open; /* handles, the sockets, jobs */
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- The end ---- */

static void items_free(struct control_item **items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		control_item_unref(items[i]);
	free(items);
}

static void one_closed(struct gossip_service *s)
{
	if (--s->open > 0)
		return;
	void (*on_closed)(void *data) = s->on_closed;
	void *data = s->closed_data;

	items_free(s->came, s->n_came);
	free(s->path);
	free(s);
	on_closed(data);
}

static void on_handle_closed(uv_handle_t *h)
{
	one_closed(h->data);
}

/* ---- What the control plane has written ---- */

/* Gossip holds a reference to each item that it knows. */
static void put(struct gossip_service *s, struct control_item *item, bool spread)
{
	const void *was;

	if (gossip_put(s->core, control_item_ref(item), spread, &was) != KOVA_OK) {
		control_item_unref(item); /* the next start puts it */
		return;
	}
	control_item_unref((struct control_item *)(uintptr_t)was);
}

void gossip_service_written(struct gossip_service *s, const struct control_written *list, size_t n)
{
	/* Of more than can wait to be spread, others learn by the digests. */
	bool spread = n <= GOSSIP_QUEUE_MAX;

	for (size_t i = 0; i < n; i++) {
		if (list[i].item != NULL)
			put(s, list[i].item, spread);
		else
			control_item_unref((struct control_item *)(uintptr_t)gossip_forget(
				s->core, list[i].was->id));
	}
	if (n > 0 && !s->closing)
		gossip_udp_kick(s->udp);
}

static void put_all(struct gossip_service *s)
{
	struct control_state *state = control_snapshot(s->control);

	for (size_t i = 0; i < state->n_items; i++)
		put(s, state->items[i], false);
	control_state_unref(state);
}

static void forget_all(struct gossip_service *s)
{
	struct control_state *state = control_snapshot(s->control);

	for (size_t i = 0; i < state->n_items; i++)
		control_item_unref((struct control_item *)(uintptr_t)gossip_forget(
			s->core, state->items[i]->id));
	control_state_unref(state);
}

/* ---- What comes ---- */

static void apply_later(struct gossip_service *s, uint64_t ms);

static void not_kept(struct gossip_service *s, const char *what, const struct control_error *error)
{
	s->not_kept++;
	log_event(LOG_ERROR, "gossip_not_kept", what, LOG_TEXT_FIELD("why", error->text));
}

static void taken(struct gossip_service *s, kova_status status, const struct control_error *error)
{
	if (status == KOVA_OK)
		s->user.in_force(s->user.data);
	else
		not_kept(s, "what came by gossip is not in force", error);
}

static void on_taken(kova_status status, const struct control_error *error, void *data)
{
	struct gossip_service *s = data;

	items_free(s->taking, s->n_taking);
	s->taking = NULL;
	if (!s->closing) {
		taken(s, status, error);
		apply_later(s, APART_MS);
	}
	one_closed(s);
}

static void on_apply(uv_timer_t *timer)
{
	struct gossip_service *s = timer->data;
	struct control_error error;

	if (s->n_came == 0 || s->taking != NULL)
		return;
	if (control_is_busy(s->control)) {
		apply_later(s, BUSY_MS);
		return;
	}
	if (s->n_came <= FEW && gossip_n_items(s->core) <= ITEMS_FEW) {
		struct control_item **items = s->came;
		size_t n = s->n_came;

		s->came = NULL;
		s->n_came = s->room = 0;
		taken(s, control_take(s->control, items, n, &error), &error);
		items_free(items, n);
		return;
	}
	s->taking = s->came;
	s->n_taking = s->n_came;
	s->came = NULL;
	s->n_came = s->room = 0;
	s->open++;
	control_take_async(s->control, s->user.loop, s->taking, s->n_taking, on_taken, s);
}

static void apply_later(struct gossip_service *s, uint64_t ms)
{
	if (s->n_came > 0 && !s->closing && !uv_is_active((uv_handle_t *)&s->apply))
		uv_timer_start(&s->apply, on_apply, ms, 0);
}

static bool came_add(struct gossip_service *s, struct control_item *item)
{
	if (s->n_came == s->room) {
		size_t room = s->room > 0 ? s->room * 2 : 16;
		struct control_item **came = realloc(s->came, room * sizeof *came);

		if (came == NULL)
			return false;
		s->came = came;
		s->room = room;
	}
	s->came[s->n_came++] = item;
	return true;
}

static void came(void *data, const struct gossip_item *said)
{
	struct gossip_service *s = data;
	struct control_item *item = NULL;

	if (s->closing)
		return;
	if (control_item_of_gossip(said, &item) != KOVA_OK) {
		gossip_udp_reject(s->udp, GOSSIP_REJECTED_INVALID);
		return;
	}
	const char *misfit = control_misfit(s->control, item);

	if (misfit != NULL)
		control_item_shut(item);
	if (item->unread) {
		gossip_udp_reject(s->udp, GOSSIP_REJECTED_INVALID);
		log_event(LOG_WARN, "gossip_item_unread",
			  "an item that can't be in force here is kept and passed on; what was in "
			  "force stays",
			  LOG_TEXT_FIELD("why", misfit != NULL ? misfit
							       : "this version does not read it"));
	}
	if (!came_add(s, item))
		control_item_unref(item);
	apply_later(s, s->n_came > FEW ? APART_MS : 0);
}

/* If it can't be done now, it is told again, for the others' digests still differ. */
static void withdrawn(void *data, const struct gossip_item *said)
{
	struct gossip_service *s = data;
	struct control_error error;

	if (s->closing || control_is_busy(s->control))
		return;
	log_event(LOG_WARN, "gossip_item_withdrawn",
		  "a write was stamped ahead of the others' clocks: any other takes its place");
	if (control_withdraw(s->control, said->id, said->stamp, &error) == KOVA_OK)
		s->user.in_force(s->user.data);
	else
		not_kept(s, "a write is not withdrawn", &error);
}

static void granted(void *data, struct slice grant)
{
	struct gossip_service *s = data;

	if (!s->closing && s->user.granted != NULL)
		s->user.granted(s->user.data, grant);
}

void gossip_service_grant(struct gossip_service *s, const struct gossip_grant *grant)
{
	if (s->closing)
		return;
	if (gossip_grant(s->core, gossip_udp_now(), grant) != KOVA_OK) {
		s->grants_refused++;
		return;
	}
	s->grants_sent++;
	gossip_udp_kick(s->udp);
}

static const char *const states[] = {"alive", "suspect", "dead"};

static void member(void *data, const struct gossip_member *m, enum gossip_state was)
{
	char name[NAME_BYTES_MAX + 1], address[GOSSIP_ADDRESS_TEXT];

	struct gossip_service *s = data;

	snprintf(name, sizeof name, "%.*s", (int)m->name.len, m->name.ptr);
	gossip_address_text(&m->address, address);
	if (m->state == GOSSIP_DEAD || was == GOSSIP_DEAD)
		s->user.event(s->user.data,
			      m->state == GOSSIP_DEAD ? "member_lost" : "member_joined",
			      json_pack("{s:s}", "member", name));
	if (m->state == GOSSIP_DEAD)
		log_event(LOG_WARN, "member_lost", "a member is gone",
			  LOG_TEXT_FIELD("member", name), LOG_TEXT_FIELD("address", address));
	else if (was == GOSSIP_DEAD)
		log_event(LOG_INFO, "member_joined", "a member is there",
			  LOG_TEXT_FIELD("member", name), LOG_TEXT_FIELD("address", address));
}

/* ---- What is kept over restarts: the epoch, and the stamps that were refused ---- */

static uint64_t refusals_digest(const struct gossip_service *s)
{
	size_t n;
	const struct gossip_refusal *list = gossip_refusals(s->core, &n);
	uint64_t digest = n;

	for (size_t i = 0; i < n; i++)
		digest = digest * 31 + (list[i].writer ^ list[i].from ^ (list[i].to << 1));
	return digest;
}

/* A failure is tried again with the next change; until then a restart forgets. */
static void save(struct gossip_service *s)
{
	struct buf text = {0};
	size_t n;
	const struct gossip_refusal *list = gossip_refusals(s->core, &n);

	buf_printf(&text, "{\"epoch\":%" PRIu64 ",\"refused\":[", s->epoch);
	for (size_t i = 0; i < n; i++)
		buf_printf(&text, "%s[\"%016" PRIx64 "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
			   i > 0 ? "," : "", list[i].writer, list[i].from, list[i].to,
			   list[i].ahead_ms);
	buf_add_text(&text, "]}\n");
	if (!buf_failed(&text) && atomic_file_prepare(s->path, buf_slice(&text)) == KOVA_OK &&
	    atomic_file_commit(s->path) == KOVA_OK)
		s->saved_refusals = refusals_digest(s);
	buf_release(&text);
}

/* The node's clock is off, or is right again: said once. */
static void watch_clock(struct gossip_service *s)
{
	int64_t skew_ms = 0;
	bool skewed = gossip_service_is_skewed(s, &skew_ms);

	if (skewed == s->skewed)
		return;
	s->skewed = skewed;
	if (!skewed) {
		log_event(LOG_INFO, "clock_agrees", "this node takes changes again");
		return;
	}
	log_event(LOG_WARN, "clock_skew",
		  "this node's clock is off the median of its peers: it takes no changes",
		  LOG_INT_FIELD("skew_ms", skew_ms));
	s->user.event(s->user.data, "clock_skew",
		      json_pack("{s:s, s:I}", "peer", "median of the members", "skew_ms",
				(json_int_t)skew_ms));
}

/* Deletions that are kept no longer. */
static void forget_old(struct gossip_service *s)
{
	struct control_error error;
	uint64_t now_ms = gossip_udp_now().mono_ms;

	if (now_ms < s->forget_due_ms || s->closing || control_is_busy(s->control))
		return;
	s->forget_due_ms = now_ms + FORGET_MS;
	if (control_forget_old(s->control, &error) != KOVA_OK)
		not_kept(s, "old deletions are not forgotten", &error);
}

static void on_save(uv_timer_t *timer)
{
	struct gossip_service *s = timer->data;

	watch_clock(s);
	forget_old(s);
	if (refusals_digest(s) != s->saved_refusals)
		save(s);
}

struct kept {
	uint64_t epoch;
	struct gossip_refusal refusals[GOSSIP_REFUSALS_MAX];
	size_t n;
};

/* What can't be read was not kept. */
static void read_kept(const char *path, struct kept *ret_kept)
{
	struct buf text = {0};
	json_t *json = NULL, *entry;
	size_t i;

	if (file_read(path, STATE_BYTES_MAX, &text) == KOVA_OK)
		json = json_loadb(text.ptr, text.len, 0, NULL);
	ret_kept->epoch = (uint64_t)json_integer_value(json_object_get(json, "epoch"));
	json_array_foreach(json_object_get(json, "refused"), i, entry) {
		const char *writer = NULL;
		json_int_t from, to, ahead;

		if (ret_kept->n == GOSSIP_REFUSALS_MAX ||
		    json_unpack(entry, "[sIII]", &writer, &from, &to, &ahead) != 0)
			continue;
		ret_kept->refusals[ret_kept->n++] = (struct gossip_refusal){
			strtoull(writer, NULL, 16), (uint64_t)from, (uint64_t)to, (uint64_t)ahead};
	}
	json_decref(json);
	buf_release(&text);
}

/* ---- Life ---- */

static uint64_t new_epoch(uint64_t last)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;

	return us > last ? us : last + 1;
}

static struct gossip_udp *open_sockets(struct gossip_service *s, struct buf *ret_error)
{
	const struct gossip_user *user = &s->user;
	const struct gossip_section *g = user->conf;
	struct gossip_udp_conf udp = {.core = {.name = slice_of(user->node),
					       .region = slice_of(user->region),
					       .role = user->role,
					       .max_skew_ms = user->max_skew_ms},
				      .listen = g->listen,
				      .advertise = g->advertise,
				      .seeds = (const char *const *)g->seeds,
				      .n_seeds = g->n_seeds,
				      .epoch = s->epoch};
	struct gossip_owner owner = {.read = control_item_read,
				     .came = came,
				     .withdrawn = withdrawn,
				     .granted = granted,
				     .member = member,
				     .data = s};

	if (gossip_keys_load(g->secret_file, &udp.keys, ret_error) != KOVA_OK)
		return NULL;
	return gossip_udp_start(user->loop, &udp, &owner, ret_error);
}

struct gossip_service *gossip_service_start(const struct gossip_user *user, struct buf *ret_error)
{
	struct gossip_service *s = calloc(1, sizeof *s);
	struct kept kept = {0};

	if (s == NULL || asprintf(&s->path, "%s/gossip.json", user->state_dir) < 0) {
		free(s);
		buf_printf(ret_error, "%s\n", kova_status_text(KOVA_ENOMEM));
		return NULL;
	}
	s->user = *user;
	s->control = user->control;
	s->max_skew_ms = user->max_skew_ms;
	read_kept(s->path, &kept);
	s->epoch = new_epoch(kept.epoch);
	s->udp = open_sockets(s, ret_error);
	if (s->udp == NULL) {
		free(s->path);
		free(s);
		return NULL;
	}
	s->core = gossip_udp_core(s->udp);
	gossip_set_refusals(s->core, kept.refusals, kept.n);
	save(s);
	uv_timer_init(user->loop, &s->apply);
	uv_timer_init(user->loop, &s->save);
	s->apply.data = s->save.data = s;
	uv_timer_start(&s->save, on_save, SAVE_MS, SAVE_MS);
	s->open = 3;
	put_all(s);
	return s;
}

static void on_udp_closed(void *data)
{
	one_closed(data);
}

void gossip_service_close(struct gossip_service *s, void (*on_closed)(void *data), void *data)
{
	s->closing = true;
	s->on_closed = on_closed;
	s->closed_data = data;
	on_save(&s->save);
	forget_all(s);
	uv_close((uv_handle_t *)&s->apply, on_handle_closed);
	uv_close((uv_handle_t *)&s->save, on_handle_closed);
	gossip_udp_close(s->udp, on_udp_closed, s);
}

kova_status gossip_service_reload(struct gossip_service *s, const char *path,
				  struct buf *ret_errors)
{
	struct gossip_keys *keys;
	kova_status status = gossip_keys_load(path, &keys, ret_errors);

	if (status == KOVA_OK)
		gossip_udp_set_keys(s->udp, keys);
	return status;
}

const char *gossip_service_address(const struct gossip_service *s)
{
	return gossip_udp_address(s->udp);
}

/* ---- What others ask ---- */

bool gossip_service_is_skewed(const struct gossip_service *s, int64_t *ret_ms)
{
	struct gossip_time now = gossip_udp_now();

	if (gossip_stamps_refused(s->core, now, ret_ms)) {
		*ret_ms = -*ret_ms;
		return true;
	}
	return gossip_skew(s->core, now, ret_ms) &&
	       (*ret_ms > (int64_t)s->max_skew_ms || *ret_ms < -(int64_t)s->max_skew_ms);
}

static json_t *member_json(const struct gossip_record *r, int64_t skew_ms)
{
	static const char *const roles[] = {"agent", "coordinator"};
	char address[GOSSIP_ADDRESS_TEXT];

	gossip_address_text(&r->address, address);
	return json_pack("{s:o,s:o,s:s,s:s,s:s,s:I,s:I}", "node",
			 json_stringn(r->name.ptr, r->name.len), "region",
			 json_stringn(r->region.ptr, r->region.len), "role", roles[r->role],
			 "state", states[r->state], "address", address, "incarnation",
			 (json_int_t)r->incarnation, "skew_ms", (json_int_t)skew_ms);
}

json_t *gossip_service_members(const struct gossip_service *s)
{
	const struct gossip_members *t = gossip_members(s->core);
	struct gossip_time now = gossip_udp_now();
	struct gossip_record self = gossip_self(s->core);
	json_t *list = json_array();
	bool whole = json_array_append_new(list, member_json(&self, 0)) == 0;

	for (uint32_t i = 0; i < t->n && whole; i++) {
		struct gossip_record record = gossip_member_record(t->list[i]);
		int64_t skew_ms = 0;

		(void)gossip_member_skew(t->list[i], now, &skew_ms);
		whole = json_array_append_new(list, member_json(&record, skew_ms)) == 0;
	}
	if (whole)
		return json_pack("{s:o}", "members", list);
	json_decref(list);
	return NULL;
}

void gossip_service_numbers(const struct gossip_service *s, struct gossip_numbers *ret_numbers)
{
	const struct gossip_members *t = gossip_members(s->core);
	struct gossip_time now = gossip_udp_now();
	struct gossip_numbers n = {.on = true,
				   .items = gossip_n_items(s->core),
				   .not_kept = s->not_kept,
				   .grants_sent = s->grants_sent,
				   .grants_taken = gossip_counts(s->core)->grants,
				   .grants_dropped =
					   gossip_grants_dropped(s->core) + s->grants_refused,
				   .alive = t->n_alive - t->n_suspect + 1, /* and itself */
				   .suspect = t->n_suspect,
				   .dead = t->n - t->n_alive};

	gossip_udp_rejected(s->udp, n.rejected);
	for (uint32_t i = 0; i < t->n && n.n_peers < GOSSIP_PEERS_TOLD; i++) {
		const struct gossip_member *m = t->list[i];
		int64_t skew_ms;

		if (m->state == GOSSIP_DEAD || !gossip_member_skew(m, now, &skew_ms))
			continue;
		snprintf(n.peers[n.n_peers].name, sizeof n.peers[0].name, "%.*s", (int)m->name.len,
			 m->name.ptr);
		n.peers[n.n_peers++].skew_s = (double)skew_ms / 1000;
	}
	*ret_numbers = n;
}
