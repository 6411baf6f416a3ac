#include "io/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/quote.h"
#include "core/rfc3339.h"

static struct {
	pthread_mutex_t lock; /* of all below that log_setup() does not set, and of each site */
	enum log_format format;
	enum log_level least;
	bool coloured;
	char node[256];
	struct log_site *quiet; /* sites that have left lines out */
	struct buf line;        /* kept: one allocation a process */
} log_state = {.lock = PTHREAD_MUTEX_INITIALIZER, .least = LOG_INFO};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static void release_at_exit(void)
{
	for (struct log_site *s = log_state.quiet; s != NULL; s = s->next)
		s->window_s = 0; /* its second ends with the process */
	log_flush();
	buf_release(&log_state.line);
}

static bool terminal_has_colours(void)
{
	const char *term = getenv("TERM");
	const char *no_color = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
	       strcmp(term, "dumb") != 0;
}

void log_setup(enum log_format format, enum log_level least, const char *node)
{
	static bool registered;

	log_state.format = format;
	log_state.least = least;
	log_state.coloured = format == LOG_TEXT && terminal_has_colours();
	log_state.node[0] = '\0';
	if (node != NULL)
		strncat(log_state.node, node, sizeof log_state.node - 1);
	if (!registered)
		registered = atexit(release_at_exit) == 0;
}

