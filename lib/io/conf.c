/* Reads JSON objects by option tables. One function a type: each stores its value or records what is allowed. */
#include "io/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/duration.h"
#include "core/name.h"
#include "core/nearest.h"
#include "core/rfc3339.h"

/* One member being read: where it is, what is to be there, and where it goes. */
struct member {
	struct conf_reader *r;
	const struct conf_path *path; /* of the object */
	const struct conf_option *option;
	const json_t *value;
	char *at; /* destination */
};

static void steps_from_path(const struct conf_path *path, struct conf_error *e)
{
	size_t depth = 0;

	for (const struct conf_path *p = path; p != NULL; p = p->up)
		depth++;
	assert(depth <= CONF_DEPTH_MAX);
	e->n_steps = depth;
	for (const struct conf_path *p = path; p != NULL; p = p->up) {
		struct slice key = p->key != NULL ? slice_of(p->key) : (struct slice){0};

		e->steps[--depth] = (struct locate_step){.key = key, .index = p->index};
	}
}

__attribute__((format(printf, 4, 0))) static void fail_args(struct conf_reader *r,
							    const struct conf_path *path,
							    enum conf_place place,
							    const char *format, va_list args)
{
	if (r->n_errors++ >= CONF_ERRORS_MAX)
		return;
	struct conf_error *e = &r->errors[r->n_errors - 1];

	e->place = place;
	steps_from_path(path, e);
	vsnprintf(e->text, sizeof e->text, format, args);
}

void conf_fail(struct conf_reader *r, const struct conf_path *path, const char *key,
	       enum conf_place place, const char *format, ...)
{
	struct conf_path member = {.up = path, .key = key};
	va_list args;

	va_start(args, format);
	fail_args(r, key != NULL ? &member : path, place, format, args);
	va_end(args);
}

bool conf_is_named_object(struct conf_reader *r, const struct conf_path *path, const char *name,
			  const json_t *value, const char *thing, const char *example)
{
	bool is_object = json_is_object(value);

	if (!name_is_valid(slice_of(name))) {
		conf_fail(r, path, name, CONF_AT_KEY,
			  "%s's name must be 1 to 64 characters of A-Z a-z 0-9 . _ -", thing);
		return false;
	}
	if (!is_object)
		conf_fail(r, path, name, CONF_AT_VALUE, "`%s` must be an object as %s", name,
			  example);
	return is_object;
}

