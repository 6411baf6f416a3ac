/*
 * HTTP on connections (io/conn.h). Every answer is there at once, so an exchange has nothing under way: bytes in, answers written in
 * the same turn. One that brings no whole request in IDLE_MS is closed. One who watches (world.h) brings no more requests, and is
 * closed when too much waits for him, and when a reload has taken his token away.
 */
#include "http.h"

#include <stdlib.h>
#include <string.h>

#include "coord_gossip.h"
#include "core/version.h"
#include "drift_watch.h"
#include "io/buf_json.h"
#include "io/conf.h"
#include "io/conn.h"
#include "io/conn_auth.h"
#include "io/conn_metrics.h"
#include "io/http_access.h"
#include "io/http_server.h"
#include "io/listener.h"
#include "io/log.h"
#include "io/metrics.h"
#include "io/tls_metrics.h"
#include "io/tls_use.h"
#include "io/web_site.h"
#include "world.h"

enum {
	CONNECTIONS_MAX = 128,
	IDLE_MS = 20000,
	BODY_MAX = 4096,
	UNREAD_MAX = 1024 * 1024, /* bytes that one who watches has not taken */
};

struct http_front {
	struct coord_share *share;
	struct world *world;
	struct conn_pool *conns;
	struct listener *listener;
	struct auth *auth;
	struct tls_tickets *tickets; /* NULL: there is no TLS */
	struct tls_server *tls;      /* likewise */
};

/* A connection of it. */
struct http_conn {
	struct conn *conn;
	struct http_server *server;
	const struct auth_token
		*certificate;           /* what that of the client stands for; NULL: nothing */
	struct http_exchange *stream;   /* NULL: it is not one who watches */
	const struct auth_token *token; /* with which he was let in; NULL: none was needed */
	struct world_viewer viewer;
};

static struct http_front *front_of(const struct http_conn *c)
{
	return c->conn->owner;
}

/* ---- Answers ---- */

static void answer_with(struct http_exchange *x, unsigned status, const char *fields,
			const char *type, struct buf *body)
{
	const struct http_answer a = {.status = buf_failed(body) ? 503 : status,
				      .media_type = type,
				      .fields = slice_of(fields),
				      .body = buf_slice(body)};

	http_exchange_answer(x, &a);
	buf_release(body);
}

static void answer(struct http_exchange *x, unsigned status, const char *type, struct buf *body)
{
	answer_with(x, status, "", type, body);
}

static void answer_problem_with(struct http_exchange *x, unsigned status, const char *fields,
				const char *detail)
{
	struct buf body = {0};

	buf_printf(&body,
		   "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,\"detail\":\"%s\"}\n",
		   http_status_text(status), status, detail);
	answer_with(x, status, fields, "application/problem+json", &body);
}

static void answer_problem(struct http_exchange *x, unsigned status, const char *detail)
{
	answer_problem_with(x, status, "", detail);
}

