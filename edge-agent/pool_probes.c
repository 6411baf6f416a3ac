/*
 * Probes of endpoints in cooldown. Each owner's loop asks the script again and again whether it is the region's prober, and whose
 * probe is due (pool_probes_turn, pool_probes_due). One probe: a contact, and where the exit matters another one, each through a
 * connection of its own (on_contact); what it found is counted and told to the script with the next call (pool_probes_tell), which
 * alone decides what that changes. What the call could not tell is found anew when the probe is due again.
 *
 * A prober that dies is followed by another agent when its lease is over. Every path of a probe ends in probe_free(), exactly once.
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "io/contact.h"
#include "pool_own.h"

enum {
	TURN_MAX_MS = 5000, /* the prober asks at least so often */
	TURNS_OF_LEASE = 3,
	LEASE_LEAST_MS = 3000,
	POOL_PROBES_MAX = 32, /* of one pool at a time */
	PROBES_MAX = 256,
	TOLD_OF_CALL = 16,
};

struct pool_probing {
	struct pool_probing *next;
	struct pool_line *line;
	struct pool_def *def; /* referenced */
	uint32_t endpoint;
	uint64_t began; /* the cooldown */
	uint64_t until_ms;
	bool is_second;
	struct pool_exit_address first;
	char session[POOL_SESSION_RANDOM + 1];
	enum pool_probe found;
};

static uint64_t now_ms(const struct pool_service *s)
{
	return uv_now(s->agent->loop);
}

static void probe_free(struct pool_probing *p)
{
	if (p == NULL)
		return;
	pool_def_unref(p->def);
	free(p);
}

static void drop(struct pool_probing **list)
{
	while (*list != NULL) {
		struct pool_probing *p = *list;

		*list = p->next;
		probe_free(p);
	}
}

/* ---- One probe ---- */

/* POOL_PROBE_NONE: memory was out, and it is as if there had been none. */
static void probe_end(struct pool_probing *p, enum pool_probe found)
{
	struct pool_line *l = p->line;
	struct pool_probing **at = &l->probes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	l->n_probes--;
	l->service->n_probes--;
	if (found == POOL_PROBE_NONE) {
		probe_free(p);
		return;
	}
	p->found = found;
	l->counts.probes[found]++;
	p->next = l->found;
	l->found = p;
}

static void on_contact(const struct pool_contact *met, void *data);

/* A session of its own, so that a gateway's probe meets nobody's; another one where its exit must be another. */
static bool contact(struct pool_probing *p)
{
	struct pool_service *s = p->line->service;
	const struct pool_health *health = &p->def->health;
	uint64_t now = now_ms(s);

	if (!p->is_second || health->exit == POOL_EXIT_ROTATING)
		pool_session_random(s, p->session);
	const struct contact_order order = {.through = &p->def->members[p->endpoint].url,
					    .session = slice_of(p->session),
					    .url = health->url,
					    .timeout_ms =
						    p->until_ms > now ? p->until_ms - now : 1};

	return contact_start(s->contacts, &order, on_contact, p) != NULL;
}

static void on_contact(const struct pool_contact *met, void *data)
{
	struct pool_probing *p = data;
	const struct pool_health *health = &p->def->health;
	struct pool_exit_address address;
	enum pool_probe found = pool_probe_judge(p->def->members[p->endpoint].url.scheme,
						 health->family, met, &address);

	if (found == POOL_PROBE_OK && p->is_second) {
		found = pool_probe_compare(health->exit, &p->first, &address);
	} else if (found == POOL_PROBE_OK && health->exit != POOL_EXIT_ANY) {
		p->first = address;
		p->is_second = true;
		if (contact(p))
			return;
		found = POOL_PROBE_NONE;
	}
	probe_end(p, found);
}

static bool is_probed(const struct pool_line *l, const struct pool_member *m)
{
	for (const struct pool_probing *p = l->probes; p != NULL; p = p->next)
		if (strcmp(p->def->members[p->endpoint].state_id, m->state_id) == 0)
			return true;
	return false;
}

static void probe_start(struct pool_line *l, struct pool_def *def, uint32_t endpoint,
			uint64_t began)
{
	struct pool_service *s = l->service;
	struct pool_probing *p;

	if (s->contacts == NULL)
		s->contacts = contacts_new(s->agent->loop);
	if (s->contacts == NULL || is_probed(l, &def->members[endpoint]))
		return;
	p = calloc(1, sizeof *p);
	if (p == NULL)
		return;
	*p = (struct pool_probing){.next = l->probes,
				   .line = l,
				   .def = pool_def_ref(def),
				   .endpoint = endpoint,
				   .began = began,
				   .until_ms = now_ms(s) + def->health.timeout_us / 1000};
	if (!contact(p)) {
		probe_free(p);
		return;
	}
	l->probes = p;
	l->n_probes++;
	s->n_probes++;
}

