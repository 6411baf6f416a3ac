/*
 * What people see: colours only on a terminal (and without NO_COLOR), bars; JSON for programs.
 * Bytes that come from outside (keys, names, replies) never reach a terminal as control
 * characters.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/buf.h"

enum paint { PAINT_PLAIN, PAINT_BOLD, PAINT_DIM, PAINT_GOOD, PAINT_WARN, PAINT_BAD };

/* Looks at the terminal, the environment and the locale; before any other function here. */
void output_init(void);

bool output_is_terminal(const FILE *file); /* stdout or stderr */
bool output_is_utf8(void);
unsigned output_columns(void); /* width of the terminal; 80 when there is none */

/* The escape sequence, or "" where there are no colours. `file` is stdout or stderr. */
const char *paint(const FILE *file, enum paint paint);

/* "kovactl: TEXT" and "         TEXT" on stderr; TEXT is made safe. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Appends `text` for a terminal: control characters and what is no UTF-8 as \xNN. */
void output_safe(struct buf *b, struct slice text);
/* Writes it so to `file`. */
void output_text(FILE *file, const char *text);

/* A bar of `width` characters, `part` of `whole` of it full; at least one when part is not 0. */
void output_bar(FILE *file, uint64_t part, uint64_t whole, unsigned width);

/*
 * One line of JSON on stdout, or indented; takes `json` (NULL: out of memory). Returns
 * EXIT_ALLOWED or EXIT_USAGE.
 */
int output_json(json_t *json);
int output_json_indented(json_t *json);
