#include "core/pool_script.h"

#include "core/lua_script.h"
#include "core/resp.h"
#include "core/script_wire.h"

enum { NEXT = 1, REPORT, UNDO, SHOW, NUMBERS, ENABLE, PROBE, PROBER, LEAVE };

enum {
	HEAD_BYTES = 9 + 17 * 8 + 4 + 4 + 1 + 4 + POOL_TIER_MAX * 2, /* of a definition */
	ENDPOINT_BYTES = 1 + 8 + 8 + 12, /* of an endpoint, without id and account */
};

#define NUMBER_MAX ((double)(UINT64_C(1) << 53))

/* ---- Writing ---- */

static void add_u8(struct buf *b, unsigned v)
{
	char *at = buf_reserve(b, 1);

	if (at != NULL)
		b->len += (size_t)(put_u8(at, v) - at);
}

static void add_u16(struct buf *b, size_t v)
{
	char *at = buf_reserve(b, 2);

	if (at != NULL)
		b->len += (size_t)(put_u16(at, (unsigned)v) - at);
}

static void add_u32(struct buf *b, size_t v)
{
	char *at = buf_reserve(b, 4);

	if (at != NULL)
		b->len += (size_t)(put_u32(at, (uint32_t)v) - at);
}

static void add_double(struct buf *b, double v)
{
	char *at = buf_reserve(b, 8);

	if (at != NULL)
		b->len += (size_t)(put_double(at, v) - at);
}

static void add_u64(struct buf *b, uint64_t v)
{
	char *at = buf_reserve(b, 8);

	if (at != NULL)
		b->len += (size_t)(put_u64(at, v) - at);
}

static void add_short(struct buf *b, struct slice s)
{
	add_u8(b, (unsigned)s.len);
	buf_add_slice(b, s);
}

static void add_text(struct buf *b, struct slice s)
{
	add_u16(b, s.len);
	buf_add_slice(b, s);
}

/* The tier in which it can be given something new; 0: none. */
static uint8_t given_tier(const struct pool_endpoint *e)
{
	return e->off || e->weight <= 0 ? 0 : e->tier;
}

/* What the script asks of all of them at once: see lua/README.md. */
static void add_columns(const struct pool_endpoint *endpoints, size_t n, size_t accounts_at,
			struct buf *out)
{
	size_t on = 0, given[POOL_TIER_MAX + 1] = {0};
	bool has_slots = false;

	for (size_t i = 0; i < n; i++) {
		on += !endpoints[i].off;
		has_slots |= endpoints[i].slots > 0;
		given[given_tier(&endpoints[i])]++;
	}
	add_u32(out, on);
	add_u8(out, has_slots);
	add_u32(out, accounts_at);
	for (size_t tier = 1; tier <= POOL_TIER_MAX; tier++)
		add_u16(out, given[tier]);
	for (size_t i = 0; i < n; i++)
		add_u8(out, given_tier(&endpoints[i]));
	for (size_t i = 0; i < n; i++)
		add_double(out, endpoints[i].weight);
	for (size_t i = 0; i < n; i++)
		add_double(out, endpoints[i].slots);
}

static void add_endpoints(const struct pool_endpoint *endpoints, size_t n, struct buf *out)
{
	size_t id_at = HEAD_BYTES + n * ENDPOINT_BYTES + 1; /* places count from 1 */
	size_t account_at = id_at;

	for (size_t i = 0; i < n; i++)
		account_at += 1 + endpoints[i].id.len;
	add_columns(endpoints, n, account_at, out);
	for (size_t i = 0; i < n; i++) {
		add_u8(out, endpoints[i].tier);
		add_u8(out, endpoints[i].off);
		add_u32(out, id_at + 1);
		add_u8(out, (unsigned)endpoints[i].id.len);
		add_u32(out, account_at);
		add_u8(out, (unsigned)endpoints[i].account.len);
		id_at += 1 + endpoints[i].id.len;
		account_at += endpoints[i].account.len;
	}
	for (size_t i = 0; i < n; i++)
		add_short(out, endpoints[i].id);
	for (size_t i = 0; i < n; i++)
		buf_add_slice(out, endpoints[i].account);
}

