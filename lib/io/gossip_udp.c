/*
 * The story of a datagram: on_datagram() checks its form, its tag, and that it was not seen before (seal_open()), and gives its body
 * to gossip_step(); carry_out() does what that says: sends, tells the owner, pulls. The timer does the same without a
 * datagram. What is refused is counted, logged with its source, and changes nothing. A datagram that the kernel has no
 * room for is lost, as any other may be.
 */
#include "io/gossip_udp.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/gossip_bulk.h"
#include "core/gossip_replay.h"
#include "io/conf.h"
#include "io/gossip_stream.h"
#include "io/log.h"

enum {
	VERSION = 1,
	SEAL_HEAD = 3 + 8 + 8, /* "KG", version, epoch, number; the body; the tag */
	RECEIVE_BYTES = 2048,
	SOCKET_BYTES = 1 << 20,
	RESOLVE_MS = 30000,
};

_Static_assert(SEAL_HEAD + GOSSIP_TAG_BYTES == GOSSIP_SEAL_BYTES, "what a body has room beside");

struct seed {
	uv_getaddrinfo_t request;
	struct gossip_udp *u;
	char *text;
	struct gossip_address address;
	bool resolving;
};

struct gossip_udp {
	uv_loop_t *loop;
	struct gossip_owner owner;
	struct gossip *core;
	struct gossip_keys *keys;
	uint64_t epoch, number;
	uint8_t family; /* of the socket */
	char address[GOSSIP_ADDRESS_TEXT];
	uv_udp_t udp;
	uv_timer_t timer, resolver;
	struct gossip_streams *streams;
	struct seed seeds[GOSSIP_SEEDS_MAX];
	size_t n_seeds;
	struct gossip_senders senders;
	struct gossip_out out;
	uint64_t rejected[GOSSIP_REJECTED_REASONS];
	char received[RECEIVE_BYTES];
	bool closing;
	unsigned handles, requests;
	bool streams_closed;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- Addresses ---- */

void gossip_address_text(const struct gossip_address *a, char ret_text[static GOSSIP_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "";

	ret_text[0] = '\0';
	if (a->family == 0)
		return;
	uv_inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->host, host, sizeof host);
	snprintf(ret_text, GOSSIP_ADDRESS_TEXT, a->family == 4 ? "%s:%u" : "[%s]:%u", host,
		 a->port);
}

static struct gossip_address address_of(const struct sockaddr *sa)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct gossip_address a = {.family = 4};

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

		memcpy(a.host, &in->sin_addr, 4);
		a.port = ntohs(in->sin_port);
		return a;
	}
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

	a.port = ntohs(in6->sin6_port);
	if (memcmp(&in6->sin6_addr, mapped, sizeof mapped) == 0) {
		memcpy(a.host, (const uint8_t *)&in6->sin6_addr + sizeof mapped, 4);
		return a;
	}
	a.family = 6;
	memcpy(a.host, &in6->sin6_addr, 16);
	return a;
}

/* For a socket of `family`: one of IPv6 reaches IPv4 by mapped addresses. */
static struct sockaddr_storage sockaddr_of(const struct gossip_address *a, uint8_t family)
{
	struct sockaddr_storage room = {0};

	if (family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)&room;

		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->host, 4);
		return room;
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&room;
	uint8_t *host = (uint8_t *)&in6->sin6_addr;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(a->port);
	if (a->family == 6) {
		memcpy(host, a->host, 16);
	} else {
		host[10] = host[11] = 0xff;
		memcpy(host + 12, a->host, 4);
	}
	return room;
}

/* An address without names. */
static bool address_parse(const char *text, struct gossip_address *ret_address)
{
	struct gossip_address a = {.family = 4};
	struct slice host;
	char name[INET6_ADDRSTRLEN];

	if (!conf_address_parse(text, &host, &a.port) || host.len >= sizeof name)
		return false;
	memcpy(name, host.ptr, host.len);
	name[host.len] = '\0';
	if (strcmp(name, "localhost") == 0)
		snprintf(name, sizeof name, "127.0.0.1");
	if (uv_inet_pton(AF_INET, name, a.host) != 0) {
		a.family = 6;
		if (uv_inet_pton(AF_INET6, name, a.host) != 0)
			return false;
	}
	*ret_address = a;
	return true;
}

