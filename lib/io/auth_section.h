/* The section `auth` of a daemon's configuration, and where a daemon may listen with it and without. */
#pragma once

#include "io/auth.h"
#include "io/conf.h"
#include "io/conf_copy.h"

/* What the table fills. */
struct auth_fields {
	const char *tokens_file;
	const json_t *certificates; /* NULL: none */
};

/* The object `auth`, of struct auth_fields. */
extern const struct conf_table auth_table;

/* All of it is owned. */
struct auth_section {
	char *tokens_file; /* NULL: none */
	struct auth_certificate *certificates;
	size_t n_certificates;
};

/* Its terms, which point into it. */
struct auth_terms auth_section_terms(const struct auth_section *conf);

/*
 * Whether the option `name` of `object` says an address that can be listened on: beyond loopback with what tells clients apart,
 * or `insecure`. NULL and what is no address (an error already) pass.
 */
void auth_section_check_address(struct conf_reader *r, const struct conf_path *object,
				const char *name, const char *address, const struct auth_fields *f,
				bool insecure);
/* The files are tried out; what is wrong with them is an error of the configuration. `asks`: clients are asked for certificates. */
void auth_section_fill(struct conf_copier *c, const struct auth_fields *f, bool asks,
		       struct auth_section *ret_conf);
/*
 * Whether a reload may bring `conf` into force where clients are heard at `address` since the start, whatever the file says now: as
 * auth_section_check_address(). One line with its end in ret_error if not.
 */
bool auth_section_suits(const struct auth_section *conf, bool insecure, const char *address,
			struct buf *ret_error);
void auth_section_release(struct auth_section *conf);
