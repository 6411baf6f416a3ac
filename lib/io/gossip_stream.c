/*
 * The story of a pull: connect, both say hello, the client sends one frame with the digests of its leaves, the server answers with
 * frames until one says that it was the last, and both close. Whatever fails, or takes too long, ends the stream: what came
 * until then counts, and gossip asks again. Every path ends in stream_close(), exactly once.
 */
#include "io/gossip_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/gossip_wire.h"

enum {
	VERSION = 1,
	NONCE_BYTES = 16,
	HELLO_BYTES = 4 + NONCE_BYTES, /* "KGS", version, nonce */
	FRAME_BYTES_MAX = GOSSIP_CHUNK_MAX + 1,
	SERVED_MAX = 16,   /* at a time */
	IDLE_MS = 5000,    /* without a frame: strangers' bytes don't count, however many come */
	READ_BYTES = 2048, /* libuv reads 32 times in a turn of the loop: a part of an answer */
};

struct stream {
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_connect_t connect;
	uv_write_t write;
	struct gossip_streams *owner;
	struct stream *next, **link;
	bool is_client, greeted, writing, done, closing;
	unsigned handles;
	uint8_t nonce[2][NONCE_BYTES]; /* the client's, the server's */
	uint64_t frames_in, frames_out;
	struct buf in, out, question;
	uint32_t at; /* of the answer */
};

