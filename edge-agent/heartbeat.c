#include "heartbeat.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "control/policy_stats.h"
#include "core/buf.h"
#include "core/keyspace.h"
#include "core/lua_script.h"
#include "core/resp.h"
#include "edge_regions.h"
#include "io/log.h"

static const struct slice regions_key = {"k:regions", 9};

enum {
	PERIODS = HEARTBEAT_LATELY_MS / HEARTBEAT_MS,
	FIRST_MS = 100,
	NAME_RANDOM_BYTES = 16,
	/* Of a reply, before the policies: */
	AT_AGENTS = 0,
	AT_LEAST_VERSION,
	AT_POLICIES,
};

struct heartbeat {
	uv_timer_t timer;
	struct redis_store *store;
	struct slice key;
	struct buf command;
	struct buf news; /* policies for which feedback came, as bulk strings, until Redis knows */
	uint32_t n_news;
	bool tells;       /* and hears of them, and of versions */
	uint32_t version; /* that it says */
	char name[2 * NAME_RANDOM_BYTES + 1];
	struct buf regions;     /* the version of the regions; empty: there are none */
	uint64_t contradicts;   /* the version of others that does */
	unsigned seen[PERIODS]; /* a ring: the count of each of the last periods */
	unsigned at;
	/* The only things that other loops read: */
	atomic_uint most; /* of `seen` */
	atomic_uint least_version;
	atomic_bool heard, contradicted;
	bool calling, timer_closed;
};

static void free_when_idle(struct heartbeat *h)
{
	if (!h->timer_closed || h->calling)
		return;
	buf_release(&h->command);
	buf_release(&h->news);
	buf_release(&h->regions);
	free(h);
}

static void count(struct heartbeat *h, unsigned agents)
{
	unsigned most = 1;

	h->seen[h->at] = agents;
	for (unsigned i = 0; i < PERIODS; i++)
		if (h->seen[i] > most)
			most = h->seen[i];
	atomic_store_explicit(&h->most, most, memory_order_relaxed);
}

static void heard(struct heartbeat *h)
{
	atomic_store_explicit(&h->heard, true, memory_order_release);
	uv_timer_set_repeat(&h->timer, HEARTBEAT_MS);
}

static void contradict(struct heartbeat *h, uint64_t version)
{
	if (version != h->contradicts && version > 0)
		log_event(LOG_ERROR, "regions_contradicted",
			  "other agents know a version of the regions by other weights than "
			  "`regions` and `regions_before` here: limits of scope `home` are decided "
			  "by `on_outage`",
			  LOG_INT_FIELD("regions_version", (int64_t)version));
	else if (version != h->contradicts)
		log_event(LOG_INFO, "regions_agreed", "no agent contradicts `regions` any more");
	h->contradicts = version;
	atomic_store_explicit(&h->contradicted, version > 0, memory_order_relaxed);
}

static void on_regions_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct heartbeat *h = data;

	h->calling = false;
	if (status == KOVA_OK && reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0) {
		contradict(h, (uint64_t)reply->integer);
		heard(h);
	}
	free_when_idle(h);
}

/* 0: it is none. */
static unsigned number_of(const struct redisReply *reply, size_t at)
{
	const struct redisReply *element;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < AT_POLICIES)
		return 0;
	element = reply->element[at];
	return element->type == REDIS_REPLY_INTEGER && element->integer > 0
		       ? (unsigned)element->integer
		       : 0;
}

static void hear_of_versions(struct heartbeat *h, unsigned least)
{
	atomic_store_explicit(&h->least_version, least > 0 ? least : 1, memory_order_relaxed);
}

static void hear_of_feedback(const struct redisReply *reply)
{
	for (size_t i = AT_POLICIES; i < reply->elements; i++) {
		const struct redisReply *name = reply->element[i];
		struct policy_stats *stats = NULL;

		if (name->type == REDIS_REPLY_STRING)
			stats = policy_stats_find((struct slice){name->str, name->len});
		if (stats != NULL)
			policy_stats_feedback(stats, false);
	}
}

static void on_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct heartbeat *h = data;
	unsigned agents = status == KOVA_OK ? number_of(reply, AT_AGENTS) : 0;
	bool counted = agents > 0;

	h->calling = counted && h->regions.len > 0 && !h->timer_closed;
	if (counted) {
		count(h, agents);
		h->n_news = 0;
		hear_of_versions(h, number_of(reply, AT_LEAST_VERSION));
		if (h->tells)
			hear_of_feedback(reply);
	}
	if (h->calling)
		redis_store_call(h->store, keyspace_slot(regions_key), buf_slice(&h->regions),
				 on_regions_reply, h);
	else if (counted)
		heard(h);
	free_when_idle(h);
}

static void write_eval(struct buf *b, const struct lua_script *script, const struct slice *key,
		       uint32_t n_keys, uint32_t n_args)
{
	char number[11];

	snprintf(number, sizeof number, "%u", (unsigned)n_keys);
	resp_write_array(b, 3 + n_keys + n_args);
	resp_write_bulk(b, SLICE("EVAL"));
	resp_write_bulk(b, (struct slice){script->body, script->len});
	resp_write_bulk(b, slice_of(number));
	for (uint32_t i = 0; i < n_keys; i++)
		resp_write_bulk(b, key[i]);
}

