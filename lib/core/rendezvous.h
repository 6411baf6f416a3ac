/*
 * Weighted rendezvous hashing: which region is a key's home. Every program that knows the regions and their weights finds
 * the same one, in any language: 64-bit whole numbers only, spelled out in docs/home.md, with vectors in
 * tests/vectors/home.json. Adding or removing a region, or changing its weight, moves only that region's share of keys.
 *
 * Thaler & Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998); weights by the logarithmic method of
 * Schindelhauer & Schomaker, "Weighted Distributed Hash Tables" (2005).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

enum { RENDEZVOUS_WEIGHT_MAX = 1000 };

/* One of those that are chosen from. */
struct rendezvous_site {
	uint64_t hash;   /* rendezvous_hash() of its name */
	uint32_t weight; /* 0..RENDEZVOUS_WEIGHT_MAX; 0: never chosen */
};

/* Of a key's root, or of a site's name: FNV-1a (RFC 9923), then the finalizer of MurmurHash3 (Appleby). */
uint64_t rendezvous_hash(struct slice bytes);

/* The binary logarithm of 2^64 ÷ (x | 1), in units of 2^-32: 1..2^38. The last step of the score, for tests. */
uint64_t rendezvous_distance(uint64_t x);

/*
 * The index of the chosen site; the first of equals, so that `sites` must be in the bytewise order of their names. At least
 * one has a weight above 0. `key`: rendezvous_hash() of the key's root.
 */
size_t rendezvous_choose(const struct rendezvous_site *sites, size_t n, uint64_t key);
