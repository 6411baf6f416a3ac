/*
 * Who may ask for what over HTTP: `Authorization: Bearer TOKEN` (RFC 6750), or without that the certificate of the connection, and
 * the scope that a path needs.
 */
#pragma once

#include "io/auth.h"
#include "io/http_request.h"

enum http_access {
	ACCESS_OPEN, /* everybody */
	ACCESS_ANY_TOKEN,
	ACCESS_CHECK, /* a token with this scope */
	ACCESS_ADMIN,
};

/* Why not. All is static text. */
struct http_refusal {
	unsigned status;    /* 401, 403 */
	const char *fields; /* whole lines with CR LF; may be empty */
	const char *detail; /* of problem details */
};

/*
 * Whether who sent `r` may have what needs `access`. `certificate`: what that of the connection stands for; NULL: for nothing. *ret_token
 * (kept where there are none, or none is needed): the token that was shown, of `auth`, or `certificate`.
 */
bool http_access_allows(const struct auth *auth, enum http_access access,
			const struct http_request *r, const struct auth_token *certificate,
			const struct auth_token **ret_token, struct http_refusal *ret_refusal);
