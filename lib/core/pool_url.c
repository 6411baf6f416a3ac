#include "core/pool_url.h"

#include <string.h>

#include "core/decimal.h"
#include "core/hex.h"
#include "core/host_port.h"

static const char *const schemes[POOL_SCHEMES] = {
	[POOL_HTTP] = "http",       [POOL_HTTPS] = "https",   [POOL_SOCKS4] = "socks4",
	[POOL_SOCKS4A] = "socks4a", [POOL_SOCKS5] = "socks5", [POOL_SOCKS5H] = "socks5h",
	[POOL_DIRECT] = "direct",
};

static const struct slice session_mark = {"{session}", 9};

static const char why_form[] = "it must be scheme://[user[:password]@]host:port";
static const char why_scheme[] =
	"the scheme must be http, https, socks4, socks4a, socks5, socks5h or direct";
static const char why_credentials[] =
	"in user and password all but letters, digits and -._~!$&'()*+,;= must be percent-encoded "
	"(`%40` for `@`); `{session}` may stand there";
static const char why_host[] =
	"the host must be a name, an IPv4 address or an IPv6 address in brackets";
static const char why_port[] = "the port is needed: a number from 1 to 65535";

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_unreserved(char c)
{
	return is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static char small(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_word(struct slice s, const char *word)
{
	size_t i;

	for (i = 0; i < s.len && word[i] != '\0'; i++)
		if (small(s.ptr[i]) != word[i])
			return false;
	return i == s.len && word[i] == '\0';
}

/* ---- Credentials ---- */

static size_t session_at(struct slice s, size_t i)
{
	return s.len - i >= session_mark.len &&
			       memcmp(s.ptr + i, session_mark.ptr, session_mark.len) == 0
		       ? session_mark.len
		       : 0;
}

/* Length of what is encoded rightly at `i`; 0: it is not. */
static size_t encoded_at(struct slice s, size_t i)
{
	char c = s.ptr[i];

	if (c == '%')
		return s.len - i >= 3 && hex_value(s.ptr[i + 1]) >= 0 &&
				       hex_value(s.ptr[i + 2]) >= 0 &&
				       (s.ptr[i + 1] != '0' || s.ptr[i + 2] != '0')
			       ? 3
			       : 0;
	if (c == '{')
		return session_at(s, i);
	return is_unreserved(c) || (c != '\0' && strchr("!$&'()*+,;=", c) != NULL);
}

/* Where the first byte is that may not stand there; s.len: nowhere. */
static size_t credentials_bad(struct slice s, bool *ret_session)
{
	for (size_t i = 0; i < s.len;) {
		size_t n = encoded_at(s, i);

		if (n == 0)
			return i;
		*ret_session |= n == session_mark.len;
		i += n;
	}
	return s.len;
}

static bool credentials_parse(struct slice text, struct pool_url *url, size_t *ret_bad)
{
	size_t colon = slice_index(text, ':'), bad;

	url->has_user = true;
	url->user = (struct slice){text.ptr, colon};
	bad = credentials_bad(url->user, &url->has_session);
	if (bad < url->user.len) {
		*ret_bad = bad;
		return false;
	}
	if (colon == text.len)
		return true;
	url->has_password = true;
	url->password = slice_after(text, colon + 1);
	bad = credentials_bad(url->password, &url->has_session);
	*ret_bad = colon + 1 + bad;
	return bad == url->password.len;
}

/* ---- Host and port ---- */

/* Of the characters of an IPv6 address, zone included; that it is one, whoever connects finds out. */
static bool is_v6(struct slice host)
{
	unsigned colons = 0;

	for (size_t i = 0; i < host.len; i++) {
		char c = host.ptr[i];

		if (c == '%')
			return colons >= 2 && i + 1 < host.len;
		if (hex_value(c) < 0 && c != ':' && c != '.')
			return false;
		colons += c == ':';
	}
	return colons >= 2 && colons <= 7;
}

static bool is_name(struct slice host)
{
	for (size_t i = 0; i < host.len; i++)
		if (!is_alnum(host.ptr[i]) && host.ptr[i] != '.' && host.ptr[i] != '-' &&
		    host.ptr[i] != '_')
			return false;
	return host.len > 0 && host.len <= 255;
}

/* The end of the host in "host:port", without anything behind. */
static size_t host_end(struct slice s)
{
	if (s.len > 0 && s.ptr[0] == '[')
		return slice_index(s, ']') + 1;
	return slice_index(s, ':');
}

static const char *address_parse(struct slice s, struct pool_url *url, size_t *ret_bad)
{
	size_t end = host_end(s);
	uint64_t port = 0;

	*ret_bad = 0;
	if (end > s.len)
		return why_host;
	url->host = (struct slice){s.ptr, end};
	url->is_v6 = end > 0 && s.ptr[0] == '[';
	if (url->is_v6)
		url->host = (struct slice){s.ptr + 1, end - 2};
	if (url->is_v6 ? !is_v6(url->host) : !is_name(url->host))
		return why_host;
	*ret_bad = end < s.len ? end + 1 : end;
	if (end >= s.len || s.ptr[end] != ':')
		return why_port;
	struct slice digits = slice_after(s, end + 1);

	if (digits.len == 0 || digits.len > 5 || decimal_parse(digits, 65535, &port) != KOVA_OK ||
	    port == 0)
		return why_port;
	url->port = (uint16_t)port;
	return NULL;
}

/* ---- The whole ---- */

static const char *authority_parse(struct slice s, struct pool_url *url, size_t *ret_bad)
{
	size_t at = s.len;

	while (at > 0 && s.ptr[at - 1] != '@')
		at--;
	if (at > 0 && !credentials_parse((struct slice){s.ptr, at - 1}, url, ret_bad))
		return why_credentials;
	struct slice address = slice_after(s, at);
	const char *why = address_parse(address, url, ret_bad);

	*ret_bad += at;
	return why;
}

static bool scheme_find(struct slice word, enum pool_scheme *ret_scheme)
{
	for (unsigned i = 0; i < POOL_SCHEMES; i++)
		if (same_word(word, schemes[i])) {
			*ret_scheme = (enum pool_scheme)i;
			return true;
		}
	return false;
}

/* The text behind "://", where that is; false: it is not there. */
static bool split_scheme(struct slice text, struct slice *ret_word, struct slice *ret_rest)
{
	size_t colon = slice_index(text, ':');

	if (text.len - colon < 3 || text.ptr[colon + 1] != '/' || text.ptr[colon + 2] != '/')
		return false;
	*ret_word = (struct slice){text.ptr, colon};
	*ret_rest = (struct slice){text.ptr + colon + 3, text.len - colon - 3};
	return true;
}

static const char *parse(struct slice text, struct pool_url *url, size_t *ret_at)
{
	struct slice word, rest;

	*ret_at = 0;
	if (text.len > POOL_URL_MAX)
		return "it must have at most 2048 bytes";
	if (!split_scheme(text, &word, &rest))
		return why_form;
	if (!scheme_find(word, &url->scheme))
		return why_scheme;
	if (rest.len > 0 && url->scheme != POOL_DIRECT && rest.ptr[rest.len - 1] == '/')
		rest.len--;
	url->text = (struct slice){text.ptr, word.len + 3 + rest.len};
	if (url->scheme == POOL_DIRECT) {
		*ret_at = word.len + 3;
		return rest.len == 0 ? NULL : "`direct://` has nothing behind it";
	}
	const char *why = authority_parse(rest, url, ret_at);

	*ret_at += word.len + 3;
	return why;
}

kova_status pool_url_parse(struct slice text, struct pool_url *ret_url, const char **ret_why,
			   size_t *ret_at)
{
	struct pool_url url = {0};
	const char *why = parse(text, &url, ret_at);

	if (why != NULL) {
		*ret_why = why;
		return KOVA_EPROTO;
	}
	*ret_url = url;
	return KOVA_OK;
}

/* ---- What is written ---- */

void pool_url_encode(struct slice text, struct buf *out)
{
	for (size_t i = 0; i < text.len; i++) {
		if (is_unreserved(text.ptr[i]))
			buf_add(out, text.ptr + i, 1);
		else
			buf_printf(out, "%%%02X", (unsigned char)text.ptr[i]);
	}
}

static void write_replaced(struct slice text, struct slice session, struct buf *out)
{
	for (size_t i = 0; i < text.len;) {
		size_t n = session_at(text, i);

		if (n > 0)
			pool_url_encode(session, out);
		else
			buf_add(out, text.ptr + i, n = 1);
		i += n;
	}
}

void pool_url_write(const struct pool_url *url, struct slice session, struct buf *out)
{
	if (url->has_session)
		write_replaced(url->text, session, out);
	else
		buf_add_slice(out, url->text);
}

void pool_url_host(const struct pool_url *url, struct buf *out)
{
	if (url->scheme == POOL_DIRECT) {
		buf_add_text(out, "direct");
		return;
	}
	buf_add_text(out, url->is_v6 ? "[" : "");
	buf_add_slice(out, url->host);
	buf_printf(out, "%s:%u", url->is_v6 ? "]" : "", url->port);
}

void pool_url_decode(struct slice s, struct slice session, struct buf *out)
{
	for (size_t i = 0, n; i < s.len; i += n) {
		char c = s.ptr[i];

		n = session_at(s, i);
		if (n > 0) {
			buf_add_slice(out, session);
			continue;
		}
		n = c == '%' && i + 2 < s.len ? 3 : 1;
		if (n == 3)
			c = (char)(hex_value(s.ptr[i + 1]) * 16 + hex_value(s.ptr[i + 2]));
		buf_add(out, &c, 1);
	}
}

static void add_decoded(struct slice s, bool given, struct buf *out)
{
	struct buf text = {0};

	pool_url_decode(s, session_mark, &text);
	buf_printf(out, "%d:%zu:", given, text.len);
	buf_add_slice(out, buf_slice(&text));
	out->failed |= buf_failed(&text);
	buf_release(&text);
}

void pool_url_identity(const struct pool_url *url, struct buf *out)
{
	buf_printf(out, "%s:%u:", schemes[url->scheme], url->port);
	for (size_t i = 0; i < url->host.len; i++)
		buf_add(out, &(char){small(url->host.ptr[i])}, 1);
	buf_add_text(out, ":");
	add_decoded(url->user, url->has_user, out);
	add_decoded(url->password, url->has_password, out);
}

/* ---- Lines of a file ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Without a comment, and blanks around it. */
static struct slice strip(struct slice line, size_t *ret_before)
{
	size_t before = 0, n = line.len;

	for (size_t i = 0; i < n; i++)
		if (line.ptr[i] == '#' && (i == 0 || is_blank(line.ptr[i - 1])))
			n = i;
	while (before < n && is_blank(line.ptr[before]))
		before++;
	while (n > before && is_blank(line.ptr[n - 1]))
		n--;
	*ret_before = before;
	return (struct slice){line.ptr + before, n - before};
}

/* host:port:user:password, with credentials as they are. */
static const char *parts_parse(struct slice s, struct buf *out, size_t *ret_at)
{
	size_t end = host_end(s), port;
	struct pool_url url = {0};
	const char *why;

	*ret_at = end > s.len ? 0 : end;
	if (end >= s.len)
		return end > s.len ? why_host : why_port;
	port = end + 1 + slice_index(slice_after(s, end + 1), ':');
	why = address_parse((struct slice){s.ptr, port < s.len ? port : s.len}, &url, ret_at);
	if (why != NULL)
		return why;
	buf_add_text(out, "http://");
	if (port < s.len) {
		struct slice rest = slice_after(s, port + 1);
		size_t colon = slice_index(rest, ':');

		*ret_at = port + 1;
		if (colon == rest.len || colon == 0)
			return "after host:port either nothing may follow, or :user:password";
		pool_url_encode((struct slice){rest.ptr, colon}, out);
		buf_add_text(out, ":");
		pool_url_encode(slice_after(rest, colon + 1), out);
		buf_add_text(out, "@");
	}
	buf_add(out, s.ptr, port < s.len ? port : s.len);
	return NULL;
}

/* user:password@host:port; the host is behind the last '@'. */
static const char *at_parse(struct slice s, size_t at, struct buf *out, size_t *ret_at)
{
	struct slice credentials = {s.ptr, at};
	struct pool_url url = {0}, read = {0};
	size_t bad;
	const char *why = address_parse(slice_after(s, at + 1), &url, ret_at);

	*ret_at += at + 1;
	if (why != NULL)
		return why;
	buf_add_text(out, "http://");
	if (credentials_parse(credentials, &read, &bad)) {
		buf_add_slice(out, credentials);
	} else {
		size_t colon = slice_index(credentials, ':');

		pool_url_encode((struct slice){s.ptr, colon}, out);
		buf_add_text(out, colon < at ? ":" : "");
		pool_url_encode(slice_after(credentials, colon + 1), out);
	}
	buf_add_slice(out, slice_after(s, at));
	return NULL;
}

static struct buf *restart(struct buf *b, size_t len)
{
	b->len = len;
	return b;
}

kova_status pool_line_parse(struct slice line, struct buf *ret_url, const char **ret_why,
			    size_t *ret_at)
{
	size_t before, was = ret_url->len;
	struct slice s = strip(line, &before), word, rest;
	struct pool_url url;
	const char *why;
	size_t at = s.len, parts_at;

	if (s.len == 0)
		return KOVA_OK;
	while (at > 0 && s.ptr[at - 1] != '@')
		at--;
	if (split_scheme(s, &word, &rest)) {
		why = parse(s, &(struct pool_url){0}, ret_at);
		buf_add_slice(ret_url, s);
	} else {
		why = at > 0 ? at_parse(s, at - 1, ret_url, ret_at) : why_host;
		/* Or the '@' is in a password. */
		if (at == 0 ||
		    (why != NULL && parts_parse(s, restart(ret_url, was), &parts_at) == NULL))
			why = parts_parse(s, restart(ret_url, was), ret_at);
	}
	struct slice made = slice_after(buf_slice(ret_url), was);

	if (why == NULL && !buf_failed(ret_url) &&
	    pool_url_parse(made, &url, &why, &(size_t){0}) == KOVA_OK)
		return KOVA_OK;
	if (why == NULL)
		return KOVA_ENOMEM;
	ret_url->len = was;
	*ret_why = why;
	*ret_at += before;
	return KOVA_EPROTO;
}
