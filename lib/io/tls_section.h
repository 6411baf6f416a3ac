/* The section `tls` of a daemon's configuration. */
#pragma once

#include "io/conf.h"
#include "io/conf_copy.h"
#include "io/tls_server.h"

/* What the table fills. */
struct tls_fields {
	const char *cert, *key, *client_ca;
	int client_auth;      /* enum tls_client_auth; −1: absent */
	int min_version;      /* enum tls_version */
	const json_t *fronts; /* NULL: all */
};

/* The object `tls`, of struct tls_fields; where HTTP is all there is, it has no `fronts`. */
extern const struct conf_table tls_table, tls_http_table;

enum tls_front { TLS_FRONT_RESP = 1, TLS_FRONT_HTTP = 2, TLS_FRONT_GRPC = 4 };
enum { TLS_FRONTS = 3 };
extern const char *const tls_front_names[TLS_FRONTS]; /* by the place of its bit */

/* All of it is owned. */
struct tls_section {
	char *cert; /* NULL: there is no TLS */
	char *key, *client_ca;
	enum tls_client_auth client_auth;
	enum tls_version min_version;
	unsigned fronts; /* of enum tls_front; 0 without TLS */
};

/* Whether what is there goes together. `object` is the path of `tls`; `given`: the object is there. */
void tls_section_check(struct conf_reader *r, const struct conf_path *object,
		       const struct tls_fields *f, bool given);
/* The files are tried out; what is wrong with them is an error of the configuration. */
void tls_section_fill(struct conf_copier *c, const struct conf_path *object,
		      const struct tls_fields *f, struct tls_section *ret_conf);
void tls_section_release(struct tls_section *conf);

/* As tls_server_new(); conf->cert is not NULL. */
struct tls_server *tls_section_open(const struct tls_section *conf, struct tls_tickets *tickets,
				    struct buf *ret_error);
