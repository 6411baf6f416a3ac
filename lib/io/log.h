/*
 * Log lines on stderr: one JSON object a line, or text for people. Only shells log. Values are escaped;
 * secrets are never handed to it. Each call site is rate-limited; what was left out is counted and said.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_JSON, LOG_TEXT };

/* Before the first line; default: JSON, LOG_INFO, no node name. `node` is copied. */
void log_setup(enum log_format format, enum log_level least, const char *node);

/* A field of a line. Borrowed for the call. */
struct log_field {
	const char *name;
	enum { LOG_FIELD_TEXT, LOG_FIELD_INT } kind;
	const char *text;
	int64_t number;
};
#define LOG_TEXT_FIELD(name_, text_) \
	((struct log_field){.name = (name_), .kind = LOG_FIELD_TEXT, .text = (text_)})
#define LOG_INT_FIELD(name_, number_) \
	((struct log_field){.name = (name_), .kind = LOG_FIELD_INT, .number = (number_)})

/* A call site's budget; static, one a site. */
struct log_site {
	uint64_t window_s;
	uint32_t in_window, left_out;
};

void log_write(struct log_site *site, enum log_level level, const char *event, const char *message,
	       const struct log_field *fields, unsigned n_fields);

/* log_event(LOG_WARN, "redis_down", "the store can't be reached", LOG_TEXT_FIELD("why", why)); fields are optional */
#define log_event(level, event, ...)                                                    \
	do {                                                                            \
		static struct log_site site_;                                           \
		LOG_EVENT_(&site_, level, event, __VA_ARGS__, (struct log_field){0})    \
	} while (0)
#define LOG_EVENT_(site, level, event, message, ...)                                    \
	const struct log_field fields_[] = {__VA_ARGS__};                               \
	log_write(site, level, event, message, fields_,                                 \
		  (unsigned)(sizeof fields_ / sizeof fields_[0]) - 1);
