#include "io/auth_section.h"

#include <stdlib.h>
#include <unistd.h>

#include "io/auth.h"
#include "io/listener.h"
#include "io/option_table.h"

static const struct conf_path auth_path = {.key = "auth"};

static const struct conf_option options[] = {
	{.name = "tokens_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct auth_fields, tokens_file),
	 .otherwise = "none: open",
	 .text = "one token a line, `[NAME] TOKEN [check|admin]…`; `#` begins a comment; a bare "
		 "token has every scope"},
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
	else if (!insecure && f->tokens_file == NULL && !listener_address_is_local(address))
		conf_fail(r, object, name, CONF_AT_VALUE,
			  "`%s` listens beyond loopback: that needs `auth` with a `tokens_file`, "
			  "or `\"insecure\": true`",
			  name);
}

/* The tokens are read again when they are put in force; here, so that a check finds what is wrong. */
static void tokens_check(struct conf_copier *c, const char *resolved)
{
	struct buf error = {0};

	if (resolved == NULL || access(resolved, R_OK) != 0)
		return; /* none, or an error already */

	struct auth *auth = auth_new(resolved, &error);

	if (auth == NULL)
		conf_fail(c->r, &auth_path, "tokens_file", CONF_AT_VALUE, "`tokens_file`: %.*s",
			  (int)error.len, error.ptr);
	auth_free(auth);
	buf_release(&error);
}

void auth_section_fill(struct conf_copier *c, const struct auth_fields *f,
		       struct auth_section *ret_conf)
{
	ret_conf->tokens_file = conf_copy_file(c, &auth_path, "tokens_file", f->tokens_file);
	tokens_check(c, ret_conf->tokens_file);
}

void auth_section_release(struct auth_section *conf)
{
	free(conf->tokens_file);
	*conf = (struct auth_section){0};
}
