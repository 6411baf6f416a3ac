/*
 * How Kafka is reached: the options that agent and coordinator share, and a librdkafka configuration made from them. What is
 * particular to a producer or a consumer, its owner sets.
 */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdint.h>

#include "core/buf.h"
#include "io/conf.h"
#include "io/conf_copy.h"

enum kafka_protocol { KAFKA_PLAINTEXT, KAFKA_SSL, KAFKA_SASL_PLAINTEXT, KAFKA_SASL_SSL };
enum kafka_mechanism { KAFKA_PLAIN, KAFKA_SCRAM_SHA_256, KAFKA_SCRAM_SHA_512 };

/* What the tables fill. `kafka` is absent where `bootstrap` is NULL. */
struct kafka_security_fields {
	int protocol;  /* enum kafka_protocol */
	int mechanism; /* enum kafka_mechanism; −1: absent */
	const char *ca, *cert, *key, *key_password_file, *user, *password_file;
};

struct kafka_fields {
	const char *bootstrap;
	int64_t report; /* ms; the agent's */
	struct kafka_security_fields security;
};

/* The object `kafka`, of struct kafka_fields: the agent's has all options, the coordinator's no `report`. */
extern const struct conf_table kafka_agent_table, kafka_coordinator_table;

/* All of it is owned. */
struct kafka_conf {
	char *bootstrap; /* "host:port,…"; NULL: there is no Kafka */
	uint64_t report_ms;
	enum kafka_protocol protocol;
	enum kafka_mechanism mechanism; /* where the protocol has SASL */
	char *ca, *cert, *key, *key_password, *user, *password;
};

/* Whether what is there goes together. `object` is the path of `kafka`; `given`: the object is there. */
void kafka_conf_check(struct conf_reader *r, const struct conf_path *object,
		      const struct kafka_fields *f, bool given);
void kafka_conf_fill(struct conf_copier *c, const struct conf_path *object,
		     const struct kafka_fields *f, struct kafka_conf *ret_conf);
void kafka_conf_release(struct kafka_conf *conf);

/*
 * A configuration for rd_kafka_new(), which takes it over; else rd_kafka_conf_destroy() it. What librdkafka says goes to
 * the log. NULL: it takes a value not, or memory is out; *ret_error says so, without secrets.
 */
rd_kafka_conf_t *kafka_conf_client(const struct kafka_conf *conf, const char *client_id,
				   struct buf *ret_error);
/* Sets one option of it. As above, but the error says the value: not for secrets. */
bool kafka_conf_set(rd_kafka_conf_t *client, const char *name, const char *value,
		    struct buf *ret_error);