struct gossip_streams {
	struct gossip_stream_user user;
	uv_tcp_t listener;
	struct stream *first;
	unsigned n_served;
	struct stream *pulling;
	bool closing, listener_closed;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- The end ---- */

static void maybe_closed(struct gossip_streams *s)
{
	if (!s->closing || s->first != NULL || !s->listener_closed)
		return;
	void (*on_closed)(void *data) = s->on_closed;
	void *data = s->closed_data;

	free(s);
	on_closed(data);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct stream *st = h->data;
	struct gossip_streams *s = st->owner;

	if (--st->handles > 0)
		return;
	*st->link = st->next;
	if (st->next != NULL)
		st->next->link = st->link;
	buf_release(&st->in);
	buf_release(&st->out);
	buf_release(&st->question);
	free(st);
	maybe_closed(s);
}

static void stream_close(struct stream *st)
{
	if (st->closing)
		return;
	st->closing = true;
	if (st->is_client)
		st->owner->pulling = NULL;
	else
		st->owner->n_served--;
	uv_close((uv_handle_t *)&st->tcp, on_handle_closed);
	uv_close((uv_handle_t *)&st->timer, on_handle_closed);
}

static void on_idle(uv_timer_t *timer)
{
	stream_close(timer->data);
}

static void reject(struct stream *st, enum gossip_rejection why)
{
	st->owner->user.reject(st->owner->user.data, why);
	stream_close(st);
}

/* ---- Writing ---- */

/* What a frame's tag is of: `side` 0 is the client's, 1 the server's. */
static void frame_parts(struct stream *st, unsigned side, uint64_t number, struct slice body,
			uint8_t room[static 9], struct slice ret_parts[static 5])
{
	struct wire_writer w = {.ptr = room, .cap = 9};

	wire_put(&w, side, 1);
	wire_put(&w, number, 8);
	ret_parts[0] = SLICE("kova gossip stream 1");
	ret_parts[1] = (struct slice){(const char *)st->nonce[0], NONCE_BYTES};
	ret_parts[2] = (struct slice){(const char *)st->nonce[1], NONCE_BYTES};
	ret_parts[3] = (struct slice){(const char *)room, 9};
	ret_parts[4] = body;
}

static void on_written(uv_write_t *write, int status);

static void flush(struct stream *st)
{
	uv_buf_t b = uv_buf_init(st->out.ptr, (unsigned)st->out.len);

	if (st->writing || st->closing || st->out.len == 0)
		return;
	st->writing = true;
	if (buf_failed(&st->out) ||
	    uv_write(&st->write, (uv_stream_t *)&st->tcp, &b, 1, on_written) != 0) {
		st->writing = false;
		stream_close(st);
	}
}

static void send_hello(struct stream *st)
{
	uint8_t *nonce = st->nonce[st->is_client ? 0 : 1];

	if (getrandom(nonce, NONCE_BYTES, 0) != NONCE_BYTES) {
		stream_close(st);
		return;
	}
	buf_add(&st->out, "KGS", 3);
	buf_add(&st->out, (const char[]){VERSION}, 1);
	buf_add(&st->out, nonce, NONCE_BYTES);
	flush(st);
}

/* Frames `body`, which stands in st->out from `from` on behind room for its length. */
static void frame_end(struct stream *st, size_t from)
{
	struct slice parts[5], body = {st->out.ptr + from + 4, st->out.len - from - 4};
	uint8_t room[9], tag[GOSSIP_TAG_BYTES];
	struct wire_writer w = {.ptr = (uint8_t *)st->out.ptr + from, .cap = 4};

	if (buf_failed(&st->out)) {
		stream_close(st);
		return;
	}
	wire_put(&w, body.len, 4);
	frame_parts(st, st->is_client ? 0 : 1, st->frames_out++, body, room, parts);
	if (!gossip_sign(st->owner->user.keys(st->owner->user.data), parts, 5, tag)) {
		stream_close(st);
		return;
	}
	buf_add(&st->out, tag, sizeof tag);
	flush(st);
}

/* The client's only frame. */
static void send_question(struct stream *st)
{
	size_t from = st->out.len;

	buf_add(&st->out, "\0\0\0", 4);
	gossip_pull_write(st->owner->user.core, &st->out);
	frame_end(st, from);
}

/* The server's next one: whether more follow, then the part. */
static void send_answer(struct stream *st)
{
	size_t from = st->out.len;

	buf_add(&st->out, "\0\0\0\0", 5);
	st->done = !gossip_bulk_write(st->owner->user.core, buf_slice(&st->question), &st->at,
				      &st->out);
	if (!buf_failed(&st->out))
		st->out.ptr[from + 4] = st->done ? 0 : 1;
	frame_end(st, from);
}

static void on_written(uv_write_t *write, int status)
{
	struct stream *st = write->data;

	st->writing = false;
	if (status != 0) {
		stream_close(st);
		return;
	}
	if (st->closing)
		return;
	buf_clear(&st->out);
	if (st->is_client) {
		if (st->greeted && st->frames_out == 0)
			send_question(st);
		return;
	}
	if (st->question.len == 0)
		return;
	uv_timer_again(&st->timer);
	if (st->done)
		stream_close(st);
	else
		send_answer(st);
}

/* ---- Reading ---- */

static bool take_hello(struct stream *st)
{
	if (st->in.len < HELLO_BYTES)
		return false;
	if (memcmp(st->in.ptr, "KGS", 3) != 0) {
		reject(st, GOSSIP_REJECTED_MALFORMED);
		return false;
	}
	if (st->in.ptr[3] != VERSION) {
		reject(st, GOSSIP_REJECTED_VERSION);
		return false;
	}
	memcpy(st->nonce[st->is_client ? 1 : 0], st->in.ptr + 4, NONCE_BYTES);
	buf_consume(&st->in, HELLO_BYTES);
	st->greeted = true;
	if (!st->is_client)
		send_hello(st);
	else if (!st->writing)
		send_question(st);
	return !st->closing;
}

static void take_body(struct stream *st, struct slice body)
{
	struct gossip_streams *s = st->owner;

	if (!st->is_client) {
		if (body.len != GOSSIP_PULL_BYTES || st->question.len > 0) {
			reject(st, GOSSIP_REJECTED_MALFORMED);
			return;
		}
		buf_add_slice(&st->question, body);
		if (buf_failed(&st->question))
			stream_close(st);
		else if (!st->writing)
			send_answer(st);
		return;
	}
	if (body.len == 0) {
		reject(st, GOSSIP_REJECTED_MALFORMED);
		return;
	}
	s->user.part(s->user.data, slice_after(body, 1));
	if (body.ptr[0] == 0)
		stream_close(st);
}

/* One whole frame off the input. False: there is none, or the stream has ended. */
static bool take_frame(struct stream *st)
{
	struct gossip_streams *s = st->owner;
	struct wire_reader r = wire_reader(buf_slice(&st->in));
	size_t len = wire_get(&r, 4);
	size_t max = st->is_client ? FRAME_BYTES_MAX : GOSSIP_PULL_BYTES;
	struct slice parts[5];
	uint8_t room[9];

	if (r.failed)
		return false;
	if (len > max) {
		reject(st, GOSSIP_REJECTED_MALFORMED);
		return false;
	}
	struct slice body = wire_get_bytes(&r, len), tag = wire_get_bytes(&r, GOSSIP_TAG_BYTES);

	if (r.failed)
		return false;
	frame_parts(st, st->is_client ? 1 : 0, st->frames_in++, body, room, parts);
	if (!gossip_verify(s->user.keys(s->user.data), parts, 5, (const uint8_t *)tag.ptr)) {
		reject(st, GOSSIP_REJECTED_HMAC);
		return false;
	}
	if (st->is_client)
		uv_timer_again(&st->timer);
	take_body(st, body);
	buf_consume(&st->in, 4 + len + GOSSIP_TAG_BYTES);
	return !st->closing;
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret_buf)
{
	struct stream *st = h->data;
	char *room = buf_reserve(&st->in, READ_BYTES);

	(void)suggested;
	*ret_buf = uv_buf_init(room, room != NULL ? READ_BYTES : 0);
}

static void on_read(uv_stream_t *h, ssize_t n, const uv_buf_t *b)
{
	struct stream *st = h->data;

	(void)b;
	if (n < 0) {
		stream_close(st);
		return;
	}
	st->in.len += (size_t)n;
	if (!st->greeted && !take_hello(st))
		return;
	while (take_frame(st))
		;
}

/* ---- The beginning ---- */

static struct stream *stream_new(struct gossip_streams *s, bool is_client)
{
	struct stream *st = calloc(1, sizeof *st);

