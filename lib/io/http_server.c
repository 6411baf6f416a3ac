/*
 * llhttp calls back while it parses: the request's head is gathered in `head` (it may come in any
 * number of pieces), its body in `body`, and when it is whole an exchange is made for it and
 * queued. A request that breaks a rule sets `error_status` and stops the parser; http_server_feed()
 * then queues an exchange for the error.
 *
 * Answers are written where they belong: the first in the queue straight to the output, a later one
 * to a buffer of its own until all before it are done.
 */
#include "io/http_server.h"

#include <assert.h>
#include <llhttp.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFER_KEPT_BYTES = 4096, FREE_EXCHANGES_MAX = 64 };

/* Where a field is in `head`. */
struct field_mark {
	uint16_t name_len, value_len; /* the name is followed by the value */
	uint32_t at;
};

struct http_exchange {
	struct http_server *server;
	struct http_exchange *next; /* in the queue, or in the free list */
	bool done;                  /* its answer is in `pending` */
	bool is_head;               /* answered without a body */
	bool is_last;               /* the connection ends after it */
	bool is_1_0;
	bool streams; /* its body goes on until the connection ends */
	struct buf pending;
	alignas(max_align_t) unsigned char extra[];
};

struct http_server {
	const struct http_server_ops *ops;
	void *data;
	llhttp_t parser;

	/* The request being received. */
	struct buf head; /* target, then each field's name and value */
	struct buf body;
	struct field_mark marks[HTTP_FIELDS_MAX];
	uint16_t n_fields;
	uint16_t target_len;
	bool receiving;
	bool in_value; /* the last field's name is whole */
	bool in_body;  /* what comes as fields from here are trailers: dropped */
	bool has_body; /* one was announced, and the head was looked at before it */
	size_t body_max;
	unsigned error_status; /* 0: none */
	const char *error_detail;

	unsigned long begun;
	bool ended;         /* no more requests are taken */
	bool owes_continue; /* 100 is due once all before are answered */
	unsigned n_queued;
	size_t held_bytes;                  /* in the queue's `pending` */
	struct http_exchange *first, *last; /* the queue */
	struct http_exchange *free_list;
	unsigned n_free;
};

static struct http_server *server_of(llhttp_t *parser)
{
	return parser->data;
}

/* ---- exchanges ---- */

static struct http_exchange *exchange_new(struct http_server *s)
{
	struct http_exchange *x = s->free_list;

	if (x != NULL) {
		s->free_list = x->next;
		s->n_free--;
	} else {
		x = calloc(1, sizeof *x + s->ops->extra_bytes);
		if (x == NULL)
			return NULL;
	}
	x->server = s;
	x->next = NULL;
	x->done = x->streams = false;
	memset(x->extra, 0, s->ops->extra_bytes);
	return x;
}

static void exchange_free(struct http_exchange *x)
{
	struct http_server *s = x->server;

	buf_release(&x->pending);
	if (s->n_free >= FREE_EXCHANGES_MAX) {
		free(x);
		return;
	}
	x->next = s->free_list;
	s->free_list = x;
	s->n_free++;
}

static void enqueue(struct http_server *s, struct http_exchange *x)
{
	if (s->first == NULL)
		s->first = x;
	else
		s->last->next = x;
	s->last = x;
	s->n_queued++;
}

static struct http_exchange *dequeue(struct http_server *s)
{
	struct http_exchange *x = s->first;

	s->first = x->next;
	s->n_queued--;
	s->held_bytes -= x->pending.len;
	return x;
}

/* ---- answers ---- */

