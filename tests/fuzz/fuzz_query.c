/*
 * Any bytes as the query of a URL: its pairs hold all of it but the marks between them, in order; what is encoded and
 * decoded is as before.
 */
#include <assert.h>
#include <string.h>

#include "core/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pairs(struct slice query)
{
	struct slice rest = query, name, value;
	const char *at = query.ptr, *end = query.ptr + query.len;

	while (query_next(&rest, &name, &value)) {
		for (; at < name.ptr; at++)
			assert(*at == '&');
		assert(memchr(name.ptr, '=', name.len) == NULL);
		assert(memchr(name.ptr, '&', name.len) == NULL);
		at = name.ptr + name.len;
		if (at < end && *at == '=')
			at++;
		if (value.len > 0) {
			assert(value.ptr == at && memchr(at, '&', value.len) == NULL);
			at += value.len;
		}
	}
	for (; at < end; at++)
		assert(*at == '&');
}

static void check_decoding(struct slice raw)
{
	struct buf query = {0}, path = {0};
	kova_status status = query_decode(&query, raw);

	assert(query_decode_path(&path, raw) == status && query.len == path.len);
	assert(status == KOVA_EPROTO || query.len <= raw.len);
	for (size_t i = 0; i < query.len; i++)
		assert(query.ptr[i] == path.ptr[i] || (query.ptr[i] == ' ' && path.ptr[i] == '+'));
	buf_release(&query);
	buf_release(&path);
}

static void check_round_trip(struct slice bytes)
{
	struct buf encoded = {0}, again = {0};

	for (size_t i = 0; i < bytes.len; i++)
		buf_printf(&encoded, "%%%02X", (unsigned char)bytes.ptr[i]);
	kova_status status = query_decode(&again, buf_slice(&encoded));
	assert(status == KOVA_OK && slice_equal(buf_slice(&again), bytes));
	buf_release(&encoded);
	buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};

	check_pairs(text);
	check_decoding(text);
	check_round_trip(text);
	return 0;
}
