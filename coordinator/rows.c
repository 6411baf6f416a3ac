#include "rows.h"

#include <stdlib.h>
#include <string.h>

#include "compacted.h"
#include "io/log.h"
#include "rollup.h"
#include "sum_record.h"

struct rows {
	struct compacted topic;
	struct sums sums;
	int64_t to_ms; /* of the rows that are being published */
};

static bool same(struct usage_counts a, struct usage_counts b)
{
	return a.admitted == b.admitted && a.refused == b.refused && a.waited == b.waited;
}

static bool same_shares(struct share_sum a, struct share_sum b)
{
	return a.n == b.n && a.share_ppm == b.share_ppm && a.floor_ppm == b.floor_ppm;
}

/* `key`, `value`: for the bytes. */
static bool send_record(const struct sum_record *r, struct buf *key, struct buf *value,
			rows_send *send, void *data)
{
	buf_clear(key);
	buf_clear(value);
	return sum_record_write(r, key, value) == KOVA_OK &&
	       send(SUMS_TOPIC, buf_slice(key), buf_slice(value), data);
}

bool rows_tell(const struct book *b, uint32_t partition, rows_send *send, void *data)
{
	struct buf key = {0}, value = {0};
	bool ok = true;

	for (size_t i = 0; ok && i < b->n_series; i++) {
		const struct book_series *s = &b->series[i];
		const struct sum_record r = {.kind = SUM_PARTITION,
					     .policy = slice_of(s->policy),
					     .region = slice_of(s->region),
					     .partition = partition,
					     .counts = s->total,
					     .shares = s->shares};

		if (!same(s->total, s->told) || !same_shares(s->shares, s->shares_told))
			ok = send_record(&r, &key, &value, send, data);
	}
	buf_release(&key);
	buf_release(&value);
	return ok;
}

/* ---- Who publishes ---- */

static bool on_record(struct slice key, struct slice value, void *data)
{
	kova_status status = sum_record_read(value, data);

	(void)key;
	if (status != KOVA_OK)
		log_event(LOG_ERROR, "topic", "a record of " SUMS_TOPIC " can't be used",
			  LOG_TEXT_FIELD("why", kova_status_text(status)));
	return status == KOVA_OK;
}

bool rows_ensure(rd_kafka_t *client)
{
	return compacted_ensure(client, SUMS_TOPIC, 1);
}

struct rows *rows_open(const struct coord_conf *conf, const atomic_bool *stop)
{
	struct rows *r = calloc(1, sizeof *r);

	if (r != NULL && compacted_open(&r->topic, conf, SUMS_TOPIC, 0) &&
	    compacted_read(&r->topic, on_record, &r->sums, stop))
		return r;
	rows_close(r);
	return NULL;
}

void rows_close(struct rows *r)
{
	if (r == NULL)
		return;
	compacted_close(&r->topic);
	sums_release(&r->sums);
	free(r);
}

bool rows_count(struct rows *r, const struct book *b, uint32_t partition)
{
	for (size_t i = 0; i < b->n_series; i++) {
		const struct book_series *s = &b->series[i];

		if (sums_put(&r->sums, partition, slice_of(s->policy), slice_of(s->region),
			     s->total) != KOVA_OK ||
		    sums_put_shares(&r->sums, partition, slice_of(s->policy), slice_of(s->region),
				    s->shares) != KOVA_OK)
			return false;
	}
	return true;
}

struct row_sender {
	rows_send *send;
	void *data;
	uint64_t n;
};

static bool send_row(struct slice policy, struct slice json, void *data)
{
	struct row_sender *sender = data;

	sender->n++;
	return sender->send(ROLLUP_TOPIC, policy, json, sender->data);
}

/* What the rows say in all, and where they end. */
static bool send_published(const struct rows *r, rows_send *send, void *data)
{
	const struct sum_record end = {.kind = SUM_END, .to_ms = r->to_ms};
	struct buf key = {0}, value = {0};
	bool ok = true;

	for (size_t i = 0; ok && i < r->sums.n; i++) {
		const struct sums_series *s = r->sums.series[i];
		const struct sum_record record = {.kind = SUM_PUBLISHED,
						  .policy = slice_of(s->policy),
						  .region = slice_of(s->region),
						  .counts = s->total};

		if (!same(s->total, s->published))
			ok = send_record(&record, &key, &value, send, data);
	}
	ok = ok && send_record(&end, &key, &value, send, data);
	buf_release(&key);
	buf_release(&value);
	return ok;
}

bool rows_publish(struct rows *r, int64_t since_ms, int64_t now_ms, const struct coord_conf *conf,
		  rows_send *send, void *data, uint64_t *ret_rows)
{
	struct rollup_interval interval = {r->sums.to_ms > 0 ? r->sums.to_ms : since_ms, now_ms,
					   conf};
	struct row_sender sender = {send, data, 0};

	if (!compacted_poll(&r->topic, on_record, &r->sums))
		return false;
	if (interval.to_ms < interval.from_ms) /* of a coordinator whose clock was ahead */
		interval.to_ms = interval.from_ms;
	r->to_ms = interval.to_ms;
	if (!rollup_each(&r->sums, &interval, send_row, &sender) || !send_published(r, send, data))
		return false;
	*ret_rows = sender.n;
	return true;
}

void rows_settle(struct rows *r)
{
	sums_settle(&r->sums, r->to_ms);
}
