/*
 * A round goes through the regions, of each through its shards, of each through all keys by SCAN. The ledgers that a step finds are read by
 * GET, what Kafka has of them is asked of the thread with the books, and both go into the table. Once through, what rests
 * is compared. A region that can't be asked is left out of the round; without an answer from the books the round is given up.
 *
 *   resting ──▶ scanning ──▶ reading ──▶ asking ──▶ scanning … ──▶ compared ──▶ resting
 *
 * Every command ends in one callback, and one step is under way at a time; stopping closes the stores, whose callbacks come first.
 */
#include "drift_watch.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/keyspace.h"
#include "core/resp.h"
#include "drift_table.h"
#include "io/log.h"
#include "io/redis_store.h"

enum {
	SCAN_COUNT = 500, /* keys a step */
	PACE_MS = 20,     /* between two steps */
	ASK_MS = 10,
	ANSWER_MS = 5000,
	SLOTS = 16384,
	CURSOR_MAX = 24,
};

enum step { WATCH_RESTING, WATCH_SCANNING, WATCH_READING, WATCH_ASKING };

struct ledger {
	char *name; /* owned: the key */
	size_t len;
	char root[REQUEST_KEY_MAX];
	struct slice policy; /* in `name` */
	size_t root_len;
	int64_t value;
	bool known;
	struct drift_watch *watch;
};

struct region {
	const char *name; /* the configuration's */
	struct redis_store *store;
	bool whole; /* in the last round all of its ledgers were seen */
};

struct drift_watch {
	const struct drift_conf *conf;
	struct coord_events *events;
	char node[NAME_BYTES_MAX + 1];
	uv_thread_t thread;
	uv_loop_t loop;
	uv_timer_t timer;
	uv_async_t stop;
	bool stopping;
	enum step step;
	struct region regions[DRIFT_REGIONS_MAX];
	/* The round. */
	unsigned region, shard;
	uint64_t whole; /* regions through which it went */
	char cursor[CURSOR_MAX];
	bool shard_seen;        /* the cursor is 0 again */
	struct ledger *ledgers; /* of the step */
	size_t n, room, reading;
	bool failed; /* a command of the step */
	uint64_t asked_ms;
	struct drift_table table;

	pthread_mutex_t lock;
	/* Under the lock: */
	struct drift_query *queries; /* of the step; NULL: nothing is asked */
	size_t n_queries;
	bool answered;
	struct drift_series *told; /* a copy of what the last round came to */
	size_t n_told;
	uint64_t rounds, overflows;
	uint64_t seen; /* regions whose ledgers were seen in the last round */
};

static void rest(struct drift_watch *w, uint64_t ms, enum step next);

/* ---- The end of a round ---- */

static void tell_drift(struct drift_watch *w, struct drift_series *s)
{
	const char *region = w->regions[s->region].name;
	struct buf rest = {0};

	if (!drift_alarm_step(&s->alarm, s->drift, w->conf->threshold))
		return;
	buf_printf(&rest, "\"policy\":\"%s\",\"kafka\":%" PRId64 ",\"ledger\":%" PRId64, s->policy,
		   s->kafka > 0 ? s->kafka : 0, s->ledger > 0 ? s->ledger : 0);
	if (!buf_failed(&rest))
		coord_event(w->events, "drift", w->node, region, buf_slice(&rest));
	log_event(LOG_WARN, "drift", "Kafka and the region's Redis have counted differently",
		  LOG_TEXT_FIELD("policy", s->policy), LOG_TEXT_FIELD("region", region),
		  LOG_INT_FIELD("kafka", s->kafka), LOG_INT_FIELD("ledger", s->ledger));
	buf_release(&rest);
}

static void publish(struct drift_watch *w)
{
	size_t bytes = w->table.n_series * sizeof *w->told;
	struct drift_series *told = malloc(bytes + 1);

	pthread_mutex_lock(&w->lock);
	w->rounds++;
	w->seen = w->whole;
	w->overflows = w->table.overflows;
	if (told != NULL) {
		if (bytes > 0)
			memcpy(told, w->table.series, bytes);
		free(w->told);
		w->told = told;
		w->n_told = w->table.n_series;
	}
	pthread_mutex_unlock(&w->lock);
}

static void end_round(struct drift_watch *w)
{
	drift_table_end_round(&w->table, w->whole, uv_hrtime() / 1000, w->conf->rest_ms * 1000);
	for (size_t i = 0; i < w->table.n_series; i++)
		tell_drift(w, &w->table.series[i]);
	publish(w);
	rest(w, w->conf->every_ms, WATCH_RESTING);
}

static void give_up_round(struct drift_watch *w)
{
	drift_table_drop_round(&w->table);
	rest(w, w->conf->every_ms, WATCH_RESTING);
}

/* ---- Asking for what Kafka has ---- */

