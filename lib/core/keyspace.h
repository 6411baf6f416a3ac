/*
 * Names of keys in Redis. Injective: no two different (policy, key path) pairs share a name; every
 * key of one root shares a hash tag, so a hierarchy sits in one Cluster slot (lua/README.md).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/limit.h"
#include "core/request_bounds.h"

enum { KEYSPACE_NAME_MAX = 3 * REQUEST_KEY_MAX + 512, KEYSPACE_PROBE_MAX = 32 };

/* The part of `key` up to its first '/', all of it if there is none. */
struct slice keyspace_root(struct slice key);

/* The path of `key` through level `level` of `n_levels` (the last level takes the rest); sets
 * *ret_path and returns true, or returns false if the key has fewer parts. */
bool keyspace_path(struct slice key, unsigned level, unsigned n_levels, struct slice *ret_path);

/* Each writes at most KEYSPACE_NAME_MAX bytes to `ret_name` and returns the length. Keys and paths
 * are at most REQUEST_KEY_MAX bytes, policies are valid names, nonces have at most 64 bytes. */
size_t keyspace_check(enum algorithm algorithm, struct slice policy, unsigned level,
		      struct slice path, char *ret_name);
size_t keyspace_throttle(struct slice key, char *ret_name);
size_t keyspace_receipt(struct slice root, struct slice nonce, char *ret_name);

/*
 * `k:u{T}<policy>`: the ledger of the policy and root that `check`, a name by keyspace_check(), is of; else (no such name)
 * it has all of it after the tag.
 */
size_t keyspace_ledger(struct slice check, char *ret_name);

/* `k:q{T}<policy>`: the region's share of the quota of the policy and root that `check` is of; as keyspace_ledger(). */
size_t keyspace_quota(struct slice check, char *ret_name);

/*
 * Whether `name` is that of a ledger. *ret_policy: a valid name, in `name`; `ret_root` has room for REQUEST_KEY_MAX bytes.
 */
bool keyspace_ledger_parse(struct slice name, char *ret_root, size_t *ret_root_len,
			   struct slice *ret_policy);

/* `k:i{T}<len>:<id>`; the caller appends the pairs. `id`: 1..REQUEST_ID_MAX bytes. */
size_t keyspace_id(struct slice root, struct slice id, char *ret_name);

/* `k:probe{n}`, NUL-terminated, a key of `slot` (0..16383) that no other function here names. */
void keyspace_probe(uint16_t slot, char ret_name[static KEYSPACE_PROBE_MAX]);

/* CRC16 of the hash tag modulo 16384 (Redis Cluster specification). */
uint16_t keyspace_slot(struct slice name);
