/* The smallest client of a Redis for tests: sends a command on a unix socket and waits for the reply. */
#pragma once

#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"

struct redis_client {
	int fd;
	struct buf in;
};

struct redis_answer {
	char type; /* '+' '-' ':' '$' '*', '_' for nil */
	int64_t integer;
	struct slice text;            /* of '+' '-' '$'; owned */
	struct redis_answer *element; /* of '*'; owned */
	size_t n;
};

void redis_client_connect(struct redis_client *c, const char *socket_path);
void redis_client_close(struct redis_client *c);

/* `command`: bytes of one RESP command. Aborts when the connection is lost. */
struct redis_answer redis_client_send(struct redis_client *c, struct slice command);

/* `format`: words separated by single spaces, after printf. */
struct redis_answer redis_client_command(struct redis_client *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, for its integer reply. */
int64_t redis_client_integer(struct redis_client *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void redis_answer_release(struct redis_answer *a);
