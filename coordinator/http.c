/*
 * A listener and its connections. Every answer is there at once, so a connection has nothing under way: bytes in, answers
 * written in the same turn. One that brings no whole request in IDLE_MS is closed; so is one that does not read its answers.
 * One who watches (world.h) brings no more requests, and is closed when too much waits for him.
 */
#include "http.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "coord_gossip.h"
#include "core/version.h"
#include "drift_watch.h"
#include "io/buf_json.h"
#include "io/conf.h"
#include "io/http_server.h"
#include "io/log.h"
#include "io/metrics.h"
#include "io/web_site.h"
#include "world.h"

enum {
	CONNECTIONS_MAX = 128,
	IDLE_MS = 20000,
	BACKLOG = 64,
	READ_BYTES = 16384,
	BODY_MAX = 4096,
	UNREAD_MAX = 1024 * 1024, /* bytes that one who watches has not taken */
};

struct http_front {
	uv_tcp_t tcp;
	struct coord_share *share;
	struct world *world;
	struct http_conn *conns; /* a list */
	unsigned n_conns;
	bool closing, tcp_closed;
};

struct http_conn {
	struct http_front *front;
	struct http_conn *next, **prev;
	uv_tcp_t tcp;
	uv_timer_t idle;
	unsigned open_handles;
	struct http_server *server;
	struct http_exchange *stream; /* NULL: it is not one who watches */
	struct world_viewer viewer;
	struct buf out;
	bool finished;
	char in[READ_BYTES];
};

static void conn_close(struct http_conn *c);

/* ---- Answers ---- */

static void answer(struct http_exchange *x, unsigned status, const char *type, struct buf *body)
{
	const struct http_answer a = {.status = buf_failed(body) ? 503 : status,
				      .media_type = type,
				      .body = buf_slice(body)};

	http_exchange_answer(x, &a);
	buf_release(body);
}

