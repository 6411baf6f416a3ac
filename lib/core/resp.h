/*
 * RESP as a server meets it (Redis serialization protocol, versions 2 and 3): commands in, as
 * arrays of bulk strings or inline, and replies out. Pure and without allocation: arguments point
 * into the input.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"

enum {
	RESP_ARGS_MAX = 1024,
	RESP_BULK_MAX = 64 * 1024,      /* bytes of one argument */
	RESP_INLINE_MAX = 64 * 1024,    /* bytes of an inline command, its line end included */
	RESP_COMMAND_MAX = 1024 * 1024, /* bytes of a whole command */
	RESP_ERROR_TEXT_MAX = 80,
};

/*
 * What a parser produces. Large: one for all connections of a loop is enough, since it is used up
 * before the next one is parsed.
 */
struct resp_command {
	uint32_t argc; /* 0: nothing to do and nothing to reply (an empty line, *0, *-1) */
	struct slice argv[RESP_ARGS_MAX]; /* into the input, or into `text` for an inline command */
	char text[RESP_INLINE_MAX];
	char error[RESP_ERROR_TEXT_MAX]; /* of KOVA_EPROTO: "Protocol error: …"; NUL-terminated */
};

/* How far a command that is not whole yet was read; all zero: at its first byte. */
struct resp_parser {
	size_t at;          /* bytes that need not be looked at again */
	uint32_t n_args;    /* of the array's header */
	uint32_t args_seen; /* arguments before `at` */
	bool in_array;      /* the header is before `at` */
};

/*
 * Reads one command. `bytes` begins at the command's first byte, and on each call with the same
 * parser holds what it held before, and more. KOVA_OK: `cmd` is filled, *ret_used bytes were its
 * own, and the parser is ready for the next. KOVA_AGAIN: not whole yet; costs only what is new.
 * KOVA_EPROTO: cmd->error says why; the stream can't be read on.
 */
KOVA_MUST_CHECK kova_status resp_parse(struct resp_parser *p, struct slice bytes,
				       struct resp_command *cmd, size_t *ret_used);

/*
 * A decimal integer, strictly: an optional '-', digits without leading zeros, nothing else.
 * KOVA_EPROTO: it is not one; KOVA_ERANGE: it is one that int64_t does not hold.
 */
KOVA_MUST_CHECK kova_status resp_integer(struct slice text, int64_t *ret_value);

/* Equal but for the case of ASCII letters; `lower` has only small ones. */
bool resp_word_is(struct slice word, const char *lower);

/* ---- Writers. `version` is 2 or 3; where it is no parameter both look the same. ---- */

void resp_write_simple(struct buf *b, const char *text);
/* "-CODE text"; line ends in `text` become spaces, so that it can quote what a client sent. */
void resp_write_error(struct buf *b, const char *code, const char *text);
void resp_write_int(struct buf *b, int64_t value);
void resp_write_bulk(struct buf *b, struct slice bytes);
void resp_write_bulk_text(struct buf *b, const char *text);
void resp_write_null(struct buf *b, int version);
void resp_write_array(struct buf *b, uint32_t n);
/* A map of n pairs; in version 2 an array of 2n. */
void resp_write_map(struct buf *b, int version, uint32_t n);
/* A set of n; in version 2 an array. */
void resp_write_set(struct buf *b, int version, uint32_t n);
/* Text for people: a verbatim string in version 3, a bulk string in version 2. */
void resp_write_verbatim(struct buf *b, int version, struct slice text);
