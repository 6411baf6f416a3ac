#include <assert.h>

#include "core/grpc_text.h"
#include "io/grpc_own.h"

enum { BUFFER_KEPT_BYTES = 4096 };

/* ---- Buffers ---- */

void grpc_buffer_take(struct grpc_server *s, struct buf *b)
{
	for (int i = 0; i < 2 && b->ptr == NULL; i++) {
		*b = s->spare[i];
		s->spare[i] = (struct buf){0};
	}
}

void grpc_buffer_leave(struct grpc_server *s, struct buf *b)
{
	for (int i = 0; i < 2 && b->ptr != NULL && b->cap <= BUFFER_KEPT_BYTES; i++)
		if (s->spare[i].ptr == NULL) {
			buf_clear(b);
			s->spare[i] = *b;
			*b = (struct buf){0};
		}
	buf_release(b);
}

/* ---- The end of a call ---- */

static void ended(struct grpc_call *c)
{
	if (c->begun && !c->ended) {
		c->ended = true;
		c->server->ops->on_ended(c);
	}
	c->ended = true;
}

void grpc_call_free(struct grpc_call *c)
{
	struct grpc_server *s = c->server;

	ended(c);
	s->partial -= c->in.len;
	s->queued -= c->out.len;
	*(c->prev != NULL ? &c->prev->next : &s->calls) = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	grpc_buffer_leave(s, &c->in);
	grpc_buffer_leave(s, &c->out);
	buf_release(&c->text);
	free(c);
}

/* ---- Output ---- */

#define NV(name_, value_)                                                                         \
	{                                                                                         \
		(uint8_t *)(uintptr_t)(name_), (uint8_t *)(uintptr_t)(value_), sizeof(name_) - 1, \
			sizeof(value_) - 1,                                                       \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE              \
	}

static nghttp2_nv nv_of(struct slice name, struct slice value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name.ptr, (uint8_t *)(uintptr_t)value.ptr,
			    name.len, value.len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* grpc-status and, if there is one, grpc-message; returns how many. */
static size_t add_trailers(const struct grpc_call *c, char number[static 4], nghttp2_nv *nv)
{
	unsigned status = (unsigned)c->status;
	size_t digits = 0;

	if (status >= 10)
		number[digits++] = (char)('0' + status / 10);
	number[digits++] = (char)('0' + status % 10);
	nv[0] = nv_of(SLICE("grpc-status"), (struct slice){number, digits});
	if (c->text.len == 0)
		return 1;
	nv[1] = nv_of(SLICE("grpc-message"), buf_slice(&c->text));
	return 2;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t len,
			uint32_t *ret_flags, nghttp2_data_source *source, void *user_data)
{
	struct grpc_call *c = source->ptr;
	size_t left = c->out.len - c->sent;
	size_t n = left < len ? left : len;
	nghttp2_nv nv[2];
	char number[4];

	(void)user_data;
	if (n > 0)
		memcpy(bytes, c->out.ptr + c->sent, n);
	c->sent += n;
	if (c->sent == c->out.len) {
		c->server->queued -= c->out.len;
		grpc_buffer_leave(c->server, &c->out);
		c->sent = 0;
		if (!c->ended)
			return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
		*ret_flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, id, nv, add_trailers(c, number, nv)) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)n;
}

/* Headers and, when they come, messages and trailers. */
static void respond(struct grpc_call *c)
{
	static const nghttp2_nv nv[] = {NV(":status", "200"),
					NV("content-type", "application/grpc")};
	nghttp2_data_provider from = {.source = {.ptr = c}, .read_callback = read_out};

	if (c->responded) {
		(void)nghttp2_session_resume_data(session_of(c->server), c->id);
		return;
	}
	c->responded = true;
	if (nghttp2_submit_response(session_of(c->server), c->id, nv, sizeof nv / sizeof nv[0],
				    &from) != 0)
		(void)nghttp2_submit_rst_stream(session_of(c->server), NGHTTP2_FLAG_NONE, c->id,
						NGHTTP2_INTERNAL_ERROR);
}

/* All of it in one HEADERS frame. */
static void respond_with_trailers(struct grpc_call *c)
{
	nghttp2_nv nv[5] = {NV(":status", "200"), NV("content-type", "application/grpc")};
	static const nghttp2_nv accept = NV("grpc-accept-encoding", "identity");
	char number[4];
	size_t n = 2 + add_trailers(c, number, &nv[2]);

	if (c->is_encoded)
		nv[n++] = accept;
	c->responded = true;
	if (nghttp2_submit_response(session_of(c->server), c->id, nv, n, NULL) != 0)
		(void)nghttp2_submit_rst_stream(session_of(c->server), NGHTTP2_FLAG_NONE, c->id,
						NGHTTP2_INTERNAL_ERROR);
}

void grpc_call_refuse(struct grpc_call *c, unsigned status)
{
	char number[3] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
			  (char)('0' + status % 10)};
	nghttp2_nv nv = nv_of(SLICE(":status"), (struct slice){number, sizeof number});

	c->ended = c->responded = true;
	if (nghttp2_submit_response(session_of(c->server), c->id, &nv, 1, NULL) != 0)
		(void)nghttp2_submit_rst_stream(session_of(c->server), NGHTTP2_FLAG_NONE, c->id,
						NGHTTP2_INTERNAL_ERROR);
}

char *grpc_call_message(struct grpc_call *c, size_t len)
{
	char *at;

	assert(!c->ended && len <= INT32_MAX);
	grpc_buffer_take(c->server, &c->out);
	at = buf_reserve(&c->out, GRPC_PREFIX_BYTES + len);
	if (at == NULL)
		return NULL;
	at[0] = 0;
	for (int i = 0; i < 4; i++)
		at[1 + i] = (char)(len >> (24 - 8 * i));
	c->out.len += GRPC_PREFIX_BYTES + len;
	c->server->queued += GRPC_PREFIX_BYTES + len;
	respond(c);
	return at + GRPC_PREFIX_BYTES;
}

size_t grpc_call_queued(const struct grpc_call *c)
{
	return c->out.len - c->sent;
}

void grpc_call_end(struct grpc_call *c, enum grpc_status status, const char *text)
{
	assert(!c->ended);
	c->status = status;
	if (text != NULL)
		grpc_message_write(&c->text, slice_of(text));
	if (c->server->calm < GRPC_CALM)
		c->server->calm++;
	c->server->partial -= c->in.len;
	grpc_buffer_leave(c->server, &c->in);
	ended(c);
	if (c->responded)
		respond(c);
	else
		respond_with_trailers(c);
}

/* ---- A call, as the front sees it ---- */

void *grpc_call_data(const struct grpc_call *c)
{
	return c->server->data;
}

void *grpc_call_extra(const struct grpc_call *c)
{
	return (void *)(uintptr_t)c->extra;
}

unsigned grpc_call_method(const struct grpc_call *c)
{
	return c->method;
}

void grpc_call_stays(struct grpc_call *c)
{
	c->stays = true;
}