static void forget_step(struct drift_watch *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->ledgers[i].name);
	w->n = 0;
}

static void ask(struct drift_watch *w)
{
	struct drift_query *queries = calloc(w->n + 1, sizeof *queries);
	size_t n = 0;

	for (size_t i = 0; queries != NULL && i < w->n; i++) {
		const struct ledger *l = &w->ledgers[i];

		if (l->known)
			queries[n++] = (struct drift_query){.policy = l->policy,
							    .root = {l->root, l->root_len},
							    .region = w->regions[w->region].name};
	}
	if (n == 0) { /* they are gone, or memory is */
		free(queries);
		forget_step(w);
		rest(w, PACE_MS, WATCH_SCANNING);
		return;
	}
	pthread_mutex_lock(&w->lock);
	w->queries = queries;
	w->n_queries = n;
	w->answered = false;
	pthread_mutex_unlock(&w->lock);
	w->asked_ms = uv_now(&w->loop);
	rest(w, ASK_MS, WATCH_ASKING);
}

void drift_watch_answer(struct drift_watch *w, drift_look_up *look_up, void *data)
{
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	if (w->queries != NULL && !w->answered) {
		for (size_t i = 0; i < w->n_queries; i++)
			look_up(&w->queries[i], data);
		w->answered = true;
	}
	pthread_mutex_unlock(&w->lock);
}

/* Takes the questions back, answered or not. */
static bool take_answers(struct drift_watch *w, struct drift_query **ret_queries, size_t *ret_n)
{
	bool answered;

	pthread_mutex_lock(&w->lock);
	answered = w->answered;
	*ret_queries = w->queries;
	*ret_n = w->n_queries;
	w->queries = NULL;
	pthread_mutex_unlock(&w->lock);
	return answered;
}

/* Whether the round can go on. */
static bool take_up(struct drift_watch *w, const struct drift_query *queries)
{
	bool ok = true;

	for (size_t i = 0, at = 0; i < w->n; i++) {
		const struct ledger *l = &w->ledgers[i];

		if (!l->known)
			continue;
		const struct drift_query *q = &queries[at++];
		const struct drift_found found = {q->policy, q->root,  w->region,
						  q->apart,  l->value, (int64_t)q->kafka};

		if (q->answer == DRIFT_LATER)
			return false;
		if (q->answer == DRIFT_OURS)
			ok = drift_table_found(&w->table, &found) == KOVA_OK && ok;
	}
	return ok;
}

static void on_asked(struct drift_watch *w)
{
	struct drift_query *queries;
	size_t n;
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = w->answered;
	pthread_mutex_unlock(&w->lock);
	if (!ok && uv_now(&w->loop) - w->asked_ms < ANSWER_MS) {
		rest(w, ASK_MS, WATCH_ASKING);
		return;
	}
	ok = take_answers(w, &queries, &n) && take_up(w, queries);
	free(queries);
	forget_step(w);
	if (ok)
		rest(w, PACE_MS, WATCH_SCANNING);
	else
		give_up_round(w);
}

/* ---- Walking through a Redis ---- */

/* A slot of the shard; SLOTS: it has none. */
static uint16_t slot_of(const struct redis_store *s, unsigned shard)
{
	uint16_t slot = 0;

	if (redis_store_is_cluster(s))
		while (slot < SLOTS && redis_store_shard(s, slot) != shard)
			slot++;
	return slot;
}

static void next_region(struct drift_watch *w, bool whole)
{
	struct region *r = &w->regions[w->region];

	if (whole)
		w->whole |= UINT64_C(1) << w->region;
	if (whole != r->whole)
		log_event(
			whole ? LOG_INFO : LOG_WARN, "ledgers",
			whole ? "the region's Redis is compared with Kafka again"
			      : "the region's Redis can't be asked: it is not compared with Kafka",
			LOG_TEXT_FIELD("region", r->name));
	r->whole = whole;
	w->region++;
	w->shard = 0;
	w->shard_seen = false;
	strcpy(w->cursor, "0");
	rest(w, PACE_MS, WATCH_SCANNING);
}

static void on_shard_seen(struct drift_watch *w)
{
	w->shard_seen = false;
	if (++w->shard >= redis_store_shards(w->regions[w->region].store))
		next_region(w, true);
	else
		rest(w, PACE_MS, WATCH_SCANNING);
}

static void on_step_read(struct drift_watch *w)
{
	if (w->failed) {
		forget_step(w);
		next_region(w, false);
	} else {
		ask(w);
	}
}

static void on_value(kova_status status, const struct redisReply *reply, void *data)
{
	struct ledger *l = data;
	struct drift_watch *w = l->watch;

	if (status == KOVA_OK && reply->type == REDIS_REPLY_STRING) {
		char *end;

		l->value = strtoll(reply->str, &end, 10);
		l->known = *end == '\0' && end != reply->str;
	} else if (status != KOVA_OK) {
		w->failed = true;
	}
	if (--w->reading == 0 && !w->stopping)
		on_step_read(w);
}

