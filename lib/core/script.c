#include "core/script.h"

#include <assert.h>
#include <stdlib.h>

#include "core/buf.h"
#include "core/calendar.h"
#include "core/hash.h"
#include "core/keyspace.h"
#include "core/lua_script.h"
#include "core/script_plain.h"
#include "core/script_records.h"
#include "core/script_wire.h"

/*
 * The program is written in two forms. While every operation is one token bucket check without extras the batch is
 * "plain" and written key by key (script_plain.c); the first other operation turns those into the general form. Keys are
 * gathered as RESP bulk strings already, those of strings (which the script reads by one MGET) apart from the others.
 */
enum {
	HEADER_BYTES = 8 + 1 + 2 + 2 + 4 + 2 * 8,
	LIMITS_COMPARED = 16, /* the latest ones: a batch has few different limits */
	TABLE_MIN = 256,
};

#define OTHER_KEY UINT32_C(0x80000000) /* of a key's reference: not among the strings */
#define NO_OP UINT32_MAX

enum op_flags { OP_CHAINED = 1, OP_ID = 2, OP_RECEIPT = 4, OP_PERMIT = 8 };
enum check_flags {
	CHECK_SHADOW = 1,
	CHECK_HOLD = 2,
	CHECK_BREAKER = 4,
	CHECK_ADAPTIVE = 8,
	CHECK_SHARE = 16,
	CHECK_TURN = 32,
	CHECK_LEDGER = 64,
	CHECK_QUOTA = 128
};

/* Finds a key's reference again; a slot of an earlier batch is empty. */
struct key_slot {
	uint64_t hash;
	uint64_t batch;
	uint32_t ref;      /* 1-based, with OTHER_KEY */
	uint32_t at, len;  /* its bytes, in the buffer of its kind */
	uint32_t op;       /* the last operation with a check of this key ... */
	uint32_t check_at; /* ... and where that is in the program */
};

struct script_batch {
	struct buf strings, others; /* keys as bulk strings */
	struct buf limits, quotas;
	struct buf program;      /* operations; plain ones get there when the command is written */
	struct script_plain ops; /* plain ones */
	struct buf command;
	struct key_slot *table;
	size_t table_size; /* a power of two */
	uint64_t serial;   /* of this batch */
	uint32_t n_strings, n_others, n_limits, n_quotas, n_ops;
	bool plain, failed;
};

/* ---- Writing ---- */

static char *put_decimal(char *p, size_t v)
{
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	while (n > 0)
		*p++ = digits[--n];
	return p;
}

static char *put_bulk(char *p, struct slice s)
{
	p = put_decimal(put_u8(p, '$'), s.len);
	p = put_slice(p, SLICE("\r\n"));
	p = put_slice(p, s);
	return put_slice(p, SLICE("\r\n"));
}

enum { BULK_EXTRA = 1 + 20 + 2 + 2 };

static void buf_took(struct buf *b, const char *end)
{
	b->len = (size_t)(end - b->ptr);
	assert(b->len <= b->cap);
}

/* ---- Life ---- */

static void forget_ops(struct script_batch *b)
{
	b->serial++;
	b->n_strings = b->n_others = b->n_limits = b->n_quotas = b->n_ops = 0;
	script_plain_clear(&b->ops);
	b->plain = true;
	b->failed = false;
}

struct script_batch *script_batch_new(void)
{
	struct script_batch *b = calloc(1, sizeof *b);

	if (b == NULL)
		return NULL;
	b->table = calloc(TABLE_MIN, sizeof *b->table);
	if (b->table == NULL) {
		free(b);
		return NULL;
	}
	b->table_size = TABLE_MIN;
	forget_ops(b);
	return b;
}

void script_batch_free(struct script_batch *b)
{
	if (b == NULL)
		return;
	buf_release(&b->strings);
	buf_release(&b->others);
	buf_release(&b->limits);
	buf_release(&b->quotas);
	buf_release(&b->program);
	buf_release(&b->command);
	free(b->table);
	free(b);
}

