/*
 * A round: the touch, WAIT, and what asks for the file leave together, on the connection of the slot; when the last
 * reply is in, the round is judged. WAITAOF unknown or forbidden → the settings are asked for instead, from then on at
 * once. Every path ends in round_leave(), and the last of them calls on_done, exactly once.
 *
 * A WAIT of ours never blocks anybody else: the store is ours alone.
 */
#include "confirm.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/keyspace.h"
#include "core/resp.h"
#include "io/log.h"

enum { TOUCH_MS = 1000, TOUCH_KEYS_MAX = 8192, WORDS_MAX = 5 };

struct confirmer {
	struct redis_store *store;
	struct durability wanted;
	uint64_t timeout_ms;
	bool own_server;
	bool no_waitaof; /* the server has none, or we may not */
	struct buf command;
};

struct round {
	struct confirmer *c;
	uint16_t slot;
	unsigned open; /* replies to come, and 1 until all was sent */
	kova_status status;
	char why[200];
	confirm_done *on_done;
	void *data;
};

uint64_t confirmer_stamp(const struct confirmer *c)
{
	const struct redis_counters n = redis_store_counters(c->store);

	return n.connects + n.disconnects + n.redirects + n.moves;
}

/* ---- Rounds ---- */

static void round_leave(struct round *round)
{
	if (--round->open > 0)
		return;
	round->on_done(round->status, round->why, round->data);
	free(round);
}

/* The first failure speaks. */
static void round_fail(struct round *round, kova_status status, const char *what, const char *why)
{
	if (round->status != KOVA_OK)
		return;
	round->status = status;
	snprintf(round->why, sizeof round->why, "%s%s%s", what, what[0] != '\0' ? ": " : "", why);
}

/* Sends the words, which end with NULL. */
static void round_ask(struct round *round, const char *const *words, redis_store_reply *on_reply)
{
	struct confirmer *c = round->c;
	uint32_t n = 0;

	while (words[n] != NULL)
		n++;
	assert(n <= WORDS_MAX);
	buf_clear(&c->command);
	resp_write_array(&c->command, n);
	for (uint32_t i = 0; i < n; i++)
		resp_write_bulk_text(&c->command, words[i]);
	if (buf_failed(&c->command)) {
		round_fail(round, KOVA_ENOMEM, "", kova_status_text(KOVA_ENOMEM));
		return;
	}
	round->open++;
	redis_store_call(c->store, round->slot, buf_slice(&c->command), on_reply, round);
}

/* A reply that is an error, or none at all, ends the round; true: it is worth a look. */
static bool reply_is_well(struct round *round, kova_status status, const struct redisReply *reply,
			  const char *command)
{
	if (status == KOVA_EREPLY)
		round_fail(round, KOVA_ETIMEDOUT, command, reply->str);
	else if (status != KOVA_OK)
		round_fail(round, status, command, kova_status_text(status));
	return status == KOVA_OK;
}

/* ---- A write that comes after all that was written before ---- */

static void on_touched(kova_status status, const struct redisReply *reply, void *data)
{
	reply_is_well(data, status, reply, "SET");
	round_leave(data);
}

/* A key of the same server as the round's slot. In a Cluster one in so many keys as there are shards is. */
static void touch_name(const struct round *round, char ret_name[static 32])
{
	const struct redis_store *store = round->c->store;
	unsigned shard = redis_store_shard(store, round->slot);

	for (int i = 0; i < TOUCH_KEYS_MAX; i++) {
		int len = snprintf(ret_name, 32, "k:durable{%d}", i);
		uint16_t slot = keyspace_slot((struct slice){ret_name, (size_t)len});

		if (!redis_store_is_cluster(store) || redis_store_shard(store, slot) == shard)
			return;
	}
}

static void touch_server(struct round *round)
{
	char name[32], ms[16];
	uint16_t slot = round->slot;

	touch_name(round, name);
	snprintf(ms, sizeof ms, "%d", TOUCH_MS);
	round->slot = keyspace_slot(slice_of(name));
	round_ask(round, (const char *[]){"SET", name, "", "PX", ms, NULL}, on_touched);
	round->slot = slot;
}

/* ---- Replicas ---- */

static void on_waited(kova_status status, const struct redisReply *reply, void *data)
{
	struct round *round = data;
	long long wanted = round->c->wanted.replicas;
	char why[80];

	if (!reply_is_well(round, status, reply, "WAIT")) {
		round_leave(round);
		return;
	}
	if (reply->type != REDIS_REPLY_INTEGER || reply->integer < wanted) {
		snprintf(why, sizeof why, "%lld of %lld replicas have it in time",
			 reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0, wanted);
		round_fail(round, KOVA_ETIMEDOUT, "", why);
	}
	round_leave(round);
}

