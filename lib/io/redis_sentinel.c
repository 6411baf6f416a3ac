/*
 * A link to each sentinel → SENTINEL GET-MASTER-ADDR-BY-NAME, every second, four times a second
 * while the master is not up → decide() → on_master().
 *
 * During a failover the sentinels may disagree. The address that most of them name wins, among
 * equals the newest news. A master that answers is left only for one that more sentinels name: a
 * sentinel that was cut off and knows old things moves nobody. (Whether the server is a master is
 * asked again by the link itself, with ROLE.)
 */
#include "io/redis_sentinel.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"
#include "io/log.h"
#include "io/redis_store.h"

enum {
	ASK_MS = 1000,
	ASK_IN_DOUBT_MS = 250,
	ASK_LEAST_MS = 100, /* between two askings, whatever happens */
	ANSWER_MAX_AGE_MS = 3000,
	PATIENCE_MS = 500, /* a sentinel may be farther away than the Redis that decides */
	HOST_MAX = 256,
};

struct address {
	char host[HOST_MAX]; /* empty: none */
	uint16_t port;
};

struct peer {
	struct redis_sentinel *s;
	struct redis_link *link;
	struct address named;
	uint64_t named_ms; /* when it last said so */
	uint64_t since_ms; /* when it first did */
	bool asking;
};

struct redis_sentinel {
	uv_loop_t *loop;
	uv_timer_t timer;
	uint64_t asked_ms;
	char *command; /* hiredis' memory */
	size_t command_len;
	struct peer *peers;
	size_t n_peers;
	struct address master;
	bool master_up;
	redis_sentinel_master *on_master;
	void *data;
	struct redis_counters counters; /* of the links to the sentinels: of no interest */

	bool closing;
	size_t parts_open;
	void (*on_closed)(void *data);
	void *closed_data;
};

static bool same(const struct address *a, const struct address *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* ---- what they say ---- */

static unsigned votes_for(const struct redis_sentinel *s, const struct address *address,
			  uint64_t *ret_since_ms)
{
	uint64_t now = uv_now(s->loop), since = 0;
	unsigned votes = 0;

	for (size_t i = 0; i < s->n_peers; i++) {
		const struct peer *peer = &s->peers[i];

		if (address->host[0] == '\0' || now - peer->named_ms > ANSWER_MAX_AGE_MS ||
		    !same(&peer->named, address))
			continue;
		votes++;
		if (peer->since_ms > since)
			since = peer->since_ms;
	}
	*ret_since_ms = since;
	return votes;
}

static void decide(struct redis_sentinel *s)
{
	uint64_t best_since, since;
	unsigned best_votes = votes_for(s, &s->master, &best_since);
	const struct address *best = &s->master;

	for (size_t i = 0; i < s->n_peers; i++) {
		const struct address *named = &s->peers[i].named;
		unsigned votes = votes_for(s, named, &since);
		bool newer = since > best_since && !(best == &s->master && s->master_up);

		if (named->host[0] == '\0' || same(named, best))
			continue;
		if (votes > best_votes || (votes == best_votes && votes > 0 && newer)) {
			best = named;
			best_votes = votes;
			best_since = since;
		}
	}
	if (best == &s->master)
		return;
	s->master = *best;
	s->master_up = false;
	s->on_master(s->master.host, s->master.port, s->data);
}

static bool answer_parse(const redisReply *reply, struct address *ret_address)
{
	struct slice host;
	char text[HOST_MAX + 16];
	uint16_t port;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING || reply->element[0]->len >= HOST_MAX ||
	    reply->element[0]->len == 0)
		return false;
	int len = snprintf(text, sizeof text, "%s:%s", reply->element[0]->str,
			   reply->element[1]->str);
	if (len < 0 || (size_t)len >= sizeof text ||
	    redis_address_parse((struct slice){text, (size_t)len}, &host, &port) != KOVA_OK)
		return false;
	memcpy(ret_address->host, host.ptr, host.len);
	ret_address->host[host.len] = '\0';
	ret_address->port = port;
	return true;
}

static void on_answer(kova_status status, const redisReply *reply, void *data)
{
	struct peer *peer = data;
	struct redis_sentinel *s = peer->s;
	struct address named;

	peer->asking = false;
	if (s->closing || status == KOVA_ETIMEDOUT || status == KOVA_ECONN)
		return;
	if (status != KOVA_OK || !answer_parse(reply, &named)) {
		log_event(LOG_WARN, "redis_sentinel", "a sentinel does not name a master",
			  LOG_TEXT_FIELD("why", status == KOVA_EREPLY ? reply->str
								      : "it does not know it"));
		return;
	}
	peer->named_ms = uv_now(s->loop);
	if (!same(&named, &peer->named)) {
		peer->named = named;
		peer->since_ms = peer->named_ms;
	}
	decide(s);
}