static void collect(struct metrics_writer *w, const void *data)
{
	const struct coord_numbers *n = data;
	const struct metric_label version = {"version", KOVA_VERSION};
	const struct metric_label kafka = {"part", "kafka"};
	const struct metric_number numbers[] = {
		{"kova_coordinator_records", METRIC_COUNTER,
		 "Records of usage that were read, repetitions included.", n->records},
		{"kova_coordinator_malformed", METRIC_COUNTER,
		 "Records that are none of kova.usage.v1, and were left out.", n->malformed},
		{"kova_coordinator_foreign", METRIC_COUNTER,
		 "Records of kova.usage.v1 by schemas that are not known here, which were left "
		 "out.",
		 n->foreign},
		{"kova_coordinator_reports", METRIC_COUNTER,
		 "Reports of regions on their shares that were read.", n->reports},
		{"kova_coordinator_unshared", METRIC_COUNTER,
		 "Of these: of policies that are not global here, or of regions that are none.",
		 n->unshared},
		{"kova_coordinator_floors_differ", METRIC_COUNTER,
		 "Of these: of regions whose floor is another by their configuration than by this "
		 "one. Nothing is granted meanwhile.",
		 n->floors_differ},
		{"kova_coordinator_grants", METRIC_COUNTER, "Grants that were committed.",
		 n->grants},
		{"kova_coordinator_transactions", METRIC_COUNTER,
		 "Transactions that were committed.", n->transactions},
		{"kova_coordinator_refused", METRIC_COUNTER,
		 "Transactions that were not committed.", n->refused},
		{"kova_coordinator_failures", METRIC_COUNTER,
		 "Times that it gave up what was not committed, and began again.", n->failures},
		{"kova_coordinator_rows", METRIC_COUNTER,
		 "Rows of kova.rollup.v1 that were committed.", n->rows},
		{"kova_coordinator_ledger_records", METRIC_COUNTER,
		 "Records of kova.ledger.v1 that were committed.", n->ledger_records},
		{"kova_coordinator_partitions", METRIC_GAUGE,
		 "Partitions of kova.usage.v1 that this coordinator owns.", n->partitions},
		{"kova_coordinator_keys", METRIC_GAUGE,
		 "Key roots, by policy and region, whose usage it holds.", n->keys},
		{"kova_coordinator_quotas", METRIC_GAUGE,
		 "Key roots, by global policy, whose shares it grants.", n->quotas},
	};

	metrics_family(w, "kova_build", METRIC_INFO, NULL, "Which program this is.");
	metrics_sample(w, &version, 1, 1);
	metrics_family(w, "kova_outage", METRIC_GAUGE, NULL,
		       "1 while the part can't be reached: it is not in its group.");
	metrics_sample(w, &kafka, 1, !n->joined);
	metrics_numbers(w, numbers, sizeof numbers / sizeof numbers[0]);
}

struct numbers {
	struct coord_share *share;
	const struct http_front *front;
	struct coord_numbers work;
	struct gossip_numbers gossip;
};

static void collect_work(struct metrics_writer *w, const void *data)
{
	collect(w, &((const struct numbers *)data)->work);
}

static void collect_gossip(struct metrics_writer *w, const void *data)
{
	const struct gossip_numbers *g = &((const struct numbers *)data)->gossip;

	gossip_numbers_write(w, g);
	if (!g->on)
		return;
	metrics_family(w, "kova_clock_skew_seconds", METRIC_GAUGE, "seconds",
		       "What another's clock is ahead of this node's.");
	gossip_numbers_write_skews(w, g);
}

static void collect_drift(struct metrics_writer *w, const void *data)
{
	struct coord_share *share = ((const struct numbers *)data)->share;

	metrics_number(w, "kova_events_dropped", METRIC_COUNTER, NULL,
		       "Events that were not published: too many waited.",
		       (double)coord_events_dropped(&share->events));
	drift_watch_collect(share->drift, w);
}

/* The mean of the quotas that are in use, so that regions add up to the limit at most. */
static void write_shares(struct metrics_writer *w, const struct coord_shares *s, uint64_t limit)
{
	for (size_t i = 0; i < s->n_regions && s->sum.n_active > 0; i++) {
		const struct metric_label labels[] = {{"policy", s->policy},
						      {"region", s->region[i].name}};

		metrics_sample(w, labels, 2,
			       (double)s->sum.region[i].share_ppm * (double)limit / 1e6 /
				       (double)s->sum.n_active);
	}
}

static void collect_shares(struct metrics_writer *w, const void *data)
{
	const struct numbers *n = data;
	struct coord_share *share = n->share;

	metrics_number(w, "kova_coordinator_take_over_seconds", METRIC_GAUGE, "seconds",
		       "How long it took to rebuild what it owns, the last time.",
		       (double)n->work.take_over_us / 1e6);
	pthread_mutex_lock(&share->lock);
	metrics_family(w, "kova_global_share", METRIC_GAUGE, NULL,
		       "What a region has of a global limit, in the limit's unit: the mean of the "
		       "quotas that are in use.");
	for (size_t i = 0; i < share->n_shares; i++) {
		const struct coord_policy *p =
			coord_conf_policy(share->conf, share->shares[i].policy);

		write_shares(w, &share->shares[i], p != NULL ? p->limit : 0);
	}
	metrics_family(w, "kova_global_excess_bound_ratio", METRIC_GAUGE, "ratio",
		       "Loose: the most by which any quota's limit may be exceeded now, as a part "
		       "of it; 0: all regions are in touch.");
	for (size_t i = 0; i < share->n_shares; i++) {
		const struct metric_label label = {"policy", share->shares[i].policy};

		metrics_sample(w, &label, 1, (double)share->shares[i].sum.excess_ppm / 1e6);
	}
	pthread_mutex_unlock(&share->lock);
}

