#include "core/script_records.h"

#include <assert.h>
#include <stdlib.h>

#include "core/calendar.h"
#include "core/script_wire.h"

/* ---- Limits ---- */

void script_edges_around(const struct calendar_edges *e, uint64_t now_us, uint64_t ret_edge[4])
{
	uint32_t n = calendar_edges_passed(e, now_us);

	memset(ret_edge, 0, 4 * sizeof *ret_edge);
	if (n == 0 || n == e->n)
		return;
	ret_edge[0] = e->edge_us[n >= 2 ? n - 2 : 0];
	ret_edge[1] = e->edge_us[n - 1];
	ret_edge[2] = e->edge_us[n];
	ret_edge[3] = e->edge_us[n + 1 < e->n ? n + 1 : n];
}

static void limit_numbers(const struct limit *l, uint64_t now_us, uint64_t ret_number[5])
{
	uint64_t *n = ret_number;

	memset(n, 0, 5 * sizeof *n);
	n[0] = limit_capacity(l);
	switch (l->algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		n[0] = l->cap_ut;
		n[1] = l->quantum_ut;
		n[2] = l->quantum_us;
		n[3] = l->scale_ut;
		n[4] = l->scale_code;
		break;
	case ALGORITHM_GCRA:
		n[1] = l->interval_us;
		n[2] = l->interval_millionths;
		break;
	case ALGORITHM_SLIDING_WINDOW:
		n[1] = l->per_us;
		break;
	case ALGORITHM_SLIDING_COUNTER:
		n[1] = l->per_us;
		n[2] = l->tick_us;
		n[3] = l->window_ticks;
		break;
	case ALGORITHM_CALENDAR:
		script_edges_around(&l->edges, now_us, n + 1);
		break;
	case ALGORITHM_CONCURRENCY:
		n[1] = l->hold_us;
		break;
	case ALGORITHM_N:
		abort(); /* limit_init() lets no such limit pass */
	}
}

void script_put_limit(char *p, const struct limit *l, uint64_t now_us)
{
	uint64_t number[5];

	limit_numbers(l, now_us, number);
	p = put_u8(p, l->algorithm);
	for (int i = 0; i < 5; i++)
		p = put_number(p, number[i]);
}

void script_put_shared_bucket(char *p, const struct limit *l)
{
	p = put_u8(p, SHARED_BUCKET);
	p = put_number(put_number(put_number(p, l->cap_ut), l->limit), l->per_us);
	put_number(put_number(p, 0), 0);
}

/* ---- Quotas ---- */

char *script_put_quota(char *p, uint32_t ref, const struct script_quota *q)
{
	assert(q->whole >= 1 && q->whole <= LIMIT_MAX && q->floor <= q->whole && q->floors >= 1);
	assert(q->grant_us >= 1);
	p = put_u8(put_u32(p, ref), q->loose);
	p = put_u32(put_u32(put_u32(p, q->whole), q->floor), q->floors);
	return put_number(put_number(p, q->lend_us), q->grant_us);
}

char *script_put_grant(char *p, const struct share_grant *g)
{
	p = put_number(put_number(p, g->seq), g->clock);
	p = put_number(put_number(p, g->t0_us), g->duration_us);
	p = put_u32(put_u32(put_u32(p, g->whole), g->parts), g->floors);
	return put_number(put_u64(p, g->epoch), g->c0_us);
}

bool script_is_grant(const struct share_grant *g)
{
	return g->seq <= LIMIT_FOREVER_US && g->clock <= LIMIT_FOREVER_US &&
	       g->t0_us <= LIMIT_FOREVER_US && g->duration_us <= LIMIT_FOREVER_US / 2 &&
	       g->c0_us <= LIMIT_FOREVER_US && g->whole >= 1 && g->whole <= LIMIT_MAX &&
	       g->parts <= g->whole;
}

/* ---- What goes with a check ---- */

char *script_put_turn(char *p, const struct turn_claim *turn)
{
	assert(turn->size >= 1 && turn->size <= TURN_SIZE_MAX);
	p = put_number(p, turn->loop);
	p = put_u32(put_u32(p, (uint32_t)(turn->flow & UINT32_MAX)), (uint32_t)(turn->flow >> 32));
	p = put_number(p, turn->arrival_us);
	p = put_double(p, turn->is_new ? -1 : (double)turn->start);
	p = put_number(p, turn->size);
	p = put_u32(put_u32(p, turn->n), turn->most);
	p = put_number(put_number(p, turn->left_us), turn->retry_us);
	return put_u8(p, (turn->joins ? 1U : 0U) + (turn->behind ? 2U : 0U));
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

char *script_put_adaptive(char *p, uint32_t ref, const struct script_check *c)
{
	const struct adaptive_rule *rule = c->adaptive;
	uint32_t max = least(rule->max, c->limit->limit);

	assert(c->limit->algorithm == ALGORITHM_TOKEN_BUCKET);
	p = put_u8(put_u32(p, ref), rule->mode == ADAPTIVE_GRADIENT);
	p = put_u32(put_u32(put_u32(p, least(rule->min, max)), max), rule->increase);
	p = put_u16(put_u8(p, rule->decrease), rule->tolerance);
	return put_number(put_number(put_number(p, rule->window_us), c->limit->limit),
			  c->limit->per_us);
}

/* ---- Keys ---- */

bool script_keys_next(struct script_keys *k, struct slice *ret_key)
{
	struct slice *from = k->strings.len > 0 ? &k->strings : &k->others;
	size_t len = 0, at = 1;

	if (from->len == 0)
		return false;
	for (; from->ptr[at] != '\r'; at++)
		len = len * 10 + (size_t)(from->ptr[at] - '0');
	*ret_key = (struct slice){from->ptr + at + 2, len};
	*from = slice_after(*from, at + 2 + len + 2);
	return true;
}
