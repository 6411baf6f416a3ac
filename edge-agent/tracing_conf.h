/* The section `tracing` of the agent's configuration: where spans go, and of which requests. */
#pragma once

#include <stdint.h>

#include "io/conf.h"
#include "io/conf_copy.h"

enum { TRACING_FIELDS_MAX = 32, TRACING_FIELDS_BYTES_MAX = 16384 };

/* What the table fills. */
struct tracing_fields {
	const char *endpoint, *headers_file; /* NULL: not given */
	int64_t sample;                      /* millionths */
	int64_t timeout;                     /* ms */
	int64_t queue;                       /* spans */
};

extern const struct conf_table tracing_table;

/* All of it is owned. */
struct tracing_conf {
	char *endpoint;  /* NULL: nothing is traced */
	char **headers;  /* "Name: value" each, NULL-terminated; secret; NULL: none */
	uint32_t sample; /* 0..1000000 */
	uint64_t timeout_ms;
	unsigned queue;
};

/* Whether what is there goes together. `object` is the path of `tracing`; `given`: the object is there. */
void tracing_conf_check(struct conf_reader *r, const struct conf_path *object,
			const struct tracing_fields *f, bool given);
void tracing_conf_fill(struct conf_copier *c, const struct conf_path *object,
		       const struct tracing_fields *f, struct tracing_conf *ret_conf);
void tracing_conf_release(struct tracing_conf *conf);
