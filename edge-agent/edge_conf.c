/*
 * File → JSON → the fields of the option tables → what goes together → owned strings. Errors of each
 * stage are collected; the next begins only without any.
 */
#include "edge_conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/rule_set.h"
#include "core/allocator.h"
#include "core/redis_url.h"
#include "edge_fields.h"
#include "io/redis_section.h"
#include "io/state_dir.h"

static const struct conf_path listen_path = {.key = "listen"};
static const struct conf_path tls_path = {.key = "tls"};
static const struct conf_path redis_path = {.key = "redis"};
static const struct conf_path kafka_path = {.key = "kafka"};
static const struct conf_path gossip_path = {.key = "gossip"};
static const struct conf_path tracing_path = {.key = "tracing"};

static void unix_check(struct conf_reader *r, const char *path)
{
	if (path != NULL && strlen(path) > REDIS_UNIX_PATH_MAX)
		conf_fail(r, &listen_path, "unix", CONF_AT_VALUE,
			  "`unix` must be a path of at most %d bytes", REDIS_UNIX_PATH_MAX);
}

static void fields_check(struct conf_reader *r, const struct edge_fields *f, const json_t *root)
{
	auth_section_check_address(r, &listen_path, "resp", f->listen.resp, &f->auth, f->insecure);
	auth_section_check_address(r, &listen_path, "http", f->listen.http, &f->auth, f->insecure);
	auth_section_check_address(r, &listen_path, "grpc", f->listen.grpc, &f->auth, f->insecure);
	unix_check(r, f->listen.unix_path);
	tls_section_check(r, &tls_path, &f->tls, json_object_get(root, "tls") != NULL);
	redis_section_check(r, &redis_path, &f->redis);
	kafka_conf_check(r, &kafka_path, &f->kafka, json_object_get(root, "kafka") != NULL);
	gossip_section_check(r, &gossip_path, &f->gossip, &f->insecure);
	tracing_conf_check(r, &tracing_path, &f->tracing, json_object_get(root, "tracing") != NULL);
}

static char *host_name(struct conf_copier *c)
{
	char name[256] = "";

	if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0')
		return conf_copy(c, "localhost");
	return conf_copy(c, name);
}

