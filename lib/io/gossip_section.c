#include "io/gossip_section.h"

#include <stdlib.h>
#include <string.h>

#include "core/gossip.h"
#include "io/gossip_seal.h"

static const struct conf_option options[] = {
	{.name = "listen",
	 .type = CONF_ADDRESS,
	 .at = offsetof(struct gossip_fields, listen),
	 .fallback = "127.0.0.1:7414",
	 .text = "UDP, and TCP on the same port. The host is an IP address or `localhost`; port 0: "
		 "any free one"},
	{.name = "advertise",
	 .type = CONF_ADDRESS,
	 .at = offsetof(struct gossip_fields, advertise),
	 .otherwise = "`listen`; of `0.0.0.0` and `::` what others see",
	 .text = "the IP address and port at which other nodes reach this one"},
	{.name = "seeds",
	 .type = CONF_LIST,
	 .item = CONF_ADDRESS,
	 .at = offsetof(struct gossip_fields, seeds),
	 .text = "some of the other nodes, at most 16; one that answers is enough. Names are "
		 "looked "
		 "up again every 30 s"},
	{.name = "secret_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct gossip_fields, secret_file),
	 .otherwise = "none: only on loopback, or with an agent's `insecure`",
	 .text = "secrets that all nodes share, one a line, 16 to 256 bytes; `#` begins a comment. "
		 "The first signs, all verify"},
};

const struct conf_table gossip_table = {
	.title = "`gossip`",
	.text = "How nodes find each other and agree on policies and overrides: "
		"[Gossip](gossip.md). Without it, nowhere.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
};

static bool is_loopback(struct slice host)
{
	return slice_equal(host, SLICE("localhost")) || slice_equal(host, SLICE("::1")) ||
	       (conf_host_is_ip(host) && host.len > 4 && memcmp(host.ptr, "127.", 4) == 0);
}

void gossip_section_check(struct conf_reader *r, const struct conf_path *object,
			  const struct gossip_fields *f, const bool *insecure)
{
	struct slice host;
	uint16_t port;

	if (f->listen != NULL && conf_address_parse(f->listen, &host, &port)) {
		if (!conf_host_is_ip(host) && !slice_equal(host, SLICE("localhost")))
			conf_fail(r, object, "listen", CONF_AT_VALUE,
				  "`listen` must begin with an IP address or `localhost`");
		else if (!is_loopback(host) && f->secret_file == NULL &&
			 (insecure == NULL || !*insecure))
			conf_fail(r, object, "listen", CONF_AT_VALUE,
				  "`listen` is beyond loopback: that needs a `secret_file`%s",
				  insecure != NULL ? ", or `\"insecure\": true`" : "");
	}
	if (f->advertise != NULL && conf_address_parse(f->advertise, &host, &port) &&
	    (!conf_host_is_ip(host) || port == 0))
		conf_fail(r, object, "advertise", CONF_AT_VALUE,
			  "`advertise` must be an IP address and a port");
	if (json_array_size(f->seeds) > GOSSIP_SEEDS_MAX)
		conf_fail(r, object, "seeds", CONF_AT_VALUE, "`seeds` may have %d at most",
			  GOSSIP_SEEDS_MAX);
}

/* Read again when it is put in force; here, so that a check finds what is wrong. */
static void secrets_check(struct conf_copier *c, const struct conf_path *object, const char *path)
{
	struct gossip_keys *keys = NULL;
	struct buf error = {0};

	if (path == NULL)
		return;
	if (gossip_keys_load(path, &keys, &error) == KOVA_ECONFIG)
		conf_fail(c->r, object, "secret_file", CONF_AT_VALUE, "`secret_file`: %.*s",
			  error.len > 0 ? (int)error.len - 1 : 0, error.ptr);
	gossip_keys_free(keys);
	buf_release(&error);
}

static void fill_seeds(struct conf_copier *c, const json_t *list, struct gossip_section *conf)
{
	size_t n = json_array_size(list);

	conf->seeds = calloc(n + 1, sizeof(char *));
	if (conf->seeds == NULL) {
		c->no_memory = true;
		return;
	}
	for (size_t i = 0; i < n && i < GOSSIP_SEEDS_MAX; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text != NULL)
			conf->seeds[conf->n_seeds++] = conf_copy(c, text);
	}
}

void gossip_section_fill(struct conf_copier *c, const struct conf_path *object,
			 const struct gossip_fields *f, bool given, struct gossip_section *ret_conf)
{
	if (!given)
		return;
	ret_conf->listen = conf_copy(c, f->listen);
	ret_conf->advertise = conf_copy(c, f->advertise);
	ret_conf->secret_file = conf_copy_file(c, object, "secret_file", f->secret_file);
	if (c->r->n_errors == 0)
		secrets_check(c, object, ret_conf->secret_file);
	fill_seeds(c, f->seeds, ret_conf);
}

void gossip_section_release(struct gossip_section *conf)
{
	for (size_t i = 0; i < conf->n_seeds; i++)
		free(conf->seeds[i]);
	free(conf->seeds);
	free(conf->listen);
	free(conf->advertise);
	free(conf->secret_file);
}
