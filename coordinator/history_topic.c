#include "history_topic.h"

#include "compacted.h"
#include "history_record.h"
#include "io/log.h"
#include "ledger_topic.h"

bool history_topic_ensure(rd_kafka_t *client)
{
	return compacted_ensure(client, HISTORY_TOPIC, compacted_partitions(client, USAGE_TOPIC));
}

static bool on_record(struct slice key, struct slice value, void *data)
{
	kova_status status = history_record_read(value, data);

	(void)key;
	if (status != KOVA_OK)
		log_event(LOG_ERROR, "topic", "a record of " HISTORY_TOPIC " can't be used",
			  LOG_TEXT_FIELD("why", kova_status_text(status)));
	return status == KOVA_OK;
}

bool history_topic_read(const struct coord_conf *conf, int32_t id, struct histories *h,
			const atomic_bool *stop)
{
	struct compacted topic;
	bool ok = compacted_open(&topic, conf, HISTORY_TOPIC, id);

	if (!ok)
		return false;
	ok = compacted_read(&topic, on_record, h, stop);
	compacted_close(&topic);
	return ok;
}

bool history_topic_keep(const struct histories *h, int32_t id, history_send *send, void *data)
{
	struct buf key = {0}, value = {0};
	bool ok = true;

	for (size_t i = 0; i < h->n_chains; i++)
		for (const struct history_parent *p = h->table[i]; ok && p != NULL; p = p->next) {
			if (p->kept)
				continue;
			buf_clear(&key);
			buf_clear(&value);
			ok = history_record_write(p, &key, &value) == KOVA_OK &&
			     send(id, HISTORY_TOPIC, buf_slice(&key), buf_slice(&value), data);
		}
	buf_release(&key);
	buf_release(&value);
	return ok;
}

/* ---- Weighing ---- */

struct weighing {
	const struct coord_conf *conf;
	struct buf *items;
};

/* By the level that the parts of the parent's path say. */
static uint32_t average(const struct history_parent *p, void *data)
{
	const struct weighing *w = data;
	const struct coord_policy *policy = coord_conf_policy(w->conf, p->policy);
	unsigned level = 1;

	for (uint16_t i = 0; i < p->len; i++)
		level += p->path[i] == '/';
	return policy != NULL && level < COORD_LEVELS_MAX ? policy->weight[level] : 0;
}

static void told(const struct history_parent *p, void *data)
{
	struct buf *items = ((const struct weighing *)data)->items;
	size_t before = items->len;

	if (history_weights_write(p, items))
		buf_add_text(items, "\n");
	else
		items->len = before;
}

void history_topic_weigh(struct histories *h, uint64_t now_ms, uint64_t half_life_ms,
			 const struct coord_conf *conf, struct buf *ret_items)
{
	struct weighing w = {conf, ret_items};

	histories_weigh(h, now_ms, half_life_ms, average, told, &w);
}
