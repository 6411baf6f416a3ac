/*
 * Asks a Redis whether what was written on this connection is as safe as a policy's `durability` wants it: by WAIT
 * for replicas; for the append-only file by WAITAOF (Redis 7.2), or, before there was one, by the settings with which
 * Redis answers a write only after it is on disk (`appendonly yes`, `appendfsync always`).
 */
#pragma once

#include <stdint.h>

#include "control/catalogue.h"
#include "io/redis_store.h"

struct confirmer;

/*
 * KOVA_OK: safe. KOVA_ECONN, KOVA_ECLOSED: nobody knows. KOVA_ETIMEDOUT: not safe in time, or no way to find out; `why`
 * (borrowed, empty when KOVA_OK) says so.
 */
typedef void confirm_done(kova_status status, const char *why, void *data);

/*
 * `store` is borrowed and outlives every confirm(). `timeout_ms`: how long Redis may take. `own_server`: the Redis is the
 * agent's child, whose settings are made to fit. NULL: out of memory.
 */
struct confirmer *confirmer_new(struct redis_store *store, struct durability wanted,
				uint64_t timeout_ms, bool own_server);
/* When the store is closed. */
void confirmer_free(struct confirmer *c);

/* A connection came up: another server may be at its end, or the same with other settings. */
void confirmer_connected(struct confirmer *c);

/*
 * Differs from an earlier value when since then a call of some slot may have gone to another connection than the calls
 * before it. A confirmation is of worth only to an operation that was submitted under the same stamp.
 */
uint64_t confirmer_stamp(const struct confirmer *c);

/*
 * Confirms what the connection of `slot` has written so far. `touch`: what is to be confirmed was perhaps written
 * by another connection; a small write that comes after it stands for it. `on_done` comes once; from within only when memory
 * is out.
 */
void confirm(struct confirmer *c, uint16_t slot, bool touch, confirm_done *on_done, void *data);
