/*
 * Any bytes as what the pool script answers, read as each kind of answer: nothing is read beyond the end, and what failed stays
 * failed. And as the headers of a response (name, value and so on, line by line) in every dialect: what is read is in its range.
 */
#include <assert.h>
#include <stdint.h>

#include "core/pool_dialect.h"
#include "core/pool_script.h"
#include "core/retry_after.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_probes(struct pool_reply r)
{
	struct pool_reply prober = r;
	enum pool_probe found;
	uint32_t endpoint;
	uint64_t us;
	bool is_us, more;
	size_t n = 0;

	(void)pool_read_probes(&r, &n);
	for (size_t i = 0; i < n && pool_read_probe(&r, &endpoint, &found, &us); i++)
		assert(found < POOL_PROBES);
	(void)pool_read_prober(&prober, &is_us, &more, &n);
	for (size_t i = 0; i < n && pool_read_cooling(&prober, &endpoint, &us); i++)
		assert(us <= UINT64_C(1) << 53);
	assert(r.at <= r.bytes.len && prober.at <= prober.bytes.len);
}

static void read_show(struct pool_reply r)
{
	struct pool_totals totals;
	struct pool_shown shown;
	struct pool_shown_target target;
	size_t n = 0, n_targets = 0;
	uint32_t endpoint;
	uint64_t us;

	(void)pool_read_totals(&r, &totals, &n);
	for (size_t i = 0; i < n && pool_read_shown(&r, &shown); i++)
		assert(shown.n_quotas <= POOL_QUOTAS_MAX);
	(void)pool_read_targets(&r, &n_targets);
	for (size_t i = 0; i < n_targets && pool_read_target(&r, &target); i++)
		for (size_t k = 0; k < target.n_cooling && pool_read_cooling(&r, &endpoint, &us);
		     k++)
			;
	read_probes(r);
	assert(r.at <= r.bytes.len);
}

static void read_next(struct pool_reply *r)
{
	struct pool_given given;
	struct slice said;
	uint32_t endpoint;
	size_t n = 0;

	(void)pool_read_tries(r, &n);
	for (size_t i = 0; i < n && pool_read_try(r, &endpoint, &said); i++)
		assert(endpoint < POOL_ENDPOINTS_MAX &&
		       said.ptr + said.len <= r->bytes.ptr + r->at);
	if (pool_read_given(r, &given) && given.pause == POOL_NOT_PAUSED)
		assert(given.ticket.len <= POOL_TICKET_MAX);
}

static void read_answers(struct slice bytes)
{
	struct pool_reply r, again;
	struct pool_event event;
	enum pool_reported reported;
	size_t n = 0;

	if (bytes.len < POOL_STAMP_BYTES || pool_reply_init(&r, bytes, bytes.ptr) != KOVA_OK)
		return;
	for (again = r; pool_reply_event(&again, &event); n++)
		assert(event.kind >= POOL_EVENT_COOLED && event.kind <= POOL_EVENT_EXTENDED);
	assert(n == r.n_events);
	read_show(r);
	for (again = r; !again.failed && again.at < again.bytes.len;)
		read_next(&again);
	assert(!pool_read_reported(&again, &reported) || !again.failed);
}

static void read_headers(struct slice text)
{
	struct pool_header headers[16];
	struct pool_said said;
	size_t n = 0;

	while (text.len > 0 && n < sizeof headers / sizeof *headers) {
		headers[n].name = slice_cut(&text, '\n');
		headers[n++].value = slice_cut(&text, '\n');
	}
	for (unsigned d = POOL_DIALECT_NONE; d <= POOL_DIALECT_2CAPTCHA; d++) {
		pool_dialect_read((enum pool_dialect)d, headers, n, 429, UINT64_C(1796036573000000),
				  &said);
		assert(said.hint_us <= RETRY_AFTER_MAX_US && said.n_quotas <= POOL_QUOTAS_MAX);
		for (size_t i = 0; i < said.n_quotas; i++) {
			assert(said.quotas[i].name[0] != '\0');
			assert(said.quotas[i].limit >= -1 && said.quotas[i].left >= -1);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice bytes = {(const char *)data, size};

	read_answers(bytes);
	read_headers(bytes);
	return 0;
}
