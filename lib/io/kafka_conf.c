#include "io/kafka_conf.h"

#include <stdlib.h>
#include <string.h>

#include "io/log.h"

enum {
	REPORT_MS_MIN = 50,
	REPORT_MS_MAX = 60000,
	SCRAM_VERSION = 0x020601ff, /* sends a nonce that brokers accept: fixed in 2.6.1 */
	SYSLOG_ERROR = 3,
	SYSLOG_WARNING = 4,
};

static const char *const protocols[] = {
	[KAFKA_PLAINTEXT] = "plaintext",
	[KAFKA_SSL] = "ssl",
	[KAFKA_SASL_PLAINTEXT] = "sasl_plaintext",
	[KAFKA_SASL_SSL] = "sasl_ssl",
	[KAFKA_SASL_SSL + 1] = NULL,
};

static const char *const mechanisms[] = {
	[KAFKA_PLAIN] = "PLAIN",
	[KAFKA_SCRAM_SHA_256] = "SCRAM-SHA-256",
	[KAFKA_SCRAM_SHA_512] = "SCRAM-SHA-512",
	[KAFKA_SCRAM_SHA_512 + 1] = NULL,
};

static const struct conf_option security_options[] = {
	{.name = "protocol",
	 .type = CONF_ENUM,
	 .at = offsetof(struct kafka_security_fields, protocol),
	 .fallback = "plaintext",
	 .values = protocols,
	 .text = "as the brokers' listener has it; `ssl` is TLS"},
	{.name = "ca",
	 .type = CONF_PATH,
	 .at = offsetof(struct kafka_security_fields, ca),
	 .otherwise = "the system's",
	 .text = "TLS: the authorities that are trusted, PEM"},
	{.name = "cert",
	 .type = CONF_PATH,
	 .at = offsetof(struct kafka_security_fields, cert),
	 .text = "TLS: the client's certificate, PEM; with `key`"},
	{.name = "key",
	 .type = CONF_PATH,
	 .at = offsetof(struct kafka_security_fields, key),
	 .text = "TLS: its private key, PEM"},
	{.name = "key_password_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct kafka_security_fields, key_password_file),
	 .text = "a file that holds the key's password"},
	{.name = "mechanism",
	 .type = CONF_ENUM,
	 .at = offsetof(struct kafka_security_fields, mechanism),
	 .values = mechanisms,
	 .text = "SASL. SCRAM needs librdkafka 2.6.1 or later"},
	{.name = "user",
	 .type = CONF_STRING,
	 .at = offsetof(struct kafka_security_fields, user),
	 .text = "SASL: the user"},
	{.name = "password_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct kafka_security_fields, password_file),
	 .text = "SASL: a file that holds the password; the end of its line does not count"},
};

static const struct conf_table security_table = {
	.title = "`kafka.security`",
	.text = "How the brokers are spoken to. Host names are checked where there is TLS.",
	.options = security_options,
	.n_options = sizeof security_options / sizeof security_options[0],
};

#define BOOTSTRAP                                                                                \
	{                                                                                        \
		.name = "bootstrap", .type = CONF_STRING,                                        \
		.at = offsetof(struct kafka_fields, bootstrap),                                  \
		.text = "some of the brokers, `host:port,…`; the others are learned. Required" \
	}
#define SECURITY                                                                         \
	{                                                                                \
		.name = "security", .type = CONF_OBJECT,                                 \
		.at = offsetof(struct kafka_fields, security), .table = &security_table, \
		.text = "TLS and who the client is"                                      \
	}

static const struct conf_option agent_options[] = {
	BOOTSTRAP,
	{.name = "report",
	 .type = CONF_DURATION,
	 .at = offsetof(struct kafka_fields, report),
	 .fallback = "500ms",
	 .min = REPORT_MS_MIN,
	 .max = REPORT_MS_MAX,
	 .text = "how often usage is published: what of it has changed"},
	SECURITY,
};

static const struct conf_option coordinator_options[] = {BOOTSTRAP, SECURITY};

const struct conf_table kafka_agent_table = {
	.title = "`kafka`",
	.text = "Where usage and events are published: [Kafka](kafka.md). Without it, nowhere.",
	.options = agent_options,
	.n_options = sizeof agent_options / sizeof agent_options[0],
};

const struct conf_table kafka_coordinator_table = {
	.title = "`kafka`",
	.text = "The brokers: [Kafka](kafka.md).",
	.options = coordinator_options,
	.n_options = sizeof coordinator_options / sizeof coordinator_options[0],
};

/* ---- What goes together ---- */

static bool has_tls(int protocol)
{
	return protocol == KAFKA_SSL || protocol == KAFKA_SASL_SSL;
}

static bool has_sasl(int protocol)
{
	return protocol == KAFKA_SASL_PLAINTEXT || protocol == KAFKA_SASL_SSL;
}

static bool bootstrap_is_valid(const char *text)
{
	for (const char *end; text != NULL; text = end[0] == ',' ? end + 1 : NULL) {
		struct slice host;
		uint16_t port;
		char one[280];

		end = text + strcspn(text, ",");
		if ((size_t)(end - text) >= sizeof one)
			return false;
		memcpy(one, text, (size_t)(end - text));
		one[end - text] = '\0';
		if (!conf_address_parse(one, &host, &port) || port == 0 || host.len == 0)
			return false;
	}
	return true;
}

/* An option of `security` and what it goes with. */
struct security_option {
	const char *name;
	bool given, fits, required;
};

