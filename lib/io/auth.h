/*
 * Who may do what: the tokens of the file `auth.tokens_file` (docs/configuration.md), one a line,
 * `[NAME] TOKEN [check|admin]…`. Secrets stay in here: no text that leaves contains a token.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/request_bounds.h"
#include "core/status.h"

enum { AUTH_TOKEN_MAX = REQUEST_TOKEN_MAX, AUTH_NAME_MAX = 64 }; /* bytes */

enum auth_scope {
	AUTH_CHECK = 1, /* limiter commands */
	AUTH_ADMIN = 2, /* changes of policies and overrides */
};

struct auth_token {
	char name[AUTH_NAME_MAX + 1]; /* for audit; "line-N" when the file gives none */
	unsigned scopes;              /* of enum auth_scope; 0: revoked by a reload */
};

struct auth;

/* `tokens_file` NULL: there are no tokens and all is open. NULL with `FILE:LINE: what is wrong` in
 * ret_error; a file without any token is an error too. */
struct auth *auth_new(const char *tokens_file, struct buf *ret_error);
void auth_free(struct auth *a); /* NULL is nothing */

/* All or nothing. A token that is in the new file as well keeps its struct auth_token; one that is
 * not loses its scopes. */
KOVA_MUST_CHECK kova_status auth_reload(struct auth *a, const char *tokens_file,
					struct buf *ret_error);

/*
 * The tokens of `from`, another loop's, which does not change meanwhile, hold in `a` as well, and no others, as after a
 * reload. KOVA_ENOMEM: those of them that are new are not known to `a`.
 */
KOVA_MUST_CHECK kova_status auth_follow(struct auth *a, const struct auth *from);

/* Whether a caller must show a token. */
bool auth_required(const struct auth *a);

/*
 * The token spelled `token`, or NULL. Takes the same time for every token of that length, right or
 * wrong. Valid as long as `a`: keep the pointer and test `scopes` at each use.
 */
const struct auth_token *auth_find(const struct auth *a, struct slice token);
