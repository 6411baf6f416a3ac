/*
 * A batch of nothing but takes from token buckets, the usual one: how it is written, key by key, and what the script's
 * short reply to it says of each operation. The script answers with each key's debt as it found it; what became of the
 * operations on it follows from that by the same arithmetic (bucket_decide()). Layout: lua/README.md. Inside of script*.c only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/script.h"

struct script_plain {
	struct slice limits; /* the program's records of limits; borrowed from the batch */
	uint32_t n_ops, n_keys, n_mixed;
	struct script_plain_op {
		uint16_t key, limit; /* key: from 0, limit: from 1 */
		uint32_t cost;
	} op[SCRIPT_OPS_MAX]; /* in the order in which they came */
	struct script_plain_key {
		uint16_t limit, n_ops;
		uint32_t cost; /* 0: they differ */
	} key[SCRIPT_OPS_MAX];
};

void script_plain_clear(struct script_plain *p);

/* `key` is at most the number of keys there were. False: the key is there under another limit; nothing changed. */
bool script_plain_add(struct script_plain *p, uint32_t key, unsigned limit, uint64_t cost);

/* Bytes that the operations take in the program at most; writes them, and returns their end. */
size_t script_plain_most(const struct script_plain *p);
char *script_plain_write(const struct script_plain *p, char *to);