void script_batch_clear(struct script_batch *b)
{
	buf_clear(&b->strings);
	buf_clear(&b->others);
	buf_clear(&b->limits);
	buf_clear(&b->quotas);
	buf_clear(&b->program);
	buf_clear(&b->command);
	forget_ops(b);
}

uint32_t script_batch_ops(const struct script_batch *b)
{
	return b->n_ops;
}

/* ---- Keys ---- */

static bool table_grow(struct script_batch *b)
{
	size_t size = b->table_size * 2;
	struct key_slot *table = calloc(size, sizeof *table);

	if (table == NULL)
		return false;
	for (size_t i = 0; i < b->table_size; i++) {
		const struct key_slot *from = &b->table[i];
		size_t to = from->hash & (size - 1);

		if (from->batch != b->serial)
			continue;
		while (table[to].batch == b->serial)
			to = (to + 1) & (size - 1);
		table[to] = *from;
	}
	free(b->table);
	b->table = table;
	b->table_size = size;
	return true;
}

static bool key_is(const struct script_batch *b, const struct key_slot *k, struct slice key,
		   bool other)
{
	const struct buf *from = other ? &b->others : &b->strings;

	return ((k->ref & OTHER_KEY) != 0) == other && k->len == key.len &&
	       memcmp(from->ptr + k->at, key.ptr, key.len) == 0;
}

static bool key_add(struct script_batch *b, struct key_slot *k, struct slice key, bool other)
{
	struct buf *to = other ? &b->others : &b->strings;
	char *p = buf_reserve(to, key.len + BULK_EXTRA);

	if (p == NULL)
		return false;
	buf_took(to, put_bulk(p, key));
	k->batch = b->serial;
	k->ref = other ? OTHER_KEY | ++b->n_others : ++b->n_strings;
	k->len = (uint32_t)key.len;
	k->at = (uint32_t)(to->len - key.len - 2);
	k->op = NO_OP;
	return true;
}

/* The place of `key` in KEYS, which it gets now if it is new. NULL: out of memory. */
static struct key_slot *key_find(struct script_batch *b, struct slice key, bool other)
{
	uint64_t hash = hash_bytes(key, other);

	assert(key.len > 0 && key.len < UINT32_MAX / 2);
	if (2 * (b->n_strings + b->n_others) >= b->table_size && !table_grow(b))
		return NULL;
	for (size_t i = hash & (b->table_size - 1);; i = (i + 1) & (b->table_size - 1)) {
		struct key_slot *k = &b->table[i];

		if (k->batch != b->serial) {
			k->hash = hash;
			return key_add(b, k, key, other) ? k : NULL;
		}
		if (k->hash == hash && key_is(b, k, key, other))
			return k;
	}
}

static bool is_log(const struct limit *l)
{
	return l->algorithm == ALGORITHM_SLIDING_WINDOW || l->algorithm == ALGORITHM_CONCURRENCY;
}

/* ---- Limits ---- */

/* The number of `l` in the program, from 1; 0: out of memory. Equal by content, for a limit may be gone and
 * another in its place by the time the batch is written. */
static unsigned limit_find(struct script_batch *b, const struct limit *l, uint64_t now_us,
			   bool shared)
{
	char *record = buf_reserve(&b->limits, SCRIPT_LIMIT_BYTES);
	unsigned compared = 0;

	if (record == NULL)
		return 0;
	if (shared && l->algorithm == ALGORITHM_TOKEN_BUCKET)
		script_put_shared_bucket(record, l);
	else
		script_put_limit(record, l, now_us);
	for (unsigned n = b->n_limits; n > 0 && compared < LIMITS_COMPARED; n--, compared++)
		if (memcmp(record, b->limits.ptr + (n - 1) * SCRIPT_LIMIT_BYTES,
			   SCRIPT_LIMIT_BYTES) == 0)
			return n;
	if (b->n_limits == UINT16_MAX)
		return 0;
	buf_took(&b->limits, record + SCRIPT_LIMIT_BYTES);
	return ++b->n_limits;
}