static bool is_wildcard(const struct gossip_address *a)
{
	static const uint8_t zero[16];

	return memcmp(a->host, zero, sizeof zero) == 0;
}

/* ---- Counting ---- */

static const char *const labels[] = {
#define X(name, label) [GOSSIP_REJECTED_##name] = label,
	GOSSIP_REJECTIONS(X)
#undef X
};

const char *gossip_rejection_label(enum gossip_rejection why)
{
	return labels[why];
}

void gossip_udp_reject(struct gossip_udp *u, enum gossip_rejection why)
{
	u->rejected[why]++;
}

void gossip_udp_rejected(const struct gossip_udp *u, uint64_t ret_counts[GOSSIP_REJECTED_REASONS])
{
	const struct gossip_counts *counts = gossip_counts(u->core);

	memcpy(ret_counts, u->rejected, sizeof u->rejected);
	ret_counts[GOSSIP_REJECTED_MALFORMED] += counts->malformed;
	ret_counts[GOSSIP_REJECTED_SKEW] += counts->skew;
	ret_counts[GOSSIP_REJECTED_CONFLICT] += counts->conflicts;
	ret_counts[GOSSIP_REJECTED_OVERFLOW] += counts->overflow;
}

static void refuse(struct gossip_udp *u, enum gossip_rejection why,
		   const struct gossip_address *from)
{
	char text[GOSSIP_ADDRESS_TEXT];

	u->rejected[why]++;
	gossip_address_text(from, text);
	log_event(LOG_WARN, "gossip_rejected", "a datagram was refused",
		  LOG_TEXT_FIELD("reason", labels[why]), LOG_TEXT_FIELD("from", text));
}

/* ---- The seal ---- */

/* False: why it is refused. */
static bool seal_open(struct gossip_udp *u, struct slice datagram, struct slice *ret_body,
		      enum gossip_rejection *ret_why)
{
	struct wire_reader r = wire_reader(datagram);
	struct slice magic = wire_get_bytes(&r, 2);
	uint64_t version = wire_get(&r, 1), epoch = wire_get(&r, 8), number = wire_get(&r, 8);
	struct gossip_head head;

	*ret_why = GOSSIP_REJECTED_MALFORMED;
	if (r.failed || !slice_equal(magic, SLICE("KG")) || datagram.len <= GOSSIP_SEAL_BYTES ||
	    datagram.len > GOSSIP_DATAGRAM_MAX)
		return false;
	*ret_why = GOSSIP_REJECTED_VERSION;
	if (version != VERSION)
		return false;
	struct slice sealed = {datagram.ptr, datagram.len - GOSSIP_TAG_BYTES};

	*ret_why = GOSSIP_REJECTED_HMAC;
	if (!gossip_verify(u->keys, &sealed, 1, (const uint8_t *)sealed.ptr + sealed.len))
		return false;
	*ret_body = slice_after(sealed, SEAL_HEAD);
	r = wire_reader(*ret_body);
	wire_get_head(&r, &head);
	*ret_why = GOSSIP_REJECTED_MALFORMED;
	if (r.failed)
		return false;
	struct gossip_window *seen = gossip_senders_window(
		&u->senders, gossip_hash(head.sender.name), uv_hrtime() / 1000000);

	*ret_why = seen == NULL ? GOSSIP_REJECTED_OVERFLOW : GOSSIP_REJECTED_REPLAY;
	return seen != NULL && gossip_window_admit(seen, epoch, number);
}

/* ---- What a step says ---- */

static void arm(struct gossip_udp *u);

static void send_body(struct gossip_udp *u, const struct gossip_address *to, struct slice body)
{
	uint8_t head[SEAL_HEAD], tag[GOSSIP_TAG_BYTES];
	struct wire_writer w = {.ptr = head, .cap = sizeof head};

	if (to->family == 0 || (to->family == 6 && u->family == 4))
		return;
	wire_put_bytes(&w, SLICE("KG"));
	wire_put(&w, VERSION, 1);
	wire_put(&w, u->epoch, 8);
	wire_put(&w, ++u->number, 8);
	struct slice parts[2] = {{(const char *)head, sizeof head}, body};

	if (!gossip_sign(u->keys, parts, 2, tag))
		return;
	struct sockaddr_storage address = sockaddr_of(to, u->family);
	uv_buf_t bufs[3] = {uv_buf_init((char *)head, sizeof head),
			    uv_buf_init((char *)(uintptr_t)body.ptr, (unsigned)body.len),
			    uv_buf_init((char *)tag, sizeof tag)};

	/* Lost if it can't be sent now. */
	(void)uv_udp_try_send(&u->udp, bufs, 3, (const struct sockaddr *)&address);
}