static bool end_command(struct buf *b)
{
	buf_add(b, "", 1); /* hiredis reads a command as a text that ends */
	b->len--;
	return !buf_failed(b);
}

static void add_news(struct slice name, void *data)
{
	struct heartbeat *h = data;

	resp_write_bulk(&h->news, name);
	h->n_news++;
}

enum { KEYS = 4 };

/* All is kept in the agents' slot of a Cluster. */
static bool write_command(struct heartbeat *h)
{
	static const char *const part[KEYS] = {"", "feedback", "said", "versions"};
	char silent[16], version[11], name[KEYS][64];
	struct slice key[KEYS] = {h->key};
	uint32_t n_keys = h->tells ? KEYS : 2;

	if (h->tells && h->n_news == 0) {
		buf_clear(&h->news);
		policy_stats_take_news(add_news, h);
	}
	snprintf(silent, sizeof silent, "%d", HEARTBEAT_SILENT_MS);
	snprintf(version, sizeof version, "%u", (unsigned)h->version);
	for (uint32_t i = 1; i < n_keys; i++) {
		snprintf(name[i], sizeof name[i], "k:{%.*s}%s", (int)h->key.len, h->key.ptr,
			 part[i]);
		key[i] = slice_of(name[i]);
	}
	buf_clear(&h->command);
	write_eval(&h->command, &lua_heartbeat, key, n_keys, 3 + h->n_news);
	resp_write_bulk(&h->command, slice_of(h->name));
	resp_write_bulk(&h->command, slice_of(silent));
	resp_write_bulk(&h->command, slice_of(version));
	if (h->n_news > 0)
		buf_add_slice(&h->command, buf_slice(&h->news));
	return end_command(&h->command) && !buf_failed(&h->news);
}

/* Without an answer the last count is carried on, so that the most of lately stands through an outage. */
static void on_timer(uv_timer_t *t)
{
	struct heartbeat *h = t->data;
	unsigned last = h->seen[h->at];

	if (h->calling)
		return;
	h->at = (h->at + 1) % PERIODS;
	count(h, last);
	if (!write_command(h))
		return; /* out of memory: the next time */
	h->calling = true;
	redis_store_call(h->store, keyspace_slot(h->key), buf_slice(&h->command), on_reply, h);
}

/* Not unguessable, only unlike any other agent's. */
static bool find_name(struct heartbeat *h)
{
	unsigned char random[NAME_RANDOM_BYTES];

	if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
		return false;
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(h->name + 2 * i, 3, "%02x", random[i]);
	return true;
}

static void write_hex(struct buf *b, uint64_t number)
{
	char text[17];

	snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
	resp_write_bulk(b, slice_of(text));
}

static bool write_regions(struct heartbeat *h, const struct edge_regions *r)
{
	char version[21];

	if (r == NULL)
		return true;
	snprintf(version, sizeof version, "%llu", (unsigned long long)r->version);
	write_eval(&h->regions, &lua_regions, &regions_key, 1, 2 + (uint32_t)r->n_before);
	resp_write_bulk(&h->regions, slice_of(version));
	write_hex(&h->regions, edge_regions_digest(r->sites, r->n));
	for (size_t i = 0; i < r->n_before; i++)
		write_hex(&h->regions, edge_regions_digest(r->before[i], r->n));
	return end_command(&h->regions);
}

static void on_timer_closed(uv_handle_t *t)
{
	struct heartbeat *h = t->data;

	h->timer_closed = true;
	free_when_idle(h);
}

struct heartbeat *heartbeat_start(uv_loop_t *loop, struct redis_store *store, struct slice key,
				  const struct edge_regions *regions, uint32_t version)
{
	struct heartbeat *h = calloc(1, sizeof *h);

	if (h == NULL)
		return NULL;
	h->store = store;
	h->key = key;
	h->tells = regions == NULL;
	h->version = version;
	if (!find_name(h) || !write_regions(h, regions)) {
		buf_release(&h->regions);
		free(h);
		return NULL;
	}
	atomic_init(&h->most, 1);
	atomic_init(&h->least_version, 1);
	atomic_init(&h->heard, false);
	atomic_init(&h->contradicted, false);
	uv_timer_init(loop, &h->timer);
	h->timer.data = h;
	/* Until it was heard once: an agent that thinks it is alone would take all of a limit. */
	uv_timer_start(&h->timer, on_timer, 0, FIRST_MS);
	return h;
}

void heartbeat_stop(struct heartbeat *h)
{
	if (h == NULL)
		return;
	uv_close((uv_handle_t *)&h->timer, on_timer_closed);
}

unsigned heartbeat_agents(const struct heartbeat *h)
{
	return atomic_load_explicit(&h->most, memory_order_relaxed);
}

uint32_t heartbeat_least_version(const struct heartbeat *h)
{
	return atomic_load_explicit(&h->least_version, memory_order_relaxed);
}

bool heartbeat_was_heard(const struct heartbeat *h)
{
	return atomic_load_explicit(&h->heard, memory_order_acquire);
}

bool heartbeat_is_contradicted(const struct heartbeat *h)
{
	return atomic_load_explicit(&h->contradicted, memory_order_relaxed);
}
