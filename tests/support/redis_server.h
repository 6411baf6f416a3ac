/* A private redis-server for a test: on a unix socket in a directory of its own, nothing kept on disk. */
#pragma once

#include <sys/types.h>

struct redis_server {
	pid_t pid;
	char directory[64];
	char socket_path[96];
};

/* Starts one and waits until it answers; the test fails (abort) if it can't. `arguments`: NULL-terminated further
 * arguments of redis-server, or NULL. It dies with the test. */
void redis_server_start(struct redis_server *s, const char *const arguments[]);
void redis_server_stop(struct redis_server *s);
