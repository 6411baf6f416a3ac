/* Clients of the brokers, by settings of librdkafka beside those of the configuration. */
#pragma once

#include <librdkafka/rdkafka.h>

#include "coord_conf.h"

struct client_setting {
	const char *name, *value;
};

/* Called on a client's settings before it is made. */
typedef void client_prepare(rd_kafka_conf_t *c, void *data);

/* NULL: it can't be, and the log says why. `prepare`: NULL is nothing. */
rd_kafka_t *client_new(const struct coord_conf *conf, rd_kafka_type_t type,
		       const struct client_setting *settings, size_t n, client_prepare *prepare,
		       void *data);