__attribute__((format(printf, 2, 3))) static void fail(const struct member *m, const char *format,
						       ...)
{
	struct conf_path member = {.up = m->path, .key = m->option->name};
	char said[CONF_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(said, sizeof said, format, args);
	va_end(args);
	conf_fail(m->r, &member, NULL, CONF_AT_VALUE, "`%s` must be %s", m->option->name, said);
}

static const char *type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",      [JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

/* The string without NUL bytes in `m`, or NULL after an error that says it must be `what`. */
static const char *text_of(const struct member *m, const char *what)
{
	const char *text = json_string_value(m->value);

	if (text == NULL) {
		fail(m, "%s, not %s", what, type_name(m->value));
		return NULL;
	}
	if (text[0] == '\0' || strlen(text) != json_string_length(m->value)) {
		fail(m, "%s, and not empty or with a NUL byte", what);
		return NULL;
	}
	return text;
}

static void read_text(const struct member *m, const char *what, bool (*valid)(const char *text))
{
	const char *text = text_of(m, what);

	if (text == NULL)
		return;
	if (valid != NULL && !valid(text)) {
		fail(m, "%s", what);
		return;
	}
	memcpy(m->at, &text, sizeof text);
}

static bool name_valid(const char *text)
{
	return name_is_valid(slice_of(text));
}

static bool address_valid(const char *text)
{
	struct slice host;
	uint16_t port;

	return conf_address_parse(text, &host, &port);
}

static void read_bytes(const struct member *m)
{
	struct slice s = {json_string_value(m->value), json_string_length(m->value)};

	if (s.ptr == NULL)
		fail(m, "a string, not %s", type_name(m->value));
	else if ((int64_t)s.len < m->option->min || (int64_t)s.len > m->option->max)
		fail(m, "%" PRId64 " to %" PRId64 " bytes long, not %zu", m->option->min,
		     m->option->max, s.len);
	else
		memcpy(m->at, &s, sizeof s);
}

static void read_int(const struct member *m)
{
	const struct conf_option *o = m->option;
	int64_t v = json_integer_value(m->value);

	if (!json_is_integer(m->value))
		fail(m, "a whole number from %" PRId64 " to %" PRId64 ", not %s", o->min, o->max,
		     json_is_real(m->value) ? "one with a fraction or exponent"
					    : type_name(m->value));
	else if ((v < o->min || v > o->max) && o->min == o->max)
		fail(m, "%" PRId64 ", not %" PRId64, o->min, v);
	else if (v < o->min || v > o->max)
		fail(m, "a whole number from %" PRId64 " to %" PRId64 ", not %" PRId64, o->min,
		     o->max, v);
	else
		memcpy(m->at, &v, sizeof v);
}

static void read_part(const struct member *m)
{
	double v = json_number_value(m->value);

	if (!json_is_number(m->value))
		fail(m, "a number from 0 to 1, not %s", type_name(m->value));
	else if (!(v >= 0 && v <= 1))
		fail(m, "a number from 0 to 1");
	else
		memcpy(m->at, &(int64_t){(int64_t)(v * 1e6 + 0.5)}, sizeof(int64_t));
}

static void read_bool(const struct member *m)
{
	bool v = json_is_true(m->value);

	if (!json_is_boolean(m->value))
		fail(m, "true or false, not %s", type_name(m->value));
	else
		memcpy(m->at, &v, sizeof v);
}

static void read_duration(const struct member *m)
{
	const struct conf_option *o = m->option;
	struct slice text = {json_string_value(m->value), json_string_length(m->value)};
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];
	uint64_t ms;

	duration_write((uint64_t)o->min, min);
	duration_write((uint64_t)o->max, max);
	if (text.ptr == NULL)
		fail(m,
		     "a duration as \"250ms\" \"10s\" \"5m\" \"1h\" \"7d\" from %s to %s, not %s",
		     min, max, type_name(m->value));
	else if (duration_parse(text, &ms) != KOVA_OK)
		fail(m, "a duration as \"250ms\" \"10s\" \"5m\" \"1h\" \"7d\" from %s to %s", min,
		     max);
	else if ((int64_t)ms < o->min || (int64_t)ms > o->max)
		fail(m, "a duration from %s to %s, not %.*s", min, max,
		     (int)(text.len < 32 ? text.len : 32), text.ptr);
	else
		memcpy(m->at, &(int64_t){(int64_t)ms}, sizeof(int64_t));
}

static void read_time(const struct member *m)
{
	struct slice text = {json_string_value(m->value), json_string_length(m->value)};
	int64_t ms;

	if (text.ptr == NULL || !rfc3339_parse(text, &ms))
		fail(m, "an RFC 3339 time as \"2027-01-31T18:00:00Z\"");
	else
		memcpy(m->at, &ms, sizeof ms);
}

/* "`a` `b` `c`" */
static void values_write(const char *const *values, char *ret_text, size_t size)
{
	size_t at = 0;

	ret_text[0] = '\0';
	for (; *values != NULL && at < size; values++)
		at += (size_t)snprintf(ret_text + at, size - at, "%s`%s`", at > 0 ? " " : "",
				       *values);
}

static int enum_index(const char *const *values, const char *text)
{
	for (int i = 0; text != NULL && values[i] != NULL; i++)
		if (strcmp(values[i], text) == 0)
			return i;
	return -1;
}

static void read_enum(const struct member *m)
{
	const char *text = json_string_value(m->value);
	const char *const *values = m->option->values;
	char allowed[CONF_TEXT_MAX / 2];

	int index = enum_index(values, text);

	if (index >= 0) {
		memcpy(m->at, &index, sizeof index);
		return;
	}
	values_write(values, allowed, sizeof allowed);
	const char *nearest = text != NULL ? nearest_in_list(text, values) : NULL;

	if (nearest != NULL)
		fail(m, "one of %s; did you mean `%s`?", allowed, nearest);
	else
		fail(m, "one of %s", allowed);
}

