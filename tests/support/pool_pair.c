#include "pool_pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyspace.h"
#include "core/lua_script.h"

#define STAMP "12345678"
#define KEY "k:p{pool}"

/* Before the script's own text: time, and what is gone by it, are the test's. The keys' ends are in one of their own.
 * The script is a function of its own: it has the 200 local variables that one may have for itself. */
static const char clock_lua[] =
	"local redis = (function(real)\n"
	"  local now_ms, ends = math.floor(ARGV[3] / 1000), '~'\n"
	"  local function expires(key, ms)\n"
	"    real.call('ZADD', ends, string.format('%d', now_ms + ms), key)\n"
	"  end\n"
	"  local instead = {\n"
	"    TIME = function()\n"
	"      return {string.sub(ARGV[3], 1, -7), string.sub(ARGV[3], -6)}\n"
	"    end,\n"
	"    SET = function(key, value, option, ms)\n"
	"      if option == 'PX' then\n"
	"        expires(key, ms)\n"
	"      elseif option == 'PXAT' then\n"
	"        expires(key, ms - now_ms)\n"
	"      end\n"
	"      return real.call('SET', key, value)\n"
	"    end,\n"
	"    DEL = function(key)\n"
	"      real.call('ZREM', ends, key)\n"
	"      return real.call('DEL', key)\n"
	"    end,\n"
	"    PEXPIRE = function(key, ms)\n"
	"      expires(key, ms)\n"
	"    end,\n"
	"    PTTL = function(key)\n"
	"      return (real.call('ZSCORE', ends, key) or now_ms - 1) - now_ms\n"
	"    end,\n"
	"  }\n"
	"  local gone = real.call('ZRANGEBYSCORE', ends, '-inf', string.format('(%d', now_ms))\n"
	"  for i = 1, #gone do\n"
	"    instead.DEL(gone[i])\n"
	"  end\n"
	"  local function call(name, ...)\n"
	"    if instead[name] then\n"
	"      return instead[name](...)\n"
	"    end\n"
	"    return real.call(name, ...)\n"
	"  end\n"
	"  return setmetatable({call = call}, {__index = real})\n"
	"end)(redis)\n"
	"return (function()\n";

static void fail(const char *what, const struct redis_answer *a)
{
	fprintf(stderr, "pool_pair: %s: %c %.*s\n", what, a->type, (int)a->text.len,
		a->text.ptr == NULL ? "" : a->text.ptr);
	abort();
}

