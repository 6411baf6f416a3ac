/*
 * Any bytes as a pool and what workers do with it, on the twin of the pool script: what is in flight is what is out, a ticket
 * counts once, and what is given and told is in its range.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/pool_policy.h"

enum { ENDPOINTS = 6, BATCHES_MAX = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at, *end;
};

struct play {
	struct input in;
	struct pool_policy *pool;
	struct pool_rule rule;
	struct pool_endpoint endpoint[ENDPOINTS];
	size_t n;
	uint64_t now_us;
	uint64_t n_issued; /* serials count from 1 */
	struct {
		uint32_t endpoint;
		uint64_t stop_us;
		bool is_over; /* reported, undone, or its lease is */
		bool is_done; /* reported or undone */
	} ticket[BATCHES_MAX + 1];
};

static uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint64_t below(struct input *in, unsigned n)
{
	return byte(in) % n;
}

/* From 1 ms to some minutes. */
static uint64_t span_us(struct input *in)
{
	return UINT64_C(1000) + (uint64_t)byte(in) * byte(in) * byte(in) * 20;
}

static double share(struct input *in)
{
	return (double)below(in, 5) / 4;
}

static void read_rule(struct input *in, struct pool_rule *r)
{
	*r = (struct pool_rule){.kind = (enum pool_kind)below(in, 2),
				.select = (enum pool_select)below(in, 3),
				.window = (uint8_t)(2 + below(in, POOL_WINDOW_MAX - 1)),
				.escalate_of = (uint8_t)(1 + below(in, POOL_WINDOW_MAX)),
				.direct = below(in, 2) == 0,
				.health = below(in, 2) == 0,
				.exclusive = below(in, 2) == 0,
				.base = span_us(in),
				.trial = span_us(in),
				.ramp = below(in, 2) * span_us(in),
				.lease = span_us(in),
				.floor_active = below(in, ENDPOINTS + 1),
				.floor_pause = span_us(in),
				.blame_within = span_us(in),
				.blame_min = 1 + below(in, 8),
				.blame_hold = span_us(in),
				.escalate_hold = span_us(in),
				.session_ttl = span_us(in),
				.report = span_us(in),
				.every = span_us(in),
				.jitter = share(in),
				.blame_share = share(in),
				.max_out = share(in)};
	r->max = r->base + span_us(in);
	r->threshold = (uint8_t)(2 + below(in, r->window - 1U));
	r->escalate_after = (uint8_t)(1 + below(in, r->escalate_of));
}

static void read_endpoints(struct play *p)
{
	static const char *const ids[ENDPOINTS] = {"a", "b", "c", "d", "e", "f"};

	p->n = below(&p->in, ENDPOINTS + 1);
	for (size_t i = 0; i < ENDPOINTS; i++)
		p->endpoint[i] = (struct pool_endpoint){
			.id = slice_of(ids[i]),
			.account = below(&p->in, 2) == 0 ? SLICE("g") : (struct slice){0},
			.weight = (double)below(&p->in, 5),
			.slots = (uint32_t)below(&p->in, 4),
			.tier = (uint8_t)(1 + below(&p->in, POOL_TIER_MAX)),
			.off = below(&p->in, 8) == 7};
}

/* ---- What is done ---- */

/* Permits as the input has them; of the endpoint for which they were taken last. */
struct limits {
	struct input *in;
	uint32_t endpoint;
	enum pool_permitted said;
	unsigned asked;
};

static enum pool_permitted take(void *data, uint32_t endpoint)
{
	struct limits *l = data;

	assert(l->asked++ < POOL_TRIES_MAX && (l->asked == 1 || l->said == POOL_UNPERMITTED_HERE));
	l->endpoint = endpoint;
	l->said = (enum pool_permitted)below(l->in, 3);
	return l->said;
}

static void do_next(struct play *p)
{
	static const char *const targets[] = {"", "t", "u"}, *const sessions[] = {"", "s", "v"};
	uint16_t skip = (uint16_t)below(&p->in, ENDPOINTS);
	struct pool_next_op op = {.tier = (uint8_t)below(&p->in, POOL_TIER_MAX + 1),
				  .target = slice_of(targets[below(&p->in, 3)]),
				  .session = slice_of(sessions[below(&p->in, 3)]),
				  .waiter = below(&p->in, 8),
				  .skip = &skip,
				  .n_skip = below(&p->in, 2)};
	struct limits limits = {.in = &p->in};
	const struct pool_limiter limiter = {take, &limits};
	struct pool_given g;

	op.arrival_us = below(&p->in, 2) * (p->now_us - 1000 * below(&p->in, 200));
	bool limited = below(&p->in, 2) == 1;

	pool_policy_next(p->pool, &op, limited ? &limiter : NULL, &g);
	if (g.pause != POOL_NOT_PAUSED) {
		assert(g.pause >= POOL_FLOOR && g.pause <= POOL_LIMITED);
		assert(g.pause != POOL_LIMITED || limits.said != POOL_PERMITTED);
		assert(limits.asked == 0 || limits.said != POOL_PERMITTED);
		assert(g.retry_us >= -1 && g.firm_us >= -1);
		return;
	}
	assert(!limited || (limits.said == POOL_PERMITTED && limits.endpoint == g.endpoint &&
			    limits.asked > 0));
	assert(g.endpoint < p->n && !p->endpoint[g.endpoint].off);
	assert(g.tier == p->endpoint[g.endpoint].tier && g.tier >= op.tier);
	assert(p->endpoint[g.endpoint].weight > 0 || op.session.len > 0);
	assert(!g.moved || op.session.len > 0);
	assert(g.serial == ++p->n_issued);
	p->ticket[g.serial].endpoint = g.endpoint;
	p->ticket[g.serial].stop_us = p->now_us + p->rule.lease;
}