static void collect_front(struct metrics_writer *w, const void *data)
{
	const struct http_front *f = ((const struct numbers *)data)->front;
	const struct conn_counters n = conn_pool_counters(f->conns);
	const struct tls_numbers tls = {.fronts = f->tls != NULL ? TLS_FRONT_HTTP : 0U,
					.expires_s =
						f->tls != NULL ? tls_server_expires_s(f->tls) : 0,
					.counters = n.tls};

	conn_metrics_write(w, conn_pool_count(f->conns), conn_pool_max_clients(f->conns), &n);
	tls_metrics_write(w, &tls);
}

static void answer_metrics(struct http_exchange *x, const struct http_request *r,
			   const struct http_front *f)
{
	static metrics_collector *const collectors[] = {collect_work, collect_gossip, collect_drift,
							collect_shares, collect_front};
	struct coord_share *share = f->share;
	struct numbers n = {.share = share, .front = f, .work = coord_share_numbers(share)};
	bool open = http_request_accepts(r, SLICE("application"), SLICE("openmetrics-text")) >=
		    http_request_accepts(r, SLICE("text"), SLICE("plain"));
	struct buf body = {0};

	if (share->gossip != NULL)
		gossip_service_numbers(coord_gossip_service(share->gossip), &n.gossip);
	metrics_write(&body, open, collectors, sizeof collectors / sizeof collectors[0], &n);
	answer(x, 200, open ? METRICS_OPENMETRICS : METRICS_TEXT, &body);
}

static void answer_ready(struct http_exchange *x, struct coord_share *share)
{
	struct buf body = {0};
	bool ready = coord_share_write_health(share, &body);

	buf_add_text(&body, "\n");
	answer(x, ready ? 200 : 503, "application/json", &body);
}

static const char nothing_else[] =
	"there is nothing but GET / /healthz /readyz /metrics /v1/members /v1/stream";

static void answer_members(struct http_exchange *x, struct coord_share *share)
{
	struct buf body = {0};
	json_t *members = NULL;

	if (share->gossip == NULL) {
		answer_problem(x, 404, "there is no `gossip` in the configuration");
		return;
	}
	members = gossip_service_members(coord_gossip_service(share->gossip));
	buf_add_json(&body, members, JSON_COMPACT);
	buf_add_text(&body, "\n");
	body.failed |= members == NULL;
	json_decref(members);
	answer(x, 200, "application/json", &body);
}

extern const struct web_site site_coordinator;

static void answer_page(struct http_exchange *x, const struct http_request *r)
{
	const struct web_file *f = web_site_find(&site_coordinator, r);
	struct buf fields = {0};

	if (f == NULL) {
		answer_problem(x, 404, nothing_else);
		return;
	}
	struct http_answer a = web_site_answer(&site_coordinator, f, r, &fields);

	if (buf_failed(&fields))
		a = (struct http_answer){.status = 503};
	http_exchange_answer(x, &a);
	buf_release(&fields);
}

static void answer_stream(struct http_exchange *x, const struct auth_token *token)
{
	struct http_conn *c = http_exchange_data(x);
	struct world *world = front_of(c)->world;

	if (http_exchange_is_head(x)) {
		http_exchange_answer(x, &http_event_stream);
	} else if (world_viewers(world) >= WORLD_VIEWERS_MAX) {
		answer_problem(x, 503, "too many watch already; at most 32 may at a time");
	} else {
		http_exchange_stream(x, &http_event_stream);
		c->stream = x;
		c->token = token;
		conn_set_deadline(c->conn, 0);
		if (!world_join(world, &c->viewer))
			conn_close(c->conn);
	}
}

/* The page is no secret; what it shows is. */
static enum http_access access_of(struct slice path)
{
	static const char *const guarded[] = {"/metrics", "/v1/members", "/v1/stream"};

