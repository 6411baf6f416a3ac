#include "group_offsets.h"

#include <unistd.h>

#include "io/log.h"

enum {
	CALL_MS = 10000,
	PENDING_MS = 60000, /* longer than a transaction may be open */
	LOOK_MS = 200,
};

static bool is_pending(const rd_kafka_topic_partition_list_t *list)
{
	for (int i = 0; i < list->cnt; i++)
		if (list->elems[i].err == RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT)
			return true;
	return false;
}

static rd_kafka_resp_err_t committed(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *list,
				     const atomic_bool *stop)
{
	rd_kafka_resp_err_t error = rd_kafka_committed(consumer, list, CALL_MS);

	for (int i = 0; error == RD_KAFKA_RESP_ERR_NO_ERROR && is_pending(list) &&
			i < PENDING_MS / LOOK_MS && !atomic_load(stop);
	     i++) {
		usleep(LOOK_MS * 1000);
		error = rd_kafka_committed(consumer, list, CALL_MS);
	}
	return error;
}

bool group_offsets_find(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *list,
			const atomic_bool *stop)
{
	rd_kafka_resp_err_t error = committed(consumer, list, stop);

	for (int i = 0; error == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++) {
		rd_kafka_topic_partition_t *p = &list->elems[i];
		int64_t high;

		error = p->err;
		if (error == RD_KAFKA_RESP_ERR_NO_ERROR && p->offset < 0)
			error = rd_kafka_query_watermark_offsets(consumer, p->topic, p->partition,
								 &p->offset, &high, CALL_MS);
	}
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		log_event(LOG_ERROR, "session_failed", "the group's offsets are not known",
			  LOG_TEXT_FIELD("why", rd_kafka_err2str(error)));
	return error == RD_KAFKA_RESP_ERR_NO_ERROR;
}
