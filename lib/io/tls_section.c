#include "io/tls_section.h"

#include <stdlib.h>
#include <string.h>

static const char *const client_auth_values[] = {
	[TLS_CLIENT_NONE] = "none",
	[TLS_CLIENT_OPTIONAL] = "optional",
	[TLS_CLIENT_REQUIRED] = "required",
	NULL,
};

static const char *const version_values[] = {
	[TLS_FROM_1_2] = "1.2",
	[TLS_FROM_1_3] = "1.3",
	NULL,
};

static const struct conf_option options[] = {
	{.name = "cert",
	 .type = CONF_PATH,
	 .at = offsetof(struct tls_fields, cert),
	 .otherwise = "none: no TLS",
	 .text = "a PEM file: the certificate, then those that lead to its authority. SIGHUP reads "
		 "it again"},
	{.name = "key",
	 .type = CONF_PATH,
	 .at = offsetof(struct tls_fields, key),
	 .text = "a PEM file: the certificate's private key, without a password"},
	{.name = "client_ca",
	 .type = CONF_PATH,
	 .at = offsetof(struct tls_fields, client_ca),
	 .otherwise = "clients are not asked for certificates",
	 .text = "a PEM file: the authorities whose certificates clients may show"},
	{.name = "client_auth",
	 .type = CONF_ENUM,
	 .values = client_auth_values,
	 .at = offsetof(struct tls_fields, client_auth),
	 .otherwise = "`required` with `client_ca`, else `none`",
	 .text = "whether clients must show a certificate. With `optional` those that show one "
		 "must "
		 "show a good one"},
	{.name = "min_version",
	 .type = CONF_ENUM,
	 .values = version_values,
	 .at = offsetof(struct tls_fields, min_version),
	 .fallback = "1.2",
	 .text = "the oldest version of TLS that is spoken"},
	{.name = "fronts",
	 .type = CONF_LIST,
	 .item = CONF_STRING,
	 .at = offsetof(struct tls_fields, fronts),
	 .otherwise = "all",
	 .text = "which of `resp`, `http` and `grpc` speak TLS; the others stay plain"},
};

const struct conf_table tls_table = {
	.title = "`tls`",
	.text = "TLS for what listens on TCP; unix sockets and gossip are not touched. What it "
		"does, and how certificates are renewed: [Security](security.md).",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
};

/* Without the last option. */
const struct conf_table tls_http_table = {
	.title = "`tls`",
	.text = "TLS for HTTP; gossip is not touched. What it does, and how certificates are "
		"renewed: [Security](security.md).",
	.options = options,
	.n_options = sizeof options / sizeof options[0] - 1,
};

const char *const tls_front_names[TLS_FRONTS] = {"resp", "http", "grpc"};

/* 0: there is none of that name. */
static unsigned front_named(const char *name)
{
	for (unsigned i = 0; name != NULL && i < TLS_FRONTS; i++)
		if (strcmp(name, tls_front_names[i]) == 0)
			return 1U << i;
	return 0;
}

static void fronts_check(struct conf_reader *r, const struct conf_path *object,
			 const json_t *fronts)
{
	const struct conf_path list = {.up = object, .key = "fronts"};
	size_t i;
	json_t *front;

	json_array_foreach((json_t *)(uintptr_t)fronts, i, front) {
		const struct conf_path path = {.up = &list, .index = i};

		if (json_is_string(front) && front_named(json_string_value(front)) == 0)
			conf_fail(r, &path, NULL, CONF_AT_VALUE,
				  "`fronts` must hold `resp`, `http` or `grpc`");
	}
	if (fronts != NULL && json_array_size(fronts) == 0)
		conf_fail(r, object, "fronts", CONF_AT_VALUE,
			  "`fronts` is empty: without TLS leave out `tls`");
}

static unsigned fronts_of(const json_t *fronts)
{
	unsigned all = 0;
	size_t i;
	json_t *front;

	if (fronts == NULL)
		return TLS_FRONT_RESP | TLS_FRONT_HTTP | TLS_FRONT_GRPC;
	json_array_foreach((json_t *)(uintptr_t)fronts, i, front)
		all |= front_named(json_string_value(front));
	return all;
}

void tls_section_check(struct conf_reader *r, const struct conf_path *object,
		       const struct tls_fields *f, bool given)
{
	if (given && (f->cert == NULL || f->key == NULL))
		conf_fail(r, object, NULL, CONF_AT_VALUE, "`tls` needs both `cert` and `key`");
	if (f->client_auth > TLS_CLIENT_NONE && f->client_ca == NULL)
		conf_fail(r, object, "client_auth", CONF_AT_VALUE,
			  "`client_auth` `%s` needs `client_ca`",
			  client_auth_values[f->client_auth]);
	if (f->client_auth == TLS_CLIENT_NONE && f->client_ca != NULL)
		conf_fail(r, object, "client_auth", CONF_AT_VALUE,
			  "`client_auth` must be `optional` or `required` with `client_ca`; or "
			  "leave out `client_ca`");
	fronts_check(r, object, f->fronts);
}

/* Read again when it is put in force; here, so that a check finds what is wrong. */
static void try_out(struct conf_copier *c, const struct conf_path *object,
		    const struct tls_section *conf)
{
	struct tls_tickets *tickets = tls_tickets_new(NULL);
	struct buf error = {0};
	struct tls_server *server =
		tickets != NULL ? tls_section_open(conf, tickets, &error) : NULL;

	if (tickets == NULL || buf_failed(&error))
		c->no_memory = true;
	else if (server == NULL)
		conf_fail(c->r, object, NULL, CONF_AT_VALUE, "%.*s", (int)error.len, error.ptr);
	tls_server_unref(server);
	tls_tickets_free(tickets);
	buf_release(&error);
}

void tls_section_fill(struct conf_copier *c, const struct conf_path *object,
		      const struct tls_fields *f, struct tls_section *ret_conf)
{
	size_t n_errors = c->r->n_errors;

	ret_conf->cert = conf_copy_file(c, object, "cert", f->cert);
	ret_conf->key = conf_copy_file(c, object, "key", f->key);
	ret_conf->client_ca = conf_copy_file(c, object, "client_ca", f->client_ca);
	ret_conf->client_auth = f->client_auth >= 0    ? (enum tls_client_auth)f->client_auth
				: f->client_ca != NULL ? TLS_CLIENT_REQUIRED
						       : TLS_CLIENT_NONE;
	ret_conf->min_version =
		f->min_version >= 0 ? (enum tls_version)f->min_version : TLS_FROM_1_2;
	ret_conf->fronts = ret_conf->cert != NULL ? fronts_of(f->fronts) : 0;
	if (ret_conf->cert != NULL && ret_conf->key != NULL && n_errors == c->r->n_errors &&
	    !c->no_memory)
		try_out(c, object, ret_conf);
}

void tls_section_release(struct tls_section *conf)
{
	free(conf->cert);
	free(conf->key);
	free(conf->client_ca);
	*conf = (struct tls_section){0};
}

struct tls_server *tls_section_open(const struct tls_section *conf, struct tls_tickets *tickets,
				    struct buf *ret_error)
{
	const struct tls_terms terms = {.cert = conf->cert,
					.key = conf->key,
					.client_ca = conf->client_ca,
					.client_auth = conf->client_auth,
					.min_version = conf->min_version};

	return tls_server_new(&terms, tickets, ret_error);
}
