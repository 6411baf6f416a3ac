/*
 * The happy path: submitted → the region's answer → confirm() asks whether what was written is safe → it is → on_answer.
 * All operations of a server whose answers come while its confirmation is out were carried out before it (a WAIT
 * blocks the connection, so what is sent behind it is answered behind it): one confirmation covers them all. Those
 * that need a touch (confirm.h) stand in line for the next one.
 *
 * Not safe in time, or no answer in time: KOVA_ETIMEDOUT, and the shard is down: nothing is submitted until a confirmation
 * that the timer tries every PROBE_MS succeeds in time. So replicas that are away cost one time-out, not one a request.
 * The connection changed in between (confirmer_stamp): KOVA_ECONN for those concerned, and nothing is concluded.
 *
 * The store itself is more patient than we are (STORE_EXTRA_MS): a WAIT may come back late when its server is idle, and
 * the link is not to be blamed for it.
 *
 * Every operation ends in finish(), exactly once. One that ended by its time stays where it is, with on_answer NULL, until
 * the region, and the confirmation if it has begun, are through with it.
 */
#include "durable.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confirm.h"
#include "io/log.h"

enum { STORE_EXTRA_MS = 500, PROBE_MS = 250, SHARDS_MAX = 1024 };

struct pending {
	struct pending *prev, *next; /* of those whose caller waits, by deadline */
	struct pending *behind;      /* in a shard's line */
	struct durable *durable;
	uint64_t deadline_ms, stamp;
	uint16_t slot;
	bool reads;  /* SCRIPT_PEEK */
	bool takes;  /* what it writes, it writes now, unless it is a repeat */
	bool said;   /* the region has answered */
	bool unsafe; /* what it was answered counts when it is confirmed */
	bool touch;  /* what is to be confirmed may have been written by another connection */
	region_answer *on_answer; /* NULL: it was answered */
	void *data;
	struct script_answer answer;
	char *echo; /* owned; what answer.echo points to */
};

struct line {
	struct pending *first, **end;
};

struct shard {
	struct durable *durable;
	bool down, asking; /* a confirmation is out */
	uint16_t slot;     /* one of its slots, of the last operation */
	uint64_t asked_ms;
	struct line asked; /* what that covers */
	struct line later; /* what the next one will */
};

struct durable {
	uv_loop_t *loop;
	struct durability wanted;
	char name[32];
	uint64_t timeout_ms;
	struct redis_store *store; /* the region's; NULL: it can't be had */
	struct region *region;
	struct confirmer *confirmer;
	uv_timer_t timer;
	struct pending *first, *last; /* by deadline */
	bool second_look;
	struct shard *shards;
	unsigned n_shards, n_down; /* made so far; down */
	uint64_t probe_ms;

	bool starting, closing;
	uint64_t starting_until_ms;
	struct parked *parked;
	durable_changed *on_changed;
	void *changed_data;
	unsigned parts_open;
	void (*on_closed)(void *data);
	void *closed_data;
};

struct parked {
	struct parked *next;
	void (*on_started)(void *data);
	void *data;
};

static void arm(struct durable *d);

/* ---- Shards ---- */

static void line_init(struct line *line)
{
	line->first = NULL;
	line->end = &line->first;
}

static void line_add(struct line *line, struct pending *p)
{
	p->behind = NULL;
	*line->end = p;
	line->end = &p->behind;
}

/* All of `line`, which is empty then. */
static struct pending *line_take(struct line *line)
{
	struct pending *first = line->first;

	line_init(line);
	return first;
}

/* Which shard serves the slot now; NULL: none. */
static struct shard *shard_of(const struct durable *d, uint16_t slot)
{
	unsigned i = redis_store_shard(d->store, slot);

	return i < SHARDS_MAX ? &d->shards[i] : NULL;
}

static void shard_lost(struct shard *shard, const char *why)
{
	struct durable *d = shard->durable;

	if (shard->down || d->closing)
		return;
	shard->down = true;
	d->n_down++;
	d->probe_ms = uv_now(d->loop) + PROBE_MS;
	log_event(LOG_WARN, "durability_lost",
		  "what is decided does not get safe: decisions by each policy's on_outage",
		  LOG_TEXT_FIELD("durability", d->name),
		  LOG_INT_FIELD("shard", (int64_t)(shard - d->shards)), LOG_TEXT_FIELD("why", why));
	d->on_changed(false, d->changed_data);
}

static void shard_restored(struct shard *shard)
{
	struct durable *d = shard->durable;

	if (!shard->down || d->closing)
		return;
	shard->down = false;
	d->n_down--;
	log_event(LOG_INFO, "durability_restored", "decisions by the store again",
		  LOG_TEXT_FIELD("durability", d->name),
		  LOG_INT_FIELD("shard", (int64_t)(shard - d->shards)));
	d->on_changed(true, d->changed_data);
}