static void load_script(struct pool_pair *p)
{
	struct buf body = {0}, b = {0};
	struct redis_answer a;

	buf_add_text(&body, clock_lua);
	buf_add(&body, lua_pool.body, lua_pool.len);
	buf_add_text(&body, "\nend)()");
	buf_printf(&b, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", body.len);
	buf_add_slice(&b, buf_slice(&body));
	buf_add_text(&b, "\r\n");
	a = redis_client_send(&p->client, buf_slice(&b));
	if (a.type != '$' || a.text.len != 40)
		fail("load", &a);
	memcpy(p->sha1, a.text.ptr, 40);
	redis_answer_release(&a);
	buf_release(&body);
	buf_release(&b);
}

static void new_twin(struct pool_pair *p)
{
	p->common = (struct bucket){0};
	p->n_own = 0;
	p->twin = pool_policy_new();
	free(p->ticket);
	p->ticket = calloc(POOL_POLICY_TICKETS, sizeof *p->ticket);
	if (p->twin == NULL || p->ticket == NULL)
		abort();
}

void pool_pair_start(struct pool_pair *p)
{
	*p = (struct pool_pair){0};
	redis_server_start(&p->server, NULL);
	redis_client_connect(&p->client, p->server.socket_path);
	load_script(p);
	for (size_t i = 0; i < POOL_PAIR_OPS_MAX; i++)
		if ((p->batch[i] = script_batch_new()) == NULL)
			abort();
	new_twin(p);
}

void pool_pair_stop(struct pool_pair *p)
{
	redis_answer_release(&p->reply);
	redis_client_close(&p->client);
	redis_server_stop(&p->server);
	for (size_t i = 0; i < POOL_PAIR_OPS_MAX; i++)
		script_batch_free(p->batch[i]);
	pool_policy_free(p->twin);
	free(p->ticket);
}

void pool_pair_clear(struct pool_pair *p)
{
	struct redis_answer a = redis_client_command(&p->client, "FLUSHALL");

	redis_answer_release(&a);
	pool_policy_free(p->twin);
	new_twin(p);
}

/* ---- The script ---- */

static struct slice ticket_of(const struct pool_pair *p, uint64_t serial)
{
	const char *text = p->ticket[serial % POOL_POLICY_TICKETS];

	return serial > 0 && text[0] != '\0' ? slice_of(text) : SLICE("1.1.1");
}

static struct script_check check_of(const struct limit *l, uint64_t cost, const char *policy,
				    const char *holder, char *ret_name)
{
	size_t len = keyspace_check(l->algorithm, slice_of(policy), 0, slice_of(holder), ret_name);

	return (struct script_check){.limit = l, .key = {ret_name, len}, .cost = cost};
}

static bool has_permits(const struct pool_op *op)
{
	return op->permits.own != NULL || op->permits.common != NULL;
}

static void write_next(struct pool_pair *p, uint32_t i, const struct pool_op *op,
		       struct buf *program)
{
	static char own_name[KEYSPACE_NAME_MAX], common_name[KEYSPACE_NAME_MAX];
	const struct pool_op_permits *wanted = &op->permits;
	const struct script_call call = {.stamp = ++p->stamp, .latest_us = LIMIT_FOREVER_US};
	struct pool_next_op next = op->next;
	struct pool_permits permits = {0};
	struct script_check checks[2];
	struct script_op take = {.kind = SCRIPT_TAKE, .checks = checks};

	if (wanted->own != NULL)
		checks[take.n_checks++] = check_of(wanted->own, wanted->own_cost, "own",
						   POOL_PERMITS_HOLDER, own_name);
	if (wanted->common != NULL)
		checks[take.n_checks++] = check_of(wanted->common, wanted->common_cost, "common",
						   POOL_PERMITS_HOLDER, common_name);
	if (has_permits(op)) {
		if (pool_permits_write(&permits, p->batch[i], &take, wanted->own != NULL,
				       SLICE("own"), 0, &call) != KOVA_OK)
			abort();
		next.permits = &permits;
	}
	pool_call_next(program, &next);
	pool_permits_release(&permits);
}

static void write_op(struct pool_pair *p, uint32_t i, const struct pool_op *op, struct buf *program)
{
	struct pool_report_op report = op->report;

	switch (op->kind) {
	case POOL_OP_NEXT:
		write_next(p, i, op, program);
		break;
	case POOL_OP_REPORT:
		report.ticket = ticket_of(p, op->serial);
		pool_call_report(program, &report);
		break;
	case POOL_OP_UNDO:
		pool_call_undo(program, op->serial);
		break;
	case POOL_OP_LEAVE:
		pool_call_leave(program, op->waiter);
		break;
	case POOL_OP_SHOW:
		pool_call_show(program);
		break;
	case POOL_OP_NUMBERS:
		pool_call_numbers(program);
		break;
	case POOL_OP_ENABLE:
		pool_call_enable(program, op->endpoint);
		break;
	case POOL_OP_PROBE:
		pool_call_probe(program, op->endpoint, op->began, op->found);
		break;
	case POOL_OP_PROBER:
		pool_call_prober(program, op->agent, op->ttl_us, op->room);
		break;
	}
}

static void read_targets(struct pool_reply *r, struct pool_view *v)
{
	(void)pool_read_targets(r, &v->n_targets);
	if (v->n_targets > POOL_POLICY_TARGETS + 1)
		abort();
	for (size_t i = 0; i < v->n_targets; i++) {
		(void)pool_read_target(r, &v->target[i].head);
		if (v->target[i].head.n_cooling > POOL_POLICY_ENDPOINTS)
			abort();
		for (size_t k = 0; k < v->target[i].head.n_cooling; k++)
			(void)pool_read_cooling(r, &v->target[i].cooling[k].endpoint,
						&v->target[i].cooling[k].us);
	}
}

static void read_view(struct pool_reply *r, bool probed, struct pool_view *v)
{
	(void)pool_read_totals(r, &v->totals, &v->n);
	if (v->n > POOL_POLICY_ENDPOINTS)
		abort();
	for (size_t i = 0; i < v->n; i++)
		(void)pool_read_shown(r, &v->endpoint[i]);
	read_targets(r, v);
	if (probed)
		(void)pool_read_probes(r, &v->n_probes);
	for (size_t i = 0; i < v->n_probes; i++)
		(void)pool_read_probe(r, &v->probe[i].endpoint, &v->probe[i].found,
				      &v->probe[i].age_us);
}

static void read_given(struct pool_pair *p, struct pool_reply *r, struct pool_given *g)
{
	char *text;

	if (!pool_read_given(r, g) || g->pause != POOL_NOT_PAUSED)
		return;
	text = p->ticket[g->serial % POOL_POLICY_TICKETS];
	memcpy(text, g->ticket.ptr, g->ticket.len);
	text[g->ticket.len] = '\0';
	g->ticket = (struct slice){0};
}

static void read_try(struct pool_pair *p, uint32_t i, uint64_t stamp, struct pool_reply *r,
		     struct pool_try *try)
{
	struct script_reader reader;
	struct script_answer said;
	struct slice text;

	if (!pool_read_try(r, &try->endpoint, &text) ||
	    script_reader_init(&reader, text, stamp, 1, script_batch_plain(p->batch[i])) !=
		    KOVA_OK ||
	    script_reader_next(&reader, &said) != KOVA_OK)
		fail("a try", &p->reply);
	try->allowed = said.status == SCRIPT_ALLOWED;
	try->wait_us = try->allowed ? 0 : said.wait_us;
}

static void read_next(struct pool_pair *p, uint32_t i, uint64_t stamp, struct pool_reply *r,
		      struct pool_op_answer *a)
{
	(void)pool_read_tries(r, &a->n_tries);
	for (size_t k = 0; k < a->n_tries && !r->failed; k++)
		read_try(p, i, stamp, r, &a->try[k]);
	read_given(p, r, &a->given);
}

static void read_answer(struct pool_pair *p, struct pool_reply *r, const struct pool_batch *b,
			uint32_t at, uint64_t *stamp, struct pool_op_answer *a)
{
	const struct pool_op *op = &b->op[at];
	size_t n;

	memset(a, 0, sizeof *a);
	switch (op->kind) {
	case POOL_OP_NEXT:
		read_next(p, at, *stamp += 1, r, a);
		break;
	case POOL_OP_REPORT:
		(void)pool_read_reported(r, &a->reported);
		break;
	case POOL_OP_UNDO:
	case POOL_OP_LEAVE:
		break;
	case POOL_OP_SHOW:
		read_view(r, b->rule->health, &a->view);
		break;
	case POOL_OP_NUMBERS:
		(void)pool_read_numbers(r, &a->flag, &a->numbers, &n);
		for (size_t i = 0; i < n && i < POOL_POLICY_ENDPOINTS; i++)
			(void)pool_read_tickets(r, &a->tickets[i]);
		break;
	case POOL_OP_ENABLE:
	case POOL_OP_PROBE:
		(void)pool_read_flag(r, &a->flag);
		break;
	case POOL_OP_PROBER:
		(void)pool_read_prober(r, &a->flag, &a->more, &a->n_due);
		for (size_t i = 0; i < a->n_due && i < POOL_POLICY_ENDPOINTS; i++)
			(void)pool_read_cooling(r, &a->due[i].endpoint, &a->due[i].began);
		break;
	}
}

static void send_batch(struct pool_pair *p, const struct pool_batch *b)
{
	struct buf definition = {0}, program = {0}, command = {0};
	char now[24];

	pool_definition_write(b->rule, b->endpoints, b->n, &definition);
	pool_call_begin(&program, STAMP, b->luck);
	for (uint32_t i = 0; i < b->n_ops; i++)
		write_op(p, i, &b->op[i], &program);
	pool_call_end(&program, b->n_ops, "fedcba9876543210");
	snprintf(now, sizeof now, "%" PRIu64, b->now_us);
	buf_printf(&command,
		   "*7\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$%zu\r\n", p->sha1,
		   strlen(KEY), KEY, definition.len);
	buf_add_slice(&command, buf_slice(&definition));
	buf_printf(&command, "\r\n$%zu\r\n", program.len);
	buf_add_slice(&command, buf_slice(&program));
	buf_printf(&command, "\r\n$%zu\r\n%s\r\n", strlen(now), now);
	redis_answer_release(&p->reply);
	p->reply = redis_client_send(&p->client, buf_slice(&command));
	buf_release(&definition);
	buf_release(&program);
	buf_release(&command);
}

static void run_script(struct pool_pair *p, const struct pool_batch *b, struct pool_answers *ret)
{
	struct pool_reply r;
	uint64_t stamp = p->stamp;

	send_batch(p, b);
	if (p->reply.type != '$' || pool_reply_init(&r, p->reply.text, STAMP) != KOVA_OK ||
	    r.n_events > POOL_POLICY_EVENTS)
		fail("reply", &p->reply);
	for (uint32_t i = 0; i < b->n_ops; i++)
		read_answer(p, &r, b, i, &stamp, &ret->op[i]);
	if (r.failed || r.at != r.bytes.len)
		fail("answer", &p->reply);
	ret->n_events = 0;
	while (pool_reply_event(&r, &ret->event[ret->n_events]))
		ret->n_events++;
}

/* ---- The twin ---- */

struct twin_limits {
	struct pool_pair *pair;
	const struct pool_batch *batch;
	const struct pool_op_permits *wanted;
	struct pool_op_answer *answer;
};

static struct bucket *own_bucket(struct pool_pair *p, const struct pool_endpoint *e)
{
	struct slice holder = pool_permits_holder(e);
	size_t i = 0;

	while (i < p->n_own && !slice_equal(slice_of(p->own[i].name), holder))
		i++;
	if (i == p->n_own) {
		if (i == POOL_PAIR_HOLDERS_MAX || holder.len >= sizeof p->own->name)
			abort();
		memset(&p->own[p->n_own++], 0, sizeof *p->own);
		memcpy(p->own[i].name, holder.ptr, holder.len);
	}
	return &p->own[i].bucket;
}

/* All or none; of those that refuse the one with the longest wait says so. */
static enum pool_permitted twin_take(void *data, uint32_t endpoint)
{
	struct twin_limits *t = data;
	const struct pool_op_permits *w = t->wanted;
	uint64_t now_us = t->batch->now_us;
	struct pool_try *try = &t->answer->try[t->answer->n_tries++];
	struct bucket *own_at = own_bucket(t->pair, &t->batch->endpoints[endpoint]);
	struct bucket own = *own_at, common = t->pair->common;
	struct limiter_verdict by_own = {.allowed = true}, by_common = by_own;

	if (w->own != NULL)
		bucket_take(&own, w->own, now_us, w->own_cost, &by_own);
	if (w->common != NULL)
		bucket_take(&common, w->common, now_us, w->common_cost, &by_common);
	*try = (struct pool_try){.endpoint = endpoint,
				 .allowed = by_own.allowed && by_common.allowed};
	if (try->allowed) {
		*own_at = own;
		t->pair->common = common;
		return POOL_PERMITTED;
	}
	if (by_own.allowed || (by_own.wait_us >= 0 && !by_common.allowed &&
			       (by_common.wait_us < 0 || by_common.wait_us > by_own.wait_us))) {
		try->wait_us = by_common.wait_us;
		return POOL_UNPERMITTED;
	}
	try->wait_us = by_own.wait_us;
	return POOL_UNPERMITTED_HERE;
}

static void twin_next(struct pool_pair *p, const struct pool_batch *b, const struct pool_op *op,
		      struct pool_op_answer *a)
{
	struct twin_limits limits = {p, b, &op->permits, a};
	const struct pool_limiter limiter = {twin_take, &limits};

	pool_policy_next(p->twin, &op->next, has_permits(op) ? &limiter : NULL, &a->given);
}

static void run_op(struct pool_pair *p, const struct pool_batch *b, const struct pool_op *op,
		   struct pool_op_answer *a)
{
	struct pool_policy *twin = p->twin;

	memset(a, 0, sizeof *a);
	switch (op->kind) {
	case POOL_OP_NEXT:
		twin_next(p, b, op, a);
		break;
	case POOL_OP_REPORT:
		a->reported = pool_policy_report(twin, op->serial, &op->report);
		break;
	case POOL_OP_UNDO:
		pool_policy_undo(twin, op->serial);
		break;
	case POOL_OP_LEAVE:
		pool_policy_leave(twin, op->waiter);
		break;
	case POOL_OP_SHOW:
		pool_policy_show(twin, &a->view);
		break;
	case POOL_OP_NUMBERS:
		a->flag = pool_policy_numbers(twin, &a->numbers, a->tickets);
		break;
	case POOL_OP_ENABLE:
		a->flag = pool_policy_enable(twin, op->endpoint);
		break;
	case POOL_OP_PROBE:
		a->flag = pool_policy_probe(twin, op->endpoint, op->began, op->found);
		break;
	case POOL_OP_PROBER:
		a->flag = pool_policy_prober(twin, op->agent, op->ttl_us, op->room, &a->more,
					     &a->n_due, a->due);
		break;
	}
}

static void run_twin(struct pool_pair *p, const struct pool_batch *b, struct pool_answers *ret)
{
	const struct pool_event *events;

	pool_policy_begin(p->twin, b->rule, b->endpoints, b->n, b->now_us, b->luck);
	for (uint32_t i = 0; i < b->n_ops; i++)
		run_op(p, b, &b->op[i], &ret->op[i]);
	pool_policy_end(p->twin);
	events = pool_policy_events(p->twin, &ret->n_events);
	memcpy(ret->event, events, ret->n_events * sizeof *events);
}

void pool_pair_run(struct pool_pair *p, const struct pool_batch *b, struct pool_answers *ret_lua,
		   struct pool_answers *ret_c)
{
	run_script(p, b, ret_lua);
	run_twin(p, b, ret_c);
}

/* ---- What differs ---- */

static char text[512];

#define SAME(what, a, b, member)                                                             \
	do {                                                                                 \
		if ((a)->member != (b)->member) {                                            \
			snprintf(text, sizeof text, "%s " #member ": %lld, twin %lld", what, \
				 (long long)(a)->member, (long long)(b)->member);            \
			return text;                                                         \
		}                                                                            \
	} while (0)

static const char *given_differs(const struct pool_given *a, const struct pool_given *b)
{
	SAME("next", a, b, pause);
	SAME("next", a, b, endpoint);
	SAME("next", a, b, retry_us);
	SAME("next", a, b, firm_us);
	SAME("next", a, b, tier);
	SAME("next", a, b, moved);
	SAME("next", a, b, trial);
	SAME("next", a, b, moves);
	SAME("next", a, b, serial);
	return NULL;
}

static const char *numbers_differ(const struct pool_numbers *a, const struct pool_numbers *b)
{
	SAME("numbers", a, b, from_us);
	SAME("numbers", a, b, to_us);
	SAME("numbers", a, b, cooldowns);
	SAME("numbers", a, b, cooled_us);
	SAME("numbers", a, b, active_min);
	SAME("numbers", a, b, tickets);
	SAME("numbers", a, b, above);
	SAME("numbers", a, b, good);
	SAME("numbers", a, b, back);
	return NULL;
}

static const char *shown_differs(const struct pool_shown *a, const struct pool_shown *b)
{
	SAME("shown", a, b, disabled);
	SAME("shown", a, b, cooling);
	SAME("shown", a, b, returns_us);
	SAME("shown", a, b, cooldowns);
	SAME("shown", a, b, outcomes);
	SAME("shown", a, b, failures);
	SAME("shown", a, b, in_flight);
	SAME("shown", a, b, tickets);
	SAME("shown", a, b, held_us);
	SAME("shown", a, b, n_quotas);
	for (size_t i = 0; i < a->n_quotas; i++) {
		SAME("quota", a, b, quota[i].limit);
		SAME("quota", a, b, quota[i].left);
		SAME("quota", a, b, quota[i].reset_us);
		if (!slice_equal(a->quota[i].name, b->quota[i].name))
			return "name of a quota";
	}
	return NULL;
}

static const char *targets_differ(const struct pool_view *a, const struct pool_view *b)
{
	SAME("shown", a, b, n_targets);
	for (size_t i = 0; i < a->n_targets; i++) {
		size_t k = 0;

		while (k < b->n_targets &&
		       !slice_equal(a->target[i].head.name, b->target[k].head.name))
			k++;
		if (k == b->n_targets)
			return "shown targets";
		SAME("target", &a->target[i], &b->target[k], head.tier);
		SAME("target", &a->target[i], &b->target[k], head.held_us);
		SAME("target", &a->target[i], &b->target[k], head.n_cooling);
		for (size_t n = 0; n < a->target[i].head.n_cooling; n++) {
			SAME("target", &a->target[i], &b->target[k], cooling[n].endpoint);
			SAME("target", &a->target[i], &b->target[k], cooling[n].us);
		}
	}
	return NULL;
}

static const char *views_differ(const struct pool_view *a, const struct pool_view *b)
{
	const char *differs = numbers_differ(&a->totals.numbers, &b->totals.numbers);

	if (differs != NULL)
		return differs;
	SAME("shown", a, b, totals.cooldowns);
	SAME("shown", a, b, totals.cooled_us);
	SAME("shown", a, b, totals.pause);
	SAME("shown", a, b, totals.retry_us);
	SAME("shown", a, b, n);
	for (size_t i = 0; i < a->n && differs == NULL; i++)
		differs = shown_differs(&a->endpoint[i], &b->endpoint[i]);
	if (differs != NULL)
		return differs;
	SAME("shown", a, b, n_probes);
	for (size_t i = 0; i < a->n_probes; i++) {
		SAME("shown", a, b, probe[i].endpoint);
		SAME("shown", a, b, probe[i].found);
		SAME("shown", a, b, probe[i].age_us);
	}
	return targets_differ(a, b);
}

/* In any order. */
static const char *due_differ(const struct pool_op_answer *a, const struct pool_op_answer *b)
{
	SAME("prober", a, b, more);
	SAME("prober", a, b, n_due);
	for (size_t i = 0; i < a->n_due; i++) {
		size_t k = 0;

		while (k < b->n_due && (a->due[i].endpoint != b->due[k].endpoint ||
					a->due[i].began != b->due[k].began))
			k++;
		if (k == b->n_due)
			return "due endpoints";
	}
	return NULL;
}

static const char *answers_differ(const struct pool_op_answer *a, const struct pool_op_answer *b)
{
	const char *differs;

	SAME("permits", a, b, n_tries);
	for (size_t i = 0; i < a->n_tries; i++) {
		SAME("permits", a, b, try[i].endpoint);
		SAME("permits", a, b, try[i].allowed);
		SAME("permits", a, b, try[i].wait_us);
	}
	differs = given_differs(&a->given, &b->given);

	if (differs != NULL)
		return differs;
	SAME("report", a, b, reported);
	SAME("answer", a, b, flag);
	for (size_t i = 0; i < POOL_POLICY_ENDPOINTS; i++)
		SAME("numbers", a, b, tickets[i]);
	differs = numbers_differ(&a->numbers, &b->numbers);
	if (differs == NULL)
		differs = due_differ(a, b);
	return differs != NULL ? differs : views_differ(&a->view, &b->view);
}

static bool is_same_event(const struct pool_event *a, const struct pool_event *b)
{
	return a->kind == b->kind && a->endpoint == b->endpoint && a->amount == b->amount &&
	       a->why == b->why && slice_equal(a->target, b->target);
}

/* In their order; what a page finds out of several targets in any. */
static const char *events_differ(const struct pool_answers *a, const struct pool_answers *b,
				 bool in_order)
{
	bool found[POOL_POLICY_EVENTS] = {false};

	SAME("answer", a, b, n_events);
	for (size_t i = 0; i < a->n_events; i++) {
		size_t k = in_order ? i : 0;

		while (!in_order && k < b->n_events &&
		       (found[k] || !is_same_event(&a->event[i], &b->event[k])))
			k++;
		if (k == b->n_events || !is_same_event(&a->event[i], &b->event[k])) {
			snprintf(text, sizeof text, "event %zu of kind %d", i, a->event[i].kind);
			return text;
		}
		found[k] = true;
	}
	return NULL;
}

const char *pool_answers_differ(const struct pool_batch *b, const struct pool_answers *lua,
				const struct pool_answers *c)
{
	const char *differs = NULL;
	bool shows = false;

	for (uint32_t i = 0; i < b->n_ops && differs == NULL; i++) {
		differs = answers_differ(&lua->op[i], &c->op[i]);
		shows = shows || b->op[i].kind == POOL_OP_SHOW;
	}
	return differs != NULL ? differs : events_differ(lua, c, !shows);
}