/* ---- Operations ---- */

static char *put_op_head(char *p, enum script_op_kind kind, unsigned flags, unsigned n_checks,
			 uint64_t stamp_us, double amount)
{
	p = put_u8(put_u8(p, kind + 1U), flags);
	return put_double(put_number(put_u16(p, n_checks), stamp_us), amount);
}

static char *put_check(char *p, uint32_t ref, unsigned limit, unsigned index, unsigned flags,
		       uint64_t cost)
{
	p = put_u16(put_u16(put_u32(p, ref), limit), index);
	return put_number(put_u8(p, flags), cost);
}

enum {
	OP_HEAD_BYTES = 1 + 1 + 2 + 8 + 8,
	CHECK_BYTES = 4 + 2 + 2 + 1 + 8,
	CHECK_COST_AT = 4 + 2 + 2 + 1,
	GUARDS_BYTES = 4 + 4 + 3 + 8 + SCRIPT_ADAPTIVE_BYTES,
	SHARE_BYTES = 4 + 8 + 3 * 8,
	FEEDBACK_BYTES = 1 + 1 + 8 + 8,
	QUOTAS_HEAD_BYTES = 2 + 2 * 8,
	BUDGET_BYTES = 4 + 2,
	OP_EXTRAS_BYTES = 4 + 4 + 4 + 8 + 2,
	LEASE_NUMBERS_BYTES = 3 * 8,
	LEASE_BYTES = SCRIPT_LEASE_ID_BYTES + LEASE_NUMBERS_BYTES,
};

/* Writes the plain operations in the general form. */
static bool make_general(struct script_batch *b)
{
	char *p;

	buf_clear(&b->program);
	p = buf_reserve(&b->program, b->n_ops * (OP_HEAD_BYTES + CHECK_BYTES) + 1);
	if (p == NULL)
		return false;
	for (uint32_t i = 0; i < b->n_ops; i++) {
		const struct script_plain_op *op = &b->ops.op[i];

		p = put_op_head(p, SCRIPT_TAKE, 0, 1, 0, 0);
		p = put_check(p, op->key + 1U, op->limit, 0, 0, op->cost);
	}
	buf_took(&b->program, p);
	b->plain = false;
	return true;
}

static bool is_plain(const struct script_op *op)
{
	return op->kind == SCRIPT_TAKE && op->n_checks == 1 && !op->chained &&
	       op->id_key.len == 0 && op->receipt_key.len == 0 && !op->checks[0].shadow &&
	       op->checks[0].breaker == NULL && op->checks[0].adaptive == NULL &&
	       op->checks[0].share.weight == 0 && op->checks[0].turn.loop == 0 &&
	       !op->checks[0].ledger && op->checks[0].quota == NULL &&
	       op->checks[0].limit->algorithm == ALGORITHM_TOKEN_BUCKET;
}

/* False with `failed`: out of memory; without: it is not plain, for the key is there under another limit. */
static bool add_plain(struct script_batch *b, const struct script_check *c, uint64_t now_us)
{
	unsigned limit = limit_find(b, c->limit, now_us, false);
	struct key_slot *k = key_find(b, c->key, false);

	b->failed = limit == 0 || k == NULL;
	return !b->failed && script_plain_add(&b->ops, k->ref - 1, limit, c->cost);
}

/* A key that goes with that of a state: "k:<a>…" → "k:<letter><a>…". */
static struct key_slot *aside_key(struct script_batch *b, const char *letter, struct slice key,
				  bool other)
{
	struct buf name = {0};
	struct key_slot *k = NULL;

	assert(key.len > 2);
	buf_add(&name, key.ptr, 2);
	buf_add(&name, letter, 1);
	buf_add(&name, key.ptr + 2, key.len - 2);
	if (!buf_failed(&name))
		k = key_find(b, buf_slice(&name), other);
	buf_release(&name);
	return k;
}

