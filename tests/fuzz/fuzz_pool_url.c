/*
 * Any bytes as the URL of an endpoint and as a line of an endpoints file: what is read can be written and read again, an address is
 * the same however its session is filled in, and a complaint shows a place in the text and none of it.
 */
#include <assert.h>
#include <stdint.h>

#include "core/pool_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_url(struct slice text)
{
	struct pool_url url, again;
	const char *why = NULL;
	size_t at = SIZE_MAX;
	struct buf written = {0}, host = {0};

	if (pool_url_parse(text, &url, &why, &at) != KOVA_OK) {
		assert(why != NULL && at <= text.len);
		return;
	}
	pool_url_write(&url, SLICE("s/1"), &written);
	kova_status status = pool_url_parse(buf_slice(&written), &again, &why, &at);

	assert(status == KOVA_OK && again.port == url.port && again.scheme == url.scheme);
	assert(slice_equal(again.host, url.host) && !again.has_session);
	pool_url_host(&url, &host);
	assert(host.len > 0);
	buf_release(&host);
	buf_release(&written);
}

static void check_line(struct slice text)
{
	struct buf made = {0};
	struct pool_url url;
	const char *why = NULL;
	size_t at = SIZE_MAX;
	kova_status status = pool_line_parse(text, &made, &why, &at);

	if (status != KOVA_OK) {
		assert(why != NULL && at <= text.len && made.len == 0);
	} else if (made.len > 0) {
		status = pool_url_parse(buf_slice(&made), &url, &why, &at);
		assert(status == KOVA_OK);
	}
	buf_release(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};

	check_url(text);
	check_line(text);
	return 0;
}