	if (st == NULL)
		return NULL;
	st->owner = s;
	st->is_client = is_client;
	if (uv_tcp_init(s->user.loop, &st->tcp) != 0) {
		free(st);
		return NULL;
	}
	uv_timer_init(s->user.loop, &st->timer);
	st->handles = 2;
	st->tcp.data = st->timer.data = st->write.data = st->connect.data = st;
	st->next = s->first;
	st->link = &s->first;
	if (s->first != NULL)
		s->first->link = &st->next;
	s->first = st;
	if (is_client)
		s->pulling = st;
	else
		s->n_served++;
	uv_timer_start(&st->timer, on_idle, IDLE_MS, IDLE_MS);
	return st;
}

/* The one that was served first of those that have not shown a key; there is one. */
static struct stream *oldest_stranger(const struct gossip_streams *s)
{
	struct stream *oldest = NULL;

	for (struct stream *st = s->first; st != NULL; st = st->next)
		if (!st->is_client && !st->closing && st->question.len == 0)
			oldest = st;
	return oldest;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct gossip_streams *s = listener->data;
	struct stream *st = status == 0 ? stream_new(s, false) : NULL;

	if (st == NULL)
		return;
	if (uv_accept(listener, (uv_stream_t *)&st->tcp) != 0) {
		stream_close(st);
		return;
	}
	/* Strangers that say nothing can't keep members out: they make room. */
	if (s->n_served > SERVED_MAX)
		reject(oldest_stranger(s),
		       GOSSIP_REJECTED_OVERFLOW); /* `st`, if there is no other */
	if (!st->closing && uv_read_start((uv_stream_t *)&st->tcp, on_alloc, on_read) != 0)
		stream_close(st);
}

static void on_connected(uv_connect_t *connect, int status)
{
	struct stream *st = connect->data;

	if (st->closing)
		return;
	if (status != 0 || uv_read_start((uv_stream_t *)&st->tcp, on_alloc, on_read) != 0) {
		stream_close(st);
		return;
	}
	send_hello(st);
}

void gossip_streams_pull(struct gossip_streams *s, const struct sockaddr *address)
{
	if (s->pulling != NULL || s->closing)
		return;
	struct stream *st = stream_new(s, true);

	if (st != NULL && uv_tcp_connect(&st->connect, &st->tcp, address, on_connected) != 0)
		stream_close(st);
}

int gossip_streams_open(const struct gossip_stream_user *user, const struct sockaddr *address,
			struct gossip_streams **ret_streams)
{
	struct gossip_streams *s = calloc(1, sizeof *s);
	int r = s != NULL ? uv_tcp_init(user->loop, &s->listener) : UV_ENOMEM;

	if (r != 0) {
		free(s);
		return r;
	}
	s->user = *user;
	s->listener.data = s;
	r = uv_tcp_bind(&s->listener, address, 0);
	if (r == 0)
		r = uv_listen((uv_stream_t *)&s->listener, 64, on_connection);
	*ret_streams = s; /* also when it failed: it is to be closed */
	return r;
}

static void on_listener_closed(uv_handle_t *h)
{
	struct gossip_streams *s = h->data;

	s->listener_closed = true;
	maybe_closed(s);
}

void gossip_streams_close(struct gossip_streams *s, void (*on_closed)(void *data), void *data)
{
	s->closing = true;
	s->on_closed = on_closed;
	s->closed_data = data;
	for (struct stream *st = s->first; st != NULL; st = st->next)
		stream_close(st);
	uv_close((uv_handle_t *)&s->listener, on_listener_closed);
}