/* ---- asking ---- */

static void ask_peer(struct peer *peer)
{
	struct redis_sentinel *s = peer->s;
	struct slice command = {s->command, s->command_len};

	if (peer->asking || !redis_link_up(peer->link))
		return;
	peer->asking = redis_link_call(peer->link, command, uv_now(s->loop) + PATIENCE_MS,
				       on_answer, peer) == KOVA_OK;
}

static void on_timer(uv_timer_t *timer)
{
	struct redis_sentinel *s = timer->data;

	s->asked_ms = uv_now(s->loop);
	for (size_t i = 0; i < s->n_peers; i++)
		ask_peer(&s->peers[i]);
	uv_timer_start(&s->timer, on_timer, s->master_up ? ASK_MS : ASK_IN_DOUBT_MS, 0);
}

void redis_sentinel_ask(struct redis_sentinel *s)
{
	uint64_t since = uv_now(s->loop) - s->asked_ms;

	uv_timer_start(&s->timer, on_timer, since >= ASK_LEAST_MS ? 0 : ASK_LEAST_MS - since, 0);
}

void redis_sentinel_set_up(struct redis_sentinel *s, bool up)
{
	s->master_up = up;
}

static void on_peer_changed(bool up, const char *why, void *data)
{
	struct peer *peer = data;

	if (up)
		ask_peer(peer);
	else
		log_event(LOG_WARN, "redis_sentinel", "a sentinel can't be asked",
			  LOG_TEXT_FIELD("why", why));
}

/* ---- life ---- */

static void sentinel_free(struct redis_sentinel *s)
{
	redisFreeCommand(s->command);
	free(s->peers);
	free(s);
}

static void on_part_closed(void *data)
{
	struct redis_sentinel *s = data;

	if (--s->parts_open > 0)
		return;
	void (*on_closed)(void *) = s->on_closed;
	void *closed_data = s->closed_data;
	sentinel_free(s);
	if (on_closed != NULL)
		on_closed(closed_data);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

static bool start_peer(struct redis_sentinel *s, struct peer *peer,
		       const struct redis_link_options *base, const char *address)
{
	struct redis_link_options options = *base;
	struct slice host;
	char text[HOST_MAX];

	if (redis_address_parse(slice_of(address), &host, &options.port) != KOVA_OK ||
	    host.len == 0 || host.len >= sizeof text)
		return false;
	memcpy(text, host.ptr, host.len);
	text[host.len] = '\0';
	*peer = (struct peer){.s = s};
	options.host = text;
	options.db = 0;
	options.want_master = false;
	options.auth_optional = true; /* sentinels often have no password where the servers have */
	if (options.timeout_ms < PATIENCE_MS)
		options.timeout_ms = PATIENCE_MS;
	options.counters = &s->counters;
	options.on_changed = on_peer_changed;
	options.data = peer;
	peer->link = redis_link_new(s->loop, &options);
	return peer->link != NULL;
}

static bool start_peers(struct redis_sentinel *s, const struct redis_link_options *base,
			char *const *addresses, size_t n_addresses)
{
	for (size_t i = 0; i < n_addresses; i++) {
		if (!start_peer(s, &s->peers[i], base, addresses[i])) {
			log_event(LOG_ERROR, "redis_sentinel",
				  "a sentinel's address is not host:port",
				  LOG_TEXT_FIELD("address", addresses[i]));
			return false;
		}
		s->n_peers++;
		s->parts_open++;
	}
	return true;
}

struct redis_sentinel *redis_sentinel_new(uv_loop_t *loop, const struct redis_link_options *base,
					  const char *master, char *const *addresses,
					  size_t n_addresses, redis_sentinel_master *on_master,
					  void *data)
{
	struct redis_sentinel *s = calloc(1, sizeof(*s));

	assert(n_addresses > 0 && master != NULL);
	if (s == NULL)
		return NULL;
	s->loop = loop;
	s->on_master = on_master;
	s->data = data;
	s->peers = calloc(n_addresses, sizeof *s->peers);
	int len = redisFormatCommand(&s->command, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", master);
	if (s->peers == NULL || len < 0) {
		if (len < 0)
			s->command = NULL;
		sentinel_free(s);
		return NULL;
	}
	s->command_len = (size_t)len;
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	s->parts_open = 1;
	if (!start_peers(s, base, addresses, n_addresses)) {
		redis_sentinel_close(s, NULL, NULL);
		return NULL;
	}
	redis_sentinel_ask(s);
	return s;
}

void redis_sentinel_close(struct redis_sentinel *s, void (*on_closed)(void *data), void *data)
{
	s->closing = true;
	s->on_closed = on_closed;
	s->closed_data = data;
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
	for (size_t i = 0; i < s->n_peers; i++)
		redis_link_close(s->peers[i].link, on_part_closed, s);
}
