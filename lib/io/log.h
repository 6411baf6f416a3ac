/*
 * Log lines on stderr: one JSON object a line, or text for people. Only shells log. Values are
 * escaped; secrets are never handed to it. Each call site is rate-limited, but for reports; what was left
 * out is counted and said. Any thread may log, one line at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_JSON, LOG_TEXT };

enum {
	LOG_SITE_PER_SECOND = 10, /* lines of one site; further ones are counted */
	LOG_VALUE_MAX = 4096,     /* bytes of a value; the rest is cut, which a "…" shows */
};

/*
 * Before the first line and before there are threads; default: JSON, LOG_INFO, no node name. `node` is copied; NULL: none. Text
 * is coloured when stderr is a terminal, $NO_COLOR is not set and $TERM is not "dumb".
 */
void log_setup(enum log_format format, enum log_level least, const char *node);

/* A field of a line. Borrowed for the call; `text` NULL is written as an empty string, one without a name not at all. */
struct log_field {
	const char *name;
	enum { LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_MEMBERS } kind;
	/* LOG_FIELD_MEMBERS: members of a JSON object, without its braces and spaces; each stands under its own name. */
	const char *text;
	int64_t number;
};
#define LOG_TEXT_FIELD(name_, text_) \
	((struct log_field){.name = (name_), .kind = LOG_FIELD_TEXT, .text = (text_)})
#define LOG_INT_FIELD(name_, number_) \
	((struct log_field){.name = (name_), .kind = LOG_FIELD_INT, .number = (number_)})

#define LOG_MEMBERS_FIELD(name_, text_) \
	((struct log_field){.name = (name_), .kind = LOG_FIELD_MEMBERS, .text = (text_)})
/* Of a text that says nothing when it is empty. */
#define LOG_TEXT_FIELD_IF(given_, name_, text_) \
	((given_) ? LOG_TEXT_FIELD(name_, text_) : (struct log_field){0})

/* A call site's budget; static and zero at first, one a site. */
struct log_site {
	uint64_t window_s; /* the second, on the monotonic clock, that in_window belongs to */
	uint32_t in_window;
	uint32_t left_out; /* since the last line; > 0: the site is among those to be said */
	enum log_level level;
	const char *event;
	struct log_site *next;
};

/* `site` NULL: the line has no budget to fit in. */
void log_write(struct log_site *site, enum log_level level, const char *event, const char *message,
	       const struct log_field *fields, unsigned n_fields);

struct buf;

/* An error of `event` for each line of `text`, which is released. */
void log_lines(const char *event, struct buf *text);

/*
 * Says how many lines were left out, for each site whose second is over. Comes by itself with the
 * next line of any site and at exit; a slow timer that calls it makes it prompt.
 */
void log_flush(void);

/*
 * log_event(LOG_WARN, "redis_down", "the store can't be reached", LOG_TEXT_FIELD("why", why));
 * `event` is a literal; fields are optional. (The empty last field lets the list be empty in ISO
 * C.)
 */
#define log_event(level_, event_, ...)                                                      \
	do {                                                                                \
		static struct log_site log_site_;                                           \
		LOG_EVENT_(&log_site_, level_, event_, __VA_ARGS__, (struct log_field){0}); \
	} while (0)
/* As log_event(), for what is said at intervals that the operator chose: none of its lines is left out. */
#define log_report(level_, event_, ...)                                               \
	do {                                                                          \
		LOG_EVENT_(NULL, level_, event_, __VA_ARGS__, (struct log_field){0}); \
	} while (0)
#define LOG_EVENT_(site_, level_, event_, message_, ...)        \
	const struct log_field log_fields_[] = {__VA_ARGS__};   \
	log_write(site_, level_, event_, message_, log_fields_, \
		  (unsigned)(sizeof log_fields_ / sizeof log_fields_[0]) - 1)
