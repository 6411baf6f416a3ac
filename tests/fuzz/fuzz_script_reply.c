/*
 * Any bytes as the number of operations asked and the script's reply to them, short or not: refused, or every answer within the ranges
 * that its reader relies on, all of the reply read by the last one. A reply to somebody else is refused.
 */
#include <assert.h>
#include <string.h>

#include "core/limit.h"
#include "core/script.h"
#include "core/script_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const struct script_answer *a, struct slice reply, uint64_t now_us)
{
	assert(a->status <= SCRIPT_NEWER && a->why <= SCRIPT_QUEUE_FULL);
	assert(a->wait_us >= -1 && a->wait_us <= (int64_t)LIMIT_FOREVER_US);
	assert(a->remaining <= LIMIT_FOREVER_US && a->reset_us <= LIMIT_FOREVER_US);
	assert(a->amount <= LIMIT_FOREVER_US && a->lease_us <= LIMIT_FOREVER_US);
	assert(a->now_us == now_us);
	if (a->echo.len > 0)
		assert(a->echo.ptr >= reply.ptr &&
		       a->echo.ptr + a->echo.len <= reply.ptr + reply.len);
}

/* Takes of 1 to 3 from 5 keys. */
static struct script_batch *plain_batch(uint32_t n_ops)
{
	static const struct script_call call = {.latest_us = LIMIT_FOREVER_US};
	struct script_batch *b = script_batch_new();
	struct limit l = {.limit = 10, .per_us = 1000000, .burst = 20};

	assert(b != NULL && limit_init(&l) == KOVA_OK);
	for (uint32_t i = 0; i < n_ops; i++) {
		char key[2] = {'k', (char)('0' + i % 5)};
		struct script_check c = {.limit = &l, .key = {key, sizeof key}, .cost = 1 + i % 3};
		struct script_op op = {.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1};

		assert(script_batch_add(b, &op, 0) == KOVA_OK);
	}
	assert(script_batch_command(b, false, &call).ptr != NULL);
	return b;
}

static void read_reply(struct slice reply, uint32_t n_ops, const struct script_plain *plain)
{
	struct script_reader r;
	struct script_answer answer;
	uint64_t stamp = reply.len >= 8 ? get_u64(reply.ptr) : 0; /* the one that it carries */
	uint32_t left;

	assert(script_reader_init(&r, reply, stamp + 1, n_ops, plain) == KOVA_EPROTO);
	if (script_reader_init(&r, reply, stamp, n_ops, plain) != KOVA_OK)
		return;
	for (left = n_ops; left > 0 && script_reader_next(&r, &answer) == KOVA_OK; left--)
		check_answer(&answer, reply, r.now_us);
	assert(left > 0 || r.at == reply.len);
	if (left == 0)
		assert(script_reader_next(&r, &answer) == KOVA_EPROTO);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t n_ops = size > 0 ? data[0] % (SCRIPT_OPS_MAX + 1) : 0;
	struct slice reply = {(const char *)data + 1, size > 0 ? size - 1 : 0};
	struct script_batch *b = plain_batch(n_ops);

	read_reply(reply, n_ops, NULL);
	read_reply(reply, n_ops, script_batch_plain(b));
	script_batch_free(b);
	return 0;
}