static void carry_out(struct gossip_udp *u)
{
	for (size_t i = 0; i < u->out.n; i++) {
		const struct gossip_output *o = &u->out.list[i];
		struct sockaddr_storage address;

		switch (o->kind) {
		case GOSSIP_SEND:
			send_body(u, &o->to, (struct slice){u->out.bytes.ptr + o->at, o->len});
			break;
		case GOSSIP_CAME:
			u->owner.came(u->owner.data, &o->item);
			break;
		case GOSSIP_WITHDRAWN:
			u->owner.withdrawn(u->owner.data, &o->item);
			break;
		case GOSSIP_GRANTED:
			if (u->owner.granted != NULL)
				u->owner.granted(u->owner.data, o->grant.bytes);
			break;
		case GOSSIP_MEMBER:
			u->owner.member(u->owner.data, o->member, o->was);
			break;
		case GOSSIP_PULL:
			address = sockaddr_of(&o->to,
					      u->family == 6 && o->to.family == 4 ? 4 : u->family);
			gossip_streams_pull(u->streams, (const struct sockaddr *)&address);
			break;
		}
	}
	gossip_out_clear(&u->out);
	arm(u);
}

struct gossip_time gossip_udp_now(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (struct gossip_time){.mono_ms = uv_hrtime() / 1000000,
				    .wall_ms = (uint64_t)wall.tv_sec * 1000 +
					       (uint64_t)wall.tv_nsec / 1000000};
}

static void step(struct gossip_udp *u, const struct gossip_input *input)
{
	gossip_step(u->core, gossip_udp_now(), input, &u->out);
	carry_out(u);
}

static void on_timer(uv_timer_t *timer)
{
	step(timer->data, NULL);
}

static void arm(struct gossip_udp *u)
{
	uint64_t now_ms = uv_hrtime() / 1000000, due_ms = gossip_wake_ms(u->core);

	if (!u->closing)
		uv_timer_start(&u->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

void gossip_udp_kick(struct gossip_udp *u)
{
	uv_update_time(u->loop);
	arm(u);
}

/* ---- What comes ---- */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret_buf)
{
	struct gossip_udp *u = h->data;

	(void)suggested;
	*ret_buf = uv_buf_init(u->received, sizeof u->received);
}

static void on_datagram(uv_udp_t *udp, ssize_t n, const uv_buf_t *b, const struct sockaddr *from,
			unsigned flags)
{
	struct gossip_udp *u = udp->data;
	enum gossip_rejection why;
	struct gossip_input input;

	(void)flags;
	if (n <= 0 || from == NULL)
		return; /* an error of an earlier one, or nothing more */
	input.from = address_of(from);
	if (seal_open(u, (struct slice){b->base, (size_t)n}, &input.body, &why))
		step(u, &input);
	else
		refuse(u, why, &input.from);
}

static void on_part(void *data, struct slice part)
{
	struct gossip_udp *u = data;

	/* What is malformed the core counts. */
	(void)!gossip_bulk_read(u->core, gossip_udp_now(), part, &u->out);
	carry_out(u);
}

static void on_reject(void *data, enum gossip_rejection why)
{
	gossip_udp_reject(data, why);
	log_event(LOG_WARN, "gossip_rejected", "a stream was refused",
		  LOG_TEXT_FIELD("reason", labels[why]));
}

static const struct gossip_keys *keys_of(void *data)
{
	return ((const struct gossip_udp *)data)->keys;
}

/* ---- Seeds ---- */

static void seeds_tell(struct gossip_udp *u)
{
	struct gossip_address list[GOSSIP_SEEDS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < u->n_seeds; i++)
		if (u->seeds[i].address.family != 0)
			list[n++] = u->seeds[i].address;
	gossip_set_seeds(u->core, list, n);
}

static void maybe_closed(struct gossip_udp *u);

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
	struct seed *s = request->data;
	struct gossip_udp *u = s->u;

	s->resolving = false;
	u->requests--;
	for (const struct addrinfo *a = status == 0 ? list : NULL; a != NULL && !u->closing;
	     a = a->ai_next) {
		if (u->family == 4 && a->ai_family != AF_INET)
			continue;
		s->address = address_of(a->ai_addr);
		seeds_tell(u);
		break;
	}
	uv_freeaddrinfo(list);
	if (u->closing)
		maybe_closed(u);
}

