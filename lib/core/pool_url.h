/*
 * Where an endpoint of a proxy pool is: `scheme://[user[:password]@]host:port` (RFC 3986), or `direct://`. Tools disagree on
 * the default port and on what may stand unencoded in the credentials, so neither is guessed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"

enum pool_scheme {
	POOL_HTTP,
	POOL_HTTPS,
	POOL_SOCKS4,
	POOL_SOCKS4A,
	POOL_SOCKS5,
	POOL_SOCKS5H,
	POOL_DIRECT,
	POOL_SCHEMES
};

/* Slices of the text: credentials as they are encoded there; a host without its brackets. */
struct pool_url {
	enum pool_scheme scheme;
	bool has_user, has_password;
	bool has_session; /* `{session}` is in the credentials */
	bool is_v6;
	struct slice text; /* all of it, without a '/' at its end */
	struct slice user, password, host;
	uint16_t port; /* 1..65535; 0 of POOL_DIRECT */
};

enum { POOL_URL_MAX = 2048 };

/*
 * KOVA_EPROTO: *ret_why (static, never part of the text, which may hold a password) says what is allowed, *ret_at is the byte that
 * is wrong. A host is an IPv4 or bracketed IPv6 address or a name of letters, digits, `.`, `_` and `-`.
 */
KOVA_MUST_CHECK kova_status pool_url_parse(struct slice text, struct pool_url *ret_url,
					   const char **ret_why, size_t *ret_at);

/*
 * One line of an endpoints file as a URL, appended to `ret_url`: a URL; `host:port`, `host:port:user:password` (credentials as they
 * are) or `user:password@host:port` (encoded like a URL's if they can be read so, else as they are), all three then http.
 * Nothing is appended for a line that is empty or a comment (`#` at its start or after a blank). KOVA_EPROTO as above.
 */
KOVA_MUST_CHECK kova_status pool_line_parse(struct slice line, struct buf *ret_url,
					    const char **ret_why, size_t *ret_at);

/*
 * Appends what tells the endpoint from others: scheme and host in small letters, port, credentials decoded; each with its length.
 */
void pool_url_identity(const struct pool_url *url, struct buf *out);

/* Appends the text with `{session}` replaced by `session`, percent-encoded. */
void pool_url_write(const struct pool_url *url, struct slice session, struct buf *out);

/* Appends `host:port`, an IPv6 host in brackets; `direct` of POOL_DIRECT. */
void pool_url_host(const struct pool_url *url, struct buf *out);

/* Appends a user name or password of it decoded, with `{session}` replaced by `session`. */
void pool_url_decode(struct slice encoded, struct slice session, struct buf *out);

/* Appends `text` with all that is not unreserved percent-encoded. */
void pool_url_encode(struct slice text, struct buf *out);
