/*
 * What a link asks a server that it doubts, until the answer is a good one: PING; or, of a server that answers PING but
 * refuses writes or scripts (OOM, NOREPLICAS, NOPERM), a script that writes (lua/probe.lua).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/keyspace.h"
#include "core/status.h"

struct redisReply;

/* All zeros: PING. */
struct redis_probe {
	bool writes;    /* the script ... */
	uint16_t slot;  /* ... with a key of this slot; */
	bool with_body; /* the server does not know it yet */
};

enum { REDIS_PROBE_WORDS = 6 };

struct redis_probe_command {
	const char
		*words[REDIS_PROBE_WORDS + 1]; /* end with NULL; point into this or are constants */
	char key[KEYSPACE_PROBE_MAX];
	char text[40];
};

/* `number` comes back in the reply: no two probes of a connection share it. */
void redis_probe_write(const struct redis_probe *p, uint64_t number,
		       struct redis_probe_command *ret_command);

/* The reply, if it is one to a probe, is to another than to that of `number` (0: to none). */
bool redis_probe_is_astray(const struct redisReply *reply, uint64_t number);

/* A user who may not PING is logged in all the same. */
bool redis_is_pong(kova_status status, const struct redisReply *reply);

enum redis_probe_verdict {
	REDIS_PROBE_ILL,
	REDIS_PROBE_WELL,
	REDIS_PROBE_ASK_AGAIN, /* now, with the script's body */
};

/* `in_cluster`: a server that sends us elsewhere is well, another one has the slot now. */
enum redis_probe_verdict redis_probe_judge(struct redis_probe *p, kova_status status,
					   const struct redisReply *reply, bool in_cluster);