/* ---- The append-only file ---- */

static const char *setting(const struct redisReply *reply, const char *name)
{
	if (reply->type != REDIS_REPLY_ARRAY)
		return "";
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		const struct redisReply *key = reply->element[i], *value = reply->element[i + 1];

		if (key->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
		    strcmp(key->str, name) == 0)
			return value->str;
	}
	return "";
}

static void on_settings(kova_status status, const struct redisReply *reply, void *data)
{
	static const struct {
		const char *name, *wanted;
	} settings[] = {{"appendonly", "yes"},
			{"appendfsync", "always"},
			{"no-appendfsync-on-rewrite", "no"}};
	struct round *round = data;
	char why[120];

	if (reply_is_well(round, status, reply, "whether it is on disk can't be known, CONFIG GET"))
		for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
			const char *is = setting(reply, settings[i].name);

			if (strcmp(is, settings[i].wanted) == 0)
				continue;
			snprintf(why, sizeof why, "the store's `%s` must be `%s`, not `%.20s`",
				 settings[i].name, settings[i].wanted, is);
			round_fail(round, KOVA_ETIMEDOUT, "", why);
		}
	round_leave(round);
}

/* With these settings the reply to a write comes after it is on disk: the operation's answer itself was the proof. */
static void ask_settings(struct round *round)
{
	round_ask(round, (const char *[]){"CONFIG", "GET", "*append*", NULL}, on_settings);
}

static bool error_begins(const struct redisReply *reply, const char *text)
{
	return strncmp(reply->str, text, strlen(text)) == 0;
}

static void on_waited_aof(kova_status status, const struct redisReply *reply, void *data)
{
	struct round *round = data;

	if (status == KOVA_EREPLY &&
	    (error_begins(reply, "ERR unknown command") || error_begins(reply, "NOPERM"))) {
		round->c->no_waitaof = true;
		ask_settings(round);
	} else if (reply_is_well(round, status, reply, "WAITAOF")) {
		bool on_disk = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
			       reply->element[0]->type == REDIS_REPLY_INTEGER &&
			       reply->element[0]->integer > 0;

		if (!on_disk)
			round_fail(round, KOVA_ETIMEDOUT, "",
				   "it is not on disk in time: does the store write with "
				   "`appendfsync always`?");
	}
	round_leave(round);
}

/* ---- The interface ---- */

void confirm(struct confirmer *c, uint16_t slot, bool touch, confirm_done *on_done, void *data)
{
	struct round *round = malloc(sizeof *round);
	char n[16], ms[24];

	if (round == NULL) {
		on_done(KOVA_ENOMEM, kova_status_text(KOVA_ENOMEM), data);
		return;
	}
	*round = (struct round){.c = c, .slot = slot, .open = 1, .on_done = on_done, .data = data};
	snprintf(n, sizeof n, "%u", (unsigned)c->wanted.replicas);
	snprintf(ms, sizeof ms, "%llu", (unsigned long long)c->timeout_ms);
	if (touch)
		touch_server(round);
	if (c->wanted.replicas > 0)
		round_ask(round, (const char *[]){"WAIT", n, ms, NULL}, on_waited);
	if (c->wanted.aof && c->no_waitaof)
		ask_settings(round);
	else if (c->wanted.aof)
		round_ask(round, (const char *[]){"WAITAOF", "1", "0", ms, NULL}, on_waited_aof);
	round_leave(round);
}

static void on_set(kova_status status, const struct redisReply *reply, void *data)
{
	(void)data;
	if (status == KOVA_EREPLY)
		log_event(LOG_WARN, "durability_setting",
			  "the embedded redis-server keeps its appendfsync",
			  LOG_TEXT_FIELD("why", reply->str));
}

/* A redis-server of our own begins with `everysec`: cheaper, while nobody asks for more. */
void confirmer_connected(struct confirmer *c)
{
	c->no_waitaof = false;
	if (c->own_server && c->wanted.aof)
		redis_store_call(c->store, 0,
				 SLICE("*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$11\r\nappendfsync\r\n"
				       "$6\r\nalways\r\n"),
				 on_set, NULL);
}

struct confirmer *confirmer_new(struct redis_store *store, struct durability wanted,
				uint64_t timeout_ms, bool own_server)
{
	struct confirmer *c = calloc(1, sizeof *c);

	assert(wanted.aof || wanted.replicas > 0);
	if (c == NULL)
		return NULL;
	c->store = store;
	c->wanted = wanted;
	c->timeout_ms = timeout_ms;
	c->own_server = own_server;
	return c;
}

void confirmer_free(struct confirmer *c)
{
	if (c == NULL)
		return;
	buf_release(&c->command);
	free(c);
}
