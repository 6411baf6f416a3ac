/*
 * The keys of gossip: HMAC-SHA-256 (RFC 2104) by OpenSSL. The first key signs, every one verifies, so that keys are changed without
 * a moment in which nodes don't hear each other (docs/gossip.md). Secrets are wiped when they are let go.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/status.h"

enum {
	GOSSIP_TAG_BYTES = 32,
	GOSSIP_KEYS_MAX = 8,
	GOSSIP_SECRET_MIN = 16,
	GOSSIP_SECRET_MAX = 256
};

struct gossip_keys;

/*
 * Reads the secrets of `path`: one a line, `#` begins a comment. `path` NULL: one key that everybody knows. On failure
 * *ret_errors says what is wrong and allowed. KOVA_ECONFIG, KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status gossip_keys_load(const char *path, struct gossip_keys **ret_keys,
					     struct buf *ret_errors);
void gossip_keys_free(struct gossip_keys *keys); /* NULL is nothing */

/* The tag of `parts` one after the other by the first key. False: OpenSSL failed. */
KOVA_MUST_CHECK bool gossip_sign(const struct gossip_keys *keys, const struct slice *parts,
				 unsigned n, uint8_t ret_tag[GOSSIP_TAG_BYTES]);
/* Whether `tag` is that of `parts` by any key; takes as long for each wrong tag. */
bool gossip_verify(const struct gossip_keys *keys, const struct slice *parts, unsigned n,
		   const uint8_t tag[GOSSIP_TAG_BYTES]);
