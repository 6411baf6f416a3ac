#include "core/allocator_bytes.h"

#include <assert.h>

/* What there is of a region. */
enum {
	ANSWERED = 1 << 0,
	RESTORED = 1 << 1,
	CUT = 1 << 2,
	HEARD = 1 << 3,   /* clock, t0_us, heard */
	GRANTED = 1 << 4, /* seq, granted, granted_until */
	MORE = 1 << 5,    /* before, used */
	LENT = 1 << 6,    /* lent, lent_until; window, held */
};

/* Of the region before that was heard of. */
struct before {
	uint64_t clock, t0_us, heard;
};

static unsigned char *put(unsigned char *at, uint64_t value)
{
	return at + varint_write(at, value);
}

/* To either side it takes few bytes (zigzag). */
static unsigned char *put_difference(unsigned char *at, uint64_t value, uint64_t *before)
{
	uint64_t apart = value - *before;

	*before = value;
	return put(at, apart << 1 ^ (0 - (apart >> 63)));
}

static uint64_t take_difference(const unsigned char **at, uint64_t *before)
{
	uint64_t folded = varint_read(at);

	*before += folded >> 1 ^ (0 - (folded & 1));
	return *before;
}

static unsigned parts_of(const struct allocator_region *r)
{
	bool heard = r->clock != 0 || r->t0_us != 0 || r->heard != 0;
	bool granted = r->seq != 0 || r->granted != 0 || r->granted_until != 0;

	return (r->answered ? ANSWERED : 0) | (r->restored ? RESTORED : 0) | (r->cut ? CUT : 0) |
	       (heard ? HEARD : 0) | (granted ? GRANTED : 0) |
	       (r->before != 0 || r->used != 0 ? MORE : 0) |
	       (r->lent != 0 || r->lent_until != 0 ? LENT : 0);
}

static unsigned char *put_region(unsigned char *at, const struct allocator_region *r,
				 struct before *before)
{
	unsigned parts = parts_of(r);

	at = put(at, parts);
	at = put(at, r->floor);
	at = put(at, r->demand);
	at = put(at, r->confirmed);
	if (parts & HEARD) {
		at = put_difference(at, r->clock, &before->clock);
		at = put_difference(at, r->t0_us, &before->t0_us);
		at = put_difference(at, r->heard, &before->heard);
	}
	if (parts & GRANTED) {
		at = put(at, r->seq);
		at = put(at, r->granted);
		at = put(at, (uint32_t)(r->granted_until - r->heard));
	}
	if (parts & MORE) {
		at = put(at, r->before);
		at = put(at, r->used);
	}
	if (parts & LENT) {
		at = put(at, r->lent);
		at = put(at, (uint32_t)(r->lent_until - r->heard));
	}
	return at;
}

size_t allocator_pack(const struct allocator *a, unsigned n_regions, unsigned char *to)
{
	struct before before = {0};
	unsigned char *at = put(put(to, a->confirmed), a->newest);

	for (unsigned i = 0; i < n_regions; i++)
		at = put_region(at, &a->region[i], &before);
	at = put_difference(at, a->wanted, &before.heard);
	return (size_t)(at - to);
}

static uint32_t take(const unsigned char **at)
{
	return (uint32_t)varint_read(at);
}

static struct allocator_region take_region(const unsigned char **at, struct before *before)
{
	unsigned parts = take(at);
	struct allocator_region r = {
		.answered = (parts & ANSWERED) != 0,
		.restored = (parts & RESTORED) != 0,
		.cut = (parts & CUT) != 0,
	};

	r.floor = take(at);
	r.demand = take(at);
	r.confirmed = take(at) & 0xffffff;
	if (parts & HEARD) {
		r.clock = take_difference(at, &before->clock);
		r.t0_us = take_difference(at, &before->t0_us);
		r.heard = (uint32_t)take_difference(at, &before->heard);
	}
	if (parts & GRANTED) {
		r.seq = take(at);
		r.granted = take(at);
		r.granted_until = r.heard + take(at);
	}
	if (parts & MORE) {
		r.before = take(at);
		r.used = take(at);
	}
	if (parts & LENT) {
		r.lent = take(at);
		r.lent_until = r.heard + take(at);
	}
	return r;
}

void allocator_unpack(struct allocator *ret_a, unsigned n_regions, struct slice bytes)
{
	const unsigned char *at = (const unsigned char *)bytes.ptr, *end = at + bytes.len;
	struct before before = {0};

	ret_a->confirmed = take(&at);
	ret_a->newest = take(&at);
	for (unsigned i = 0; i < n_regions; i++)
		ret_a->region[i] = take_region(&at, &before);
	ret_a->wanted = (uint32_t)take_difference(&at, &before.heard);
	assert(at == end);
}