/* The scalars of a list are checked here, and stay in the JSON. */
static bool is_text(const json_t *value)
{
	const char *text = json_string_value(value);

	return text != NULL && text[0] != '\0' && strlen(text) == json_string_length(value);
}

static void read_list(const struct member *m)
{
	struct conf_path list = {.up = m->path, .key = m->option->name};
	struct conf_option item = *m->option;
	size_t index;
	json_t *value;

	if (!json_is_array(m->value)) {
		fail(m, "a list, not %s", type_name(m->value));
		return;
	}
	item.type = m->option->item;
	json_array_foreach(m->value, index, value) {
		struct conf_path path = {.up = &list, .index = index};

		if (item.type == CONF_OBJECT && !json_is_object(value))
			conf_fail(m->r, &path, NULL, CONF_AT_VALUE,
				  "`%s` must hold objects, not %s", item.name, type_name(value));
		else if (item.type == CONF_ADDRESS &&
			 (!json_is_string(value) || !address_valid(json_string_value(value))))
			conf_fail(m->r, &path, NULL, CONF_AT_VALUE,
				  "`%s` must hold addresses as \"host:port\" or \"[v6]:port\"",
				  item.name);
		else if (item.type == CONF_STRING && !is_text(value))
			conf_fail(m->r, &path, NULL, CONF_AT_VALUE,
				  "`%s` must hold strings, not empty or with a NUL byte",
				  item.name);
	}
	memcpy(m->at, &m->value, sizeof m->value);
}

static void read_object(const struct member *m)
{
	struct conf_path path = {.up = m->path, .key = m->option->name};

	if (json_is_object(m->value))
		conf_read(m->r, &path, m->value, m->option->table, m->at);
	else
		fail(m, "an object, not %s", type_name(m->value));
}

static void read_value(const struct member *m)
{
	switch (m->option->type) {
	case CONF_STRING:
	case CONF_PATH:
		read_text(m, "a string", NULL);
		break;
	case CONF_NAME:
		read_text(m, "1 to 64 characters of A-Z a-z 0-9 . _ -", name_valid);
		break;
	case CONF_ADDRESS:
		read_text(m, "an address as \"host:port\" or \"[v6]:port\"", address_valid);
		break;
	case CONF_BYTES:
		read_bytes(m);
		break;
	case CONF_INT:
		read_int(m);
		break;
	case CONF_PART:
		read_part(m);
		break;
	case CONF_BOOL:
		read_bool(m);
		break;
	case CONF_DURATION:
		read_duration(m);
		break;
	case CONF_TIME:
		read_time(m);
		break;
	case CONF_ENUM:
		read_enum(m);
		break;
	case CONF_OBJECT:
		read_object(m);
		break;
	case CONF_LIST:
		read_list(m);
		break;
	case CONF_RAW:
		memcpy(m->at, &m->value, sizeof m->value);
		break;
	case CONF_LATER:
		if (json_is_array(m->value) && json_array_size(m->value) == 0)
			break;
		conf_fail(m->r, m->path, m->option->name, CONF_AT_KEY, "`%s` is not available yet",
			  m->option->name);
		break;
	}
}

static int64_t fallback_number(const struct conf_option *o)
{
	uint64_t ms = 0;
	kova_status status;

	if (o->fallback == NULL ||
	    (o->type != CONF_INT && o->type != CONF_DURATION && o->type != CONF_PART))
		return CONF_ABSENT;
	if (o->type == CONF_INT)
		return atoll(o->fallback);
	if (o->type == CONF_PART)
		return (int64_t)(strtod(o->fallback, NULL) * 1e6 + 0.5);
	status = duration_parse(slice_of(o->fallback), &ms);
	assert(status == KOVA_OK);
	return (int64_t)ms;
}

