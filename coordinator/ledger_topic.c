#include "ledger_topic.h"

#include "compacted.h"
#include "io/log.h"
#include "records.h"

static bool give_up(const char *why)
{
	log_event(LOG_ERROR, "ledger", "the ledger can't be used", LOG_TEXT_FIELD("why", why));
	return false;
}

bool ledger_topic_ensure(rd_kafka_t *client)
{
	return compacted_ensure(client, LEDGER_TOPIC, compacted_partitions(client, USAGE_TOPIC));
}

static bool take_over(struct slice key, struct slice value, void *data)
{
	struct ledger_message message;
	kova_status status = ledger_message_parse(value, &message);

	(void)key;
	if (status == KOVA_EPROTO)
		return give_up("a record is not of " LEDGER_TOPIC);
	if (status == KOVA_OK) {
		status = book_restore(data, &message.key, &message.kept);
		ledger_message_release(&message);
	}
	return status == KOVA_OK || give_up("out of memory");
}

bool ledger_topic_read(const struct coord_conf *conf, int32_t id, struct book *book,
		       const atomic_bool *stop)
{
	struct compacted topic;
	bool ok = compacted_open(&topic, conf, LEDGER_TOPIC, id);

	if (!ok)
		return false;
	ok = compacted_read(&topic, take_over, book, stop);
	compacted_close(&topic);
	return ok;
}

static bool write_changed(struct book *book, size_t i, struct buf *key, struct buf *value)
{
	struct book_key quota;

	if (book_changed(book, i, &quota) != KOVA_OK)
		return false;
	ledger_key_write(&quota, key);
	return ledger_value_write(&quota, &book->ledger, &book->processes, value) == KOVA_OK &&
	       !buf_failed(key);
}

bool ledger_topic_keep(struct txn *txn, int32_t id, struct book *book, uint64_t *records)
{
	struct buf key = {0}, value = {0};
	bool ok = true;

	for (size_t i = 0; ok && i < book->n_changed; i++) {
		buf_clear(&key);
		buf_clear(&value);
		ok = write_changed(book, i, &key, &value) || give_up("out of memory");
		if (!ok)
			break;
		const struct txn_record record = {LEDGER_TOPIC, id, buf_slice(&key),
						  buf_slice(&value), false};

		ok = txn_add(txn, &record);
		++*records;
	}
	buf_release(&key);
	buf_release(&value);
	return ok;
}