/* What may be refunded: `limit` in any `per`, of a calendar in its window. Concurrency has no rate and no budget. */
static bool add_budget(struct script_batch *b, const struct script_check *c, uint64_t now_us)
{
	struct limit budget = {.algorithm = ALGORITHM_SLIDING_WINDOW,
			       .limit = c->limit->limit,
			       .per_us = c->limit->per_us};
	char *p = buf_reserve(&b->program, BUDGET_BYTES);
	struct key_slot *k = NULL;
	unsigned limit;

	if (p == NULL)
		return false;
	if (c->limit->algorithm == ALGORITHM_CONCURRENCY) {
		buf_took(&b->program, put_u16(put_u32(p, 0), 0));
		return true;
	}
	if (c->limit->algorithm == ALGORITHM_CALENDAR)
		budget = *c->limit;
	limit = limit_find(b, &budget, now_us, false);
	k = aside_key(b, "f", c->key, is_log(&budget));
	if (limit == 0 || k == NULL)
		return false;
	buf_took(&b->program, put_u16(put_u32(p, k->ref), limit));
	return true;
}

static bool is_shared(enum script_op_kind kind, const struct script_check *c)
{
	return c->share.weight > 0 && (kind == SCRIPT_TAKE || kind == SCRIPT_PEEK);
}

static bool has_turn(enum script_op_kind kind, const struct script_check *c)
{
	return c->turn.loop != 0 && (kind == SCRIPT_TAKE || kind == SCRIPT_LEAVE);
}

static unsigned check_flags(enum script_op_kind kind, const struct script_check *c)
{
	return (c->shadow ? CHECK_SHADOW : 0) | (is_log(c->limit) ? CHECK_HOLD : 0) |
	       (c->breaker != NULL ? CHECK_BREAKER : 0) |
	       (c->adaptive != NULL && c->limit->limit > 0 ? CHECK_ADAPTIVE : 0) |
	       (is_shared(kind, c) ? CHECK_SHARE : 0) | (has_turn(kind, c) ? CHECK_TURN : 0) |
	       (c->ledger ? CHECK_LEDGER : 0) | (c->quota != NULL ? CHECK_QUOTA : 0);
}

static bool add_ledger(struct script_batch *b, struct slice key)
{
	char name[KEYSPACE_NAME_MAX];
	const struct key_slot *k =
		key_find(b, (struct slice){name, keyspace_ledger(key, name)}, true);
	char *p = buf_reserve(&b->program, sizeof k->ref);

	if (k == NULL || p == NULL)
		return false;
	buf_took(&b->program, put_u32(p, k->ref));
	return true;
}

/* The number of the check's quota among those of the batch, from 1. */
static bool add_quota(struct script_batch *b, const struct script_check *c)
{
	char name[KEYSPACE_NAME_MAX];
	const struct key_slot *k =
		key_find(b, (struct slice){name, keyspace_quota(c->key, name)}, false);
	char *record = buf_reserve(&b->quotas, SCRIPT_QUOTA_BYTES);
	char *p = buf_reserve(&b->program, 2);
	unsigned n = b->n_quotas;

	assert(c->adaptive == NULL);
	if (k == NULL || record == NULL || p == NULL || n == UINT16_MAX)
		return false;
	script_put_quota(record, k->ref, c->quota);
	while (n > 0 && memcmp(record, b->quotas.ptr + (n - 1) * SCRIPT_QUOTA_BYTES,
			       SCRIPT_QUOTA_BYTES) != 0)
		n--;
	if (n == 0) {
		buf_took(&b->quotas, record + SCRIPT_QUOTA_BYTES);
		n = ++b->n_quotas;
	}
	buf_took(&b->program, put_u16(p, n));
	return true;
}