void pool_definition_write(const struct pool_rule *r, const struct pool_endpoint *endpoints,
			   size_t n, struct buf *out)
{
	const unsigned bytes[] = {r->kind,      r->select,         r->window,
				  r->threshold, r->direct,         r->health,
				  r->exclusive, r->escalate_after, r->escalate_of};
	const uint64_t times[] = {r->base,      r->max,          r->trial,         r->ramp,
				  r->lease,     r->floor_active, r->floor_pause,   r->blame_within,
				  r->blame_min, r->blame_hold,   r->escalate_hold, r->session_ttl,
				  r->report,    r->every};
	const double shares[] = {r->jitter, r->blame_share, r->max_out};

	for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
		add_u8(out, bytes[i]);
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		add_double(out, (double)times[i]);
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
		add_double(out, shares[i]);
	add_u32(out, n);
	add_endpoints(endpoints, n, out);
}

void pool_call_begin(struct buf *program, const char stamp[static POOL_STAMP_BYTES], double luck)
{
	buf_add(program, stamp, POOL_STAMP_BYTES);
	add_double(program, luck);
	add_u16(program, 0);
}

void pool_call_next(struct buf *program, const struct pool_next_op *op)
{
	add_u8(program, NEXT);
	add_u8(program, op->tier);
	add_u64(program, op->waiter);
	add_double(program, (double)op->arrival_us);
	add_text(program, op->target);
	add_text(program, op->session);
	add_u16(program, op->permits != NULL ? op->permits->n_keys : 0);
	add_u16(program, op->n_skip);
	for (size_t i = 0; i < op->n_skip; i++)
		add_u16(program, op->skip[i] + 1U);
	if (op->permits != NULL)
		buf_add_slice(program, buf_slice(&op->permits->text));
}

void pool_call_report(struct buf *program, const struct pool_report_op *op)
{
	add_u8(program, REPORT);
	add_text(program, op->ticket);
	add_u8(program, op->outcome);
	add_u16(program, op->status);
	add_double(program, (double)op->hint_us);
	add_u8(program, (unsigned)op->n_quotas);
	for (size_t i = 0; i < op->n_quotas; i++) {
		const struct pool_quota *q = &op->quotas[i];

		add_short(program, slice_of(q->name));
		add_double(program, (double)q->limit);
		add_double(program, (double)q->left);
		add_u8(program, q->absolute);
		add_double(program, (double)q->reset_us);
	}
}

void pool_call_undo(struct buf *program, uint64_t serial)
{
	add_u8(program, UNDO);
	add_double(program, (double)serial);
}

void pool_call_leave(struct buf *program, uint64_t waiter)
{
	add_u8(program, LEAVE);
	add_u64(program, waiter);
}

void pool_call_show(struct buf *program)
{
	add_u8(program, SHOW);
}

void pool_call_numbers(struct buf *program)
{
	add_u8(program, NUMBERS);
}

void pool_call_enable(struct buf *program, uint32_t endpoint)
{
	add_u8(program, ENABLE);
	add_u16(program, endpoint + 1);
}

void pool_call_probe(struct buf *program, uint32_t endpoint, uint64_t began, enum pool_probe found)
{
	add_u8(program, PROBE);
	add_u16(program, endpoint + 1);
	add_double(program, (double)began);
	add_u8(program, found);
}

void pool_call_prober(struct buf *program, const char agent[static POOL_AGENT_BYTES],
		      uint64_t ttl_us, uint16_t room)
{
	add_u8(program, PROBER);
	buf_add(program, agent, POOL_AGENT_BYTES);
	add_double(program, (double)ttl_us);
	add_u16(program, room);
}

void pool_call_end(struct buf *program, uint32_t n_ops, const char secret[static POOL_SECRET_BYTES])
{
	buf_add(program, secret, POOL_SECRET_BYTES);
	if (!buf_failed(program))
		(void)put_u16(program->ptr + POOL_STAMP_BYTES + 8, n_ops);
}

void pool_key_write(struct slice pool, struct buf *out)
{
	buf_add_text(out, "k:p{");
	buf_add_slice(out, pool);
	buf_add_text(out, "}");
}

void pool_command_write(struct buf *out, bool with_body, struct slice key, struct slice definition,
			struct slice program)
{
	resp_write_array(out, 6);
	resp_write_bulk_text(out, with_body ? "EVAL" : "EVALSHA");
	resp_write_bulk(out, with_body ? (struct slice){lua_pool.body, lua_pool.len}
				       : slice_of(lua_pool.sha1));
	resp_write_bulk_text(out, "1");
	resp_write_bulk(out, key);
	resp_write_bulk(out, definition);
	resp_write_bulk(out, program);
}

/* ---- Reading ---- */

