#include "core/redis_url.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/decimal.h"
#include "core/hex.h"
#include "core/redis_error.h"

enum { PORT_DEFAULT = 6379, DB_MAX = 1000000 };

void redis_url_release(struct redis_url *url)
{
	free(url->path);
	free(url->host);
	free(url->user);
	free(url->password);
	*url = (struct redis_url){0};
}

static kova_status copy(struct slice s, char **ret_text)
{
	char *text = malloc(s.len + 1);

	if (text == NULL)
		return KOVA_ENOMEM;
	memcpy(text, s.ptr, s.len);
	text[s.len] = '\0';
	*ret_text = text;
	return KOVA_OK;
}

/* Decodes %XX in place. A NUL is refused: what follows it would be lost silently. */
static kova_status decode(char *text)
{
	char *out = text;

	for (const char *in = text; *in != '\0'; in++) {
		if (*in != '%') {
			*out++ = *in;
			continue;
		}
		int high = hex_value(in[1]);
		int low = high >= 0 ? hex_value(in[2]) : -1;
		if (low < 0 || high * 16 + low == 0)
			return KOVA_EPROTO;
		*out++ = (char)(high * 16 + low);
		in += 2;
	}
	*out = '\0';
	return KOVA_OK;
}

/* "user:password", ":password" or "user" */
static kova_status credentials_parse(struct slice text, struct redis_url *url, const char **ret_why)
{
	const char *colon = text.len > 0 ? memchr(text.ptr, ':', text.len) : NULL;
	struct slice user = {text.ptr, colon != NULL ? (size_t)(colon - text.ptr) : text.len};

	if (user.len > 0 && copy(user, &url->user) != KOVA_OK)
		return KOVA_ENOMEM;
	if (colon != NULL) {
		struct slice password = {colon + 1, text.len - user.len - 1};
		if (copy(password, &url->password) != KOVA_OK)
			return KOVA_ENOMEM;
	}
	if ((url->user != NULL && decode(url->user) != KOVA_OK) ||
	    (url->password != NULL && decode(url->password) != KOVA_OK)) {
		*ret_why = "'%' in user and password is followed by two hexadecimal digits, not 00";
		return KOVA_EPROTO;
	}
	return KOVA_OK;
}

static kova_status db_parse(struct slice text, uint32_t *ret_db, const char **ret_why)
{
	uint64_t db = 0;

	*ret_why = "the database after the '/' is a number from 0 to 1000000";
	if (text.len > 0 && decimal_parse(text, DB_MAX, &db) != KOVA_OK)
		return KOVA_EPROTO;
	*ret_db = (uint32_t)db;
	return KOVA_OK;
}

/* "host", "host:port", "[v6]" or "[v6]:port" */
static kova_status host_parse(struct slice text, struct redis_url *url, const char **ret_why)
{
	struct slice host = text;
	bool bare = text.len > 0 &&
		    (text.ptr[text.len - 1] == ']' || memchr(text.ptr, ':', text.len) == NULL);

	*ret_why = "the address is host, host:port or [IPv6]:port, with a port from 1 to 65535";
	url->port = PORT_DEFAULT;
	if (!bare && (text.len == 0 || redis_address_parse(text, &host, &url->port) != KOVA_OK))
		return KOVA_EPROTO;
	if (bare && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
		host = (struct slice){host.ptr + 1, host.len - 2};
	if (host.len == 0 || memchr(host.ptr, '[', host.len) != NULL ||
	    memchr(host.ptr, ']', host.len) != NULL ||
	    (text.ptr[0] != '[' && memchr(host.ptr, ':', host.len) != NULL))
		return KOVA_EPROTO;
	return copy(host, &url->host);
}

static kova_status authority_parse(struct slice text, struct redis_url *url, const char **ret_why)
{
	const char *slash = text.len > 0 ? memchr(text.ptr, '/', text.len) : NULL;
	struct slice authority = {text.ptr, slash != NULL ? (size_t)(slash - text.ptr) : text.len};
	size_t at = authority.len;
	kova_status status;

	while (at > 0 && authority.ptr[at - 1] != '@')
		at--;
	if (at > 0) {
		struct slice credentials = {authority.ptr, at - 1};
		status = credentials_parse(credentials, url, ret_why);
		if (status != KOVA_OK)
			return status;
	}
	if (slash != NULL) {
		struct slice db = {slash + 1, text.len - authority.len - 1};
		status = db_parse(db, &url->db, ret_why);
		if (status != KOVA_OK)
			return status;
	}
	return host_parse((struct slice){authority.ptr + at, authority.len - at}, url, ret_why);
}

static kova_status path_parse(struct slice path, struct redis_url *url, const char **ret_why)
{
	if (path.len == 0 || path.len > REDIS_UNIX_PATH_MAX) {
		*ret_why = "the path of a unix socket has 1 to 107 bytes";
		return KOVA_EPROTO;
	}
	return copy(path, &url->path);
}

static bool skip(struct slice *text, struct slice prefix)
{
	if (text->len < prefix.len || memcmp(text->ptr, prefix.ptr, prefix.len) != 0)
		return false;
	*text = (struct slice){text->ptr + prefix.len, text->len - prefix.len};
	return true;
}

kova_status redis_url_parse(const char *text, struct redis_url *ret_url, const char **ret_why)
{
	struct redis_url url = {0};
	struct slice rest = slice_of(text);
	const char *why = "out of memory";
	kova_status status;

	if (skip(&rest, SLICE("unix:"))) {
		status = path_parse(rest, &url, &why);
	} else if (skip(&rest, SLICE("redis://")) || (url.tls = skip(&rest, SLICE("rediss://")))) {
		status = authority_parse(rest, &url, &why);
	} else {
		why = "it begins with redis://, rediss:// or unix:";
		status = KOVA_EPROTO;
	}
	if (status != KOVA_OK) {
		*ret_why = status == KOVA_ENOMEM ? "out of memory" : why;
		redis_url_release(&url);
		return status;
	}
	*ret_url = url;
	return KOVA_OK;
}