static void read_ledgers(struct drift_watch *w)
{
	struct redis_store *store = w->regions[w->region].store;
	struct buf command = {0};

	w->step = WATCH_READING;
	w->reading = w->n;
	for (size_t i = 0; i < w->n; i++) {
		struct ledger *l = &w->ledgers[i];
		const struct slice name = {l->name, l->len};

		buf_clear(&command);
		resp_write_array(&command, 2);
		resp_write_bulk(&command, SLICE("GET"));
		resp_write_bulk(&command, name);
		redis_store_call(store, keyspace_slot(name), buf_slice(&command), on_value, l);
	}
	buf_release(&command);
}

static void add_ledger(struct drift_watch *w, const struct redisReply *key)
{
	struct ledger *l;

	if (key->type != REDIS_REPLY_STRING)
		return;
	if (w->n == w->room) {
		size_t room = w->room > 0 ? 2 * w->room : SCAN_COUNT;
		struct ledger *ledgers = realloc(w->ledgers, room * sizeof *ledgers);

		if (ledgers == NULL) {
			w->failed = true;
			return;
		}
		w->ledgers = ledgers;
		w->room = room;
	}
	l = &w->ledgers[w->n];
	*l = (struct ledger){.name = malloc(key->len), .len = key->len, .watch = w};
	if (l->name == NULL) {
		w->failed = true;
		return;
	}
	memcpy(l->name, key->str, key->len);
	if (keyspace_ledger_parse((struct slice){l->name, l->len}, l->root, &l->root_len,
				  &l->policy))
		w->n++;
	else
		free(l->name);
}