static bool add_share(struct script_batch *b, const struct script_check *c)
{
	const struct share_claim *share = &c->share;
	const struct key_slot *k = aside_key(b, "p", c->key, false);
	char *p = buf_reserve(&b->program, SHARE_BYTES);

	assert(c->limit->algorithm == ALGORITHM_TOKEN_BUCKET);
	if (k == NULL || p == NULL)
		return false;
	p = put_u32(p, k->ref);
	p = put_u32(put_u32(p, (uint32_t)(share->id & UINT32_MAX)), (uint32_t)(share->id >> 32));
	p = put_number(put_number(p, share->weight), share->most);
	buf_took(&b->program, put_number(p, shares_idle_us(c->limit)));
	return true;
}

static bool add_turn(struct script_batch *b, const struct turn_claim *turn)
{
	char *p = buf_reserve(&b->program, SCRIPT_TURN_BYTES);

	if (p == NULL)
		return false;
	buf_took(&b->program, script_put_turn(p, turn));
	return true;
}

/* Where the check's hold is, unless it is in the state's own text, its breaker and what its limit is adapted by. */
static bool add_guards(struct script_batch *b, const struct script_check *c, unsigned flags)
{
	const struct breaker_rule *rule = c->breaker;
	const struct key_slot *k;
	char *p = buf_reserve(&b->program, GUARDS_BYTES);

	if (p == NULL)
		return false;
	if (is_log(c->limit)) {
		k = aside_key(b, "h", c->key, false);
		if (k == NULL)
			return false;
		p = put_u32(p, k->ref);
	}
	if (rule != NULL) {
		k = aside_key(b, "o", c->key, false);
		if (k == NULL)
			return false;
		p = put_u8(put_u8(put_u8(put_u32(p, k->ref), rule->failures), rule->of),
			   rule->trials);
		p = put_number(p, rule->open_us);
	}
	if ((flags & CHECK_ADAPTIVE) != 0) {
		k = aside_key(b, "a", c->key, false);
		if (k == NULL)
			return false;
		p = script_put_adaptive(p, k->ref, c);
	}
	buf_took(&b->program, p);
	return true;
}

/* Adds `cost` to the check of the same key that this operation has already. */
static void merge_check(struct script_batch *b, const struct key_slot *k, uint64_t cost)
{
	char *p = b->program.ptr + k->check_at + CHECK_COST_AT;

	put_number(p, (uint64_t)get_double(p) + cost);
}

static bool add_check(struct script_batch *b, const struct script_op *op, unsigned index,
		      uint64_t now_us, unsigned *n_written)
{
	const struct script_check *c = &op->checks[index];
	struct key_slot *k = key_find(b, c->key, is_log(c->limit));
	unsigned limit = limit_find(b, c->limit, now_us, c->quota != NULL);
	unsigned flags = check_flags(op->kind, c);
	char *p = buf_reserve(&b->program, CHECK_BYTES);

	assert(c->cost >= 1 && c->cost <= LIMIT_MAX);
	if (k == NULL || limit == 0 || p == NULL)
		return false;
	if (k->op == b->n_ops) {
		merge_check(b, k, c->cost);
		return true;
	}
	k->op = b->n_ops;
	k->check_at = (uint32_t)b->program.len;
	buf_took(&b->program, put_check(p, k->ref, limit, index, flags, c->cost));
	++*n_written;
	if ((flags & (CHECK_HOLD | CHECK_BREAKER | CHECK_ADAPTIVE)) != 0 &&
	    !add_guards(b, c, flags))
		return false;
	if ((flags & CHECK_SHARE) != 0 && !add_share(b, c))
		return false;
	if ((flags & CHECK_TURN) != 0 && !add_turn(b, &c->turn))
		return false;
	if ((flags & CHECK_LEDGER) != 0 && !add_ledger(b, c->key))
		return false;
	if ((flags & CHECK_QUOTA) != 0 && !add_quota(b, c))
		return false;
	return op->kind != SCRIPT_REFUND || add_budget(b, c, now_us);
}

