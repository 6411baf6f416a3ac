/*
 * Who may do what: the tokens of the file `auth.tokens_file` (docs/configuration.md), one a line, `[NAME] TOKEN [check|admin]…`,
 * and the clients' certificates that stand for one. Secrets stay in here: no text that leaves contains a token.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/request_bounds.h"
#include "core/status.h"

enum {
	AUTH_TOKEN_MAX = REQUEST_TOKEN_MAX,
	AUTH_NAME_MAX = 64,
	AUTH_CERTIFICATE_MAX = 255,
	/* With the scope admin: the record of changes holds all of it. */
	AUTH_ADMIN_CERTIFICATE_MAX = 115
}; /* bytes */

enum auth_scope {
	AUTH_CHECK = 1, /* limiter commands */
	AUTH_ADMIN = 2, /* changes of policies and overrides */
};

/* 0: there is none of that name. */
unsigned auth_scope_named(struct slice word);

struct auth_token {
	/* For audit: of a token, "line-N" when the file gives none; of a certificate, as the configuration spells it. */
	char name[AUTH_CERTIFICATE_MAX + 1];
	unsigned scopes; /* of enum auth_scope; 0: revoked by a reload */
	bool is_certificate;
};

/* Certificates with this name have these scopes. */
struct auth_certificate {
	char *name; /* 1 to AUTH_CERTIFICATE_MAX bytes */
	unsigned scopes;
};

/* All is borrowed for the call. All zeros: all is open. */
struct auth_terms {
	const char *tokens_file; /* NULL: there are no tokens */
	const struct auth_certificate *certificates;
	size_t n_certificates;
};

struct auth;

/* NULL with `FILE:LINE: what is wrong` in ret_error; a file without any token is an error too. */
struct auth *auth_new(const struct auth_terms *terms, struct buf *ret_error);
void auth_free(struct auth *a); /* NULL is nothing */

/* All or nothing. A token that is in the new file as well keeps its struct auth_token; one that is
 * not loses its scopes. So do certificates. */
KOVA_MUST_CHECK kova_status auth_reload(struct auth *a, const struct auth_terms *terms,
					struct buf *ret_error);

/*
 * The tokens of `from`, another loop's, which does not change meanwhile, hold in `a` as well, and no others, as after a
 * reload. KOVA_ENOMEM: those of them that are new are not known to `a`.
 */
KOVA_MUST_CHECK kova_status auth_follow(struct auth *a, const struct auth *from);

/* Whether a caller must show a token, or a certificate that stands for one. */
bool auth_required(const struct auth *a);
/*
 * Whether who was let in with `token` (of `a`; NULL: none) may go on after what was reloaded meanwhile: nothing is required, or it is
 * not revoked and has all of `scopes` (of enum auth_scope; 0: any will do).
 */
bool auth_holds(const struct auth *a, const struct auth_token *token, unsigned scopes);

/*
 * The token spelled `token`, or NULL. Takes the same time for every token of that length, right or
 * wrong. Valid as long as `a`: keep the pointer and test `scopes` at each use.
 */
const struct auth_token *auth_find(const struct auth *a, struct slice token);

/*
 * What a verified certificate with these names (tls_session_names()) stands for, or NULL; as auth_find(). The first of its names that
 * is listed counts. A listed name with a `:` in it is a URI; others are DNS names, whose case does not matter, or the subject's
 * CN, which counts only where there is no alternative name of these kinds (as RFC 6125 §6.4.4 has it). Of a certificate's URIs and DNS
 * names the first 16 are looked at (TLS_NAMES_MAX).
 */
const struct auth_token *auth_find_certificate(const struct auth *a, struct slice names);
