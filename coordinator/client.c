#include "client.h"

#include "io/log.h"

rd_kafka_t *client_new(const struct coord_conf *conf, rd_kafka_type_t type,
		       const struct client_setting *settings, size_t n, client_prepare *prepare,
		       void *data)
{
	struct buf error = {0};
	char why[256] = "";
	rd_kafka_conf_t *c = kafka_conf_client(&conf->kafka, conf->node, &error);
	rd_kafka_t *client = NULL;
	bool ok = c != NULL;

	for (size_t i = 0; ok && i < n; i++)
		ok = kafka_conf_set(c, settings[i].name, settings[i].value, &error);
	if (ok && prepare != NULL)
		prepare(c, data);
	if (ok)
		client = rd_kafka_new(type, c, why, sizeof why);
	if (client == NULL) {
		buf_add(&error, "", 1);
		log_event(LOG_ERROR, "session_failed", "there can be no client",
			  LOG_TEXT_FIELD("why", ok                   ? why
						: buf_failed(&error) ? "out of memory"
								     : error.ptr));
		if (c != NULL)
			rd_kafka_conf_destroy(c);
	}
	buf_release(&error);
	return client;
}