static const struct {
	unsigned status;
	const char *text;
} status_texts[] = {
	{200, "OK"},
	{204, "No Content"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{408, "Request Timeout"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{417, "Expectation Failed"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"},
};

const char *http_status_text(unsigned status)
{
	for (size_t i = 0; i < sizeof status_texts / sizeof status_texts[0]; i++)
		if (status_texts[i].status == status)
			return status_texts[i].text;
	return status < 500 ? "Refused" : "Failed";
}

/* The Date line, made once a second by each thread for itself. */
static struct slice date_line(void)
{
	static _Thread_local time_t made_at = -1;
	static _Thread_local char text[64];
	static _Thread_local size_t len;
	time_t now = time(NULL);

	if (now != made_at) {
		struct tm tm;

		made_at = now;
		len = gmtime_r(&now, &tm) == NULL
			      ? 0
			      : strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n",
					 &tm);
	}
	return (struct slice){text, len};
}

static bool has_body(const struct http_answer *a)
{
	return a->status != 204 && a->status != 304;
}

static void write_answer(struct buf *out, const struct http_exchange *x,
			 const struct http_answer *a, bool is_last)
{
	buf_add_slice(out, SLICE("HTTP/1.1 "));
	buf_add_uint(out, a->status);
	buf_add(out, " ", 1);
	buf_add_text(out, http_status_text(a->status));
	buf_add_slice(out, SLICE("\r\n"));
	buf_add_slice(out, date_line());
	if (a->media_type != NULL) {
		buf_add_slice(out, SLICE("Content-Type: "));
		buf_add_text(out, a->media_type);
		buf_add_slice(out, SLICE("\r\n"));
	}
	if (has_body(a) && !x->streams) {
		buf_add_slice(out, SLICE("Content-Length: "));
		buf_add_uint(out, a->body.len);
		buf_add_slice(out, SLICE("\r\n"));
	}
	if (is_last)
		buf_add_slice(out, SLICE("Connection: close\r\n"));
	else if (x->is_1_0)
		buf_add_slice(out, SLICE("Connection: keep-alive\r\n"));
	buf_add_slice(out, a->fields);
	buf_add_slice(out, SLICE("\r\n"));
	if (!x->is_head && has_body(a))
		buf_add_slice(out, a->body);
}

static void write_continue_if_due(struct http_server *s)
{
	if (!s->owes_continue || s->first != NULL)
		return;
	s->owes_continue = false;
	buf_add_slice(s->ops->out(s->data), SLICE("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Moves what is done at the head of the queue to the output. */
static void flush_queue(struct http_server *s)
{
	while (s->first != NULL && s->first->done) {
		struct http_exchange *x = dequeue(s);
		bool is_last = x->is_last;

		buf_add_slice(s->ops->out(s->data), buf_slice(&x->pending));
		s->ops->on_answered(x);
		exchange_free(x);
		if (is_last) {
			assert(s->first == NULL);
			s->ended = true;
			s->ops->on_finished(s->data);
			return;
		}
	}
	if (s->first != NULL && s->first->streams && s->first->pending.len > 0) {
		struct http_exchange *x = s->first;

		s->held_bytes -= x->pending.len;
		buf_add_slice(s->ops->out(s->data), buf_slice(&x->pending));
		buf_release(&x->pending);
	}
	write_continue_if_due(s);
}

static const char event_stream_fields[] = "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n";

const struct http_answer http_event_stream = {
	.status = 200,
	.media_type = "text/event-stream; charset=utf-8",
	.fields = {event_stream_fields, sizeof event_stream_fields - 1},
};

void http_exchange_stream(struct http_exchange *x, const struct http_answer *a)
{
	struct http_server *s = x->server;

	assert(!x->done && x->next == NULL && !x->is_head);
	x->streams = x->is_last = s->ended = true;
	write_answer(x == s->first ? s->ops->out(s->data) : &x->pending, x, a, true);
	s->held_bytes += x->pending.len;
}

bool http_exchange_write(struct http_exchange *x, struct slice bytes)
{
	struct http_server *s = x->server;

	assert(x->streams);
	if (x != s->first)
		return false;
	buf_add_slice(s->ops->out(s->data), bytes);
	return true;
}

bool http_exchange_is_head(const struct http_exchange *x)
{
	return x->is_head;
}

void http_exchange_answer(struct http_exchange *x, const struct http_answer *a)
{
	struct http_server *s = x->server;

	assert(!x->done);
	/* The end is announced by the last one only: what is behind it would be lost. */
	if (x->next == NULL && s->ops->is_ending(s->data))
		x->is_last = s->ended = true;
	write_answer(x == s->first ? s->ops->out(s->data) : &x->pending, x, a, x->is_last);
	s->held_bytes += x->pending.len;
	x->done = true;
	flush_queue(s);
}

void *http_exchange_extra(struct http_exchange *x)
{
	return x->extra;
}

void *http_exchange_data(const struct http_exchange *x)
{
	return x->server->data;
}

/* ---- receiving: llhttp's callbacks ---- */

/* Stops the parser; returns what a callback then returns. */
static int refuse(struct http_server *s, unsigned status, const char *detail)
{
	s->error_status = status;
	s->error_detail = detail;
	return HPE_USER;
}

static int on_message_begin(llhttp_t *parser)
{
	struct http_server *s = server_of(parser);

	buf_clear(&s->head);
	buf_clear(&s->body);
	s->n_fields = 0;
	s->target_len = 0;
	s->receiving = true;
	s->in_value = s->in_body = false;
	s->begun++;
	return 0;
}

static int add_to_head(struct http_server *s, const char *at, size_t len)
{
	if (len > HTTP_HEAD_MAX - s->head.len)
		return s->n_fields == 0
			       ? refuse(s, 414, "the request line is longer than 16384 bytes")
			       : refuse(s, 431, "the header fields are longer than 16384 bytes");
	buf_add(&s->head, at, len);
	return buf_failed(&s->head) ? refuse(s, 503, "out of memory") : 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
	struct http_server *s = server_of(parser);

	if (add_to_head(s, at, len) != 0)
		return HPE_USER;
	s->target_len = (uint16_t)(s->target_len + len);
	return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
	struct http_server *s = server_of(parser);

	if (s->in_body)
		return 0;
	if (s->n_fields == 0 || s->in_value) {
		if (s->n_fields == HTTP_FIELDS_MAX)
			return refuse(s, 431, "there are more than 100 header fields");
		s->marks[s->n_fields++] = (struct field_mark){.at = (uint32_t)s->head.len};
		s->in_value = false;
	}
	if (add_to_head(s, at, len) != 0)
		return HPE_USER;
	s->marks[s->n_fields - 1].name_len = (uint16_t)(s->marks[s->n_fields - 1].name_len + len);
	return 0;
}

static int on_header_field_complete(llhttp_t *parser)
{
	server_of(parser)->in_value = true;
	return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
	struct http_server *s = server_of(parser);

	if (s->in_body)
		return 0;
	assert(s->n_fields > 0);
	if (add_to_head(s, at, len) != 0)
		return HPE_USER;
	s->marks[s->n_fields - 1].value_len = (uint16_t)(s->marks[s->n_fields - 1].value_len + len);
	return 0;
}

static enum http_method method_of(const llhttp_t *parser)
{
	switch (parser->method) {
	case HTTP_GET:
		return METHOD_GET;
	case HTTP_HEAD:
		return METHOD_HEAD;
	case HTTP_POST:
		return METHOD_POST;
	case HTTP_PUT:
		return METHOD_PUT;
	case HTTP_DELETE:
		return METHOD_DELETE;
	case HTTP_PATCH:
		return METHOD_PATCH;
	default:
		return METHOD_OTHER;
	}
}

static struct slice trim_end(struct slice s)
{
	while (s.len != 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* The request as far as it has come, with slices into `head`. */
static int gather(struct http_server *s, struct http_field *fields,
		  struct http_request *ret_request)
{
	const char *head = s->head.ptr;
	struct http_request r = {
		.method = method_of(&s->parser), .fields = fields, .n_fields = s->n_fields};

	for (unsigned i = 0; i < s->n_fields; i++) {
		const struct field_mark *m = &s->marks[i];

		fields[i].name = (struct slice){head + m->at, m->name_len};
		fields[i].value =
			trim_end((struct slice){head + m->at + m->name_len, m->value_len});
	}
	r.body = buf_slice(&s->body);
	*ret_request = r;
	if (s->parser.http_major != 1)
		return refuse(s, 505, "HTTP/1.0 and HTTP/1.1 are spoken here");
	if (http_target_split((struct slice){head, s->target_len}, &ret_request->path,
			      &ret_request->query))
		return 0;
	return refuse(s, 400, "the request's target is not a path or a URL");
}

/* RFC 9112 §3.2: a request of HTTP/1.1 has exactly one Host. */
static bool host_is_right(const llhttp_t *parser, const struct http_request *r)
{
	struct slice host;
	unsigned n = http_request_field(r, "Host", &host);

	return n == 1 || (n == 0 && parser->http_minor == 0);
}

static bool body_is_expected(const llhttp_t *parser)
{
	return (parser->flags & F_CHUNKED) != 0 ||
	       ((parser->flags & F_CONTENT_LENGTH) != 0 && parser->content_length > 0);
}

static int check_expectation(struct http_server *s, const struct http_request *r)
{
	struct slice expect;

	if (http_request_field(r, "Expect", &expect) == 0 || s->parser.http_minor == 0)
		return 0;
	if (!http_same_text(expect, SLICE("100-continue")))
		return refuse(s, 417, "no expectation but 100-continue can be met");
	s->owes_continue = s->has_body;
	write_continue_if_due(s);
	return 0;
}

static int check_head(struct http_server *s, const struct http_request *r)
{
	llhttp_t *parser = &s->parser;

	if (!host_is_right(parser, r))
		return refuse(s, 400, "a request of HTTP/1.1 needs exactly one Host field");
	if ((parser->flags & F_TRANSFER_ENCODING) != 0 && parser->http_minor == 0)
		return refuse(s, 400, "HTTP/1.0 has no Transfer-Encoding");
	s->body_max = s->has_body ? s->ops->body_max(s->data, r) : 0;
	if ((parser->flags & F_CONTENT_LENGTH) != 0 && parser->content_length > s->body_max)
		return refuse(s, 413, "the body is longer than this resource takes");
	return check_expectation(s, r);
}

/* A request without a body is whole with its head, and is looked at once. */
static int on_headers_complete(llhttp_t *parser)
{
	struct http_server *s = server_of(parser);
	struct http_field fields[HTTP_FIELDS_MAX];
	struct http_request r;

	s->in_body = true;
	parser->upgrade = 0; /* no upgrade is offered: the request is served as it is */
	s->has_body = body_is_expected(parser);
	if (!s->has_body)
		return 0;
	return gather(s, fields, &r) != 0 || check_head(s, &r) != 0 ? -1 : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
	struct http_server *s = server_of(parser);

	if (len > s->body_max - s->body.len)
		return refuse(s, 413, "the body is longer than this resource takes");
	buf_add(&s->body, at, len);
	return buf_failed(&s->body) ? refuse(s, 503, "out of memory") : 0;
}

/* Memory that one long request needed is not kept for the short ones that follow. */
static void shrink(struct buf *b)
{
	if (b->cap > BUFFER_KEPT_BYTES)
		buf_release(b);
}

static int on_message_complete(llhttp_t *parser)
{
	struct http_server *s = server_of(parser);
	struct http_field fields[HTTP_FIELDS_MAX];
	struct http_request r;
	struct http_exchange *x;

	if (gather(s, fields, &r) != 0 || (!s->has_body && check_head(s, &r) != 0))
		return HPE_USER;
	x = exchange_new(s);
	if (x == NULL)
		return refuse(s, 503, "out of memory");
	s->receiving = false;
	s->owes_continue = false; /* the body came without it */
	x->is_head = r.method == METHOD_HEAD;
	x->is_1_0 = parser->http_minor == 0;
	x->is_last = !llhttp_should_keep_alive(parser);
	s->ended = x->is_last;
	enqueue(s, x);
	s->ops->on_request(x, &r);
	shrink(&s->head);
	shrink(&s->body);
	return s->ended || !s->ops->may_read(s->data) ? HPE_PAUSED : 0;
}

/* What llhttp_settings_init() does is to zero it. */
static const llhttp_settings_t settings = {
	.on_message_begin = on_message_begin,
	.on_url = on_url,
	.on_header_field = on_header_field,
	.on_header_field_complete = on_header_field_complete,
	.on_header_value = on_header_value,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

/* ---- the server ---- */

struct http_server *http_server_new(const struct http_server_ops *ops, void *data)
{
	struct http_server *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->ops = ops;
	s->data = data;
	llhttp_init(&s->parser, HTTP_REQUEST, &settings);
	s->parser.data = s;
	return s;
}

static void abandon_all(struct http_server *s)
{
	while (s->first != NULL) {
		struct http_exchange *x = dequeue(s);

		s->ops->on_abandoned(x);
		exchange_free(x);
	}
}

void http_server_trim(struct http_server *s)
{
	while (s->free_list != NULL) {
		struct http_exchange *x = s->free_list;

		s->free_list = x->next;
		free(x);
	}
	s->n_free = 0;
	if (s->receiving)
		return;
	buf_release(&s->head);
	buf_release(&s->body);
}

void http_server_free(struct http_server *s)
{
	if (s == NULL)
		return;
	abandon_all(s);
	s->receiving = false;
	http_server_trim(s);
	free(s);
}

void http_server_refuse(struct http_server *s, unsigned status, const char *detail)
{
	struct http_exchange *x;

	s->receiving = false;
	if (s->ended) /* nothing is answered behind the last answer */
		return;
	x = exchange_new(s);
	s->owes_continue = false;
	s->ended = true;
	if (x == NULL) {
		abandon_all(s);
		s->ops->on_finished(s->data);
		return;
	}
	x->is_head = x->is_1_0 = false;
	x->is_last = true;
	enqueue(s, x);
	s->ops->on_error(x, status, detail);
}

/* What llhttp found wrong, for the peer. */
static void refuse_malformed(struct http_server *s, llhttp_errno_t error)
{
	switch (error) {
	case HPE_INVALID_VERSION:
	case HPE_PAUSED_H2_UPGRADE:
		http_server_refuse(s, 505, "HTTP/1.0 and HTTP/1.1 are spoken here");
		return;
	case HPE_INVALID_TRANSFER_ENCODING:
		if ((s->parser.flags & F_CONTENT_LENGTH) == 0) {
			http_server_refuse(s, 501,
					   "no Transfer-Encoding but chunked is understood");
			return;
		}
		/* Version 9 of llhttp says this of both fields, too. */
		__attribute__((fallthrough));
	case HPE_UNEXPECTED_CONTENT_LENGTH:
		http_server_refuse(
			s, 400, "a request has one Content-Length or Transfer-Encoding, not both");
		return;
	case HPE_INVALID_METHOD:
		http_server_refuse(s, 400, "the request does not begin with a method of HTTP");
		return;
	default:
		http_server_refuse(s, 400, "this is no well-formed request of HTTP/1.1");
		return;
	}
}

size_t http_server_feed(struct http_server *s, struct slice bytes)
{
	if (s->ended)
		return bytes.len;

	llhttp_errno_t error = llhttp_execute(&s->parser, bytes.ptr, bytes.len);
	if (error == HPE_OK || s->ended)
		return bytes.len;
	if (s->error_status != 0) {
		http_server_refuse(s, s->error_status, s->error_detail);
		return bytes.len;
	}
	if (error == HPE_PAUSED) {
		size_t used = (size_t)(llhttp_get_error_pos(&s->parser) - bytes.ptr);
		llhttp_resume(&s->parser);
		return used;
	}
	refuse_malformed(s, error);
	return bytes.len;
}

bool http_server_is_receiving(const struct http_server *s)
{
	return s->receiving;
}

unsigned http_server_in_progress(const struct http_server *s)
{
	return s->n_queued;
}

size_t http_server_held_bytes(const struct http_server *s)
{
	return s->held_bytes;
}

unsigned long http_server_begun(const struct http_server *s)
{
	return s->begun;
}

void http_server_abandon_from(struct http_server *s, bool (*is_futile)(struct http_exchange *x))
{
	struct http_exchange **link = &s->first, *last = NULL;

	while (*link != NULL && ((*link)->done || !is_futile(*link))) {
		last = *link;
		link = &last->next;
	}
	if (*link == NULL)
		return;

	struct http_exchange *x = *link;
	*link = NULL;
	s->last = last;
	s->ended = true;
	while (x != NULL) {
		struct http_exchange *next = x->next;

		s->n_queued--;
		s->held_bytes -= x->pending.len;
		s->ops->on_abandoned(x);
		exchange_free(x);
		x = next;
	}
}
