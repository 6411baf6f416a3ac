/*
 * Any bytes as a gRPC client's stream behind HTTP/2's preface, twice: in one piece, and in pieces whose length comes from
 * the bytes: answers go out between pieces, and frames of streams that have ended meanwhile are something else then. Each
 * call ends once, whatever comes. A message is read as Envoy's rate limit request, too.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/rls_key.h"
#include "core/rls_request.h"
#include "io/grpc_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct grpc_server *server;
	struct buf out, names;
	struct grpc_call *later; /* ended after the next message */
	unsigned begun, ended;
	bool finished;
};

static struct buf *out_of(void *data)
{
	return &((struct run *)data)->out;
}

static bool find(void *data, struct slice path, unsigned *ret_method, bool *ret_client_streams)
{
	(void)data;
	*ret_method = (unsigned)path.len % 3;
	*ret_client_streams = *ret_method == 2;
	return path.len % 7 != 6;
}

static void on_trace_field(struct grpc_call *c, struct slice name, struct slice value)
{
	(void)c;
	(void)name;
	(void)value;
}

static void on_authorization(struct grpc_call *c, struct slice value)
{
	struct run *run = grpc_call_data(c);

	buf_add_slice(&run->names, value);
}

static void on_begin(struct grpc_call *c)
{
	struct run *run = grpc_call_data(c);

	run->begun++;
	if (grpc_call_method(c) == 1)
		grpc_call_stays(c);
}

/* What is made of a request: names and keys. */
static void look_at(struct buf *names, struct slice message)
{
	static struct rls_request m;

	if (rls_request_parse(message, &m) != KOVA_OK)
		return;
	for (size_t i = 0; i < m.n_descriptors && i < RLS_DESCRIPTORS_MAX; i++) {
		struct slice rest = m.descriptor[i].bytes, key, value;
		size_t n = 0, start = names->len;

		while (rls_entry_next(&rest, &key, &value)) {
			rls_name_add(names, key);
			n++;
		}
		assert(n == m.descriptor[i].n_entries);
		rest = m.descriptor[i].bytes;
		while (rls_entry_next(&rest, &key, &value))
			rls_path_add(names, start, value);
	}
}

static void answer(struct grpc_call *c)
{
	char *at = grpc_call_message(c, 3);

	assert(at != NULL);
	memcpy(at, "yes", 3);
	grpc_call_end(c, GRPC_OK, NULL);
}

static void on_message(struct grpc_call *c, struct slice message)
{
	struct run *run = grpc_call_data(c);
	struct grpc_call *later = run->later;

	look_at(&run->names, message);
	if (grpc_call_method(c) == 0) {
		run->later = c;
		if (later != NULL)
			answer(later);
	} else if (message.len % 2 == 1) {
		grpc_call_end(c, GRPC_NOT_FOUND, "odd");
	} else {
		assert(grpc_call_message(c, 0) != NULL);
	}
}

static void on_half_closed(struct grpc_call *c)
{
	grpc_call_end(c, GRPC_OK, NULL);
}

static void on_leave(struct grpc_call *c)
{
	answer(c);
}

static void on_ended(struct grpc_call *c)
{
	struct run *run = grpc_call_data(c);

	run->ended++;
	if (run->later == c)
		run->later = NULL;
}

static void on_finished(void *data)
{
	struct run *run = data;

	assert(!run->finished);
	run->finished = true;
}

static const struct grpc_server_ops ops = {
	.extra_bytes = 1,
	.out = out_of,
	.find = find,
	.on_authorization = on_authorization,
	.on_trace_field = on_trace_field,
	.on_begin = on_begin,
	.on_message = on_message,
	.on_half_closed = on_half_closed,
	.on_leave = on_leave,
	.on_ended = on_ended,
	.on_finished = on_finished,
};

/* Feeds pieces of `step` bytes, each of the exact size and elsewhere each time. */
static void run(struct run *r, const uint8_t *data, size_t size, size_t step)
{
	r->server = grpc_server_new(&ops, r);
	assert(r->server != NULL);
	grpc_server_feed(r->server, SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 1);
	for (size_t at = 0; at < size;) {
		size_t n = size - at < step ? size - at : step;
		char *piece = malloc(n);

		assert(piece != NULL);
		memcpy(piece, data + at, n);
		grpc_server_feed(r->server, (struct slice){piece, n}, 1);
		free(piece);
		at += n;
	}
	grpc_server_sweep(r->server, UINT64_MAX);
	grpc_server_leave(r->server);
	grpc_server_free(r->server);
	assert(r->begun == r->ended);
	buf_release(&r->out);
	buf_release(&r->names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole = {0}, pieces = {0};

	if (size == 0)
		return 0;
	run(&whole, data, size, size);
	run(&pieces, data, size, (size_t)data[size - 1] % 17 + 1);
	return 0;
}