/* ---- Whose turn it is ---- */

static uint64_t turn_ms(const struct pool_def *def)
{
	uint64_t every = def->rule.every / 1000;

	return every / ((every + TURN_MAX_MS - 1) / TURN_MAX_MS);
}

static uint64_t lease_ms(const struct pool_def *def)
{
	uint64_t turns = TURNS_OF_LEASE * turn_ms(def);

	return turns > LEASE_LEAST_MS ? turns : LEASE_LEAST_MS;
}

/* What calls on their way have asked for is taken: no answer brings more than there is room for. */
static unsigned room_of(const struct pool_line *l)
{
	const struct pool_service *s = l->service;
	unsigned own = POOL_PROBES_MAX - l->n_probes - l->probes_asked;
	unsigned all = PROBES_MAX - s->n_probes - s->probes_asked;

	return own < all ? own : all;
}

static void room_give_back(struct pool_line *l, unsigned room)
{
	l->probes_asked -= room;
	l->service->probes_asked -= room;
}

void pool_probes_turn(struct pool_line *l, const struct pool_def *def)
{
	uint64_t now = now_ms(l->service);
	bool more = l->probes_wait && room_of(l) >= POOL_PROBES_MAX / 2;

	if (!def->rule.health || l->asking_prober || l->service->draining ||
	    (now < l->prober_ms && !more))
		return;
	l->prober_ms = now + turn_ms(def);
	l->asking_prober = true;
	l->asked_prober = false;
}

bool pool_probes_ask(struct pool_line *l, const struct pool_def *def, struct buf *program,
		     unsigned *ret_room)
{
	if (!l->asking_prober || l->asked_prober)
		return false;
	if (!def->rule.health) { /* since the turn */
		l->asking_prober = false;
		return false;
	}
	l->asked_prober = true;
	*ret_room = room_of(l);
	l->probes_asked += *ret_room;
	l->service->probes_asked += *ret_room;
	pool_call_prober(program, l->service->prober, lease_ms(def) * 1000, (uint16_t)*ret_room);
	return true;
}

void pool_probes_unanswered(struct pool_line *l, unsigned room)
{
	room_give_back(l, room);
	l->asking_prober = false;
}

void pool_probes_due(struct pool_line *l, struct pool_def *def, unsigned room,
		     struct pool_reply *reply)
{
	uint32_t endpoint;
	uint64_t began;
	bool is_us, more;
	size_t n;

	room_give_back(l, room);
	l->asking_prober = false;
	if (!pool_read_prober(reply, &is_us, &more, &n))
		return;
	l->probes_wait = more;
	l->counts.probes_put_off += l->probes_wait;
	if (!is_us)
		l->prober_ms = now_ms(l->service) + lease_ms(def) / TURNS_OF_LEASE;
	for (size_t i = 0; i < n && pool_read_cooling(reply, &endpoint, &began); i++)
		if (i < room && endpoint < def->n_members && !l->service->draining)
			probe_start(l, def, endpoint, began);
}

/* ---- What was found ---- */

static bool find_member(const struct pool_def *def, const struct pool_probing *p,
			uint32_t *ret_endpoint)
{
	const char *id = p->def->members[p->endpoint].state_id;

	*ret_endpoint = p->endpoint;
	if (def == p->def)
		return true;
	for (*ret_endpoint = 0; *ret_endpoint < def->n_members; (*ret_endpoint)++)
		if (strcmp(def->members[*ret_endpoint].state_id, id) == 0)
			return true;
	return false;
}

unsigned pool_probes_tell(struct pool_line *l, const struct pool_def *def, struct buf *program)
{
	uint32_t endpoint;
	unsigned n = 0;

	while (l->found != NULL && n < TOLD_OF_CALL) {
		struct pool_probing *p = l->found;

		l->found = p->next;
		if (find_member(def, p, &endpoint)) {
			pool_call_probe(program, endpoint, p->began, p->found);
			n++;
		}
		probe_free(p);
	}
	return n;
}

void pool_probes_forget(struct pool_line *l)
{
	l->asking_prober = l->asked_prober = l->probes_wait = false;
	drop(&l->found);
}

/* ---- The end ---- */

static void on_contacts_closed(void *data)
{
	pool_calls_handle_closed(data);
}

void pool_probes_stop(struct pool_service *s)
{
	if (s->contacts != NULL)
		s->handles_open++;
	contacts_close(s->contacts, on_contacts_closed, s);
	s->contacts = NULL;
	for (struct pool_line *l = s->lines; l != NULL; l = l->next) {
		drop(&l->probes);
		pool_probes_forget(l);
	}
}
