/*
 * Any bytes as what Redis says went wrong and as the text that says where a Redis is: an address has a host and a port, a
 * redirect lies within the slots, and the reason of a refusal never repeats the text, which may hold a password.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"
#include "core/redis_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool within(struct slice part, struct slice text)
{
	return part.len == 0 ||
	       (part.ptr >= text.ptr && part.ptr + part.len <= text.ptr + text.len);
}

static void check_error(struct slice text)
{
	enum redis_error kind = redis_error_kind(text);
	struct redis_redirect to;

	assert(kind <= REDIS_ERROR_CLUSTERDOWN);
	if (redis_redirect_parse(text, &to) == KOVA_OK) {
		assert(kind == REDIS_ERROR_MOVED || kind == REDIS_ERROR_ASK);
		assert(to.slot < 16384 && to.port > 0 && within(to.host, text));
	}
}

static void check_address(struct slice text)
{
	struct slice host;
	uint16_t port;

	if (redis_address_parse(text, &host, &port) == KOVA_OK)
		assert(port > 0 && within(host, text));
}

/* What was decoded is no longer than its text, which it is a part of. */
static void check_part(const char *part, const char *text)
{
	if (part != NULL)
		assert(strlen(part) <= strlen(text));
}

static void check_url(const char *text)
{
	struct redis_url url;
	const char *why = NULL;

	if (redis_url_parse(text, &url, &why) != KOVA_OK) {
		assert(why != NULL && (strlen(text) < 12 || strstr(why, text) == NULL));
		return;
	}
	assert((url.path == NULL) != (url.host == NULL));
	if (url.path != NULL)
		assert(strlen(url.path) >= 1 && strlen(url.path) <= REDIS_UNIX_PATH_MAX);
	else
		assert(url.port > 0 && url.db <= 1000000 && url.host[0] != '\0' &&
		       strpbrk(url.host, "[]") == NULL);
	check_part(url.host, text);
	check_part(url.user, text);
	check_part(url.password, text);
	redis_url_release(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};
	char *copy = malloc(size + 1);

	assert(copy != NULL);
	memcpy(copy, data, size);
	copy[size] = '\0';
	check_error(text);
	check_address(text);
	check_url(copy);
	free(copy);
	return 0;
}