static uint64_t read_serial(struct play *p)
{
	return p->n_issued > 0 ? 1 + (byte(&p->in) * UINT64_C(256) + byte(&p->in)) % p->n_issued
			       : 0;
}

static void do_report(struct play *p)
{
	struct pool_quota quota = {.name = "requests",
				   .limit = (int64_t)below(&p->in, 9) - 1,
				   .left = (int64_t)below(&p->in, 4) - 1,
				   .reset_us = span_us(&p->in)};
	struct pool_report_op op = {.outcome = (enum pool_outcome)below(&p->in, POOL_OUTCOMES),
				    .status = below(&p->in, 2) == 0 ? 403 : 429,
				    .hint_us = below(&p->in, 2) * span_us(&p->in),
				    .quotas = &quota,
				    .n_quotas = below(&p->in, 2)};
	uint64_t serial = read_serial(p);
	enum pool_reported reported = pool_policy_report(p->pool, serial, &op);

	assert(serial > 0 || reported == POOL_NO_TICKET);
	assert(reported != POOL_COUNTED || !p->ticket[serial].is_done);
	if (reported != POOL_NO_TICKET)
		p->ticket[serial].is_over = p->ticket[serial].is_done = true;
}

static void do_undo(struct play *p)
{
	uint64_t serial = read_serial(p);

	pool_policy_undo(p->pool, serial);
	if (serial > 0)
		p->ticket[serial].is_over = p->ticket[serial].is_done = true;
}

static void do_other(struct play *p)
{
	struct pool_numbers numbers;
	uint64_t tickets[POOL_POLICY_ENDPOINTS];
	struct pool_due due[POOL_POLICY_ENDPOINTS];
	bool more;
	size_t n;

	switch (below(&p->in, 5)) {
	case 0:
		if (pool_policy_numbers(p->pool, &numbers, tickets))
			assert(numbers.good <= numbers.back && numbers.above <= numbers.tickets);
		break;
	case 1:
		pool_policy_enable(p->pool, (uint32_t)below(&p->in, ENDPOINTS));
		break;
	case 2:
		pool_policy_leave(p->pool, below(&p->in, 8));
		break;
	case 3:
		pool_policy_prober(p->pool, "one             ", span_us(&p->in),
				   (uint16_t)below(&p->in, 4), &more, &n, due);
		for (size_t i = 0; i < n && i < below(&p->in, 4); i++)
			pool_policy_probe(p->pool, due[i].endpoint, due[i].began,
					  below(&p->in, 2) == 0 ? POOL_PROBE_OK : POOL_PROBE_BODY);
		break;
	default: /* another definition */
		p->endpoint[below(&p->in, ENDPOINTS)].off = below(&p->in, 2) == 0;
		break;
	}
}

/* ---- What holds ---- */

static void check(struct play *p)
{
	static struct pool_view v;
	uint64_t in_flight[ENDPOINTS] = {0};

	pool_policy_show(p->pool, &v);
	for (uint64_t serial = 1; serial <= p->n_issued; serial++)
		in_flight[p->ticket[serial].endpoint] += !p->ticket[serial].is_over;
	for (size_t i = 0; i < p->n; i++) {
		const struct pool_shown *s = &v.endpoint[i];

		assert(s->in_flight == in_flight[i]);
		assert(s->outcomes <= p->rule.window && s->failures <= s->outcomes);
		assert(s->cooling || s->returns_us == 0);
		assert(s->n_quotas <= POOL_QUOTAS_MAX);
	}
	assert(v.totals.numbers.good <= v.totals.numbers.back);
	for (size_t i = 0; i < v.n_targets; i++)
		assert(v.target[i].head.tier >= 1 && v.target[i].head.tier <= POOL_TIER_MAX);
}

static void batch(struct play *p)
{
	pool_policy_begin(p->pool, &p->rule, p->endpoint, p->n, p->now_us,
			  (double)byte(&p->in) / 256);
	for (uint64_t serial = 1; serial <= p->n_issued; serial++)
		if (p->ticket[serial].stop_us <= p->now_us)
			p->ticket[serial].is_over = true;
	switch (below(&p->in, 8)) {
	case 0:
		do_other(p);
		break;
	case 1:
		do_undo(p);
		break;
	case 2:
	case 3:
	case 4:
		do_report(p);
		break;
	default:
		do_next(p);
		break;
	}
	check(p);
	pool_policy_end(p->pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play *p = calloc(1, sizeof *p);

	if (p == NULL || (p->pool = pool_policy_new()) == NULL)
		abort();
	p->in = (struct input){data, data + size};
	p->now_us = UINT64_C(1796000000000000);
	read_rule(&p->in, &p->rule);
	read_endpoints(p);
	for (unsigned i = 0; i < BATCHES_MAX && p->in.at < p->in.end; i++) {
		p->now_us += below(&p->in, 2) * span_us(&p->in);
		batch(p);
	}
	pool_policy_free(p->pool);
	free(p);
	return 0;
}