static void seed_resolve(struct gossip_udp *u, struct seed *s)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	struct slice host;
	uint16_t port;
	char name[256], service[8];

	if (address_parse(s->text, &s->address) || s->resolving ||
	    !conf_address_parse(s->text, &host, &port) || host.len >= sizeof name)
		return;
	memcpy(name, host.ptr, host.len);
	name[host.len] = '\0';
	snprintf(service, sizeof service, "%u", port);
	s->request.data = s;
	s->resolving =
		uv_getaddrinfo(u->loop, &s->request, on_resolved, name, service, &hints) == 0;
	u->requests += s->resolving;
}

/* Names are looked up again and again: a seed may come back at another address. */
static void on_resolver(uv_timer_t *timer)
{
	struct gossip_udp *u = timer->data;

	for (size_t i = 0; i < u->n_seeds; i++)
		seed_resolve(u, &u->seeds[i]);
	seeds_tell(u);
}

static bool seeds_init(struct gossip_udp *u, const struct gossip_udp_conf *conf)
{
	assert(conf->n_seeds <= GOSSIP_SEEDS_MAX);
	for (; u->n_seeds < conf->n_seeds; u->n_seeds++) {
		struct seed *s = &u->seeds[u->n_seeds];

		s->u = u;
		s->text = strdup(conf->seeds[u->n_seeds]);
		if (s->text == NULL)
			return false;
	}
	return true;
}

/* ---- Life ---- */

static void udp_free(struct gossip_udp *u)
{
	for (size_t i = 0; i < u->n_seeds; i++)
		free(u->seeds[i].text);
	gossip_keys_free(u->keys);
	gossip_free(u->core);
	gossip_out_release(&u->out);
	gossip_senders_release(&u->senders);
	free(u);
}

static void maybe_closed(struct gossip_udp *u)
{
	if (u->handles > 0 || u->requests > 0 || !u->streams_closed)
		return;
	void (*on_closed)(void *data) = u->on_closed;
	void *data = u->closed_data;

	udp_free(u);
	if (on_closed != NULL)
		on_closed(data);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct gossip_udp *u = h->data;

	u->handles--;
	maybe_closed(u);
}

static void on_streams_closed(void *data)
{
	struct gossip_udp *u = data;

	u->streams_closed = true;
	maybe_closed(u);
}

/* Closes what was opened. */
static void close_all(struct gossip_udp *u)
{
	u->closing = true;
	if (u->streams == NULL)
		u->streams_closed = true;
	else
		gossip_streams_close(u->streams, on_streams_closed, u);
	uv_close((uv_handle_t *)&u->udp, on_handle_closed);
	uv_close((uv_handle_t *)&u->timer, on_handle_closed);
	uv_close((uv_handle_t *)&u->resolver, on_handle_closed);
}

void gossip_udp_close(struct gossip_udp *u, void (*on_closed)(void *data), void *data)
{
	u->on_closed = on_closed;
	u->closed_data = data;
	gossip_leave(u->core, gossip_udp_now(), &u->out);
	u->closing = true;
	carry_out(u);
	close_all(u);
}

/* The port of the UDP socket, which streams need as well. */
static int port_of(const struct gossip_udp *u, uint16_t *ret_port)
{
	struct sockaddr_storage bound;
	int len = sizeof bound;
	int r = uv_udp_getsockname(&u->udp, (struct sockaddr *)&bound, &len);

	if (r == 0)
		*ret_port = address_of((const struct sockaddr *)&bound).port;
	return r;
}

