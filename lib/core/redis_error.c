#include "core/redis_error.h"

#include <string.h>

#include "core/decimal.h"
#include "core/host_port.h"

static bool starts_with(struct slice text, struct slice word)
{
	return text.len >= word.len && memcmp(text.ptr, word.ptr, word.len) == 0 &&
	       (text.len == word.len || text.ptr[word.len] == ' ');
}

static bool contains(struct slice text, struct slice word)
{
	for (size_t i = 0; i + word.len <= text.len; i++)
		if (memcmp(text.ptr + i, word.ptr, word.len) == 0)
			return true;
	return false;
}

enum redis_error redis_error_kind(struct slice text)
{
	static const struct {
		const char *word;
		enum redis_error kind;
	} kinds[] = {
		{"READONLY", REDIS_ERROR_READONLY},
		{"LOADING", REDIS_ERROR_UNREADY},
		{"MASTERDOWN", REDIS_ERROR_UNREADY},
		{"BUSY", REDIS_ERROR_UNREADY},
		{"MISCONF", REDIS_ERROR_UNREADY},
		{"MOVED", REDIS_ERROR_MOVED},
		{"ASK", REDIS_ERROR_ASK},
		{"TRYAGAIN", REDIS_ERROR_TRYAGAIN},
		{"CLUSTERDOWN", REDIS_ERROR_CLUSTERDOWN},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (starts_with(text, slice_of(kinds[i].word)))
			return kinds[i].kind;
	/* Before Redis 7 a script's error carries the server's own behind a dash. */
	if (starts_with(text, SLICE("ERR")) && contains(text, SLICE("-READONLY ")))
		return REDIS_ERROR_READONLY;
	if (starts_with(text, SLICE("ERR")) && contains(text, SLICE("-MISCONF ")))
		return REDIS_ERROR_UNREADY;
	return REDIS_ERROR_OTHER;
}

kova_status redis_address_parse(struct slice text, struct slice *ret_host, uint16_t *ret_port)
{
	struct host_port a;

	if (host_port_parse(text, &a) != KOVA_OK || a.port == 0)
		return KOVA_EPROTO;
	*ret_host = a.host;
	*ret_port = a.port;
	return KOVA_OK;
}

kova_status redis_redirect_parse(struct slice text, struct redis_redirect *ret_redirect)
{
	enum redis_error kind = redis_error_kind(text);
	struct redis_redirect redirect;
	uint64_t slot;

	if (kind != REDIS_ERROR_MOVED && kind != REDIS_ERROR_ASK)
		return KOVA_EPROTO;
	slice_cut(&text, ' ');
	struct slice digits = slice_cut(&text, ' ');

	if (decimal_parse(digits, 16383, &slot) != KOVA_OK ||
	    redis_address_parse(text, &redirect.host, &redirect.port) != KOVA_OK)
		return KOVA_EPROTO;
	redirect.slot = (uint16_t)slot;
	*ret_redirect = redirect;
	return KOVA_OK;
}