static const char *take(struct pool_reply *r, size_t n)
{
	const char *p = r->bytes.ptr + r->at;

	if (r->failed || r->bytes.len - r->at < n) {
		r->failed = true;
		return NULL;
	}
	r->at += n;
	return p;
}

static unsigned get_byte(struct pool_reply *r)
{
	const char *p = take(r, 1);

	return p != NULL ? (unsigned char)*p : 0;
}

static uint32_t get_short(struct pool_reply *r)
{
	const char *p = take(r, 2);

	return p != NULL ? get_u16(p) : 0;
}

/* Whole numbers from -1 to 2^53; what is between whole numbers is cut off. */
static int64_t get_number(struct pool_reply *r)
{
	const char *p = take(r, 8);
	double v = p != NULL ? get_double(p) : 0;

	if (!(v >= -1 && v <= NUMBER_MAX)) {
		r->failed = true;
		return 0;
	}
	return (int64_t)v;
}

static uint64_t get_count(struct pool_reply *r)
{
	int64_t n = get_number(r);

	return n > 0 ? (uint64_t)n : 0;
}

static struct slice get_slice(struct pool_reply *r, size_t n)
{
	const char *p = take(r, n);

	return p != NULL ? (struct slice){p, n} : (struct slice){0};
}

static bool read_event(struct pool_reply *r, struct pool_event *e)
{
	*e = (struct pool_event){.kind = (enum pool_event_kind)get_byte(r)};
	e->endpoint = get_short(r);
	if (e->kind != POOL_EVENT_PAUSED)
		e->endpoint = e->endpoint > 0 ? e->endpoint - 1 : POOL_NO_ENDPOINT;
	e->amount = get_count(r);
	e->why = (uint8_t)get_byte(r);
	e->target = get_slice(r, get_short(r));
	if (e->kind < POOL_EVENT_COOLED || e->kind > POOL_EVENT_EXTENDED || e->why >= POOL_OUTCOMES)
		r->failed = true;
	return !r->failed;
}

kova_status pool_reply_init(struct pool_reply *r, struct slice bytes,
			    const char stamp[static POOL_STAMP_BYTES])
{
	struct pool_event e;

	*r = (struct pool_reply){.bytes = bytes};
	const char *said = take(r, POOL_STAMP_BYTES);

	if (said == NULL || memcmp(said, stamp, POOL_STAMP_BYTES) != 0)
		return KOVA_EPROTO;
	r->now_us = get_count(r);
	r->n_events = r->events_left = get_short(r);
	r->events_at = r->at;
	for (size_t i = 0; i < r->n_events && !r->failed; i++)
		(void)read_event(r, &e);
	return r->failed ? KOVA_EPROTO : KOVA_OK;
}

bool pool_reply_event(struct pool_reply *r, struct pool_event *ret_event)
{
	struct pool_reply at = {.bytes = r->bytes, .at = r->events_at};

	if (r->events_left == 0)
		return false;
	r->events_left--;
	(void)read_event(&at, ret_event);
	r->events_at = at.at;
	return true;
}

bool pool_read_tries(struct pool_reply *r, size_t *ret_tries)
{
	*ret_tries = get_byte(r);
	if (*ret_tries > POOL_TRIES_MAX)
		r->failed = true;
	return !r->failed;
}

bool pool_read_try(struct pool_reply *r, uint32_t *ret_endpoint, struct slice *ret_reply)
{
	*ret_endpoint = get_short(r) - 1;
	*ret_reply = get_slice(r, get_short(r));
	if (*ret_endpoint >= POOL_ENDPOINTS_MAX)
		r->failed = true;
	return !r->failed;
}

bool pool_read_given(struct pool_reply *r, struct pool_given *g)
{
	*g = (struct pool_given){0};
	if (get_byte(r) == 0) {
		g->pause = (enum pool_pause)get_byte(r);
		g->retry_us = get_number(r);
		g->firm_us = get_number(r);
		if (g->pause < POOL_FLOOR || g->pause > POOL_LIMITED)
			r->failed = true;
		return !r->failed;
	}
	g->endpoint = get_short(r) - 1;
	g->tier = (uint8_t)get_byte(r);
	unsigned flags = get_byte(r);

	g->moved = (flags & 1) != 0;
	g->trial = (flags & 2) != 0;
	g->moves = (uint16_t)get_short(r);
	g->serial = get_count(r);
	g->ticket = get_slice(r, get_byte(r));
	if (g->ticket.len > POOL_TICKET_MAX || g->endpoint >= POOL_ENDPOINTS_MAX)
		r->failed = true;
	return !r->failed;
}