static uint64_t check_horizon_us(const struct limit *l, uint64_t now_us)
{
	uint64_t edge[4];

	if (l->algorithm != ALGORITHM_CALENDAR)
		return limit_horizon_us(l);
	script_edges_around(&l->edges, now_us, edge);
	return edge[3] > now_us ? edge[3] - now_us : 0;
}

/* A receipt is of use until all that was taken has come back by itself: the longest horizon, and a minute. */
static uint64_t receipt_ms(const struct script_op *op, uint64_t now_us)
{
	uint64_t longest = 0;

	for (unsigned i = 0; i < op->n_checks; i++) {
		uint64_t us = check_horizon_us(op->checks[i].limit, now_us);

		longest = us > longest ? us : longest;
	}
	longest = longest < LIMIT_PER_MAX_US ? longest : LIMIT_PER_MAX_US;
	return longest / 1000 + 60001;
}

static bool is_lease(enum script_op_kind kind)
{
	return kind == SCRIPT_LEASE || kind == SCRIPT_UNLEASE;
}

static unsigned flags_of(const struct script_op *op)
{
	unsigned flags = op->chained ? OP_CHAINED : 0;

	assert(op->receipt_key.len == 0 || op->kind == SCRIPT_TAKE || op->kind == SCRIPT_REFUND);
	assert(!is_lease(op->kind) || (op->id_key.len == 0 && op->amount <= LIMIT_MAX));
	flags |= op->id_key.len > 0 ? OP_ID : 0;
	flags |= op->receipt_key.len > 0 ? OP_RECEIPT : 0;
	flags |= op->permit.len > 0 ? OP_PERMIT : 0;
	return flags;
}

/* How many permits of a lease a decision spends must be the same in all checks. */
static bool takes_alike(const struct script_op *op, unsigned n_written)
{
	for (unsigned i = 0; i < op->n_checks; i++)
		if (op->checks[i].shadow || op->checks[i].share.weight > 0 ||
		    op->checks[i].cost != op->checks[0].cost)
			return false;
	return n_written == op->n_checks;
}

static char *put_lease(char *p, const struct script_op *op)
{
	const struct slice id = {(const char *)op->lease, sizeof op->lease};

	p = put_slice(p, id);
	if (op->kind == SCRIPT_UNLEASE)
		return p;
	assert(op->ttl_us >= SCRIPT_LEASE_TTL_MIN_US && op->ttl_us <= SCRIPT_LEASE_TTL_MAX_US);
	assert(op->sharers >= 1);
	p = put_number(put_number(p, op->ttl_us), script_lease_hold_us(op->ttl_us));
	return put_number(p, op->sharers);
}

static bool has_leases(const struct script_op *op)
{
	for (unsigned i = 0; i < op->n_checks; i++) {
		enum algorithm a = op->checks[i].limit->algorithm;

		if (a != ALGORITHM_TOKEN_BUCKET && a != ALGORITHM_SLIDING_WINDOW &&
		    a != ALGORITHM_CALENDAR)
			return false;
	}
	return true;
}

