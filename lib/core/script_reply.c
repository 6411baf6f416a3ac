/* Reads what the decide script answers; script.c writes what it is asked. */
#include "core/limit.h"
#include "core/script.h"
#include "core/script_wire.h"

enum { HEADER_BYTES = 8 + 8 + 1, RECORD_BYTES = 1 + 2 + 3 * 8 };

/* A number of the script's: whole, -1 .. 2^53. */
static bool read_number(const char *p, int64_t *ret_value)
{
	double v = get_double(p);

	if (!(v >= -1 && v <= (double)LIMIT_FOREVER_US) || (double)(int64_t)v != v)
		return false;
	*ret_value = (int64_t)v;
	return true;
}

kova_status script_reader_init(struct script_reader *r, struct slice reply, uint64_t stamp,
			       uint32_t n_ops)
{
	int64_t now_us;

	if (reply.len < HEADER_BYTES || get_u64(reply.ptr) != stamp ||
	    !read_number(reply.ptr + 8, &now_us) || now_us < 0 || (unsigned char)reply.ptr[16] > 1)
		return KOVA_EPROTO;
	*r = (struct script_reader){.reply = reply,
				    .at = HEADER_BYTES,
				    .now_us = (uint64_t)now_us,
				    .refill_refused = reply.ptr[16] != 0,
				    .left = n_ops};
	return n_ops > 0 || reply.len == HEADER_BYTES ? KOVA_OK : KOVA_EPROTO;
}

enum {
	WHY_SHIFT = 3,
	WHY = 3 << WHY_SHIFT,
	ADAPTED = 32,
	TAIL = 64,
	LEASED = 128,
	TAIL_BYTES = 8 + 1 + 4,
	LEASED_BYTES = 8,
	LIMIT_BYTES = 8
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

/* What follows the tail of an allowed LEASE. */
static bool read_leased(struct script_reader *r, struct script_answer *a)
{
	int64_t lease_us;

	if (r->reply.len - r->at < LEASED_BYTES || !read_number(r->reply.ptr + r->at, &lease_us) ||
	    lease_us < 0)
		return false;
	a->lease_us = (uint64_t)lease_us;
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
	if ((status & LEASED) != 0 && !read_leased(r, a))
		return false;
	if ((status & ADAPTED) != 0 && !read_limit(r, a))
		return false;
	a->why = (enum script_refusal)((status & WHY) >> WHY_SHIFT);
	status &= ~(unsigned)(TAIL | LEASED | WHY | ADAPTED);
	a->status = (enum script_status)status;
	a->shadowed = a->shadowed || status == SCRIPT_SHADOWED;
	return status <= SCRIPT_UNKNOWN && a->why <= SCRIPT_BREAKER_OPEN;
}

kova_status script_reader_next(struct script_reader *r, struct script_answer *ret_answer)
{
	struct script_answer a = {.now_us = r->now_us};

	if (r->left == 0 || !read_record(r, &a))
		return KOVA_EPROTO;
	r->left--;
	if (r->left == 0 && r->at != r->reply.len)
		return KOVA_EPROTO;
	*ret_answer = a;
	return KOVA_OK;
}
