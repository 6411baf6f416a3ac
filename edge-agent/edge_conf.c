/*
 * File → JSON → the fields of the option tables → what goes together → owned strings. Errors of each
 * stage are collected; the next begins only without any.
 */
#include "edge_conf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth.h"
#include "core/redis_url.h"
#include "edge_fields.h"
#include "listener.h"
#include "rule_set.h"

static const struct conf_path listen_path = {.key = "listen"};
static const struct conf_path auth_path = {.key = "auth"};
static const struct conf_path redis_path = {.key = "redis"};
static const struct conf_path kafka_path = {.key = "kafka"};

/* What can be bound: the listener looks up no names. */
static bool host_is_bindable(struct slice host)
{
	char text[INET6_ADDRSTRLEN];
	unsigned char bytes[16];

	if (host.len >= sizeof text)
		return false;
	memcpy(text, host.ptr, host.len);
	text[host.len] = '\0';
	return strcmp(text, "localhost") == 0 || inet_pton(AF_INET, text, bytes) == 1 ||
	       inet_pton(AF_INET6, text, bytes) == 1;
}

static void listen_check(struct conf_reader *r, const struct edge_fields *f, const char *name,
			 const char *address)
{
	struct slice host;
	uint16_t port;

	if (address == NULL || !conf_address_parse(address, &host, &port))
		return; /* off, or an error already */
	if (!host_is_bindable(host))
		conf_fail(r, &listen_path, name, CONF_AT_VALUE,
			  "`%s` must begin with an IP address or `localhost`", name);
	else if (!f->insecure && f->auth.tokens_file == NULL && !listener_address_is_local(address))
		conf_fail(r, &listen_path, name, CONF_AT_VALUE,
			  "`%s` listens beyond loopback: that needs `auth` with a `tokens_file`, "
			  "or `\"insecure\": true`",
			  name);
}

static void unix_check(struct conf_reader *r, const char *path)
{
	if (path != NULL && strlen(path) > REDIS_UNIX_PATH_MAX)
		conf_fail(r, &listen_path, "unix", CONF_AT_VALUE,
			  "`unix` must be a path of at most %d bytes", REDIS_UNIX_PATH_MAX);
}

/* One member of `redis` and the modes that it goes with. */
struct redis_member {
	const char *name;
	bool given;
	unsigned modes; /* 1 << enum redis_mode */
	bool required;  /* in those modes */
};

static void redis_members_check(struct conf_reader *r, const struct redis_fields *f)
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
			conf_fail(r, &redis_path, m->name, CONF_AT_KEY,
				  "`%s` does not go with mode `%s`", m->name,
				  edge_redis_modes[f->mode]);
		else if (!m->given && fits && m->required)
			conf_fail(r, &redis_path, NULL, CONF_AT_VALUE,
				  "`%s` is missing: mode `%s` needs it", m->name,
				  edge_redis_modes[f->mode]);
	}
	if ((f->cert != NULL) != (f->key != NULL))
		conf_fail(r, &redis_path, f->cert != NULL ? "cert" : "key", CONF_AT_KEY,
			  "`cert` and `key` go together");
}

static void url_check(struct conf_reader *r, const struct redis_fields *f)
{
	struct redis_url url;
	const char *why = "";

	if (f->url == NULL || f->mode != REDIS_STANDALONE)
		return;
	if (redis_url_parse(f->url, &url, &why) != KOVA_OK) {
		conf_fail(r, &redis_path, "url", CONF_AT_VALUE,
			  "`url` must be redis://[user:password@]host:port[/db], rediss://… or "
			  "unix:PATH: %s",
			  why);
		return;
	}
	if (!url.tls && (f->ca != NULL || f->cert != NULL))
		conf_fail(r, &redis_path, f->ca != NULL ? "ca" : "cert", CONF_AT_KEY,
			  "TLS needs a `url` that begins with rediss://");
	if (url.user != NULL && f->user != NULL)
		conf_fail(r, &redis_path, "user", CONF_AT_KEY,
			  "`user` and a user in `url` exclude each other");
	if (url.password != NULL && f->password_file != NULL)
		conf_fail(r, &redis_path, "password_file", CONF_AT_KEY,
			  "`password_file` and a password in `url` exclude each other");
	redis_url_release(&url);
}