/* `n_checks` isn't known yet: merged ones are left out. */
static bool add_head(struct script_batch *b, const struct script_op *op, uint64_t now_us)
{
	struct key_slot *id = NULL, *receipt = NULL;
	uint32_t id_ref = 0;
	double amount = op->amount > LIMIT_FOREVER_US ? -1 : (double)op->amount;
	char *p = buf_reserve(&b->program, OP_HEAD_BYTES + OP_EXTRAS_BYTES + LEASE_BYTES +
						   FEEDBACK_BYTES + SCRIPT_GRANT_BYTES +
						   op->echo.len + op->permit.len);

	assert(op->echo.len < UINT32_MAX / 2 && op->permit.len <= UINT16_MAX);
	if (op->id_key.len > 0) {
		id = key_find(b, op->id_key, true);
		if (id == NULL)
			return false;
		id_ref = id->ref; /* the table may move */
	}
	if (op->receipt_key.len > 0 && (receipt = key_find(b, op->receipt_key, true)) == NULL)
		return false;
	if (p == NULL)
		return false;
	p = put_op_head(p, op->kind, flags_of(op), 0, op->stamp_us, amount);
	if (id != NULL)
		p = put_slice(put_u32(put_u32(p, id_ref), (uint32_t)op->echo.len), op->echo);
	if (receipt != NULL)
		p = put_number(put_u32(p, receipt->ref), receipt_ms(op, now_us));
	if (op->permit.len > 0)
		p = put_slice(put_u16(p, (unsigned)op->permit.len), op->permit);
	if (is_lease(op->kind))
		p = put_lease(p, op);
	if (op->kind == SCRIPT_FEEDBACK)
		p = put_number(put_number(put_u8(put_u8(p, op->ok), op->congested), op->hold_us),
			       op->latency_us);
	if (op->kind == SCRIPT_SHARE_READ)
		p = script_put_grant(p, op->grant);
	if (op->kind == SCRIPT_SHARE_REPORT)
		p = put_number(put_number(put_u64(p, op->asked.agent), op->asked.demand),
			       op->asked.keep_us);
	buf_took(&b->program, p);
	return true;
}

static bool add_general(struct script_batch *b, const struct script_op *op, uint64_t now_us)
{
	size_t head_at, checks_at;
	unsigned n_written = 0;

	if (b->plain && !make_general(b))
		return false;
	head_at = b->program.len;
	if (!add_head(b, op, now_us))
		return false;
	checks_at = b->program.len;
	for (unsigned i = 0; i < op->n_checks; i++)
		if (!add_check(b, op, i, now_us, &n_written))
			return false;
	put_u16(b->program.ptr + head_at + 2, n_written);
	if (op->kind == SCRIPT_LEASE &&
	    !takes_alike(op, n_written)) /* its numbers come right before the checks */
		memset(b->program.ptr + checks_at - LEASE_NUMBERS_BYTES, 0, LEASE_NUMBERS_BYTES);
	return true;
}

kova_status script_batch_add(struct script_batch *b, const struct script_op *op, uint64_t now_us)
{
	assert(op->n_checks >= 1 && op->n_checks <= SCRIPT_CHECKS_MAX);
	if (b->failed)
		return KOVA_ENOMEM;
	if (b->n_ops == SCRIPT_OPS_MAX)
		return KOVA_ETOOBIG;
	if (is_lease(op->kind) && !has_leases(op))
		return KOVA_ERANGE;
	if (op->kind == SCRIPT_SHARE_READ && !script_is_grant(op->grant))
		return KOVA_ERANGE;
	if (!(b->plain && is_plain(op) && add_plain(b, op->checks, now_us)) &&
	    (b->failed || !add_general(b, op, now_us))) {
		b->failed = true;
		return KOVA_ENOMEM;
	}
	b->n_ops++;
	return KOVA_OK;
}

/* ---- The command ---- */

/* What it is by the header's byte. */
static unsigned form_of(const struct script_batch *b)
{
	enum { GENERAL, PLAIN, WITH_QUOTAS };

	if (b->plain)
		return PLAIN;
	return b->n_quotas > 0 ? WITH_QUOTAS : GENERAL;
}

static char *put_quotas(char *p, const struct script_batch *b, const struct script_call *call)
{
	p = put_u16(p, b->n_quotas);
	p = put_number(put_number(p, call->steady_earliest_us), call->steady_latest_us);
	return put_slice(p, buf_slice(&b->quotas));
}

