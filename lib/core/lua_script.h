/* A Redis script as built in (lua/, cmake/embed.cmake): its bytes and the SHA-1 that EVALSHA takes. */
#pragma once

#include <stddef.h>

struct lua_script {
	const char *name;
	const char *body; /* `len` bytes, exactly those that were hashed */
	size_t len;
	const char *sha1; /* 40 hexadecimal digits */
};

extern const struct lua_script lua_decide;    /* core/script.h builds its calls */
extern const struct lua_script lua_heartbeat; /* the agents that live */
extern const struct lua_script lua_regions;   /* versions of the regions */
extern const struct lua_script lua_probe;     /* whether writes work again */
extern const struct lua_script lua_pool;      /* core/pool_script.h builds its calls */
