/* Hashes of bytes for tables and checksums. Not for secrets: a caller that knows the seed can collide them. */
#pragma once

#include <stdint.h>

#include "core/bytes.h"

/* All of `s` at once, eight bytes a step (multiply and fold, as in wyhash by Wang Yi). */
uint64_t hash_bytes(struct slice s, uint64_t seed);

/*
 * FNV-1a, a byte a step (RFC 9923), so that the hashes of every prefix of a key come from one pass over it.
 * Start with HASH_FNV_INIT; hash_mix() the state before its low bits pick a slot.
 */
#define HASH_FNV_INIT UINT64_C(0xcbf29ce484222325)
static inline uint64_t hash_fnv_add(uint64_t state, unsigned char byte)
{
	return (state ^ byte) * UINT64_C(0x100000001b3);
}

/* Spreads every bit of `h` over the whole word. */
uint64_t hash_mix(uint64_t h);