/* ---- One operation ---- */

static void leave(struct pending *p)
{
	struct durable *d = p->durable;

	*(p->prev != NULL ? &p->prev->next : &d->first) = p->next;
	*(p->next != NULL ? &p->next->prev : &d->last) = p->prev;
}

static void finish(struct pending *p, kova_status status)
{
	region_answer *on_answer = p->on_answer;

	assert(on_answer != NULL);
	leave(p);
	p->on_answer = NULL;
	on_answer(status, status == KOVA_OK ? &p->answer : NULL, p->data);
}

static void pending_free(struct pending *p)
{
	assert(p->on_answer == NULL);
	free(p->echo);
	free(p);
}

/* Its time is up, or it is closed; others have it still. */
static void finish_early(struct pending *p, kova_status status)
{
	finish(p, p->said && !p->unsafe ? KOVA_OK : status);
}

/* ---- Confirmations ---- */

static void on_confirmed(kova_status status, const char *why, void *data);

static void ask(struct shard *shard)
{
	struct durable *d = shard->durable;
	bool touch = shard->asked.first == NULL;

	assert(!shard->asking);
	for (const struct pending *p = shard->asked.first; p != NULL; p = p->behind)
		touch |= p->touch;
	shard->asking = true;
	shard->asked_ms = uv_now(d->loop);
	confirm(d->confirmer, shard->slot, touch, on_confirmed, shard);
}

static void finish_confirmed(struct pending *p, kova_status status)
{
	if (status == KOVA_OK && p->stamp != confirmer_stamp(p->durable->confirmer))
		status = KOVA_ECONN;
	if (p->on_answer != NULL)
		finish(p, p->unsafe ? status : KOVA_OK);
	pending_free(p);
}

static void on_confirmed(kova_status status, const char *why, void *data)
{
	struct shard *shard = data;
	struct durable *d = shard->durable;
	struct pending *p = line_take(&shard->asked);
	bool late = uv_now(d->loop) > shard->asked_ms + d->timeout_ms;

	shard->asking = false;
	if (status == KOVA_ETIMEDOUT)
		shard_lost(shard, why);
	else if (status == KOVA_OK && !late)
		shard_restored(shard);
	while (p != NULL) {
		struct pending *behind = p->behind;

		finish_confirmed(p, status);
		p = behind;
	}
	while ((p = shard->later.first) != NULL) { /* in this order they became */
		if ((shard->later.first = p->behind) == NULL)
			shard->later.end = &shard->later.first;
		line_add(&shard->asked, p);
	}
	if (shard->asked.first != NULL && !shard->asking)
		ask(shard);
	arm(d);
}

/* A line of what waits for a confirmation; what needs none goes along to keep the order. */
static void stand_in_line(struct shard *shard, struct pending *p)
{
	if (shard->asking && (p->touch || shard->later.first != NULL))
		line_add(&shard->later, p);
	else
		line_add(&shard->asked, p);
	if (!shard->asking) {
		shard->slot = p->slot;
		ask(shard);
	}
}

/* ---- Answers of the region ---- */

static bool keep_answer(struct pending *p, const struct script_answer *answer)
{
	p->answer = *answer;
	if (answer->echo.len == 0)
		return true;
	p->echo = malloc(answer->echo.len);
	if (p->echo == NULL)
		return false;
	memcpy(p->echo, answer->echo.ptr, answer->echo.len);
	p->answer.echo.ptr = p->echo;
	return true;
}

static bool wrote_nothing(const struct pending *p)
{
	enum script_status said = p->answer.status;

	return said == SCRIPT_REFUSED || said == SCRIPT_EDGES || said == SCRIPT_NEWER ||
	       (p->reads && said != SCRIPT_REPEATED);
}

static void on_said(kova_status status, const struct script_answer *answer, void *data)
{
	struct pending *p = data;
	struct shard *shard = shard_of(p->durable, p->slot);

	if (p->on_answer == NULL) { /* too late */
		pending_free(p);
		return;
	}
	if (status == KOVA_OK && !keep_answer(p, answer))
		status = KOVA_ENOMEM;
	if (status == KOVA_OK && shard == NULL)
		status = KOVA_ECONN;
	if (status != KOVA_OK) {
		finish(p, status);
		pending_free(p);
		return;
	}
	p->said = true;
	p->unsafe = !wrote_nothing(p);
	p->touch = p->unsafe && (!p->takes || p->answer.status == SCRIPT_REPEATED);
	if (p->unsafe || shard->asking) {
		stand_in_line(shard, p);
	} else {
		finish(p, KOVA_OK);
		pending_free(p);
	}
}