static char *default_state_dir(struct conf_copier *c)
{
	char *path = NULL;
	kova_status status = state_dir_default("kova", &path);

	if (status == KOVA_ENOTFOUND)
		conf_fail(c->r, NULL, NULL, CONF_AT_VALUE,
			  "`state_dir` is missing, and there is no $STATE_DIRECTORY, "
			  "$XDG_STATE_HOME or "
			  "$HOME to find one");
	c->no_memory |= status == KOVA_ENOMEM;
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

/* With what the files hold that they name. */
static json_t *copy_pools(struct conf_copier *c, const json_t *root)
{
	static const struct conf_path list = {.key = "pools"};
	json_t *pools = json_array(), *pool;
	size_t i;

	json_array_foreach(json_object_get(root, "pools"), i, pool) {
		const struct conf_path path = {.up = &list, .index = i};

		if (json_array_append_new(pools, pool_def_expand(c, &path, pool)) != 0)
			c->no_memory = true;
	}
	c->no_memory |= pools == NULL;
	return pools;
}

/* Of a file that says where to listen, older than this front, it is off: its port may be another's there. */
static const char *grpc_address(const struct edge_fields *f, const json_t *root)
{
	return json_object_get(root, "listen") != NULL ? f->listen.grpc : "localhost:7413";
}

static void fill(struct conf_copier *c, const struct edge_fields *f, const json_t *root,
		 struct edge_conf *conf)
{
	conf->node = f->node != NULL ? conf_copy(c, f->node) : host_name(c);
	conf->region = conf_copy(c, f->region);
	conf->listen_resp = conf_copy(c, f->listen.resp);
	conf->listen_http = conf_copy(c, f->listen.http);
	conf->listen_grpc = conf_copy(c, grpc_address(f, root));
	conf->listen_unix = conf_copy_path(c, f->listen.unix_path);
	tls_section_fill(c, &tls_path, &f->tls, &conf->tls);
	conf->insecure = f->insecure;
	conf->threads = (unsigned)f->threads;
	auth_section_fill(c, &f->auth, f->tls.client_ca != NULL, &conf->auth);
	conf->state_dir =
		f->state_dir != NULL ? conf_copy_path(c, f->state_dir) : default_state_dir(c);
	edge_regions_read(c, f, root, &conf->regions, &conf->redis);
	kafka_conf_fill(c, &kafka_path, &f->kafka, &conf->kafka);
	conf->regions.grant_us = conf->kafka.report_ms * 1000 + SHARE_ROUND_US;
	gossip_section_fill(c, &gossip_path, &f->gossip, json_object_get(root, "gossip") != NULL,
			    &conf->gossip);
	tracing_conf_fill(c, &tracing_path, &f->tracing, &conf->tracing);
	conf->redis.max_skew_ms = (uint64_t)f->clock.max_skew;
	for (size_t i = 0; i < conf->regions.n; i++)
		conf->regions.of[i].redis.max_skew_ms = conf->redis.max_skew_ms;
	conf->lists.policies = copy_list(c, root, "policies");
	conf->lists.overrides = copy_list(c, root, "overrides");
	conf->lists.pools = copy_pools(c, root);
}

/* What of a policy does not go with the rest of the file. */
static void policy_check(struct conf_reader *r, const struct conf_path *path,
			 const struct policy *p, const struct edge_conf *conf)
{
	if (p->durability.replicas > 0 && conf->redis.mode == REDIS_EMBEDDED)
		conf_fail(r, path, "durability", CONF_AT_VALUE,
			  "an embedded Redis has no replicas: `durability` must be `none` or "
			  "`aof`, or `redis.mode` another than `embedded`");
	if (p->scope == SCOPE_HOME && conf->regions.n == 0)
		conf_fail(r, path, "scope", CONF_AT_VALUE,
			  "scope `home` needs `regions`, or `scope` must be `region`");
	if (p->scope == SCOPE_GLOBAL && (conf->regions.n == 0 || conf->kafka.bootstrap == NULL))
		conf_fail(r, path, "scope", CONF_AT_VALUE,
			  "scope `global` needs `regions` and `kafka`, or `scope` must be `region` "
			  "or `home`");
	if (p->scope == SCOPE_GLOBAL && conf->regions.n > ALLOCATOR_REGIONS_MAX)
		conf_fail(r, path, "scope", CONF_AT_VALUE,
			  "a limit can be `global` among at most %d regions",
			  ALLOCATOR_REGIONS_MAX);
}

static kova_status rules_check(struct conf_reader *r, const struct edge_conf *conf)
{
	static const struct conf_path list = {.key = "policies"};
	struct rule_set rules;
	kova_status status = rule_set_read(r, &conf->lists, &rules);

	if (status != KOVA_OK)
		return status;
	for (size_t i = 0; i < rules.n_policies; i++) {
		const struct conf_path path = {.up = &list, .index = i};

		policy_check(r, &path, &rules.policies[i]->policy, conf);
	}
	rule_set_release(&rules);
	return KOVA_OK;
}

/* Everything but the file itself. Errors that were found are in `r`; *ret_conf is filled in as far as possible. */
static kova_status document_read(struct conf_reader *r, const struct conf_document *d, void *conf)
{
	struct edge_conf *ret_conf = conf;
	struct conf_copier c = {.r = r, .file = d->file};
	struct edge_fields f;

	conf_read(r, NULL, d->root, &edge_table, &f);
	fields_check(r, &f, d->root);
	fill(&c, &f, d->root, ret_conf);
	if (c.no_memory || rules_check(r, ret_conf) == KOVA_ENOMEM)
		return KOVA_ENOMEM;
	return r->n_errors > 0 ? KOVA_ECONFIG : KOVA_OK;
}

kova_status edge_conf_load(const char *path, struct edge_conf *ret_conf, struct buf *ret_errors)
{
	struct edge_conf conf = {0};
	kova_status status = conf_file_read(path, document_read, &conf, ret_errors);

	if (status != KOVA_OK)
		edge_conf_release(&conf);
	else
		*ret_conf = conf;
	return status;
}

void edge_conf_release(struct edge_conf *conf)
{
	json_decref(conf->lists.policies);
	json_decref(conf->lists.overrides);
	json_decref(conf->lists.pools);
	auth_section_release(&conf->auth);
	tls_section_release(&conf->tls);
	redis_section_release(&conf->redis);
	edge_regions_release(&conf->regions);
	kafka_conf_release(&conf->kafka);
	gossip_section_release(&conf->gossip);
	tracing_conf_release(&conf->tracing);
	free(conf->node);
	free(conf->region);
	free(conf->listen_resp);
	free(conf->listen_http);
	free(conf->listen_grpc);
	free(conf->listen_unix);
	free(conf->state_dir);
	*conf = (struct edge_conf){0};
}
