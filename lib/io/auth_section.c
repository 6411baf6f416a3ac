#include "io/auth_section.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "io/listener.h"
#include "io/option_table.h"

static const struct conf_path auth_path = {.key = "auth"};

struct certificate_fields {
	const char *name;
	const json_t *scopes;
};

static const struct conf_option certificate_options[] = {
	{.name = "name",
	 .type = CONF_STRING,
	 .required = true,
	 .at = offsetof(struct certificate_fields, name),
	 .text = "one of its subject alternative names, a URI or a DNS name, at most 255 bytes, "
		 "115 with `admin`; of "
		 "a "
		 "certificate that has none, the subject's CN"},
	{.name = "scopes",
	 .type = CONF_LIST,
	 .item = CONF_STRING,
	 .required = true,
	 .at = offsetof(struct certificate_fields, scopes),
	 .text = "`check`, `admin` or both"},
};

static const struct conf_table certificate_table = {
	.title = "A certificate of `auth`",
	.text = "Who shows a certificate with this name, of the authorities in `tls.client_ca`, "
		"has these "
		"scopes without a token: "
		"[Security](security.md#certificates-that-stand-for-tokens).",
	.options = certificate_options,
	.n_options = COUNT(certificate_options),
};

static const struct conf_option options[] = {
	{.name = "tokens_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct auth_fields, tokens_file),
	 .otherwise = "none: open",
	 .text = "one token a line, `[NAME] TOKEN [check|admin]…`; `#` begins a comment; a bare "
		 "token has every scope"},
	{.name = "certificates",
	 .type = CONF_LIST,
	 .item = CONF_OBJECT,
	 .at = offsetof(struct auth_fields, certificates),
	 .table = &certificate_table,
	 .otherwise = "none",
	 .text = "clients' certificates that stand for a token; needs `tls` with `client_ca`"},
};

const struct conf_table auth_table = {
	.title = "`auth`",
	.text = "Who may ask. Clients show a token by RESP `AUTH TOKEN` or HTTP `Authorization: "
		"Bearer TOKEN`, gRPC by metadata of the same name.",
	.options = options,
	.n_options = COUNT(options),
};

/* What can be bound: the listener looks up no names. */
static bool host_is_bindable(struct slice host)
{
	return slice_equal(host, SLICE("localhost")) || conf_host_is_ip(host);
}

void auth_section_check_address(struct conf_reader *r, const struct conf_path *object,
				const char *name, const char *address, const struct auth_fields *f,
				bool insecure)
{
	struct slice host;
	uint16_t port;

	if (address == NULL || !conf_address_parse(address, &host, &port))
		return;
	if (!host_is_bindable(host))
		conf_fail(r, object, name, CONF_AT_VALUE,
			  "`%s` must begin with an IP address or `localhost`", name);
	else if (!insecure && f->tokens_file == NULL && json_array_size(f->certificates) == 0 &&
		 !listener_address_is_local(address))
		conf_fail(r, object, name, CONF_AT_VALUE,
			  "`%s` listens beyond loopback: that needs `auth` with a `tokens_file` or "
			  "`certificates`, or `\"insecure\": true`",
			  name);
}

/* The tokens are read again when they are put in force; here, so that a check finds what is wrong. */
static void tokens_check(struct conf_copier *c, const char *resolved)
{
	struct buf error = {0};

	if (resolved == NULL || access(resolved, R_OK) != 0)
		return; /* none, or an error already */

	struct auth *auth = auth_new(&(struct auth_terms){.tokens_file = resolved}, &error);

	if (auth == NULL)
		conf_fail(c->r, &auth_path, "tokens_file", CONF_AT_VALUE, "`tokens_file`: %.*s",
			  (int)error.len, error.ptr);
	auth_free(auth);
	buf_release(&error);
}

static unsigned scopes_read(struct conf_reader *r, const struct conf_path *path, const json_t *list)
{
	unsigned scopes = 0;
	bool good = json_array_size(list) > 0;
	size_t i;
	json_t *item;

	json_array_foreach((json_t *)(uintptr_t)list, i, item) {
		unsigned scope = auth_scope_named(
			(struct slice){json_string_value(item), json_string_length(item)});

		good &= scope != 0;
		scopes |= scope;
	}
	if (list != NULL && !good)
		conf_fail(r, path, "scopes", CONF_AT_VALUE,
			  "`scopes` must hold `check`, `admin` or both");
	return scopes;
}

