/*
 * Configuration read by option tables. A table says of each member of a JSON object its name, type, unit,
 * bounds, default and text; reading, `--check-config` and the documentation all come from it. Errors are
 * collected, each with the place of the value it is about. Of strings only durations are quoted: others may be
 * secrets.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"
#include "io/locate.h"

/* Each says what is stored at the option's offset; pointers are borrowed from the JSON. */
enum conf_type {
	CONF_STRING,   /* const char *: not empty, no NUL byte */
	CONF_NAME,     /* const char *: see core/name.h */
	CONF_PATH,     /* const char *: as CONF_STRING; conf_path_resolve() it */
	CONF_ADDRESS,  /* const char *: "host:port" or "[v6]:port" */
	CONF_BYTES,    /* struct slice: min..max bytes of any value */
	CONF_INT,      /* int64_t */
	CONF_PART,     /* int64_t, millionths: a number from 0 to 1 */
	CONF_BOOL,     /* bool */
	CONF_DURATION, /* int64_t, ms */
	CONF_TIME,     /* int64_t, ms since the epoch: RFC 3339 */
	CONF_ENUM,     /* int: index into `values` */
	CONF_OBJECT,   /* the struct that `table` fills, embedded; an absent one is read as empty */
	CONF_LIST, /* const json_t *: an array, its items of type `item`; objects are read by the owner */
	CONF_RAW,   /* const json_t *: read by the table's owner */
	CONF_LATER, /* nothing: any value but an empty list is an error "not available yet" */
};

/* What an absent option without a default leaves: CONF_ABSENT in integers, −1 in enums, NULL, false. */
#define CONF_ABSENT INT64_MIN

enum { CONF_OPTIONS_MAX = 32, CONF_DEPTH_MAX = 8, CONF_ERRORS_MAX = 20, CONF_TEXT_MAX = 320 };

struct conf_table;

struct conf_option {
	const char *name;
	enum conf_type type;
	enum conf_type item; /* CONF_LIST */
	bool required;
	bool nullable;             /* null is allowed: absent, and no default */
	size_t at;                 /* offset in the table's struct */
	const char *fallback;      /* the default, spelled as in JSON without quotes; NULL: none */
	const char *otherwise;     /* documentation: the default where it is no constant */
	int64_t min, max;          /* CONF_INT; CONF_DURATION in ms; CONF_BYTES in bytes */
	const char *const *values; /* CONF_ENUM: NULL-terminated */
	const struct conf_table *table; /* CONF_OBJECT, CONF_LIST of objects */
	const char *form;               /* documentation: the values of a CONF_RAW */
	const char *text;
};

struct conf_table {
	const char *title; /* documentation: the heading, e.g. "`redis`" */
	const char *text;
	const struct conf_option *options;
	size_t n_options;
};

/* Where the reader is: frames on the caller's stack, from the value outwards. NULL is the document. */
struct conf_path {
	const struct conf_path *up;
	const char *key; /* NULL: an item, by index */
	size_t index;
};

enum conf_place { CONF_AT_VALUE, CONF_AT_KEY };

struct conf_error {
	struct locate_step steps[CONF_DEPTH_MAX]; /* borrowed from JSON and tables */
	size_t n_steps;
	enum conf_place place;
	char text[CONF_TEXT_MAX];
};

/* Collects errors. Start with {0}; no allocation, nothing to release. */
struct conf_reader {
	struct conf_error errors[CONF_ERRORS_MAX];
	size_t n_errors; /* may exceed CONF_ERRORS_MAX: the rest is only counted */
};

/* A JSON file with its text, so that errors can be placed. */
struct conf_document {
	char *file; /* as given */
	char *text;
	size_t len;
	json_t *root; /* an object */
};

/*
 * Reads `file`. KOVA_ECONFIG: it cannot be read, or is no JSON object, or has a duplicate name; *ret_errors
 * says so. KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status conf_document_load(const char *file, struct conf_document *ret_document,
					       struct buf *ret_errors);
/* As conf_document_load() of a file `name` that holds `text` (copied). */
KOVA_MUST_CHECK kova_status conf_document_parse(const char *name, struct slice text,
						struct conf_document *ret_document,
						struct buf *ret_errors);
void conf_document_release(struct conf_document *d);

/*
 * Reads `value` (at `path`) by `table` into the struct at `ret_values`. Whatever is wrong is recorded in `r`;
 * options that are wrong are left as if absent.
 */
void conf_read(struct conf_reader *r, const struct conf_path *path, const json_t *value,
	       const struct conf_table *table, void *ret_values);

/* Records an error about the member `key` (NULL: the value itself) of the value at `path`. */
void conf_fail(struct conf_reader *r, const struct conf_path *path, const char *key,
	       enum conf_place place, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * Whether `name` is the name of a thing (core/name.h) and its `value` an object, in the object of things at `path`; else an
 * error. `thing` as "a region", `example` of a value.
 */
bool conf_is_named_object(struct conf_reader *r, const struct conf_path *path, const char *name,
			  const json_t *value, const char *thing, const char *example);

/* Appends the errors, one a line: FILE:LINE:COLUMN: text. */
void conf_report(const struct conf_reader *r, const struct conf_document *d,
		 struct buf *ret_errors);

/*
 * Loads `file` and has `read` fill `conf` in from it. KOVA_ECONFIG: *ret_errors says what is wrong and where. On an error
 * `conf` holds what `read` left there.
 */
KOVA_MUST_CHECK kova_status conf_file_read(const char *file,
					   kova_status (*read)(struct conf_reader *r,
							       const struct conf_document *d,
							       void *conf),
					   void *conf, struct buf *ret_errors);

/* The first error and its path as one text, for those who sent a value and not a file. */
void conf_reader_text(const struct conf_reader *r, char *ret_text, size_t size);

/* `path` relative to the directory of `file`; owned by the caller; NULL: out of memory. */
char *conf_path_resolve(const char *file, const char *path);

/* "host:port" or "[v6]:port" apart; the slices point into `text`. Port 0–65535. */
bool conf_address_parse(const char *text, struct slice *ret_host, uint16_t *ret_port);
/* Whether it is an IPv4 or IPv6 address, without brackets, and no name. */
bool conf_host_is_ip(struct slice host);

/* The table as Markdown, its nested tables after it, each once. */
void conf_table_document(const struct conf_table *table, struct buf *ret_markdown);
/* The same as roff, the man macros: a section for each table. */
void conf_table_manual(const struct conf_table *table, struct buf *ret_roff);
