/* What the error replies of a Redis server mean for the one who sent the command. */
#pragma once

#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum redis_error {
	REDIS_ERROR_OTHER,
	REDIS_ERROR_READONLY, /* a replica: nothing was executed */
	/* LOADING, MASTERDOWN, BUSY, MISCONF (its disk is full): nothing was executed, try later */
	REDIS_ERROR_UNREADY,
	/* OOM, NOREPLICAS: no write was executed, and none will be for now, though PING is answered */
	REDIS_ERROR_UNWRITABLE,
	/* NOPERM, or a command that the server does not know: we may not do this; others, maybe */
	REDIS_ERROR_FORBIDDEN,
	REDIS_ERROR_LOGGED_OUT,  /* NOAUTH: nothing was executed, log in anew */
	REDIS_ERROR_MOVED,       /* the slot is served elsewhere for good: nothing was executed */
	REDIS_ERROR_ASK,         /* … for this once */
	REDIS_ERROR_TRYAGAIN,    /* keys are on the way to another node: nothing was executed */
	REDIS_ERROR_CLUSTERDOWN, /* nothing was executed */
};

/* The kind of the error whose text is `text`, without the leading '-'. */
enum redis_error redis_error_kind(struct slice text);

/* Where MOVED and ASK send the command. */
struct redis_redirect {
	uint16_t slot;     /* 0..16383 */
	struct slice host; /* of the text; empty: the host that answered */
	uint16_t port;     /* 1..65535 */
};

/*
 * Parses the text of a MOVED or ASK error: "MOVED 3999 127.0.0.1:6381". KOVA_EPROTO: it is neither.
 */
kova_status redis_redirect_parse(struct slice text,
				 struct redis_redirect *ret_redirect) KOVA_MUST_CHECK;

/*
 * Splits "host:port" at the last colon ("[v6]:port" loses its brackets; the host may be empty).
 * KOVA_EPROTO
 */
kova_status redis_address_parse(struct slice text, struct slice *ret_host,
				uint16_t *ret_port) KOVA_MUST_CHECK;
