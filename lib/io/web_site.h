/*
 * Pages that a program carries (dashboard/, cmake/embed.cmake), over HTTP: the index at `/`, which is asked for anew each
 * time and mostly found unchanged; all it needs at `/assets/VERSION/NAME`, which never changes and may be kept. Nothing
 * in them is secret. A strict policy (Content Security Policy Level 3) lets them load nothing from elsewhere and run
 * nothing that is written inline.
 */
#pragma once

#include "io/http_request.h"
#include "io/http_server.h"

struct web_file {
	const char *name;       /* without its directory */
	const char *media_type; /* of Content-Type */
	const char *hash;       /* of its bytes, hexadecimal: its entity tag */
	struct slice plain;
	struct slice gzip; /* the same, compressed */
};

/* The index comes first. */
struct web_site {
	const char *version;
	const struct web_file *files;
	unsigned n;
};

/* What `r` asks for, whose path is `/` or begins with `/assets/`; NULL: there is no such file, or no longer. */
const struct web_file *web_site_find(const struct web_site *s, const struct http_request *r);

/*
 * The answer to `r`, which is for `f`: 200, or 304 to who has it. Its fields are added to `fields`, which must be alive
 * until it is used.
 */
struct http_answer web_site_answer(const struct web_site *s, const struct web_file *f,
				   const struct http_request *r, struct buf *fields);
