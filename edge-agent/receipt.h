/*
 * A receipt: what the caller keeps of a take so that it can be refunded. It names the pairs, so that any agent
 * can route it, and a random part; what was taken is in Redis under that part, so a receipt made up gives
 * nothing. Text: base64url of version (1 byte), random part, number of pairs, then each pair as policy
 * length (1), policy, key length (2, big endian), key, cost (4, big endian).
 */
#pragma once

#include "core/buf.h"
#include "core/status.h"
#include "request.h"

enum { RECEIPT_RANDOM_BYTES = 16 };

struct receipt {
	unsigned char random[RECEIPT_RANDOM_BYTES];
	uint8_t n_pairs;
	struct request_pair pairs[REQUEST_PAIRS_MAX]; /* slices into the parsed bytes */
};

void receipt_write(struct buf *out, const struct receipt *receipt);

/* Decodes `text` into `ret_bytes` (owned by the caller, cleared first), which the pairs of *ret_receipt
 * point into. KOVA_EPROTO: not a receipt. */
KOVA_MUST_CHECK kova_status receipt_parse(struct slice text, struct buf *ret_bytes,
					  struct receipt *ret_receipt);
