/* The member of the coordinators' group: a consumer that subscribes, and reads what was committed. */
#pragma once

#include <librdkafka/rdkafka.h>

#include "coord_conf.h"

typedef void group_rebalance(rd_kafka_t *consumer, rd_kafka_resp_err_t error,
			     rd_kafka_topic_partition_list_t *list, void *data);

/* `on_rebalance`, with `data`, has to follow: partitions come and go by the cooperative protocol. NULL: it can't be; the log says why. */
rd_kafka_t *group_consumer_new(const struct coord_conf *conf, group_rebalance *on_rebalance,
			       void *data);