static struct pending *pending_new(struct durable *d, uint16_t slot)
{
	struct pending *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->durable = d;
	p->slot = slot;
	p->stamp = confirmer_stamp(d->confirmer);
	p->deadline_ms = uv_now(d->loop) + d->timeout_ms;
	p->prev = d->last;
	*(d->last != NULL ? &d->last->next : &d->first) = p;
	d->last = p;
	return p;
}

void durable_submit(struct durable *d, uint16_t slot, const struct script_op *op, unsigned n_after,
		    region_answer *on_answer, void *data)
{
	assert(d->region != NULL && !d->closing);

	struct pending *p = pending_new(d, slot);

	if (p == NULL) {
		on_answer(KOVA_ENOMEM, NULL, data);
		return;
	}
	p->on_answer = on_answer;
	p->data = data;
	p->reads = op->kind == SCRIPT_PEEK;
	p->takes = op->kind == SCRIPT_TAKE;
	if (d->first == p)
		arm(d);
	region_submit(d->region, slot, op, n_after, on_said, p);
}

void durable_submit_unconfirmed(struct durable *d, uint16_t slot, const struct script_op *op,
				region_answer *on_answer, void *data)
{
	assert(d->region != NULL);
	region_submit(d->region, slot, op, 0, on_answer, data);
}

/* ---- Time ---- */

static void on_timer(uv_timer_t *timer);

static void arm(struct durable *d)
{
	uint64_t now = uv_now(d->loop), at = UINT64_MAX;

	if (d->closing || d->second_look)
		return;
	if (d->first != NULL)
		at = d->first->deadline_ms;
	if (d->n_down > 0 && d->probe_ms < at)
		at = d->probe_ms;
	if (d->starting && d->starting_until_ms < at)
		at = d->starting_until_ms;
	if (at == UINT64_MAX)
		uv_timer_stop(&d->timer);
	else
		uv_timer_start(&d->timer, on_timer, at > now ? at - now : 0, 0);
}

/* Ends those whose time is up. */
static void expire(struct durable *d, uint64_t now)
{
	char why[64];
	struct pending *p;

	while ((p = d->first) != NULL && p->deadline_ms <= now) {
		struct shard *shard = shard_of(d, p->slot);

		snprintf(why, sizeof why, "%s within %llu ms",
			 p->said ? "not confirmed to be safe" : "no answer",
			 (unsigned long long)d->timeout_ms);
		if (shard != NULL && (!p->said || p->unsafe))
			shard_lost(shard, why);
		finish_early(p, KOVA_ETIMEDOUT);
	}
}

static void probe(struct durable *d, uint64_t now)
{
	unsigned n = redis_store_shards(d->store);

	d->probe_ms = now + PROBE_MS;
	for (unsigned i = 0; i < SHARDS_MAX && d->n_down > 0; i++) {
		struct shard *shard = &d->shards[i];

		if (!shard->down)
			continue;
		if (i >= n) /* its server serves nothing any more */
			shard_restored(shard);
		else if (!shard->asking && region_up(d->region, shard->slot))
			ask(shard);
	}
}

static void end_starting(struct durable *d)
{
	struct parked *parked = d->parked;

	d->starting = false;
	d->parked = NULL;
	while (parked != NULL) {
		struct parked *next = parked->next;

		parked->on_started(parked->data);
		free(parked);
		parked = next;
	}
}

/* The loop may have been late itself: what has arrived meanwhile counts, so it is read before anything expires. */
static void on_timer(uv_timer_t *timer)
{
	struct durable *d = timer->data;
	uint64_t now = uv_now(d->loop);

	if (d->first != NULL && d->first->deadline_ms <= now && !d->second_look) {
		d->second_look = true;
		uv_timer_start(&d->timer, on_timer, 1, 0);
		return;
	}
	d->second_look = false;
	if (d->starting && now >= d->starting_until_ms)
		end_starting(d);
	expire(d, now);
	if (d->n_down > 0 && now >= d->probe_ms)
		probe(d, now);
	arm(d);
}

/* ---- The store ---- */

static bool all_up(const struct durable *d)
{
	const struct durable_health h = durable_health(d);

	return h.shards_up == h.shards;
}

static void on_store_changed(unsigned shard, bool up, const char *why, void *data)
{
	struct durable *d = data;

	if (d->closing || d->region == NULL)
		return;
	log_event(up ? LOG_INFO : LOG_WARN, up ? "durable_connected" : "durable_disconnected",
		  up ? "the connection of durable decisions is there"
		     : "the connection of durable decisions is gone",
		  LOG_TEXT_FIELD("durability", d->name), LOG_INT_FIELD("shard", shard),
		  LOG_TEXT_FIELD("why", why));
	if (up) {
		confirmer_connected(d->confirmer);
		d->probe_ms = uv_now(d->loop);
	}
	if (d->starting && (!up || all_up(d)))
		end_starting(d);
	d->on_changed(up, d->changed_data);
	arm(d);
}