	for (size_t i = 0; i < sizeof guarded / sizeof guarded[0]; i++)
		if (slice_equal(path, slice_of(guarded[i])))
			return ACCESS_ANY_TOKEN;
	return ACCESS_OPEN;
}

static void on_request(struct http_exchange *x, const struct http_request *r)
{
	struct http_conn *c = http_exchange_data(x);
	struct http_front *f = front_of(c);
	const struct auth_token *token = NULL;
	struct http_refusal why;
	struct buf body = {0};

	c->conn->commands++;
	if (r->method != METHOD_GET && r->method != METHOD_HEAD) {
		answer_problem_with(x, 405, "Allow: GET, HEAD\r\n", nothing_else);
	} else if (!http_access_allows(f->auth, access_of(r->path), r, c->certificate, &token,
				       &why)) {
		answer_problem_with(x, why.status, why.fields, why.detail);
	} else if (slice_equal(r->path, SLICE("/healthz"))) {
		buf_add_text(&body, "{\"status\":\"ok\"}\n");
		answer(x, 200, "application/json", &body);
	} else if (slice_equal(r->path, SLICE("/readyz"))) {
		answer_ready(x, f->share);
	} else if (slice_equal(r->path, SLICE("/metrics"))) {
		answer_metrics(x, r, f);
	} else if (slice_equal(r->path, SLICE("/v1/members"))) {
		answer_members(x, f->share);
	} else if (slice_equal(r->path, SLICE("/v1/stream"))) {
		answer_stream(x, token);
	} else {
		answer_page(x, r);
	}
}

static void on_error(struct http_exchange *x, unsigned status, const char *detail)
{
	answer_problem(x, status, detail);
}

/* ---- The server's side of a connection ---- */

static struct buf *out_of(void *data)
{
	return conn_out(((struct http_conn *)data)->conn);
}

static bool may_read(void *data)
{
	return conn_may_read(((struct http_conn *)data)->conn);
}

static bool is_ending(void *data)
{
	return conn_is_finishing(((struct http_conn *)data)->conn);
}

static size_t body_max(void *data, const struct http_request *r)
{
	(void)data;
	(void)r;
	return BODY_MAX;
}

static void on_exchange(struct http_exchange *x)
{
	(void)x;
}

static void on_finished(void *data)
{
	conn_finish(((struct http_conn *)data)->conn);
}

static const struct http_server_ops server_ops = {
	.out = out_of,
	.may_read = may_read,
	.is_ending = is_ending,
	.body_max = body_max,
	.on_request = on_request,
	.on_error = on_error,
	.on_answered = on_exchange,
	.on_abandoned = on_exchange,
	.on_finished = on_finished,
};

/* ---- The connection's side ---- */

static void send_to_viewer(struct world_viewer *v, struct slice events)
{
	struct http_conn *c = (struct http_conn *)((char *)v - offsetof(struct http_conn, viewer));

	if (conn_out_bytes(c->conn) > UNREAD_MAX || !auth_holds(front_of(c)->auth, c->token, 0))
		conn_close(c->conn);
	else
		http_exchange_write(c->stream, events);
}

static bool on_open(struct conn *conn)
{
	struct http_conn *c = calloc(1, sizeof *c);

	if (c == NULL)
		return false;
	c->conn = conn;
	c->viewer.send = send_to_viewer;
	c->server = http_server_new(&server_ops, c);
	if (c->server == NULL) {
		free(c);
		return false;
	}
	c->certificate = conn_auth_certificate(conn, ((struct http_front *)conn->owner)->auth);
	conn->front = c;
	conn_set_deadline(conn, IDLE_MS);
	return true;
}

static size_t on_bytes(struct conn *conn, struct slice bytes)
{
	struct http_conn *c = conn->front;
	size_t used = http_server_feed(c->server, bytes);

	if (!http_server_is_receiving(c->server) && c->stream == NULL)
		conn_set_deadline(conn, IDLE_MS);
	return used;
}

static void on_end(struct conn *conn)
{
	(void)conn;
}

/* Nothing more is to be said to one who watches. */
static void on_finish(struct conn *conn)
{
	struct http_conn *c = conn->front;

	world_leave(front_of(c)->world, &c->viewer);
}