bool pool_read_reported(struct pool_reply *r, enum pool_reported *ret_reported)
{
	unsigned v = get_byte(r);

	if (v > POOL_NOT_COUNTED)
		r->failed = true;
	*ret_reported = (enum pool_reported)v;
	return !r->failed;
}

static size_t read_numbers(struct pool_reply *r, struct pool_numbers *n)
{
	n->from_us = get_count(r);
	n->to_us = get_count(r);
	n->cooldowns = get_count(r);
	n->cooled_us = get_count(r);
	n->active_min = get_count(r);
	n->tickets = get_count(r);
	n->above = get_count(r);
	n->good = get_count(r);
	n->back = get_count(r);
	return (size_t)get_count(r);
}

bool pool_read_totals(struct pool_reply *r, struct pool_totals *t, size_t *ret_endpoints)
{
	(void)read_numbers(r, &t->numbers);
	t->cooldowns = get_count(r);
	t->cooled_us = get_count(r);
	t->pause = (enum pool_pause)get_byte(r);
	t->retry_us = get_number(r);
	*ret_endpoints = get_short(r);
	if (t->pause > POOL_NOTHING)
		r->failed = true;
	return !r->failed;
}

bool pool_read_shown(struct pool_reply *r, struct pool_shown *s)
{
	s->disabled = get_byte(r) != 0;
	s->cooling = get_byte(r) != 0;
	s->returns_us = get_count(r);
	s->cooldowns = (uint8_t)get_byte(r);
	s->outcomes = (uint8_t)get_byte(r);
	s->failures = (uint8_t)get_byte(r);
	s->in_flight = get_count(r);
	s->tickets = get_count(r);
	s->held_us = get_count(r);
	s->n_quotas = get_byte(r);
	if (s->n_quotas > POOL_QUOTAS_MAX)
		r->failed = true;
	for (size_t i = 0; i < s->n_quotas && !r->failed; i++) {
		s->quota[i].name = get_slice(r, get_byte(r));
		s->quota[i].limit = get_number(r);
		s->quota[i].left = get_number(r);
		s->quota[i].reset_us = get_count(r);
	}
	return !r->failed;
}

bool pool_read_targets(struct pool_reply *r, size_t *ret_targets)
{
	*ret_targets = get_short(r);
	return !r->failed;
}

bool pool_read_target(struct pool_reply *r, struct pool_shown_target *t)
{
	t->name = get_slice(r, get_short(r));
	t->tier = (uint8_t)get_byte(r);
	t->held_us = get_count(r);
	t->n_cooling = get_short(r);
	return !r->failed;
}

bool pool_read_cooling(struct pool_reply *r, uint32_t *ret_endpoint, uint64_t *ret_us)
{
	*ret_endpoint = get_short(r) - 1;
	*ret_us = get_count(r);
	return !r->failed;
}

bool pool_read_probes(struct pool_reply *r, size_t *ret_probes)
{
	*ret_probes = get_short(r);
	return !r->failed;
}

bool pool_read_probe(struct pool_reply *r, uint32_t *ret_endpoint, enum pool_probe *ret_found,
		     uint64_t *ret_age_us)
{
	*ret_endpoint = get_short(r) - 1;
	unsigned found = get_byte(r);

	*ret_age_us = get_count(r);
	if (found >= POOL_PROBES)
		r->failed = true;
	*ret_found = (enum pool_probe)found;
	return !r->failed;
}

bool pool_read_numbers(struct pool_reply *r, bool *ret_due, struct pool_numbers *n,
		       size_t *ret_endpoints)
{
	*ret_due = get_byte(r) != 0;
	*ret_endpoints = *ret_due ? read_numbers(r, n) : 0;
	return !r->failed;
}

bool pool_read_tickets(struct pool_reply *r, uint64_t *ret_tickets)
{
	*ret_tickets = get_count(r);
	return !r->failed;
}

bool pool_read_flag(struct pool_reply *r, bool *ret_flag)
{
	*ret_flag = get_byte(r) != 0;
	return !r->failed;
}

bool pool_read_prober(struct pool_reply *r, bool *ret_is_us, bool *ret_more, size_t *ret_due)
{
	unsigned whose = get_byte(r);

	*ret_is_us = whose != 0;
	*ret_more = whose == 2;
	*ret_due = get_short(r);
	return !r->failed;
}