/* ---- Questions ---- */

bool durable_is_starting(const struct durable *d)
{
	return d->starting;
}

bool durable_when_started(struct durable *d, void (*on_started)(void *data), void *data)
{
	struct parked *parked = malloc(sizeof *parked), **end = &d->parked;

	assert(d->starting);
	if (parked == NULL)
		return false;
	*parked = (struct parked){NULL, on_started, data};
	while (*end != NULL)
		end = &(*end)->next;
	*end = parked;
	return true;
}

bool durable_up(const struct durable *d, uint16_t slot)
{
	return d->region != NULL && !d->closing && region_up(d->region, slot) &&
	       !shard_of(d, slot)->down;
}

bool durable_is_idle(const struct durable *d)
{
	return d->first == NULL && (d->region == NULL || region_is_idle(d->region));
}

struct durable_health durable_health(const struct durable *d)
{
	struct durable_health h = {.shards = 1};

	if (d->region == NULL)
		return h;
	h.shards = redis_store_shards(d->store);
	for (unsigned i = 0; i < h.shards && i < SHARDS_MAX; i++)
		h.shards_up += redis_store_up(d->store, i) && !d->shards[i].down;
	return h;
}

void durable_count(const struct durable *d, struct redis_counters *redis,
		   struct region_counters *region)
{
	if (d->region != NULL)
		region_count(d->region, redis, region);
}

/* ---- Life ---- */

static void part_closed(struct durable *d)
{
	if (--d->parts_open > 0)
		return;
	confirmer_free(d->confirmer);
	free(d->shards);
	if (d->on_closed != NULL)
		d->on_closed(d->closed_data);
	free(d);
}

static void on_region_closed(void *data)
{
	part_closed(data);
}

static void on_timer_closed(uv_handle_t *timer)
{
	part_closed(timer->data);
}

void durable_close(struct durable *d, void (*on_closed)(void *data), void *data)
{
	assert(!d->closing);
	d->closing = true;
	d->on_closed = on_closed;
	d->closed_data = data;
	end_starting(d);
	while (d->first != NULL)
		finish_early(d->first, KOVA_ECLOSED);
	if (d->region != NULL)
		region_close(d->region, on_region_closed, d);
	uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

static bool shards_init(struct durable *d)
{
	d->shards = calloc(SHARDS_MAX, sizeof *d->shards);
	for (unsigned i = 0; d->shards != NULL && i < SHARDS_MAX; i++) {
		d->shards[i].durable = d;
		line_init(&d->shards[i].asked);
		line_init(&d->shards[i].later);
	}
	return d->shards != NULL;
}

static bool open_region(struct durable *d, const struct redis_conf *conf)
{
	struct redis_conf patient = *conf;

	patient.timeout_ms += STORE_EXTRA_MS;
	d->store = redis_store_new(d->loop, &patient, on_store_changed, d);
	if (d->store == NULL)
		return false;
	d->confirmer =
		confirmer_new(d->store, d->wanted, d->timeout_ms, conf->mode == REDIS_EMBEDDED);
	if (d->confirmer != NULL)
		d->region = region_new(d->loop, d->store, &patient);
	if (d->region == NULL)
		redis_store_close(d->store, NULL, NULL);
	return d->region != NULL;
}

static void write_name(struct durable *d)
{
	const char *aof = d->wanted.aof ? "aof" : "";

	if (d->wanted.replicas > 0)
		snprintf(d->name, sizeof d->name, "%s%sreplica:%u", aof, d->wanted.aof ? " " : "",
			 (unsigned)d->wanted.replicas);
	else
		snprintf(d->name, sizeof d->name, "%s", aof);
}

struct durable *durable_new(uv_loop_t *loop, const struct redis_conf *conf,
			    struct durability wanted, durable_changed *on_changed, void *data)
{
	struct durable *d = calloc(1, sizeof *d);

	assert(conf->mode != REDIS_EMBEDDED || wanted.replicas == 0);
	if (d == NULL)
		return NULL;
	d->loop = loop;
	d->wanted = wanted;
	d->timeout_ms = conf->timeout_ms;
	d->on_changed = on_changed;
	d->changed_data = data;
	write_name(d);
	if (!shards_init(d) || !open_region(d, conf)) {
		confirmer_free(d->confirmer);
		free(d->shards);
		free(d);
		return NULL;
	}
	uv_timer_init(loop, &d->timer);
	d->timer.data = d;
	d->parts_open = 2;
	d->starting = true;
	d->starting_until_ms = uv_now(loop) + d->timeout_ms;
	arm(d);
	return d;
}
