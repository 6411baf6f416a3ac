/* Reads what the decide script answers; script.c writes what it is asked. */
#include "core/bucket.h"
#include "core/limit.h"
#include "core/script.h"
#include "core/script_plain.h"
#include "core/script_wire.h"

enum {
	HEADER_BYTES = 8 + 8 + 1,
	RECORD_BYTES = 1 + 2 + 3 * 8,
	DEBT_BYTES = 8,
	SHORT = 2, /* of the header's flags */
};

/* A number of the script's: whole, -1 .. 2^53. */
static bool read_number(const char *p, int64_t *ret_value)
{
	double v = get_double(p);

	if (!(v >= -1 && v <= (double)LIMIT_FOREVER_US) || (double)(int64_t)v != v)
		return false;
	*ret_value = (int64_t)v;
	return true;
}

enum {
	STATUS = 7,
	UNTOLD = 7, /* refused, and is_untold */
	WHY_SHIFT = 3,
	WHY = 3 << WHY_SHIFT,
	ADAPTED = 32,
	TAIL = 64,
	LEASED = 128,
	TAIL_BYTES = 8 + 1 + 4,
	LEASED_BYTES = 8,
	LIMIT_BYTES = 8,
	SHARE_STATE_BYTES = 24 + 1 + 3 * 4 + 8 + 2 * 4 + 8 + 8 + 2 * 4 + 2 * 8 + 1
};

/* What follows the record of an answer that has more to say. */
static bool read_tail(struct script_reader *r, struct script_answer *a)
{
	const char *p = r->reply.ptr + r->at;
	int64_t amount;
	size_t echo_len;

	if (r->reply.len - r->at < TAIL_BYTES || !read_number(p, &amount) || amount < 0)
		return false;
	echo_len = get_u16(p + 9) | (size_t)get_u16(p + 11) << 16;
	r->at += TAIL_BYTES;
	if (r->reply.len - r->at < echo_len)
		return false;
	a->amount = (uint64_t)amount;
	a->shadowed = p[8] == SCRIPT_SHADOWED;
	a->echo = (struct slice){r->reply.ptr + r->at, echo_len};
	r->at += echo_len;
	return true;
}

/* What follows the tail of an allowed LEASE, and of a refused turn. */
static bool read_leased(struct script_reader *r, unsigned status, struct script_answer *a)
{
	int64_t number;

	if (r->reply.len - r->at < LEASED_BYTES || !read_number(r->reply.ptr + r->at, &number) ||
	    number < 0)
		return false;
	if ((status & STATUS) != SCRIPT_REFUSED && (status & STATUS) != UNTOLD)
		a->lease_us = (uint64_t)number;
	else
		a->turn = (struct turn_place){.known = true,
					      .behind_others = r->reply.ptr[r->at - 5] != 0,
					      .start = a->amount,
					      .now = (uint64_t)number};
	r->at += LEASED_BYTES;
	return true;
}

/* What comes last where the limit is adaptive. */
static bool read_limit(struct script_reader *r, struct script_answer *a)
{
	int64_t limit;

	if (r->reply.len - r->at < LIMIT_BYTES || !read_number(r->reply.ptr + r->at, &limit) ||
	    limit < 1 || limit > LIMIT_MAX)
		return false;
	a->limit = (uint64_t)limit;
	r->at += LIMIT_BYTES;
	return true;
}

static bool read_record(struct script_reader *r, struct script_answer *a)
{
	const char *p = r->reply.ptr + r->at;
	unsigned status;
	int64_t remaining, reset_us;

	if (r->reply.len - r->at < RECORD_BYTES)
		return false;
	status = (unsigned char)p[0];
	a->check = (uint16_t)get_u16(p + 1);
	if (!read_number(p + 3, &remaining) || !read_number(p + 11, &a->wait_us) ||
	    !read_number(p + 19, &reset_us) || remaining < 0 || reset_us < 0)
		return false;
	a->remaining = (uint64_t)remaining;
	a->reset_us = (uint64_t)reset_us;
	r->at += RECORD_BYTES;
	if ((status & TAIL) != 0 && !read_tail(r, a))
		return false;
	if ((status & LEASED) != 0 && !read_leased(r, status, a))
		return false;
	if ((status & ADAPTED) != 0 && !read_limit(r, a))
		return false;
	a->why = (enum script_refusal)((status & WHY) >> WHY_SHIFT);
	status &= STATUS;
	a->is_untold = status == UNTOLD;
	a->status = a->is_untold ? SCRIPT_REFUSED : (enum script_status)status;
	a->shadowed = a->shadowed || status == SCRIPT_SHADOWED;
	return a->status <= SCRIPT_NEWER && a->why <= SCRIPT_QUEUE_FULL;
}

/* ---- The short reply ---- */

/* A debt a key, or -1 for one that has a record for each of its operations: these come behind the debts, key by key. */
static bool read_debts(struct script_reader *r)
{
	const struct script_plain *p = r->plain;
	size_t record_at = HEADER_BYTES + (size_t)p->n_keys * DEBT_BYTES;
	int64_t debt;

	if (r->reply.len < record_at)
		return false;
	for (uint32_t i = 0; i < p->n_keys; i++) {
		if (!read_number(r->reply.ptr + r->at + (size_t)i * DEBT_BYTES, &debt))
			return false;
		r->key[i].debt_ut = debt >= 0 ? (uint64_t)debt : 0;
		r->key[i].at = debt >= 0 ? 0 : record_at;
		record_at += debt >= 0 ? 0 : (size_t)p->key[i].n_ops * RECORD_BYTES;
	}
	r->at = record_at;
	return record_at == r->reply.len;
}