/* 0, or libuv's error. *a gets the port. */
static int bind_udp(struct gossip_udp *u, struct gossip_address *a)
{
	struct sockaddr_storage address = sockaddr_of(a, a->family);
	int bytes = SOCKET_BYTES, r = uv_udp_bind(&u->udp, (const struct sockaddr *)&address, 0);

	if (r == 0)
		r = port_of(u, &a->port);
	if (r != 0)
		return r;
	/* As large as the system lets it be: a burst that does not fit is lost. */
	(void)uv_recv_buffer_size((uv_handle_t *)&u->udp, &bytes);
	return 0;
}

static int bind_streams(struct gossip_udp *u, const struct gossip_address *a)
{
	struct sockaddr_storage address = sockaddr_of(a, a->family);
	struct gossip_stream_user user = {.loop = u->loop,
					  .core = u->core,
					  .part = on_part,
					  .reject = on_reject,
					  .keys = keys_of,
					  .data = u};
	int r = gossip_streams_open(&user, (const struct sockaddr *)&address, &u->streams);

	return r != 0 ? r : uv_udp_recv_start(&u->udp, on_alloc, on_datagram);
}

static bool core_init(struct gossip_udp *u, const struct gossip_udp_conf *conf,
		      const struct gossip_address *address)
{
	struct gossip_conf core = conf->core;

	core.address = *address;
	if (conf->advertise == NULL && is_wildcard(address))
		core.address = (struct gossip_address){0};
	core.read = u->owner.read;
	if (getrandom(&core.seed, sizeof core.seed, 0) != sizeof core.seed)
		return false;
	u->core = gossip_new(&core, gossip_udp_now());
	return u->core != NULL;
}

static struct gossip_udp *fail(struct gossip_udp *u, struct buf *error, const char *text,
			       const char *why)
{
	buf_printf(error, "%s: %s\n", text, why);
	if (u->handles > 0)
		close_all(u); /* and free it, when the loop runs */
	else
		udp_free(u);
	return NULL;
}

struct gossip_udp *gossip_udp_start(uv_loop_t *loop, const struct gossip_udp_conf *conf,
				    const struct gossip_owner *owner, struct buf *ret_error)
{
	struct gossip_udp *u = calloc(1, sizeof *u);
	struct gossip_address bound, told;

	if (u == NULL) {
		gossip_keys_free(conf->keys);
		buf_printf(ret_error, "%s\n", kova_status_text(KOVA_ENOMEM));
		return NULL;
	}
	u->loop = loop;
	u->owner = *owner;
	u->keys = conf->keys;
	u->epoch = conf->epoch;
	if (!address_parse(conf->listen, &bound))
		return fail(u, ret_error, conf->listen,
			    "must be an IP address or `localhost`, and a port");
	if (conf->advertise != NULL && !address_parse(conf->advertise, &told))
		return fail(u, ret_error, conf->advertise, "must be an IP address and a port");
	u->family = bound.family;
	int r = uv_udp_init(loop, &u->udp);

	if (r != 0)
		return fail(u, ret_error, conf->listen, uv_strerror(r));
	uv_timer_init(loop, &u->timer);
	uv_timer_init(loop, &u->resolver);
	u->handles = 3;
	u->udp.data = u->timer.data = u->resolver.data = u;
	r = bind_udp(u, &bound);
	if (conf->advertise == NULL)
		told = bound;
	if (r == 0 && (!seeds_init(u, conf) || !core_init(u, conf, &told)))
		r = UV_ENOMEM;
	if (r == 0)
		r = bind_streams(u, &bound);
	if (r != 0)
		return fail(u, ret_error, conf->listen, uv_strerror(r));
	gossip_address_text(&bound, u->address);
	uv_timer_start(&u->resolver, on_resolver, 0, RESOLVE_MS);
	uv_timer_start(&u->timer, on_timer, 0, 0);
	return u;
}

struct gossip *gossip_udp_core(struct gossip_udp *u)
{
	return u->core;
}

const char *gossip_udp_address(const struct gossip_udp *u)
{
	return u->address;
}

void gossip_udp_set_keys(struct gossip_udp *u, struct gossip_keys *keys)
{
	gossip_keys_free(u->keys);
	u->keys = keys;
}
