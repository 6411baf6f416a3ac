/*
 * A Redis that misbehaves as told, on the loop of the test: a script is asked about each command
 * and answers with raw bytes, later, in pieces, with a reset, or not at all.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "core/buf.h"
#include "core/bytes.h"

struct fake_redis;
struct fake_conn;

enum { FAKE_WORDS_MAX = 16, FAKE_CONNS_MAX = 64 };

struct fake_command {
	struct slice word[FAKE_WORDS_MAX]; /* of the buffer: only during the call */
	size_t n;
};

typedef void fake_script(struct fake_conn *conn, const struct fake_command *command, void *data);

struct fake_conn {
	struct fake_redis *server;
	uv_tcp_t tcp;
	struct buf in;
	struct buf owed;        /* see fake_owe() */
	uint64_t busy_until_ms; /* see fake_send_later() */
	unsigned n_commands;
	bool open;
};

struct fake_redis {
	uv_tcp_t listener;
	uint16_t port;
	fake_script *script; /* NULL: fake_login() for all */
	void *data;
	bool reject; /* accept and close at once */
	struct fake_conn *conns[FAKE_CONNS_MAX];
	unsigned n_conns; /* so far */
	unsigned n_commands;
	uv_loop_t *loop;
};

/* Listens on a free loopback port. */
void fake_redis_start(struct fake_redis *f, uv_loop_t *loop, fake_script *script, void *data);
/* Closes the listener: connects are refused; open connections stay. */
void fake_redis_refuse(struct fake_redis *f);
/* Listens again, on the same port. */
void fake_redis_listen(struct fake_redis *f);
void fake_redis_reset_all(struct fake_redis *f);
/* Closes everything; the loop has to run for it. */
void fake_redis_stop(struct fake_redis *f);

bool fake_is(const struct fake_command *command, const char *name); /* its first word, any case */
void fake_send(struct fake_conn *conn, const char *text);
/* And what is sent after it comes after it: a server answers in order. */
void fake_send_later(struct fake_conn *conn, const char *text, uint64_t delay_ms);
/* Says it only after fake_pay(): a server that was stopped and goes on. */
void fake_owe(struct fake_conn *conn, const char *text);
void fake_pay(struct fake_redis *f);
void fake_reset(struct fake_conn *conn);

/*
 * Answers AUTH, SELECT, ROLE, PING, ASKING as a healthy master does; false: it is something else.
 */
bool fake_login(struct fake_conn *conn, const struct fake_command *command);