static bool is_scan_reply(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	       reply->element[0]->type == REDIS_REPLY_STRING &&
	       reply->element[0]->len < CURSOR_MAX && reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void on_scanned(kova_status status, const struct redisReply *reply, void *data)
{
	struct drift_watch *w = data;

	if (w->stopping)
		return;
	w->failed = status != KOVA_OK || !is_scan_reply(reply);
	if (!w->failed) {
		strcpy(w->cursor, reply->element[0]->str);
		w->shard_seen = strcmp(w->cursor, "0") == 0;
		for (size_t i = 0; i < reply->element[1]->elements; i++)
			add_ledger(w, reply->element[1]->element[i]);
	}
	if (w->failed || w->n == 0)
		on_step_read(w);
	else
		read_ledgers(w);
}

static void scan(struct drift_watch *w)
{
	struct redis_store *store = w->regions[w->region].store;
	uint16_t slot = slot_of(store, w->shard);
	struct buf command = {0};
	char count[12];

	if (slot == SLOTS || !redis_store_up(store, w->shard) || !redis_store_is_whole(store)) {
		next_region(w, false);
		return;
	}
	snprintf(count, sizeof count, "%d", SCAN_COUNT);
	resp_write_array(&command, 6);
	resp_write_bulk(&command, SLICE("SCAN"));
	resp_write_bulk(&command, slice_of(w->cursor));
	resp_write_bulk(&command, SLICE("MATCH"));
	resp_write_bulk(&command, SLICE("k:u{*"));
	resp_write_bulk(&command, SLICE("COUNT"));
	resp_write_bulk(&command, slice_of(count));
	w->step = WATCH_READING;
	redis_store_call(store, slot, buf_slice(&command), on_scanned, w);
	buf_release(&command);
}

static void scan_on(struct drift_watch *w)
{
	if (w->region == w->conf->n)
		end_round(w);
	else if (w->regions[w->region].store == NULL)
		next_region(w, false);
	else if (w->shard_seen)
		on_shard_seen(w);
	else
		scan(w);
}

static void begin_round(struct drift_watch *w)
{
	w->region = w->shard = 0;
	w->whole = 0;
	w->shard_seen = false;
	strcpy(w->cursor, "0");
	scan_on(w);
}

static void on_timer(uv_timer_t *timer)
{
	struct drift_watch *w = timer->data;

	if (w->step == WATCH_RESTING)
		begin_round(w);
	else if (w->step == WATCH_SCANNING)
		scan_on(w);
	else
		on_asked(w);
}

static void rest(struct drift_watch *w, uint64_t ms, enum step next)
{
	w->step = next;
	uv_timer_start(&w->timer, on_timer, ms, 0);
}

/* ---- Life ---- */

static void on_changed(unsigned shard, bool up, const char *why, void *data)
{
	(void)shard, (void)up, (void)why, (void)data; /* a round that begins sees what is up */
}

static void on_stop(uv_async_t *async)
{
	struct drift_watch *w = async->data;

	w->stopping = true;
	for (size_t i = 0; i < w->conf->n; i++)
		if (w->regions[i].store != NULL)
			redis_store_close(w->regions[i].store, NULL, NULL);
	uv_close((uv_handle_t *)&w->timer, NULL);
	uv_close((uv_handle_t *)&w->stop, NULL);
}

static void on_thread(void *data)
{
	struct drift_watch *w = data;

	uv_run(&w->loop, UV_RUN_DEFAULT);
}

static void watch_free(struct drift_watch *w)
{
	forget_step(w);
	free(w->ledgers);
	free(w->queries);
	free(w->told);
	drift_table_release(&w->table);
	pthread_mutex_destroy(&w->lock);
	uv_loop_close(&w->loop);
	free(w);
}

/* False: a region's Redis can't be one; the store has said why. */
static bool open_stores(struct drift_watch *w)
{
	for (size_t i = 0; i < w->conf->n; i++) {
		struct region *r = &w->regions[i];

		r->name = w->conf->of[i].name;
		r->whole = true;
		r->store = redis_store_new(&w->loop, &w->conf->of[i].redis, on_changed, w);
		if (r->store == NULL)
			return false;
	}
	return true;
}

struct drift_watch *drift_watch_start(const struct drift_conf *conf, const char *node,
				      struct coord_events *events)
{
	struct drift_watch *w = calloc(1, sizeof *w);

	assert(conf->n <= DRIFT_REGIONS_MAX);
	if (w == NULL || uv_loop_init(&w->loop) != 0) {
		free(w);
		return NULL;
	}
	w->conf = conf;
	w->events = events;
	snprintf(w->node, sizeof w->node, "%s", node);
	pthread_mutex_init(&w->lock, NULL);
	uv_timer_init(&w->loop, &w->timer);
	uv_async_init(&w->loop, &w->stop, on_stop);
	w->timer.data = w->stop.data = w;
	rest(w, conf->every_ms, WATCH_RESTING);
	if (open_stores(w) && uv_thread_create(&w->thread, on_thread, w) == 0)
		return w;
	on_stop(&w->stop);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	watch_free(w);
	return NULL;
}

void drift_watch_stop(struct drift_watch *w)
{
	if (w == NULL)
		return;
	uv_async_send(&w->stop);
	uv_thread_join(&w->thread);
	watch_free(w);
}

/* ---- What is told ---- */

static void collect_series(const struct drift_watch *w, struct metrics_writer *m)
{
	static const struct {
		const char *name, *unit, *help;
	} families[] = {
		{"kova_drift_tokens", "tokens",
		 "What the ledgers in the region's Redis have counted more than Kafka, of roots "
		 "that "
		 "were at rest; less: below 0."},
		{"kova_drift_roots", NULL, "Roots that have a ledger in the region's Redis."},
		{"kova_drift_roots_moving", NULL,
		 "Of these, such as are in use, and were not compared in the last round."},
	};

	for (unsigned f = 0; f < sizeof families / sizeof families[0]; f++) {
		metrics_family(m, families[f].name, METRIC_GAUGE, families[f].unit,
			       families[f].help);
		for (size_t i = 0; i < w->n_told; i++) {
			const struct drift_series *s = &w->told[i];
			const struct metric_label labels[] = {
				{"policy", s->policy}, {"region", w->regions[s->region].name}};
			const double values[] = {(double)s->drift, (double)s->roots,
						 (double)s->moving};

			metrics_sample(m, labels, 2, values[f]);
		}
	}
}

static bool is_seen(const struct drift_watch *w, size_t region)
{
	return w->rounds == 0 || (w->seen >> region & 1) != 0;
}

void drift_watch_collect(struct drift_watch *w, struct metrics_writer *m)
{
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	collect_series(w, m);
	metrics_family(
		m, "kova_drift_ledgers_seen", METRIC_GAUGE, NULL,
		"1 if the region's Redis could be asked for all its ledgers in the last round.");
	for (size_t i = 0; i < w->conf->n; i++) {
		const struct metric_label region = {"region", w->regions[i].name};

		metrics_sample(m, &region, 1, is_seen(w, i));
	}
	metrics_number(m, "kova_drift_rounds", METRIC_COUNTER, NULL,
		       "Rounds in which ledgers and Kafka were compared.", (double)w->rounds);
	metrics_number(m, "kova_drift_overflows", METRIC_COUNTER, NULL,
		       "Ledgers that were not compared: there are too many.", (double)w->overflows);
	pthread_mutex_unlock(&w->lock);
}

void drift_watch_degraded(struct drift_watch *w, bool first, struct buf *out)
{
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < w->conf->n; i++)
		if (!is_seen(w, i)) {
			buf_printf(out, "%s\"redis@%s\"", first ? "" : ",", w->regions[i].name);
			first = false;
		}
	pthread_mutex_unlock(&w->lock);
}
