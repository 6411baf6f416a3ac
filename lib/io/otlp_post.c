/*
 * otlp_post_send() adds the handle to the loop's transfers; on_transferred() takes it off and says how it went, exactly
 * once, unless otlp_post_close() comes before.
 *
 * libcurl's own error texts may show a URL, so they are never asked for.
 */
#include "io/otlp_post.h"

#include <stdlib.h>

#include "core/buf.h"
#include "core/retry_after.h"
#include "core/version.h"
#include "io/clock.h"
#include "io/transfers.h"

struct otlp_post {
	struct transfers *transfers;
	CURL *easy;
	struct curl_slist *fields;
	uint64_t timeout_ms;
	struct buf body;
	bool busy;
	void (*on_done)(const struct otlp_answer *answer, void *data);
	void *data;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- The answer ---- */

static size_t on_body(char *ptr, size_t size, size_t n, void *data)
{
	struct otlp_post *p = data;
	size_t len = size * n, room = OTLP_ANSWER_MAX - p->body.len;

	buf_add(&p->body, ptr, len < room ? len : room);
	return len;
}

static enum otlp_end end_of(CURLcode code, long status)
{
	if (code != CURLE_OK || status == 429 || status == 502 || status == 503 || status == 504)
		return OTLP_TRY_AGAIN;
	return status >= 200 && status <= 299 ? OTLP_TAKEN : OTLP_REFUSED;
}

static void read_retry_after(CURL *easy, struct otlp_answer *a)
{
	struct curl_header *field;

	if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &field) == CURLHE_OK)
		a->has_retry_after = retry_after_parse(slice_of(field->value), clock_read().wall_us,
						       &a->retry_after_us) == KOVA_OK;
}

static void on_transferred(CURL *easy, CURLcode code, void *data)
{
	struct otlp_post *p = data;
	struct otlp_answer answer = {0};
	long status = 0;

	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	answer.end = end_of(code, status);
	answer.status = code == CURLE_OK ? (unsigned)status : 0;
	answer.body = buf_slice(&p->body);
	if (answer.end == OTLP_TRY_AGAIN && code == CURLE_OK)
		read_retry_after(easy, &answer);
	transfers_remove(p->transfers, easy);
	p->busy = false;

	struct buf body = p->body; /* on_done may send the next */

	p->body = (struct buf){0};
	p->on_done(&answer, p->data);
	buf_release(&body);
}

/* ---- The request ---- */

static bool add_field(struct otlp_post *p, const char *field)
{
	struct curl_slist *longer = curl_slist_append(p->fields, field);

	if (longer != NULL)
		p->fields = longer;
	return longer != NULL;
}

static bool set_fields(struct otlp_post *p, const char *const *fields)
{
	bool done = add_field(p, "Content-Type: application/x-protobuf") && add_field(p, "Expect:");

	for (; done && *fields != NULL; fields++)
		done = add_field(p, *fields);
	return done && curl_easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->fields) == CURLE_OK;
}

static bool set_target(struct otlp_post *p, const struct otlp_target *target)
{
	return easy_set_text(p->easy, CURLOPT_URL, target->url) && easy_set_trust(p->easy) &&
	       easy_set_text(p->easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       easy_set_text(p->easy, CURLOPT_PROXY, "") &&
	       easy_set_text(p->easy, CURLOPT_USERAGENT, "kova-agent/" KOVA_VERSION) &&
	       easy_set_long(p->easy, CURLOPT_NOSIGNAL, 1) &&
	       easy_set_long(p->easy, CURLOPT_QUICK_EXIT, 1) &&
	       easy_set_long(p->easy, CURLOPT_POST, 1) &&
	       curl_easy_setopt(p->easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
	       curl_easy_setopt(p->easy, CURLOPT_WRITEDATA, p) == CURLE_OK &&
	       set_fields(p, target->fields);
}

bool otlp_post_send(struct otlp_post *p, struct slice message, uint64_t timeout_ms,
		    void (*on_done)(const struct otlp_answer *answer, void *data), void *data)
{
	uint64_t ms = timeout_ms < p->timeout_ms ? timeout_ms : p->timeout_ms;

	if (!easy_set_long(p->easy, CURLOPT_TIMEOUT_MS, ms < INT32_MAX ? (long)ms : INT32_MAX) ||
	    !easy_set_text(p->easy, CURLOPT_POSTFIELDS, message.ptr) ||
	    !easy_set_long(p->easy, CURLOPT_POSTFIELDSIZE, (long)message.len) ||
	    !transfers_add(p->transfers, p->easy))
		return false;
	p->on_done = on_done;
	p->data = data;
	p->busy = true;
	return true;
}

/* ---- Life ---- */

static void release(struct otlp_post *p)
{
	curl_easy_cleanup(p->easy);
	curl_slist_free_all(p->fields);
	buf_release(&p->body);
	free(p);
}

static void on_transfers_closed(void *data)
{
	struct otlp_post *p = data;
	void (*on_closed)(void *) = p->on_closed;
	void *closed_data = p->closed_data;

	free(p);
	if (on_closed != NULL)
		on_closed(closed_data);
}

struct otlp_post *otlp_post_new(uv_loop_t *loop, const struct otlp_target *target)
{
	struct otlp_post *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->timeout_ms = target->timeout_ms;
	p->easy = curl_easy_init();
	if (p->easy == NULL || !set_target(p, target)) {
		release(p);
		return NULL;
	}
	p->transfers = transfers_new(loop, on_transferred, p);
	if (p->transfers == NULL) {
		release(p);
		return NULL;
	}
	return p;
}

void otlp_post_close(struct otlp_post *p, void (*on_closed)(void *data), void *data)
{
	if (p->busy)
		transfers_remove(p->transfers, p->easy);
	curl_easy_cleanup(p->easy);
	curl_slist_free_all(p->fields);
	buf_release(&p->body);
	p->on_closed = on_closed;
	p->closed_data = data;
	transfers_close(p->transfers, on_transfers_closed, p);
}
