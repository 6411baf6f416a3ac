#include "receipt.h"

#include "core/base64url.h"
#include "core/limit.h"

enum { RECEIPT_VERSION = 1 };

static void put_number(struct buf *out, uint64_t value, unsigned bytes)
{
	while (bytes-- > 0) {
		char byte = (char)(value >> (8 * bytes) & 255);

		buf_add(out, &byte, 1);
	}
}

void receipt_write(struct buf *out, const struct receipt *receipt)
{
	struct buf raw = {0};

	put_number(&raw, RECEIPT_VERSION, 1);
	buf_add(&raw, receipt->random, sizeof receipt->random);
	put_number(&raw, receipt->n_pairs, 1);
	for (unsigned i = 0; i < receipt->n_pairs; i++) {
		const struct request_pair *p = &receipt->pairs[i];

		put_number(&raw, p->policy.len, 1);
		buf_add_slice(&raw, p->policy);
		put_number(&raw, p->key.len, 2);
		buf_add_slice(&raw, p->key);
		put_number(&raw, p->cost, 4);
	}
	base64url_write(out, buf_slice(&raw));
	out->failed |= raw.failed;
	buf_release(&raw);
}

/* A cursor whose failure sticks. */
struct cursor {
	struct slice in;
	size_t at;
	bool failed;
};

static struct slice get_bytes(struct cursor *c, size_t len)
{
	struct slice s = {0};

	if (c->failed || c->in.len - c->at < len) {
		c->failed = true;
		return s;
	}
	s = (struct slice){c->in.ptr + c->at, len};
	c->at += len;
	return s;
}

static uint64_t get_number(struct cursor *c, unsigned bytes)
{
	struct slice s = get_bytes(c, bytes);
	uint64_t value = 0;

	for (size_t i = 0; i < s.len; i++)
		value = value << 8 | (unsigned char)s.ptr[i];
	return value;
}

static void get_pair(struct cursor *c, struct request_pair *p)
{
	p->policy = get_bytes(c, get_number(c, 1));
	p->key = get_bytes(c, get_number(c, 2));
	p->cost = get_number(c, 4);
	if (p->policy.len == 0 || p->key.len == 0 || p->key.len > REQUEST_KEY_MAX || p->cost == 0 ||
	    p->cost > LIMIT_MAX)
		c->failed = true;
}

kova_status receipt_parse(struct slice text, struct buf *ret_bytes, struct receipt *ret_receipt)
{
	struct receipt receipt = {0};

	buf_clear(ret_bytes);
	if (base64url_parse(ret_bytes, text) != KOVA_OK || buf_failed(ret_bytes))
		return KOVA_EPROTO;

	struct cursor c = {.in = buf_slice(ret_bytes)};

	if (get_number(&c, 1) != RECEIPT_VERSION)
		return KOVA_EPROTO;

	struct slice random = get_bytes(&c, RECEIPT_RANDOM_BYTES);

	receipt.n_pairs = (uint8_t)get_number(&c, 1);
	if (c.failed || receipt.n_pairs == 0 || receipt.n_pairs > REQUEST_PAIRS_MAX)
		return KOVA_EPROTO;
	memcpy(receipt.random, random.ptr, random.len);
	for (unsigned i = 0; i < receipt.n_pairs; i++)
		get_pair(&c, &receipt.pairs[i]);
	if (c.failed || c.at != c.in.len)
		return KOVA_EPROTO;
	*ret_receipt = receipt;
	return KOVA_OK;
}