/* As certificates' names are compared: URIs as they are. */
static bool is_same_name(const char *a, const char *b)
{
	return (strchr(a, ':') != NULL ? strcmp(a, b) : strcasecmp(a, b)) == 0;
}

static void name_check(struct conf_reader *r, const struct conf_path *path, const char *name,
		       unsigned scopes, const struct auth_section *before)
{
	bool good = name != NULL && strlen(name) <= AUTH_CERTIFICATE_MAX;

	for (size_t i = 0; good && name[i] != '\0'; i++)
		good = name[i] >= '!' && name[i] <= '~';
	if (name != NULL && !good)
		conf_fail(r, path, "name", CONF_AT_VALUE,
			  "`name` must be 1 to %d printable ASCII characters without blanks",
			  AUTH_CERTIFICATE_MAX);
	else if (good && (scopes & AUTH_ADMIN) != 0 && strlen(name) > AUTH_ADMIN_CERTIFICATE_MAX)
		conf_fail(r, path, "name", CONF_AT_VALUE,
			  "with the scope `admin`, `name` must have at most %d bytes: changes are "
			  "recorded by it",
			  AUTH_ADMIN_CERTIFICATE_MAX);
	for (size_t i = 0; good && i < before->n_certificates; i++)
		if (is_same_name(before->certificates[i].name, name))
			conf_fail(r, path, "name", CONF_AT_VALUE, "`%s` is listed already", name);
}

static void certificates_fill(struct conf_copier *c, const json_t *list, struct auth_section *conf)
{
	const struct conf_path at = {.up = &auth_path, .key = "certificates"};
	size_t i;
	json_t *item;

	conf->certificates = calloc(json_array_size(list) + 1, sizeof *conf->certificates);
	c->no_memory |= conf->certificates == NULL;
	json_array_foreach((json_t *)(uintptr_t)list, i, item) {
		const struct conf_path path = {.up = &at, .index = i};
		struct certificate_fields f;
		unsigned scopes;

		if (!json_is_object(item) || c->no_memory)
			continue; /* an error already */
		conf_read(c->r, &path, item, &certificate_table, &f);
		scopes = scopes_read(c->r, &path, f.scopes);
		name_check(c->r, &path, f.name, scopes, conf);
		if (f.name == NULL || (f.name = conf_copy(c, f.name)) == NULL)
			continue;
		conf->certificates[conf->n_certificates++] = (struct auth_certificate){
			.name = (char *)(uintptr_t)f.name, .scopes = scopes};
	}
}

void auth_section_fill(struct conf_copier *c, const struct auth_fields *f, bool asks,
		       struct auth_section *ret_conf)
{
	ret_conf->tokens_file = conf_copy_file(c, &auth_path, "tokens_file", f->tokens_file);
	tokens_check(c, ret_conf->tokens_file);
	certificates_fill(c, f->certificates, ret_conf);
	if (json_array_size(f->certificates) > 0 && !asks)
		conf_fail(c->r, &auth_path, "certificates", CONF_AT_VALUE,
			  "`certificates` needs `tls` with `client_ca`, by which clients' "
			  "certificates are "
			  "checked");
}

struct auth_terms auth_section_terms(const struct auth_section *conf)
{
	return (struct auth_terms){.tokens_file = conf->tokens_file,
				   .certificates = conf->certificates,
				   .n_certificates = conf->n_certificates};
}

bool auth_section_suits(const struct auth_section *conf, bool insecure, const char *address,
			struct buf *ret_error)
{
	if (insecure || conf->tokens_file != NULL || conf->n_certificates > 0 ||
	    listener_address_is_local(address))
		return true;
	buf_printf(ret_error,
		   "%s is beyond loopback and stays open until the next start: without `auth` with "
		   "a `tokens_file` or `certificates`, or `\"insecure\": true`, start again\n",
		   address);
	return false;
}

void auth_section_release(struct auth_section *conf)
{
	for (size_t i = 0; i < conf->n_certificates; i++)
		free(conf->certificates[i].name);
	free(conf->certificates);
	free(conf->tokens_file);
	*conf = (struct auth_section){0};
}
