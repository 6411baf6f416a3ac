#include "schema.h"

#include "history_record.h"
#include "io/share_codec.h"
#include "ledger_topic.h"

enum schema schema_of(const rd_kafka_message_t *m)
{
	rd_kafka_headers_t *headers;
	struct slice schema;
	const void *value;
	size_t size;

	if (rd_kafka_message_headers(m, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
	    rd_kafka_header_get_last(headers, "schema", &value, &size) !=
		    RD_KAFKA_RESP_ERR_NO_ERROR)
		return SCHEMA_USAGE;
	schema = (struct slice){value, size};
	if (slice_equal(schema, SLICE(USAGE_TOPIC)))
		return SCHEMA_USAGE;
	if (slice_equal(schema, SLICE(CHILDREN_SCHEMA)))
		return SCHEMA_CHILDREN;
	return slice_equal(schema, SLICE(SHARE_REPORT_SCHEMA)) ? SCHEMA_SHARE : SCHEMA_OTHER;
}