static void security_check(struct conf_reader *r, const struct conf_path *object,
			   const struct kafka_security_fields *f)
{
	const struct conf_path path = {.up = object, .key = "security"};
	bool tls = has_tls(f->protocol), sasl = has_sasl(f->protocol);
	const struct security_option options[] = {
		{"ca", f->ca != NULL, tls, false},
		{"cert", f->cert != NULL, tls, f->key != NULL},
		{"key", f->key != NULL, tls, f->cert != NULL || f->key_password_file != NULL},
		{"key_password_file", f->key_password_file != NULL, tls, false},
		{"mechanism", f->mechanism >= 0, sasl, sasl},
		{"user", f->user != NULL, sasl, sasl},
		{"password_file", f->password_file != NULL, sasl, sasl},
	};

	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		const struct security_option *o = &options[i];

		if (o->given && !o->fits)
			conf_fail(r, &path, o->name, CONF_AT_KEY,
				  "`%s` does not go with protocol `%s`", o->name,
				  protocols[f->protocol]);
		else if (!o->given && o->required)
			conf_fail(r, &path, NULL, CONF_AT_VALUE, "`%s` is missing", o->name);
	}
	if (sasl && f->mechanism > KAFKA_PLAIN && rd_kafka_version() < SCRAM_VERSION)
		conf_fail(r, &path, "mechanism", CONF_AT_VALUE,
			  "`mechanism`: SCRAM needs librdkafka 2.6.1 or later, and this is %s: "
			  "only PLAIN works",
			  rd_kafka_version_str());
}

void kafka_conf_check(struct conf_reader *r, const struct conf_path *object,
		      const struct kafka_fields *f, bool given)
{
	if (!given)
		return;
	if (f->bootstrap == NULL)
		conf_fail(r, object, NULL, CONF_AT_VALUE, "`bootstrap` is missing");
	else if (!bootstrap_is_valid(f->bootstrap))
		conf_fail(r, object, "bootstrap", CONF_AT_VALUE,
			  "`bootstrap` must be host:port, or several with commas between");
	security_check(r, object, &f->security);
}

void kafka_conf_fill(struct conf_copier *c, const struct conf_path *object,
		     const struct kafka_fields *f, struct kafka_conf *ret_conf)
{
	const struct conf_path path = {.up = object, .key = "security"};
	const struct kafka_security_fields *s = &f->security;

	ret_conf->bootstrap = conf_copy(c, f->bootstrap);
	ret_conf->report_ms = (uint64_t)f->report;
	ret_conf->protocol = (enum kafka_protocol)s->protocol;
	ret_conf->mechanism = (enum kafka_mechanism)s->mechanism;
	ret_conf->ca = conf_copy_file(c, &path, "ca", s->ca);
	ret_conf->cert = conf_copy_file(c, &path, "cert", s->cert);
	ret_conf->key = conf_copy_file(c, &path, "key", s->key);
	ret_conf->key_password =
		conf_copy_secret(c, &path, "key_password_file", s->key_password_file);
	ret_conf->user = conf_copy(c, s->user);
	ret_conf->password = conf_copy_secret(c, &path, "password_file", s->password_file);
}

void kafka_conf_release(struct kafka_conf *conf)
{
	free(conf->bootstrap);
	free(conf->ca);
	free(conf->cert);
	free(conf->key);
	free(conf->user);
	conf_secret_free(conf->key_password);
	conf_secret_free(conf->password);
}

/* ---- librdkafka ---- */

/* In librdkafka's threads. */
static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	enum log_level as = level <= SYSLOG_ERROR     ? LOG_ERROR
			    : level <= SYSLOG_WARNING ? LOG_WARN
						      : LOG_INFO;

	(void)rk;
	log_event(as, "kafka", text, LOG_TEXT_FIELD("facility", facility));
}

static bool set(rd_kafka_conf_t *client, const char *name, const char *value, bool secret,
		struct buf *ret_error)
{
	char why[512] = "";

	if (value == NULL ||
	    rd_kafka_conf_set(client, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
		return true;
	buf_printf(ret_error, "librdkafka does not take %s%s%s", name, secret ? "" : ": ",
		   secret ? "" : why);
	return false;
}

bool kafka_conf_set(rd_kafka_conf_t *client, const char *name, const char *value,
		    struct buf *ret_error)
{
	return set(client, name, value, false, ret_error);
}

rd_kafka_conf_t *kafka_conf_client(const struct kafka_conf *conf, const char *client_id,
				   struct buf *ret_error)
{
	rd_kafka_conf_t *client = rd_kafka_conf_new();
	bool sasl = has_sasl((int)conf->protocol);

	if (client == NULL)
		return NULL;
	rd_kafka_conf_set_log_cb(client, on_log);
	if (set(client, "bootstrap.servers", conf->bootstrap, false, ret_error) &&
	    set(client, "client.id", client_id, false, ret_error) &&
	    set(client, "security.protocol", protocols[conf->protocol], false, ret_error) &&
	    set(client, "ssl.ca.location", conf->ca, false, ret_error) &&
	    set(client, "ssl.certificate.location", conf->cert, false, ret_error) &&
	    set(client, "ssl.key.location", conf->key, false, ret_error) &&
	    set(client, "ssl.key.password", conf->key_password, true, ret_error) &&
	    set(client, "sasl.mechanism", sasl ? mechanisms[conf->mechanism] : NULL, false,
		ret_error) &&
	    set(client, "sasl.username", conf->user, false, ret_error) &&
	    set(client, "sasl.password", conf->password, true, ret_error))
		return client;
	rd_kafka_conf_destroy(client);
	return NULL;
}
