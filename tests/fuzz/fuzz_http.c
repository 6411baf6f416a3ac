/*
 * Any bytes as an HTTP client's stream, twice: in one piece, and in pieces whose length comes from
 * the bytes. Both must give the same requests and errors, in the same order; whatever comes, each
 * exchange ends once.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/query.h"
#include "core/quote.h"
#include "io/http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct buf out, log;
	struct http_exchange *later; /* answered after the next request */
	unsigned begun, ended;
	bool finished;
};

static struct buf *out_of(void *data)
{
	return &((struct run *)data)->out;
}

static bool yes(void *data)
{
	(void)data;
	return true;
}

static bool no(void *data)
{
	(void)data;
	return false;
}

static size_t body_max(void *data, const struct http_request *r)
{
	(void)data;
	return r->path.len % 64;
}

static void log_slice(struct buf *log, struct slice s)
{
	quote_json(log, s);
	buf_add(log, "\n", 1);
}

/* What handlers do with a request. */
static void look_at(struct buf *log, const struct http_request *r)
{
	struct slice query = r->query, name, value;
	struct buf text = {0};

	while (query_next(&query, &name, &value)) {
		log_slice(log, name);
		buf_printf(log, "%d\n", (int)query_decode(&text, value));
	}
	buf_printf(log, "%d\n", (int)query_decode_path(&text, r->path));
	log_slice(log, buf_slice(&text));
	log_slice(log, http_request_media_type(r));
	buf_printf(log, "%u\n", http_request_accepts(r, SLICE("text"), SLICE("plain")));
	buf_release(&text);
}

static void answer(struct http_exchange *x, unsigned status)
{
	http_exchange_answer(x, &(struct http_answer){.status = status, .body = SLICE("body")});
}

static void answer_later(struct run *run)
{
	struct http_exchange *x = run->later;

	run->later = NULL;
	if (x != NULL)
		answer(x, 200);
}

/* Every other request is answered only after the one behind it: answers out of order. */
static void on_request(struct http_exchange *x, const struct http_request *r)
{
	struct run *run = http_exchange_data(x);

	run->begun++;
	buf_printf(&run->log, "%d\n", (int)r->method);
	log_slice(&run->log, r->path);
	log_slice(&run->log, r->body);
	for (unsigned i = 0; i < r->n_fields; i++) {
		log_slice(&run->log, r->fields[i].name);
		log_slice(&run->log, r->fields[i].value);
	}
	look_at(&run->log, r);
	if (run->later == NULL) {
		run->later = x;
		return;
	}
	answer(x, 200);
	answer_later(run);
}

/*
 * Which one of two errors is met first depends on the pieces: a name that is both the 101st and
 * malformed is counted when its first piece comes, and when it comes whole it is never seen.
 */
static void on_error(struct http_exchange *x, unsigned status, const char *detail)
{
	struct run *run = http_exchange_data(x);

	run->begun++;
	assert(status >= 400 && status < 600 && detail != NULL);
	buf_add_text(&run->log, "error\n");
	answer(x, status);
	answer_later(run);
}

static void on_ended(struct http_exchange *x)
{
	struct run *run = http_exchange_data(x);

	run->ended++;
}

static void on_finished(void *data)
{
	struct run *run = data;

	assert(!run->finished);
	run->finished = true;
}

static const struct http_server_ops ops = {
	.out = out_of,
	.may_read = yes,
	.is_ending = no,
	.body_max = body_max,
	.on_request = on_request,
	.on_error = on_error,
	.on_answered = on_ended,
	.on_abandoned = on_ended,
	.on_finished = on_finished,
};

/* Feeds pieces of `step` bytes, each of the exact size and elsewhere each time. */
static void run(struct run *r, const uint8_t *data, size_t size, size_t step)
{
	struct http_server *server = http_server_new(&ops, r);

	assert(server != NULL);
	for (size_t at = 0; at < size;) {
		size_t n = size - at < step ? size - at : step;
		char *piece = malloc(n);

		assert(piece != NULL);
		memcpy(piece, data + at, n);
		size_t used = http_server_feed(server, (struct slice){piece, n});
		assert(used == n);
		free(piece);
		at += n;
	}
	answer_later(r);
	http_server_free(server);
	assert(r->begun == r->ended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole = {0}, pieces = {0};

	if (size == 0)
		return 0;
	run(&whole, data, size, size);
	run(&pieces, data, size, (size_t)data[size - 1] % 17 + 1);
	assert(slice_equal(buf_slice(&whole.log), buf_slice(&pieces.log)));
	assert(whole.finished == pieces.finished);
	buf_release(&whole.out);
	buf_release(&whole.log);
	buf_release(&pieces.out);
	buf_release(&pieces.log);
	return 0;
}