static const struct limit *limit_of(struct script_reader *r, unsigned number)
{
	if (r->limit_at != number) {
		const char *numbers = r->plain->limits.ptr + (number - 1) * SCRIPT_LIMIT_BYTES + 1;

		r->limit_at = number;
		r->limit.cap_ut = (uint64_t)get_double(numbers);
		r->limit.quantum_ut = (uint64_t)get_double(numbers + 8);
		r->limit.quantum_us = (uint64_t)get_double(numbers + 16);
	}
	return &r->limit;
}

static kova_status next_of_short(struct script_reader *r, struct script_answer *a)
{
	const struct script_plain_op *op = &r->plain->op[r->plain->n_ops - r->left];
	const struct limit *l;
	struct limiter_verdict v;
	size_t *record_at = &r->key[op->key].at;

	if (*record_at > 0) {
		size_t end = r->at;

		r->at = *record_at;
		if (!read_record(r, a))
			return KOVA_EPROTO;
		*record_at += RECORD_BYTES;
		if (r->at != *record_at) /* a take of one bucket has no more to say */
			return KOVA_EPROTO;
		r->at = end;
		return KOVA_OK;
	}
	l = limit_of(r, op->limit);
	if (l->cap_ut == 0 && r->key[op->key].debt_ut > 0)
		return KOVA_EPROTO;
	r->key[op->key].debt_ut =
		bucket_decide(l, r->now_us, r->key[op->key].debt_ut, op->cost, &v);
	a->status = v.allowed ? SCRIPT_ALLOWED : SCRIPT_REFUSED;
	a->remaining = v.remaining;
	a->wait_us = v.wait_us;
	a->reset_us = v.reset_us;
	return KOVA_OK;
}

/* ---- Shares of quotas ---- */

kova_status script_share_parse(const struct script_answer *a, struct script_share *ret_share)
{
	enum { CLOCK, T0, SEQ, NUMBERS };
	const char *p = a->echo.ptr;
	int64_t number[NUMBERS], window_us, c0_us, granted_us, lent_us;
	struct script_share s;

	if (a->echo.len != SHARE_STATE_BYTES)
		return KOVA_EPROTO;
	for (int i = CLOCK; i < NUMBERS; i++, p += 8)
		if (!read_number(p, &number[i]) || number[i] < 0)
			return KOVA_EPROTO;
	if (!read_number(p + 13, &window_us) || !read_number(p + 37, &c0_us) ||
	    !read_number(p + 53, &granted_us) || !read_number(p + 61, &lent_us))
		return KOVA_EPROTO;
	s = (struct script_share){
		.report = {.clock = (uint64_t)number[CLOCK],
			   .t0_us = (uint64_t)number[T0],
			   .seq = (uint64_t)number[SEQ],
			   .live = p[0] != 0,
			   .whole = get_u32(p + 1),
			   .demand = get_u32(p + 5),
			   .used = get_u32(p + 9),
			   .floors = get_u32(p + 21),
			   .lent = get_u32(p + 25),
			   .lent_epoch = get_u64(p + 29),
			   .lent_c0_us = (uint64_t)c0_us},
		.window_us = (uint64_t)window_us,
		.parts = get_u32(p + 45),
		.floor = get_u32(p + 49),
		.granted_us = (uint64_t)granted_us,
		.lent_us = (uint64_t)lent_us,
		.reporter = p[69] != 0,
	};
	*ret_share = s;
	return KOVA_OK;
}

/* ---- The reader ---- */

kova_status script_reader_init(struct script_reader *r, struct slice reply, uint64_t stamp,
			       uint32_t n_ops, const struct script_plain *plain)
{
	unsigned flags;
	int64_t now_us;

	if (reply.len < HEADER_BYTES || get_u64(reply.ptr) != stamp ||
	    !read_number(reply.ptr + 8, &now_us) || now_us < 0)
		return KOVA_EPROTO;
	flags = (unsigned char)reply.ptr[16];
	if (flags >= 2 * SHORT || ((flags & SHORT) != 0 && plain == NULL))
		return KOVA_EPROTO;
	r->reply = reply;
	r->at = HEADER_BYTES;
	r->now_us = (uint64_t)now_us;
	r->refill_refused = (flags & 1) != 0;
	r->left = n_ops;
	r->plain = (flags & SHORT) != 0 ? plain : NULL;
	r->limit_at = 0;
	if (r->plain != NULL)
		return read_debts(r) ? KOVA_OK : KOVA_EPROTO;
	return n_ops > 0 || reply.len == HEADER_BYTES ? KOVA_OK : KOVA_EPROTO;
}

kova_status script_reader_next(struct script_reader *r, struct script_answer *ret_answer)
{
	struct script_answer a = {.now_us = r->now_us};
	kova_status status = KOVA_OK;

	if (r->left == 0)
		return KOVA_EPROTO;
	if (r->plain != NULL)
		status = next_of_short(r, &a);
	else if (!read_record(r, &a) || (r->left == 1 && r->at != r->reply.len))
		status = KOVA_EPROTO;
	if (status != KOVA_OK)
		return status;
	r->left--;
	*ret_answer = a;
	return KOVA_OK;
}