static void on_idle(struct conn *conn)
{
	http_server_trim(((struct http_conn *)conn->front)->server);
}

static void on_closed(struct conn *conn)
{
	struct http_conn *c = conn->front;

	world_leave(front_of(c)->world, &c->viewer);
	http_server_free(c->server);
	free(c);
}

static const struct front_ops ops = {
	.name = "http",
	.full_text = HTTP_FULL_TEXT,
	.inner = TLS_INNER_HTTP1,
	.plain_text = HTTP_PLAIN_TEXT,
	.on_open = on_open,
	.on_bytes = on_bytes,
	.on_end = on_end,
	.on_finish = on_finish,
	.on_idle = on_idle,
	.on_closed = on_closed,
};

/* ---- The front ---- */

static void front_free(void *data)
{
	struct http_front *f = data;

	world_close(f->world);
	tls_server_unref(f->tls);
	tls_tickets_free(f->tickets);
	auth_free(f->auth);
	free(f);
}

static void use_tls(struct http_front *f, struct tls_server *tls)
{
	tls_use(&f->tls, tls);
	tls_use_log(tls);
}

static bool open_tls(struct http_front *f, const struct tls_section *conf, struct buf *ret_error)
{
	struct tls_server *tls = NULL;

	if (conf->cert == NULL)
		return true;
	f->tickets = tls_tickets_new(NULL);
	if (f->tickets == NULL || !tls_use_open(conf, f->tickets, &tls, ret_error))
		return false;
	use_tls(f, tls);
	return true;
}

static bool listen_at(struct http_front *f, const struct coord_conf *conf, struct buf *ret_error)
{
	bool tls = f->tls != NULL;

	f->listener = listener_start(f->conns, conf->http, &ops, tls, ret_error);
	if (f->listener == NULL)
		return false;
	log_event(LOG_INFO, "listening", "ready for requests", LOG_TEXT_FIELD("front", "http"),
		  LOG_TEXT_FIELD("address", listener_address(f->listener)),
		  LOG_TEXT_FIELD_IF(tls, "tls", "yes"));
	if (!tls && auth_required(f->auth))
		tls_use_warn("http", conf->http);
	if (conf->insecure && !auth_required(f->auth))
		log_event(LOG_WARN, "insecure",
			  "INSECURE: anybody who reaches this coordinator sees what it shows");
	return true;
}

struct http_front *http_front_open(uv_loop_t *loop, const struct coord_conf *conf,
				   struct coord_share *share, struct buf *ret_error)
{
	struct http_front *f = calloc(1, sizeof *f);

	if (f == NULL)
		return NULL;
	const struct conn_place place = {.loop = loop, .tls = &f->tls, .owner = f};

	f->share = share;
	const struct auth_terms terms = auth_section_terms(&conf->auth);

	f->auth = auth_new(&terms, ret_error);
	f->world = world_new(loop, share);
	if (f->auth != NULL && f->world != NULL && open_tls(f, &conf->tls, ret_error))
		f->conns = conn_pool_new(&place, CONNECTIONS_MAX);
	if (f->conns == NULL) {
		front_free(f);
		return NULL;
	}
	if (listen_at(f, conf, ret_error))
		return f;
	http_front_close(f);
	return NULL;
}

kova_status http_front_reload(struct http_front *f, const struct coord_conf *conf,
			      struct buf *ret_errors)
{
	const struct auth_terms terms = auth_section_terms(&conf->auth);
	struct tls_server *tls = NULL;

	if (!auth_section_suits(&conf->auth, conf->insecure, listener_address(f->listener),
				ret_errors) ||
	    !tls_use_open(&conf->tls, f->tickets, &tls, ret_errors))
		return KOVA_ECONFIG;
	if (auth_reload(f->auth, &terms, ret_errors) != KOVA_OK) {
		tls_server_unref(tls);
		return KOVA_ECONFIG;
	}
	if (tls != NULL)
		use_tls(f, tls);
	return KOVA_OK;
}

void http_front_close(struct http_front *f)
{
	if (f == NULL)
		return;
	if (f->listener != NULL)
		listener_stop(f->listener);
	conn_pool_drain(f->conns);
	conn_pool_close(f->conns, front_free, f);
}
