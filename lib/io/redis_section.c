#include "io/redis_section.h"

#include <stdlib.h>

#include "core/redis_url.h"
#include "io/option_table.h"

enum { CALL_MS_MAX = 60000 };

const char *const redis_mode_names[] = {
	[REDIS_EMBEDDED] = "embedded", [REDIS_STANDALONE] = "standalone",
	[REDIS_SENTINEL] = "sentinel", [REDIS_CLUSTER] = "cluster",
	[REDIS_CLUSTER + 1] = NULL,
};

static const struct conf_option redis_options[] = {
	{.name = "mode",
	 .type = CONF_ENUM,
	 .at = offsetof(struct redis_fields, mode),
	 .fallback = "embedded",
	 .values = redis_mode_names,
	 .text = "`embedded`: a private redis-server, a child of the agent, with its data in "
		 "`state_dir`"},
	{.name = "url",
	 .type = CONF_STRING,
	 .at = offsetof(struct redis_fields, url),
	 .text = "`standalone`: `redis://[user:password@]host:port[/db]`, `rediss://…` (TLS) or "
		 "`unix:PATH`"},
	{.name = "master",
	 .type = CONF_STRING,
	 .at = offsetof(struct redis_fields, master),
	 .text = "`sentinel`: the name of the master"},
	{.name = "sentinels",
	 .type = CONF_LIST,
	 .item = CONF_ADDRESS,
	 .at = offsetof(struct redis_fields, sentinels),
	 .text = "`sentinel`: some of the Sentinels"},
	{.name = "nodes",
	 .type = CONF_LIST,
	 .item = CONF_ADDRESS,
	 .at = offsetof(struct redis_fields, nodes),
	 .text = "`cluster`: some of the nodes; the others are learned"},
	{.name = "user",
	 .type = CONF_STRING,
	 .at = offsetof(struct redis_fields, user),
	 .text = "ACL user"},
	{.name = "password_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct redis_fields, password_file),
	 .text = "a file that holds the password; the end of its line does not count"},
	{.name = "timeout",
	 .type = CONF_DURATION,
	 .at = offsetof(struct redis_fields, timeout),
	 .fallback = "50ms",
	 .min = 1,
	 .max = CALL_MS_MAX,
	 .text = "what one call may take; then `on_outage` decides"},
	{.name = "connect_timeout",
	 .type = CONF_DURATION,
	 .at = offsetof(struct redis_fields, connect_timeout),
	 .fallback = "1s",
	 .min = 1,
	 .max = CALL_MS_MAX,
	 .text = "what connecting may take"},
	{.name = "ca",
	 .type = CONF_PATH,
	 .at = offsetof(struct redis_fields, ca),
	 .otherwise = "the system's",
	 .text = "TLS: the authorities that are trusted, PEM. With `sentinel` and `cluster` it "
		 "turns TLS on"},
	{.name = "cert",
	 .type = CONF_PATH,
	 .at = offsetof(struct redis_fields, cert),
	 .text = "TLS: the client's certificate, PEM; with `key`"},
	{.name = "key",
	 .type = CONF_PATH,
	 .at = offsetof(struct redis_fields, key),
	 .text = "TLS: its private key, PEM"},
};

const struct conf_table redis_table = {
	.title = "`redis`",
	.text = "The region's Redis, which holds all counters.",
	.options = redis_options,
	.n_options = COUNT(redis_options),
};

/* One member of `redis` and the modes that it goes with. */
struct redis_member {
	const char *name;
	bool given;
	unsigned modes; /* 1 << enum redis_mode */
	bool required;  /* in those modes */
};

/* The text of `mode` that a member which is unfit for the default asks for. */
static const char *mode_to_add(unsigned modes)
{
	switch (modes) {
	case 1u << REDIS_STANDALONE:
		return "`\"mode\": \"standalone\"`";
	case 1u << REDIS_SENTINEL:
		return "`\"mode\": \"sentinel\"`";
	case 1u << REDIS_CLUSTER:
		return "`\"mode\": \"cluster\"`";
	default:
		return "`\"mode\": \"standalone\"` (or sentinel, cluster)";
	}
}

static void member_is_unfit(struct conf_reader *r, const struct conf_path *path,
			    const struct redis_fields *f, const struct redis_member *m)
{
	if (f->mode == REDIS_EMBEDDED)
		conf_fail(r, path, m->name, CONF_AT_KEY,
			  "`%s` does not go with mode `embedded`, the default: set %s", m->name,
			  mode_to_add(m->modes));
	else
		conf_fail(r, path, m->name, CONF_AT_KEY, "`%s` does not go with mode `%s`", m->name,
			  redis_mode_names[f->mode]);
}

