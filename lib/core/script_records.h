/*
 * Records of the decide script's program, as script.c puts them where they belong. Layout: lua/README.md. Each writes so many
 * bytes; those that return a place return the record's end. Inside of script*.c only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/script.h"

enum {
	SCRIPT_ADAPTIVE_BYTES = 4 + 1 + 3 * 4 + 1 + 2 + 3 * 8,
	SCRIPT_TURN_BYTES = 8 + 8 + 3 * 8 + 4 + 4 + 2 * 8 + 1,
	SCRIPT_QUOTA_BYTES = 4 + 1 + 3 * 4 + 2 * 8,
	SCRIPT_GRANT_BYTES = 4 * 8 + 3 * 4 + 8 + 8,
};

/* Four edges: of the window around `now_us`, of the one before and of the one after. Zeros, which hold no
 * instant, when the edges don't reach; where they end, windows of no length. */
void script_edges_around(const struct calendar_edges *e, uint64_t now_us, uint64_t ret_edge[4]);

/* A limit, SCRIPT_LIMIT_BYTES; of a token bucket that is part of a quota. */
void script_put_limit(char *p, const struct limit *l, uint64_t now_us);
void script_put_shared_bucket(char *p, const struct limit *l);

/* `ref`: of the key with the share. */
char *script_put_quota(char *p, uint32_t ref, const struct script_quota *q);

/* Whether it is within what the script counts with. */
bool script_is_grant(const struct share_grant *g);
char *script_put_grant(char *p, const struct share_grant *g);

char *script_put_turn(char *p, const struct turn_claim *turn);

/* `ref`: of the key with the limit that is in force. */
char *script_put_adaptive(char *p, uint32_t ref, const struct script_check *c);
