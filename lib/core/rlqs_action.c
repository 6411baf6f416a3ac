/*
 * An allowance is a token bucket that begins full and is not refilled while it lasts. Envoy carries what is left of a token
 * bucket over into the next one, as a part of it; after a blanket rule it begins with a full one. So each allowance comes as two
 * actions, which Envoy carries out in one step: DENY_ALL, and the bucket.
 */
#include "core/rlqs_action.h"

#include "core/proto_wire.h"

/* Fields; the file in proto/ has their names. */
enum {
	RESPONSE_ACTION = 1,
	ACTION_ID = 1,
	ACTION_ASSIGNMENT = 2,
	ACTION_ABANDON = 3,
	ASSIGNMENT_TTL = 2,
	ASSIGNMENT_STRATEGY = 3,
	STRATEGY_BLANKET = 1,
	STRATEGY_BUCKET = 3,
	BUCKET_TOKENS = 1,
	BUCKET_FILL = 2,
	BUCKET_INTERVAL = 3,
	ONLY = 1, /* the first of Duration and of UInt32Value */
};

enum {
	ALLOW_ALL = 0,
	DENY_ALL = 1,
	FILL_S =
		86400, /* until one more token: later than any allowance ends. Whole seconds: Envoy drops the rest */
};

static void add_varint(struct buf *out, uint64_t value)
{
	char bytes[10];
	size_t n = 0;

	do {
		bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
		value >>= 7;
	} while (value > 0);
	buf_add(out, bytes, n);
}

static void add_number(struct buf *out, unsigned field, uint64_t value)
{
	add_varint(out, field << 3 | WIRE_VARINT);
	add_varint(out, value);
}

static void add_bytes(struct buf *out, unsigned field, struct slice bytes)
{
	add_varint(out, field << 3 | WIRE_BYTES);
	add_varint(out, bytes.len);
	buf_add_slice(out, bytes);
}

/* A message of one number. */
static void add_wrapped(struct buf *out, unsigned field, uint64_t value)
{
	struct buf inner = {0};

	add_number(&inner, ONLY, value);
	add_bytes(out, field, buf_slice(&inner));
	out->failed = out->failed || buf_failed(&inner);
	buf_release(&inner);
}

static void add_nested(struct buf *out, unsigned field, struct buf *inner)
{
	add_bytes(out, field, buf_slice(inner));
	out->failed = out->failed || buf_failed(inner);
	buf_release(inner);
}

static void add_strategy(struct buf *out, const struct rlqs_action *a)
{
	struct buf strategy = {0}, bucket = {0};

	if (a->kind == RLQS_ALLOWANCE) {
		add_number(&bucket, BUCKET_TOKENS, a->amount);
		add_wrapped(&bucket, BUCKET_FILL, 1);
		add_wrapped(&bucket, BUCKET_INTERVAL, FILL_S);
		add_nested(&strategy, STRATEGY_BUCKET, &bucket);
	} else {
		add_number(&strategy, STRATEGY_BLANKET,
			   a->kind == RLQS_ALLOW ? ALLOW_ALL : DENY_ALL);
	}
	add_nested(out, ASSIGNMENT_STRATEGY, &strategy);
}

static void add_action(struct buf *out, struct slice id, const struct rlqs_action *a)
{
	struct buf action = {0}, assignment = {0};

	add_bytes(&action, ACTION_ID, id);
	if (a->kind == RLQS_ABANDON) {
		add_bytes(&action, ACTION_ABANDON, (struct slice){"", 0});
	} else {
		add_wrapped(&assignment, ASSIGNMENT_TTL, a->ttl_s);
		add_strategy(&assignment, a);
		add_nested(&action, ACTION_ASSIGNMENT, &assignment);
	}
	add_nested(out, RESPONSE_ACTION, &action);
}

void rlqs_action_write(struct buf *out, struct slice id, const struct rlqs_action *a)
{
	if (a->kind == RLQS_ALLOWANCE)
		add_action(out, id, &(struct rlqs_action){.kind = RLQS_DENY, .ttl_s = a->ttl_s});
	add_action(out, id, a);
}