static char *put_header(char *p, const struct script_batch *b, const struct script_call *call)
{
	p = put_u8(put_u64(p, call->stamp), form_of(b));
	p = put_u16(put_u16(p, b->n_limits), b->plain ? b->ops.n_mixed : b->n_ops);
	p = put_u32(p, b->n_strings);
	return put_number(put_number(p, call->earliest_us), call->latest_us);
}

static char *put_command_start(char *p, size_t n_keys, bool with_body)
{
	char count[20];
	size_t count_len = (size_t)(put_decimal(count, n_keys) - count);

	p = put_decimal(put_u8(p, '*'), 3 + n_keys + 1);
	p = put_slice(p, SLICE("\r\n"));
	p = put_bulk(p, with_body ? SLICE("EVAL") : SLICE("EVALSHA"));
	p = put_bulk(p, with_body ? (struct slice){lua_decide.body, lua_decide.len}
				  : (struct slice){lua_decide.sha1, 40});
	return put_bulk(p, (struct slice){count, count_len});
}

static bool write_plain(struct script_batch *b)
{
	char *p;

	buf_clear(&b->program);
	p = buf_reserve(&b->program, script_plain_most(&b->ops));
	if (p != NULL)
		buf_took(&b->program, script_plain_write(&b->ops, p));
	return p != NULL;
}

/* Bytes that the program takes, once write_plain() is done. */
static size_t program_bytes(const struct script_batch *b)
{
	size_t quotas = b->n_quotas > 0 ? QUOTAS_HEAD_BYTES + b->quotas.len : 0;

	return HEADER_BYTES + b->limits.len + b->program.len + quotas;
}

static char *put_program(char *p, const struct script_batch *b, const struct script_call *call)
{
	p = put_header(p, b, call);
	p = put_slice(p, buf_slice(&b->limits));
	if (b->n_quotas > 0)
		p = put_quotas(p, b, call);
	return put_slice(p, buf_slice(&b->program));
}

struct slice script_batch_command(struct script_batch *b, bool with_body,
				  const struct script_call *call)
{
	size_t program_len, script_len = with_body ? lua_decide.len : 40;
	char *p;

	if (b->failed || (b->plain && !write_plain(b)))
		return (struct slice){NULL, 0};
	program_len = program_bytes(b);
	buf_clear(&b->command);
	p = buf_reserve(&b->command, 5 * BULK_EXTRA + 7 + 20 + script_len + b->strings.len +
					     b->others.len + program_len);
	if (p == NULL)
		return (struct slice){NULL, 0};
	p = put_command_start(p, (size_t)b->n_strings + b->n_others, with_body);
	p = put_slice(put_slice(p, buf_slice(&b->strings)), buf_slice(&b->others));
	p = put_slice(put_decimal(put_u8(p, '$'), program_len), SLICE("\r\n"));
	p = put_program(p, b, call);
	buf_took(&b->command, put_slice(p, SLICE("\r\n")));
	return buf_slice(&b->command);
}

struct slice script_batch_program(struct script_batch *b, const struct script_call *call)
{
	char *p;

	if (b->failed || (b->plain && !write_plain(b)))
		return (struct slice){NULL, 0};
	buf_clear(&b->command);
	p = buf_reserve(&b->command, program_bytes(b));
	if (p == NULL)
		return (struct slice){NULL, 0};
	buf_took(&b->command, put_program(p, b, call));
	return buf_slice(&b->command);
}

struct script_keys script_batch_keys(const struct script_batch *b)
{
	return (struct script_keys){.n = (size_t)b->n_strings + b->n_others,
				    .strings = buf_slice(&b->strings),
				    .others = buf_slice(&b->others)};
}

const struct script_plain *script_batch_plain(struct script_batch *b)
{
	b->ops.limits = buf_slice(&b->limits);
	return b->plain ? &b->ops : NULL;
}