static void fields_check(struct conf_reader *r, const struct edge_fields *f, const json_t *root)
{
	listen_check(r, f, "resp", f->listen.resp);
	listen_check(r, f, "http", f->listen.http);
	unix_check(r, f->listen.unix_path);
	redis_members_check(r, &f->redis);
	url_check(r, &f->redis);
	kafka_conf_check(r, &kafka_path, &f->kafka, json_object_get(root, "kafka") != NULL);
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

static void fill_redis(struct conf_copier *c, const struct redis_fields *f,
		       struct redis_conf *redis)
{
	redis->mode = (enum redis_mode)f->mode;
	redis->url = conf_copy(c, f->url);
	redis->master = conf_copy(c, f->master);
	copy_addresses(c, f->mode == REDIS_CLUSTER ? f->nodes : f->sentinels, redis);
	redis->user = conf_copy(c, f->user);
	redis->password = conf_copy_secret(c, &redis_path, "password_file", f->password_file);
	redis->ca = conf_copy_file(c, &redis_path, "ca", f->ca);
	redis->cert = conf_copy_file(c, &redis_path, "cert", f->cert);
	redis->key = conf_copy_file(c, &redis_path, "key", f->key);
	redis->timeout_ms = (uint64_t)f->timeout;
	redis->connect_timeout_ms = (uint64_t)f->connect_timeout;
}

static char *host_name(struct conf_copier *c)
{
	char name[256] = "";

	if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0')
		return conf_copy(c, "localhost");
	return conf_copy(c, name);
}

/* By the XDG base directory specification; systemd's $STATE_DIRECTORY may name several: the first. */
static char *default_state_dir(struct conf_copier *c)
{
	const char *systemd = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char *path = NULL;
	int n = 0;

	if (systemd != NULL && systemd[0] == '/')
		n = asprintf(&path, "%.*s", (int)strcspn(systemd, ":"), systemd);
	else if (xdg != NULL && xdg[0] == '/')
		n = asprintf(&path, "%s/kova", xdg);
	else if (home != NULL && home[0] == '/')
		n = asprintf(&path, "%s/.local/state/kova", home);
	else
		conf_fail(c->r, NULL, NULL, CONF_AT_VALUE,
			  "`state_dir` is missing, and there is no $STATE_DIRECTORY, "
			  "$XDG_STATE_HOME or "
			  "$HOME to find one");
	if (n < 0) {
		c->no_memory = true;
		return NULL;
	}
	return path;
}

/* The list itself, or an empty one. */
static json_t *copy_list(struct conf_copier *c, const json_t *root, const char *name)
{
	json_t *list = json_object_get(root, name);

	list = list != NULL ? json_incref(list) : json_array();
	if (list == NULL)
		c->no_memory = true;
	return list;
}

static void fill(struct conf_copier *c, const struct edge_fields *f, const json_t *root,
		 struct edge_conf *conf)
{
	conf->node = f->node != NULL ? conf_copy(c, f->node) : host_name(c);
	conf->region = conf_copy(c, f->region);
	conf->listen_resp = conf_copy(c, f->listen.resp);
	conf->listen_http = conf_copy(c, f->listen.http);
	conf->listen_unix = conf_copy_path(c, f->listen.unix_path);
	conf->insecure = f->insecure;
	conf->threads = (unsigned)f->threads;
	conf->tokens_file = conf_copy_file(c, &auth_path, "tokens_file", f->auth.tokens_file);
	tokens_check(c, conf->tokens_file);
	conf->state_dir =
		f->state_dir != NULL ? conf_copy_path(c, f->state_dir) : default_state_dir(c);
	fill_redis(c, &f->redis, &conf->redis);
	kafka_conf_fill(c, &kafka_path, &f->kafka, &conf->kafka);
	conf->redis.max_skew_ms = (uint64_t)f->clock.max_skew;
	conf->policies = copy_list(c, root, "policies");
	conf->overrides = copy_list(c, root, "overrides");
}

static void replicas_check(struct conf_reader *r, const struct rule_set *rules)
{
	static const struct conf_path list = {.key = "policies"};

	for (size_t i = 0; i < rules->n_policies; i++) {
		const struct conf_path path = {.up = &list, .index = i};

		if (rules->policies[i]->policy.durability.replicas > 0)
			conf_fail(
				r, &path, "durability", CONF_AT_VALUE,
				"an embedded Redis has no replicas: `durability` must be `none` or "
				"`aof`, or `redis.mode` another than `embedded`");
	}
}

static kova_status rules_check(struct conf_reader *r, const struct edge_fields *f)
{
	struct rule_set rules;
	kova_status status = rule_set_read(r, f->policies, f->overrides, &rules);

	if (status != KOVA_OK)
		return status;
	if (f->redis.mode == REDIS_EMBEDDED)
		replicas_check(r, &rules);
	rule_set_release(&rules);
	return KOVA_OK;
}

/* Everything but the file itself. Errors that were found are in `r`; *ret_conf is filled in as far as possible. */
static kova_status document_read(struct conf_reader *r, const struct conf_document *d,
				 struct edge_conf *ret_conf)
{
	struct conf_copier c = {.r = r, .file = d->file};
	struct edge_fields f;

	conf_read(r, NULL, d->root, &edge_table, &f);
	fields_check(r, &f, d->root);
	if (rules_check(r, &f) == KOVA_ENOMEM)
		return KOVA_ENOMEM;
	fill(&c, &f, d->root, ret_conf);
	if (c.no_memory)
		return KOVA_ENOMEM;
	return r->n_errors > 0 ? KOVA_ECONFIG : KOVA_OK;
}

kova_status edge_conf_load(const char *path, struct edge_conf *ret_conf, struct buf *ret_errors)
{
	struct conf_document d;
	struct conf_reader r = {0};
	struct edge_conf conf = {0};
	kova_status status = conf_document_load(path, &d, ret_errors);

	if (status != KOVA_OK)
		return status;
	status = document_read(&r, &d, &conf);
	if (status == KOVA_ECONFIG)
		conf_report(&r, &d, ret_errors);
	conf_document_release(&d);
	if (status != KOVA_OK)
		edge_conf_release(&conf);
	else
		*ret_conf = conf;
	return status;
}

static void redis_conf_release(struct redis_conf *redis)
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

void edge_conf_release(struct edge_conf *conf)
{
	json_decref(conf->policies);
	json_decref(conf->overrides);
	redis_conf_release(&conf->redis);
	kafka_conf_release(&conf->kafka);
	free(conf->node);
	free(conf->region);
	free(conf->listen_resp);
	free(conf->listen_http);
	free(conf->listen_unix);
	free(conf->tokens_file);
	free(conf->state_dir);
	*conf = (struct edge_conf){0};
}
