/* What a record of kova.usage.v1 is, by its header `schema`. */
#pragma once

#include <librdkafka/rdkafka.h>

enum schema { SCHEMA_USAGE, SCHEMA_SHARE, SCHEMA_CHILDREN, SCHEMA_OTHER };

/* A record without the header is usage. */
enum schema schema_of(const rd_kafka_message_t *m);