static void members_check(struct conf_reader *r, const struct conf_path *path,
			  const struct redis_fields *f)
{
	const unsigned standalone = 1u << REDIS_STANDALONE, sentinel = 1u << REDIS_SENTINEL,
		       cluster = 1u << REDIS_CLUSTER, remote = standalone | sentinel | cluster;
	const struct redis_member members[] = {
		{"url", f->url != NULL, standalone, true},
		{"master", f->master != NULL, sentinel, true},
		{"sentinels", json_array_size(f->sentinels) > 0, sentinel, true},
		{"nodes", json_array_size(f->nodes) > 0, cluster, true},
		{"user", f->user != NULL, remote, false},
		{"password_file", f->password_file != NULL, remote, false},
		{"ca", f->ca != NULL, remote, false},
		{"cert", f->cert != NULL, remote, false},
		{"key", f->key != NULL, remote, false},
	};

	for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
		const struct redis_member *m = &members[i];
		bool fits = (m->modes & 1u << f->mode) != 0;

		if (m->given && !fits)
			member_is_unfit(r, path, f, m);
		else if (!m->given && fits && m->required)
			conf_fail(r, path, NULL, CONF_AT_VALUE,
				  "`%s` is missing: mode `%s` needs it", m->name,
				  redis_mode_names[f->mode]);
	}
	if ((f->cert != NULL) != (f->key != NULL))
		conf_fail(r, path, f->cert != NULL ? "cert" : "key", CONF_AT_KEY,
			  "`cert` and `key` go together");
}

static void url_check(struct conf_reader *r, const struct conf_path *path,
		      const struct redis_fields *f)
{
	struct redis_url url;
	const char *why = "";

	if (f->url == NULL || f->mode != REDIS_STANDALONE)
		return;
	if (redis_url_parse(f->url, &url, &why) != KOVA_OK) {
		conf_fail(r, path, "url", CONF_AT_VALUE,
			  "`url` must be redis://[user:password@]host:port[/db], rediss://… or "
			  "unix:PATH: %s",
			  why);
		return;
	}
	if (!url.tls && (f->ca != NULL || f->cert != NULL))
		conf_fail(r, path, f->ca != NULL ? "ca" : "cert", CONF_AT_KEY,
			  "TLS needs a `url` that begins with rediss://");
	if (url.user != NULL && f->user != NULL)
		conf_fail(r, path, "user", CONF_AT_KEY,
			  "`user` and a user in `url` exclude each other");
	if (url.password != NULL && f->password_file != NULL)
		conf_fail(r, path, "password_file", CONF_AT_KEY,
			  "`password_file` and a password in `url` exclude each other");
	redis_url_release(&url);
}

void redis_section_check(struct conf_reader *r, const struct conf_path *path,
			 const struct redis_fields *f)
{
	members_check(r, path, f);
	url_check(r, path, f);
}

static void copy_addresses(struct conf_copier *c, const json_t *list, struct redis_conf *redis)
{
	size_t n = json_array_size(list);

	if (n == 0)
		return;
	redis->addresses = calloc(n, sizeof(char *));
	if (redis->addresses == NULL) {
		c->no_memory = true;
		return;
	}
	for (; redis->n_addresses < n; redis->n_addresses++)
		redis->addresses[redis->n_addresses] =
			conf_copy(c, json_string_value(json_array_get(list, redis->n_addresses)));
}

void redis_section_fill(struct conf_copier *c, const struct conf_path *path,
			const struct redis_fields *f, struct redis_conf *redis)
{
	redis->mode = (enum redis_mode)f->mode;
	redis->url = conf_copy(c, f->url);
	redis->master = conf_copy(c, f->master);
	copy_addresses(c, f->mode == REDIS_CLUSTER ? f->nodes : f->sentinels, redis);
	redis->user = conf_copy(c, f->user);
	redis->password = conf_copy_secret(c, path, "password_file", f->password_file);
	redis->ca = conf_copy_file(c, path, "ca", f->ca);
	redis->cert = conf_copy_file(c, path, "cert", f->cert);
	redis->key = conf_copy_file(c, path, "key", f->key);
	redis->timeout_ms = (uint64_t)f->timeout;
	redis->connect_timeout_ms = (uint64_t)f->connect_timeout;
}

void redis_section_release(struct redis_conf *redis)
{
	for (size_t i = 0; i < redis->n_addresses; i++)
		free(redis->addresses[i]);
	free(redis->addresses);
	free(redis->url);
	free(redis->master);
	free(redis->user);
	conf_secret_free(redis->password);
	free(redis->ca);
	free(redis->cert);
	free(redis->key);
}
