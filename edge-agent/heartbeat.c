#include "heartbeat.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/buf.h"
#include "core/keyspace.h"
#include "core/lua_script.h"
#include "core/resp.h"

enum { PERIODS = HEARTBEAT_LATELY_MS / HEARTBEAT_MS, FIRST_MS = 100 };

struct heartbeat {
	uv_timer_t timer;
	struct redis_store *store;
	struct slice key;
	struct buf command;
	unsigned seen[PERIODS]; /* a ring: the count of each of the last periods */
	unsigned at;
	atomic_uint most;  /* of `seen`; the only thing that other loops read */
	atomic_bool heard; /* likewise */
	bool calling, timer_closed;
};

static void free_when_idle(struct heartbeat *h)
{
	if (!h->timer_closed || h->calling)
		return;
	buf_release(&h->command);
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

static void on_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct heartbeat *h = data;

	h->calling = false;
	if (status == KOVA_OK && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0) {
		count(h, (unsigned)reply->integer);
		atomic_store_explicit(&h->heard, true, memory_order_relaxed);
		uv_timer_set_repeat(&h->timer, HEARTBEAT_MS);
	}
	free_when_idle(h);
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
	h->calling = true;
	redis_store_call(h->store, keyspace_slot(h->key), buf_slice(&h->command), on_reply, h);
}

/* Not unguessable, only unlike any other agent's. */
static bool write_command(struct heartbeat *h)
{
	unsigned char random[16];
	char name[2 * sizeof random + 1], silent[16];

	if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
		return false;
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(name + 2 * i, 3, "%02x", random[i]);
	snprintf(silent, sizeof silent, "%d", HEARTBEAT_SILENT_MS);
	resp_write_array(&h->command, 6);
	resp_write_bulk(&h->command, SLICE("EVAL"));
	resp_write_bulk(&h->command, (struct slice){lua_heartbeat.body, lua_heartbeat.len});
	resp_write_bulk(&h->command, SLICE("1"));
	resp_write_bulk(&h->command, h->key);
	resp_write_bulk(&h->command, slice_of(name));
	resp_write_bulk(&h->command, slice_of(silent));
	buf_add(&h->command, "", 1); /* hiredis reads a command as a text that ends */
	h->command.len--;
	return !buf_failed(&h->command);
}

static void on_timer_closed(uv_handle_t *t)
{
	struct heartbeat *h = t->data;

	h->timer_closed = true;
	free_when_idle(h);
}

struct heartbeat *heartbeat_start(uv_loop_t *loop, struct redis_store *store, struct slice key)
{
	struct heartbeat *h = calloc(1, sizeof *h);

	if (h == NULL)
		return NULL;
	h->store = store;
	h->key = key;
	if (!write_command(h)) {
		free(h);
		return NULL;
	}
	atomic_init(&h->most, 1);
	atomic_init(&h->heard, false);
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

bool heartbeat_was_heard(const struct heartbeat *h)
{
	return atomic_load_explicit(&h->heard, memory_order_relaxed);
}
