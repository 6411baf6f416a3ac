#include "pool_pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	"      assert(option == 'PX')\n"
	"      expires(key, ms)\n"
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
	new_twin(p);
}

void pool_pair_stop(struct pool_pair *p)
{
	redis_answer_release(&p->reply);
	redis_client_close(&p->client);
	redis_server_stop(&p->server);
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

static void write_op(const struct pool_pair *p, const struct pool_op *op, struct buf *program)
{
	struct pool_report_op report = op->report;

	switch (op->kind) {
	case POOL_OP_NEXT:
		pool_call_next(program, &op->next);
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

static void read_answer(struct pool_pair *p, struct pool_reply *r, const struct pool_batch *b,
			const struct pool_op *op, struct pool_op_answer *a)
{
	size_t n;

	memset(a, 0, sizeof *a);
	switch (op->kind) {
	case POOL_OP_NEXT:
		read_given(p, r, &a->given);
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
		write_op(p, &b->op[i], &program);
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

	send_batch(p, b);
	if (p->reply.type != '$' || pool_reply_init(&r, p->reply.text, STAMP) != KOVA_OK ||
	    r.n_events > POOL_POLICY_EVENTS)
		fail("reply", &p->reply);
	for (uint32_t i = 0; i < b->n_ops; i++)
		read_answer(p, &r, b, &b->op[i], &ret->op[i]);
	if (r.failed || r.at != r.bytes.len)
		fail("answer", &p->reply);
	ret->n_events = 0;
	while (pool_reply_event(&r, &ret->event[ret->n_events]))
		ret->n_events++;
}

/* ---- The twin ---- */

static void run_op(struct pool_policy *twin, const struct pool_op *op, struct pool_op_answer *a)
{
	memset(a, 0, sizeof *a);
	switch (op->kind) {
	case POOL_OP_NEXT:
		pool_policy_next(twin, &op->next, &a->given);
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
		run_op(p->twin, &b->op[i], &ret->op[i]);
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
	const char *differs = given_differs(&a->given, &b->given);

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
