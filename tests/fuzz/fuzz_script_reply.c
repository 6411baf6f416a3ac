/*
 * Any bytes as the number of operations asked and the script's reply to them: refused, or every answer within the ranges
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
	assert(a->status <= SCRIPT_UNKNOWN && a->why <= SCRIPT_BREAKER_OPEN);
	assert(a->wait_us >= -1 && a->wait_us <= (int64_t)LIMIT_FOREVER_US);
	assert(a->remaining <= LIMIT_FOREVER_US && a->reset_us <= LIMIT_FOREVER_US);
	assert(a->amount <= LIMIT_FOREVER_US && a->lease_us <= LIMIT_FOREVER_US);
	assert(a->now_us == now_us);
	if (a->echo.len > 0)
		assert(a->echo.ptr >= reply.ptr &&
		       a->echo.ptr + a->echo.len <= reply.ptr + reply.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script_reader r;
	struct script_answer answer;
	uint32_t left, n_ops = size > 0 ? data[0] % (SCRIPT_OPS_MAX + 1) : 0;
	struct slice reply = {(const char *)data + 1, size > 0 ? size - 1 : 0};
	uint64_t stamp = reply.len >= 8 ? get_u64(reply.ptr) : 0; /* the one that it carries */

	assert(script_reader_init(&r, reply, stamp + 1, n_ops) == KOVA_EPROTO);
	if (script_reader_init(&r, reply, stamp, n_ops) != KOVA_OK)
		return 0;
	for (left = n_ops; left > 0 && script_reader_next(&r, &answer) == KOVA_OK; left--)
		check_answer(&answer, reply, r.now_us);
	assert(left > 0 || r.at == reply.len);
	if (left == 0)
		assert(script_reader_next(&r, &answer) == KOVA_EPROTO);
	return 0;
}
