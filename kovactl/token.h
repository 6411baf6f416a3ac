/*
 * The agent's token, from a file or the environment: never from the command line, which others
 * can see, and never shown.
 */
#pragma once

#include "agent_error.h"
#include "core/status.h"

/*
 * The token in `file`, or if that is NULL in $KOVA_TOKEN; *ret_token is the caller's
 * (token_free), NULL when there is neither. KOVA_EIO: the file can't be read. KOVA_EPROTO: it
 * does not hold one word; KOVA_ETOOBIG: one of more than REQUEST_TOKEN_MAX bytes.
 */
KOVA_MUST_CHECK kova_status token_read(const char *file, char **ret_token,
				       struct agent_error *ret_error);
void token_free(char *token); /* wipes it; NULL is nothing */
