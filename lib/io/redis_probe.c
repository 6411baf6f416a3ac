#include "io/redis_probe.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lua_script.h"
#include "core/redis_error.h"

#define PROBE_TEXT "kova-probe-"

void redis_probe_write(const struct redis_probe *p, uint64_t number,
		       struct redis_probe_command *ret_command)
{
	struct redis_probe_command *c = ret_command;
	size_t n = 0;

	snprintf(c->text, sizeof c->text, PROBE_TEXT "%" PRIu64, number);
	if (p->writes) {
		keyspace_probe(p->slot, c->key);
		c->words[n++] = p->with_body ? "EVAL" : "EVALSHA";
		c->words[n++] = p->with_body ? lua_probe.body : lua_probe.sha1;
		c->words[n++] = "1";
		c->words[n++] = c->key;
	} else {
		c->words[n++] = "PING";
	}
	c->words[n++] = c->text;
	c->words[n] = NULL;
}

bool redis_probe_is_astray(const struct redisReply *reply, uint64_t number)
{
	size_t len = sizeof PROBE_TEXT - 1;

	return reply->type == REDIS_REPLY_STRING && reply->len > len &&
	       memcmp(reply->str, PROBE_TEXT, len) == 0 &&
	       strtoull(reply->str + len, NULL, 10) != number;
}

static bool error_is(const struct redisReply *reply, const char *word)
{
	return strncmp(reply->str, word, strlen(word)) == 0;
}

bool redis_is_pong(kova_status status, const struct redisReply *reply)
{
	return status == KOVA_OK || (status == KOVA_EREPLY && error_is(reply, "NOPERM"));
}

static bool sends_elsewhere(const struct redisReply *reply)
{
	enum redis_error kind = redis_error_kind((struct slice){reply->str, reply->len});

	return kind == REDIS_ERROR_MOVED || kind == REDIS_ERROR_ASK;
}

enum redis_probe_verdict redis_probe_judge(struct redis_probe *p, kova_status status,
					   const struct redisReply *reply, bool in_cluster)
{
	bool had_body = p->with_body;

	p->with_body = false;
	if (!p->writes)
		return redis_is_pong(status, reply) ? REDIS_PROBE_WELL : REDIS_PROBE_ILL;
	if (status == KOVA_OK)
		return REDIS_PROBE_WELL;
	if (status != KOVA_EREPLY)
		return REDIS_PROBE_ILL;
	if (!had_body && error_is(reply, "NOSCRIPT")) {
		p->with_body = true;
		return REDIS_PROBE_ASK_AGAIN;
	}
	return in_cluster && sends_elsewhere(reply) ? REDIS_PROBE_WELL : REDIS_PROBE_ILL;
}
