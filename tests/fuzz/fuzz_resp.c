/*
 * Any bytes as a client's stream, twice: in one piece, and in pieces whose lengths come from the
 * bytes. Both must give the same commands and end the same way; what is parsed, written and parsed
 * again is the same.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct resp_command command, again;

static void check_round_trip(struct buf *log)
{
	struct resp_parser p = {0};
	size_t from = log->len, used;
	struct slice text;

	if (command.argc == 0)
		return;
	resp_write_array(log, command.argc);
	for (uint32_t i = 0; i < command.argc; i++)
		resp_write_bulk(log, command.argv[i]);
	text = (struct slice){log->ptr + from, log->len - from};
	if (text.len > RESP_COMMAND_MAX)
		return;
	assert(resp_parse(&p, text, &again, &used) == KOVA_OK && used == text.len);
	assert(again.argc == command.argc);
	for (uint32_t i = 0; i < command.argc; i++)
		assert(slice_equal(again.argv[i], command.argv[i]));
}

/* Parses until no more comes; `step` 0: all at once. Returns how it ended. */
static kova_status run(struct slice in, size_t step, struct buf *log)
{
	struct resp_parser p = {0};
	size_t at = 0, have = step == 0 ? in.len : 0;

	for (;;) {
		size_t n = have - at, used = 0;
		char *part = malloc(n + 1); /* of the exact size, and elsewhere each time */
		kova_status st;

		assert(part != NULL);
		if (n > 0)
			memcpy(part, in.ptr + at, n);
		st = resp_parse(&p, (struct slice){part, n}, &command, &used);
		if (st == KOVA_OK) {
			assert(used > 0 && used <= n);
			check_round_trip(log);
		}
		free(part);
		if (st == KOVA_EPROTO || (st == KOVA_AGAIN && have == in.len))
			return st;
		if (st == KOVA_AGAIN)
			have = in.len - have > step ? have + step : in.len;
		at += used;
	}
}

static void check_integer(struct slice in)
{
	int64_t value;
	struct buf b = {0};

	if (resp_integer(in, &value) == KOVA_OK) {
		buf_add_int(&b, value);
		assert(slice_equal(buf_slice(&b), in));
		buf_release(&b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice in = {(const char *)data, size};
	struct buf whole = {0}, pieces = {0};

	check_integer(in);
	if (size > 0) {
		kova_status st = run(in, 0, &whole);

		assert(run(in, (size_t)data[size - 1] % 37 + 1, &pieces) == st);
		assert(slice_equal(buf_slice(&whole), buf_slice(&pieces)));
	}
	buf_release(&whole);
	buf_release(&pieces);
	return 0;
}