/* What an option is before it is read: its default (unless `bare`), or absent. */
static void set_default(const struct conf_option *o, bool bare, char *at)
{
	const char *text = bare ? NULL : o->fallback;
	const int64_t number = bare ? CONF_ABSENT : fallback_number(o);
	const int index = o->type == CONF_ENUM ? enum_index(o->values, text) : -1;
	const bool yes = text != NULL && strcmp(text, "true") == 0;

	switch (o->type) {
	case CONF_STRING:
	case CONF_NAME:
	case CONF_PATH:
	case CONF_ADDRESS:
		memcpy(at, &text, sizeof text);
		break;
	case CONF_DURATION:
	case CONF_INT:
	case CONF_PART:
	case CONF_TIME:
		memcpy(at, &number, sizeof number);
		break;
	case CONF_ENUM:
		memcpy(at, &index, sizeof index);
		break;
	case CONF_BOOL:
		memcpy(at, &yes, sizeof yes);
		break;
	case CONF_BYTES:
		memcpy(at, &(struct slice){0}, sizeof(struct slice));
		break;
	case CONF_LIST:
	case CONF_RAW:
		memcpy(at, &(json_t *){NULL}, sizeof(json_t *));
		break;
	case CONF_OBJECT:
		for (size_t i = 0; i < o->table->n_options; i++)
			set_default(&o->table->options[i], bare, at + o->table->options[i].at);
		break;
	case CONF_LATER:
		break;
	}
}

static const struct conf_option *option_find(const struct conf_table *table, const char *name)
{
	for (size_t i = 0; i < table->n_options; i++)
		if (strcmp(table->options[i].name, name) == 0)
			return &table->options[i];
	return NULL;
}

static void fail_unknown(struct conf_reader *r, const struct conf_path *path,
			 const struct conf_table *table, const char *name)
{
	const char *names[CONF_OPTIONS_MAX + 1];
	char allowed[CONF_TEXT_MAX - 48];
	size_t n = 0;

	assert(table->n_options <= CONF_OPTIONS_MAX);
	for (size_t i = 0; i < table->n_options; i++)
		if (table->options[i].type != CONF_LATER)
			names[n++] = table->options[i].name;
	names[n] = NULL;
	const char *nearest = nearest_in_list(name, names);

	if (nearest != NULL) {
		conf_fail(r, path, name, CONF_AT_KEY, "unknown field `%.64s`; did you mean `%s`?",
			  name, nearest);
		return;
	}
	values_write(names, allowed, sizeof allowed);
	conf_fail(r, path, name, CONF_AT_KEY, "unknown field `%.32s`; allowed: %s", name, allowed);
}

void conf_read(struct conf_reader *r, const struct conf_path *path, const json_t *value,
	       const struct conf_table *table, void *ret_values)
{
	char *base = ret_values;
	const char *name;
	json_t *member;

	assert(json_is_object(value));
	for (size_t i = 0; i < table->n_options; i++) {
		const struct conf_option *o = &table->options[i];

		set_default(o, false, base + o->at);
		if (o->required && json_object_get(value, o->name) == NULL)
			conf_fail(r, path, NULL, CONF_AT_VALUE, "`%s` is missing: %s", o->name,
				  o->text);
	}
	/* The cast: jansson iterates over const objects, but does not say so. */
	json_object_foreach((json_t *)(uintptr_t)value, name, member) {
		const struct conf_option *o = option_find(table, name);

		if (o == NULL)
			fail_unknown(r, path, table, name);
		else if (o->nullable && json_is_null(member))
			set_default(o, true, base + o->at);
		else
			read_value(&(struct member){r, path, o, member, base + o->at});
	}
}

/* "levels[1]." of the steps before the last one, which the text itself names. */
static size_t path_write(const struct conf_error *e, char *ret_text, size_t size)
{
	size_t at = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < e->n_steps && at < size; i++) {
		const struct locate_step *s = &e->steps[i];

		if (s->key.ptr == NULL)
			at += (size_t)snprintf(ret_text + at, size - at, "[%zu]", s->index);
		else if (i + 1 < e->n_steps)
			at += (size_t)snprintf(ret_text + at, size - at, "%s%.*s",
					       at > 0 ? "." : "", (int)s->key.len, s->key.ptr);
	}
	return at < size ? at : size - 1;
}

void conf_reader_text(const struct conf_reader *r, char *ret_text, size_t size)
{
	assert(r->n_errors > 0);
	const struct conf_error *e = &r->errors[0];
	char where[128];
	size_t n = path_write(e, where, sizeof where);

	snprintf(ret_text, size, "%s%s%s", where, n > 0 ? ": " : "", e->text);
}
