#include "core/redis_error.h"

#include <string.h>

#include "core/decimal.h"
#include "core/host_port.h"

static bool starts_with(struct slice text, struct slice words)
{
	return text.len >= words.len && memcmp(text.ptr, words.ptr, words.len) == 0 &&
	       (text.len == words.len || text.ptr[words.len] == ' ');
}

static bool contains(struct slice text, struct slice word)
{
	for (size_t i = 0; i + word.len <= text.len; i++)
		if (memcmp(text.ptr + i, word.ptr, word.len) == 0)
			return true;
	return false;
}

/* Before Redis 7 a script's error carries the server's own behind a dash. */
static enum redis_error kind_within(struct slice text)
{
	static const struct {
		const char *words;
		enum redis_error kind;
	} kinds[] = {
		{"-READONLY ", REDIS_ERROR_READONLY},
		{"-MISCONF ", REDIS_ERROR_UNREADY},
		{"-OOM ", REDIS_ERROR_UNWRITABLE},
		{"-NOREPLICAS ", REDIS_ERROR_UNWRITABLE},
		{"The user executing the script can't ", REDIS_ERROR_FORBIDDEN},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (contains(text, slice_of(kinds[i].words)))
			return kinds[i].kind;
	return REDIS_ERROR_OTHER;
}

enum redis_error redis_error_kind(struct slice text)
{
	static const struct {
		const char *words;
		enum redis_error kind;
	} kinds[] = {
		{"READONLY", REDIS_ERROR_READONLY},
		{"LOADING", REDIS_ERROR_UNREADY},
		{"MASTERDOWN", REDIS_ERROR_UNREADY},
		{"BUSY", REDIS_ERROR_UNREADY},
		{"MISCONF", REDIS_ERROR_UNREADY},
		{"OOM", REDIS_ERROR_UNWRITABLE},
		{"NOREPLICAS", REDIS_ERROR_UNWRITABLE},
		{"NOPERM", REDIS_ERROR_FORBIDDEN},
		{"ERR unknown command", REDIS_ERROR_FORBIDDEN},
		{"ERR ACL failure in script:", REDIS_ERROR_FORBIDDEN},
		{"NOAUTH", REDIS_ERROR_LOGGED_OUT},
		{"MOVED", REDIS_ERROR_MOVED},
		{"ASK", REDIS_ERROR_ASK},
		{"TRYAGAIN", REDIS_ERROR_TRYAGAIN},
		{"CLUSTERDOWN", REDIS_ERROR_CLUSTERDOWN},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (starts_with(text, slice_of(kinds[i].words)))
			return kinds[i].kind;
	return starts_with(text, SLICE("ERR")) ? kind_within(text) : REDIS_ERROR_OTHER;
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