static void answer_problem(struct http_exchange *x, unsigned status, const char *detail)
{
	struct buf body = {0};

	buf_printf(&body,
		   "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,\"detail\":\"%s\"}\n",
		   http_status_text(status), status, detail);
	answer(x, status, "application/problem+json", &body);
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

static void answer_metrics(struct http_exchange *x, const struct http_request *r,
			   struct coord_share *share)
{
	static metrics_collector *const collectors[] = {collect_work, collect_gossip, collect_drift,
							collect_shares};
	struct numbers n = {.share = share, .work = coord_share_numbers(share)};
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

static void answer_stream(struct http_exchange *x)
{
	struct http_conn *c = http_exchange_data(x);

	if (http_exchange_is_head(x)) {
		http_exchange_answer(x, &http_event_stream);
	} else if (world_viewers(c->front->world) >= WORLD_VIEWERS_MAX) {
		answer_problem(x, 503, "too many watch already; at most 32 may at a time");
	} else {
		http_exchange_stream(x, &http_event_stream);
		c->stream = x;
		uv_timer_stop(&c->idle);
		if (!world_join(c->front->world, &c->viewer))
			conn_close(c);
	}
}

static void on_request(struct http_exchange *x, const struct http_request *r)
{
	struct http_conn *c = http_exchange_data(x);
	struct buf body = {0};

	if (r->method != METHOD_GET && r->method != METHOD_HEAD) {
		answer_problem(x, 405, nothing_else);
	} else if (slice_equal(r->path, SLICE("/healthz"))) {
		buf_add_text(&body, "{\"status\":\"ok\"}\n");
		answer(x, 200, "application/json", &body);
	} else if (slice_equal(r->path, SLICE("/readyz"))) {
		answer_ready(x, c->front->share);
	} else if (slice_equal(r->path, SLICE("/metrics"))) {
		answer_metrics(x, r, c->front->share);
	} else if (slice_equal(r->path, SLICE("/v1/members"))) {
		answer_members(x, c->front->share);
	} else if (slice_equal(r->path, SLICE("/v1/stream"))) {
		answer_stream(x);
	} else {
		answer_page(x, r);
	}
}

static void on_error(struct http_exchange *x, unsigned status, const char *detail)
{
	answer_problem(x, status, detail);
}

/* ---- A connection ---- */

static void front_free_if_done(struct http_front *f)
{
	if (f->tcp_closed && f->conns == NULL)
		free(f);
}

static void on_conn_closed(uv_handle_t *h)
{
	struct http_conn *c = h->data;
	struct http_front *f = c->front;

	if (--c->open_handles > 0)
		return;
	*c->prev = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	f->n_conns--;
	http_server_free(c->server);
	buf_release(&c->out);
	free(c);
	front_free_if_done(f);
}

static void conn_close(struct http_conn *c)
{
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	world_leave(c->front->world, &c->viewer);
	uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
	uv_close((uv_handle_t *)&c->idle, on_conn_closed);
}

static struct buf *out_of(void *data)
{
	return &((struct http_conn *)data)->out;
}

static bool may_read(void *data)
{
	return !((struct http_conn *)data)->finished;
}

static bool is_ending(void *data)
{
	return ((struct http_conn *)data)->front->closing;
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
	((struct http_conn *)data)->finished = true;
}

static const struct http_server_ops ops = {
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

struct http_write {
	uv_write_t write;
	struct http_conn *conn;
	bool last;
	char *bytes; /* owned */
};

static void on_written(uv_write_t *write, int status)
{
	struct http_write *w = write->data;

	if (status != 0 || w->last)
		conn_close(w->conn);
	free(w->bytes);
	free(w);
}

/* Hands the output to the socket. */
static void conn_send(struct http_conn *c)
{
	struct http_write *w;
	uv_buf_t bytes;

	if (c->out.len == 0 && !c->out.failed)
		return;
	w = c->out.failed ? NULL : malloc(sizeof *w);
	if (w == NULL) {
		conn_close(c);
		return;
	}
	*w = (struct http_write){.conn = c, .last = c->finished, .bytes = c->out.ptr};
	bytes = uv_buf_init(c->out.ptr, (unsigned)c->out.len);
	c->out = (struct buf){0};
	w->write.data = w;
	if (uv_write(&w->write, (uv_stream_t *)&c->tcp, &bytes, 1, on_written) != 0) {
		free(w->bytes);
		free(w);
		conn_close(c);
	}
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret_buf)
{
	struct http_conn *c = h->data;

	(void)size;
	*ret_buf = uv_buf_init(c->in, sizeof c->in);
}

static void on_idle(uv_timer_t *t)
{
	conn_close(t->data);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
	struct http_conn *c = stream->data;

	if (n < 0 || (c->stream == NULL && uv_stream_get_write_queue_size(stream) > 0)) {
		conn_close(c);
		return;
	}
	http_server_feed(c->server, (struct slice){bytes->base, (size_t)n});
	if (!http_server_is_receiving(c->server) && c->stream == NULL)
		uv_timer_again(&c->idle);
	conn_send(c);
}

static void send_to_viewer(struct world_viewer *v, struct slice events)
{
	struct http_conn *c = (struct http_conn *)((char *)v - offsetof(struct http_conn, viewer));

	if (uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp) > UNREAD_MAX) {
		conn_close(c);
		return;
	}
	http_exchange_write(c->stream, events);
	conn_send(c);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct http_front *f = listener->data;
	struct http_conn *c = status == 0 ? calloc(1, sizeof *c) : NULL;

	if (c == NULL)
		return;
	c->front = f;
	c->viewer.send = send_to_viewer;
	c->server = http_server_new(&ops, c);
	uv_tcp_init(listener->loop, &c->tcp);
	uv_timer_init(listener->loop, &c->idle);
	c->tcp.data = c->idle.data = c;
	c->open_handles = 2;
	c->next = f->conns;
	c->prev = &f->conns;
	if (c->next != NULL)
		c->next->prev = &c->next;
	f->conns = c;
	f->n_conns++;
	if (c->server == NULL || uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 ||
	    f->n_conns > CONNECTIONS_MAX ||
	    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
		conn_close(c);
	else
		uv_timer_start(&c->idle, on_idle, IDLE_MS, IDLE_MS);
}

/* ---- The listener ---- */

static bool address_of(const char *text, struct sockaddr_storage *ret_address)
{
	struct slice host;
	uint16_t port;
	char name[INET6_ADDRSTRLEN];

	if (!conf_address_parse(text, &host, &port) || host.len >= sizeof name)
		return false;
	memcpy(name, host.ptr, host.len);
	name[host.len] = '\0';
	if (strcmp(name, "localhost") == 0)
		strcpy(name, "127.0.0.1");
	return uv_ip4_addr(name, port, (struct sockaddr_in *)ret_address) == 0 ||
	       uv_ip6_addr(name, port, (struct sockaddr_in6 *)ret_address) == 0;
}

static void log_address(struct http_front *f)
{
	struct sockaddr_storage at = {0};
	int size = sizeof at;
	char host[INET6_ADDRSTRLEN] = "", text[INET6_ADDRSTRLEN + 10];
	uint16_t port;

	uv_tcp_getsockname(&f->tcp, (struct sockaddr *)&at, &size);
	if (at.ss_family == AF_INET6) {
		uv_ip6_name((struct sockaddr_in6 *)&at, host, sizeof host);
		port = ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
	} else {
		uv_ip4_name((struct sockaddr_in *)&at, host, sizeof host);
		port = ntohs(((struct sockaddr_in *)&at)->sin_port);
	}
	snprintf(text, sizeof text, at.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
		 (unsigned)port);
	log_event(LOG_INFO, "listening", "ready for requests", LOG_TEXT_FIELD("protocol", "http"),
		  LOG_TEXT_FIELD("address", text));
}

static void on_listener_closed(uv_handle_t *h)
{
	struct http_front *f = h->data;

	f->tcp_closed = true;
	front_free_if_done(f);
}

struct http_front *http_front_open(uv_loop_t *loop, const char *address, struct coord_share *share,
				   struct buf *ret_error)
{
	struct http_front *f = calloc(1, sizeof *f);
	struct sockaddr_storage at = {0};
	int r = UV_ENOMEM;

	if (f == NULL)
		return NULL;
	f->share = share;
	f->world = world_new(loop, share);
	if (f->world == NULL) {
		free(f);
		return NULL;
	}
	uv_tcp_init(loop, &f->tcp);
	f->tcp.data = f;
	r = address_of(address, &at) ? uv_tcp_bind(&f->tcp, (struct sockaddr *)&at, 0) : UV_EINVAL;
	if (r == 0)
		r = uv_listen((uv_stream_t *)&f->tcp, BACKLOG, on_connection);
	if (r == 0) {
		log_address(f);
		return f;
	}
	buf_printf(ret_error, "%s: %s", address, uv_strerror(r));
	http_front_close(f);
	return NULL;
}

void http_front_close(struct http_front *f)
{
	if (f == NULL)
		return;
	f->closing = true;
	uv_close((uv_handle_t *)&f->tcp, on_listener_closed);
	for (struct http_conn *c = f->conns; c != NULL; c = c->next)
		conn_close(c);
	world_close(f->world);
}