static void add_time(struct buf *b)
{
	struct timespec now;
	char text[RFC3339_TEXT_MAX];

	clock_gettime(CLOCK_REALTIME, &now);
	rfc3339_write((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, text);
	buf_add_text(b, text);
}

/* `text` cut to LOG_VALUE_MAX bytes, between characters. */
static struct slice clipped(const char *text, bool *ret_cut)
{
	struct slice s = slice_of(text != NULL ? text : "");

	*ret_cut = s.len > LOG_VALUE_MAX;
	if (*ret_cut) {
		s.len = LOG_VALUE_MAX;
		while (s.len > 0 && ((unsigned char)s.ptr[s.len] & 0xc0) == 0x80)
			s.len--;
	}
	return s;
}

static void add_escaped(struct buf *b, const char *text)
{
	bool cut;
	struct slice s = clipped(text, &cut);

	quote_json_inner(b, s);
	if (cut)
		buf_add_text(b, "…");
}

static void add_json_text(struct buf *b, const char *name, const char *text)
{
	buf_add_text(b, ",");
	quote_json(b, slice_of(name));
	buf_add_text(b, ":\"");
	add_escaped(b, text);
	buf_add_text(b, "\"");
}

static void add_json_int(struct buf *b, const char *name, int64_t number)
{
	buf_add_text(b, ",");
	quote_json(b, slice_of(name));
	buf_add_text(b, ":");
	buf_add_int(b, number);
}

static void write_json(struct buf *b, enum log_level level, const char *event, const char *message,
		       const struct log_field *fields, unsigned n_fields)
{
	buf_add_text(b, "{\"ts\":\"");
	add_time(b);
	buf_add_text(b, "\"");
	add_json_text(b, "level", level_names[level]);
	add_json_text(b, "event", event);
	add_json_text(b, "message", message);
	if (log_state.node[0] != '\0')
		add_json_text(b, "node", log_state.node);
	for (unsigned i = 0; i < n_fields; i++)
		if (fields[i].name == NULL)
			continue;
		else if (fields[i].kind == LOG_FIELD_INT)
			add_json_int(b, fields[i].name, fields[i].number);
		else if (fields[i].kind == LOG_FIELD_MEMBERS)
			buf_printf(b, ",%s", fields[i].text);
		else
			add_json_text(b, fields[i].name, fields[i].text);
	buf_add_text(b, "}\n");
}

/* Without quotes where a reader would not miss them. */
static void add_text_value(struct buf *b, const char *text)
{
	bool bare = text != NULL && text[0] != '\0' && strpbrk(text, " \"=\\\t\r\n") == NULL;

	buf_add_text(b, bare ? "" : "\"");
	add_escaped(b, text);
	buf_add_text(b, bare ? "" : "\"");
}

static void add_coloured(struct buf *b, const char *colour, const char *text)
{
	if (log_state.coloured)
		buf_add_text(b, colour);
	buf_add_text(b, text);
	if (log_state.coloured)
		buf_add_text(b, "\033[0m");
}

static void add_text_name(struct buf *b, const char *name)
{
	buf_add_text(b, " ");
	add_coloured(b, "\033[2m", name);
	add_coloured(b, "\033[2m", "=");
}

/* Of the JSON value that is there. */
static size_t json_value_len(const char *json)
{
	unsigned depth = 0;
	bool quoted = false;
	size_t i;

	for (i = 0; json[i] != '\0' && (quoted || depth > 0 || json[i] != ','); i++) {
		if (quoted && json[i] == '\\' && json[i + 1] != '\0')
			i++;
		else if (json[i] == '"')
			quoted = !quoted;
		else if (!quoted && strchr("{[", json[i]) != NULL)
			depth++;
		else if (!quoted && strchr("}]", json[i]) != NULL)
			depth--;
	}
	return i;
}

/* The values stay JSON. */
static void add_text_members(struct buf *b, const char *members)
{
	char name[64];
	int len;

	while (sscanf(members, "\"%63[^\"]\":%n", name, &len) == 1) {
		members += len;
		len = (int)json_value_len(members);
		add_text_name(b, name);
		buf_printf(b, "%.*s", len, members);
		members += members[len] == ',' ? len + 1 : len;
	}
}

static void write_text(struct buf *b, enum log_level level, const char *event, const char *message,
		       const struct log_field *fields, unsigned n_fields)
{
	static const char *const labels[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
	static const char *const colours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[1;31m"};

	add_time(b);
	buf_add_text(b, " ");
	add_coloured(b, colours[level], labels[level]);
	buf_add_text(b, " ");
	add_escaped(b, message);
	add_coloured(b, "\033[2m", "  event=");
	add_text_value(b, event);
	for (unsigned i = 0; i < n_fields; i++) {
		if (fields[i].name == NULL)
			continue;
		if (fields[i].kind == LOG_FIELD_MEMBERS) {
			add_text_members(b, fields[i].text);
			continue;
		}
		add_text_name(b, fields[i].name);
		if (fields[i].kind == LOG_FIELD_INT)
			buf_add_int(b, fields[i].number);
		else
			add_text_value(b, fields[i].text);
	}
	buf_add_text(b, "\n");
}

/* A line that stderr does not take is lost: the log must not hold up the loop. */
static void put_line(const struct buf *b)
{
	size_t at = 0;

	if (buf_failed(b))
		return;
	while (at < b->len) {
		ssize_t n = write(STDERR_FILENO, b->ptr + at, b->len - at);
		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

static void emit(enum log_level level, const char *event, const char *message,
		 const struct log_field *fields, unsigned n_fields)
{
	struct buf *line = &log_state.line;

	buf_clear(line); /* of its failure too: a line that got no memory is lost, not the log */
	if (log_state.format == LOG_JSON)
		write_json(line, level, event, message, fields, n_fields);
	else
		write_text(line, level, event, message, fields, n_fields);
	put_line(line);
}

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec + 1; /* never 0: a site's first second */
}

static void say_left_out(uint64_t now)
{
	struct log_site **link = &log_state.quiet;

	while (*link != NULL) {
		struct log_site *site = *link;

		if (site->window_s == now) {
			link = &site->next;
			continue;
		}
		*link = site->next;
		emit(site->level, site->event, "more lines of this kind were left out",
		     &LOG_INT_FIELD("left_out", site->left_out), 1);
		site->left_out = 0;
	}
}

void log_flush(void)
{
	pthread_mutex_lock(&log_state.lock);
	say_left_out(now_s());
	pthread_mutex_unlock(&log_state.lock);
}

/* Whether this line fits in the site's budget for this second. */
static bool site_admits(struct log_site *site, uint64_t now)
{
	if (site->window_s != now) {
		site->window_s = now;
		site->in_window = 0;
	}
	if (site->in_window < LOG_SITE_PER_SECOND) {
		site->in_window++;
		return true;
	}
	if (site->left_out++ == 0) {
		site->next = log_state.quiet;
		log_state.quiet = site;
	}
	return false;
}

void log_write(struct log_site *site, enum log_level level, const char *event, const char *message,
	       const struct log_field *fields, unsigned n_fields)
{
	if (level < log_state.least)
		return;

	uint64_t now = now_s();

	pthread_mutex_lock(&log_state.lock);
	say_left_out(now);
	if (site != NULL) {
		site->level = level;
		site->event = event;
	}
	if (site == NULL || site_admits(site, now))
		emit(level, event, message, fields, n_fields);
	pthread_mutex_unlock(&log_state.lock);
}

void log_lines(const char *event, struct buf *text)
{
	char *line = text->ptr;

	buf_add(text, "", 1);
	if (buf_failed(text))
		line = NULL;
	for (char *rest = text->ptr; line != NULL && (line = strtok_r(rest, "\n", &rest)) != NULL;)
		log_event(LOG_ERROR, event, line);
	buf_release(text);
}
