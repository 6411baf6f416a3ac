/* Option tables as Markdown and roff: docs/configuration.md and the manual pages of section 5 are made of them. */
#include <inttypes.h>
#include <string.h>

#include "core/duration.h"
#include "io/conf.h"

static void write_range(const struct conf_option *o, struct buf *out)
{
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	if (o->type == CONF_INT) {
		buf_printf(out, "whole number, %" PRId64 "–%" PRId64, o->min, o->max);
	} else if (o->type == CONF_BYTES) {
		buf_printf(out, "string of %" PRId64 "–%" PRId64 " bytes", o->min, o->max);
	} else {
		duration_write((uint64_t)o->min, min);
		duration_write((uint64_t)o->max, max);
		buf_printf(out, "duration, %s–%s", min, max);
	}
}

static void write_type(const struct conf_option *o, enum conf_type type, struct buf *out)
{
	static const char *const names[] = {
		[CONF_STRING] = "string",
		[CONF_NAME] = "name: 1–64 of `A-Z a-z 0-9 . _ -`",
		[CONF_PATH] = "path, relative to this file",
		[CONF_ADDRESS] = "`host:port` or `[v6]:port`",
		[CONF_PART] = "number, 0–1",
		[CONF_BOOL] = "`true` `false`",
		[CONF_TIME] = "RFC 3339 time",
		[CONF_OBJECT] = "object",
		[CONF_LATER] = "*not available yet*",
	};

	if (type == CONF_ENUM) {
		for (size_t i = 0; o->values[i] != NULL; i++)
			buf_printf(out, "%s`%s`", i > 0 ? " " : "", o->values[i]);
	} else if (type == CONF_LIST) {
		buf_add_text(out, "list of ");
		if (o->item == CONF_OBJECT)
			buf_add_text(out, "objects");
		else
			write_type(o, o->item, out);
	} else if (type == CONF_RAW) {
		buf_add_text(out, o->form);
	} else if (names[type] != NULL) {
		buf_add_text(out, names[type]);
	} else {
		write_range(o, out);
	}
	if (o->nullable && type == o->type)
		buf_add_text(out, ", `null`");
}

static void write_default(const struct conf_option *o, struct buf *out)
{
	if (o->required)
		buf_add_text(out, "required");
	else if (o->fallback != NULL)
		buf_printf(out, "`%s`", o->fallback);
	else if (o->otherwise != NULL)
		buf_add_text(out, o->otherwise);
}

/* In a cell of a table a bar must be escaped, even within code. */
static void write_cell(const char *text, struct buf *out)
{
	for (; *text != '\0'; text++) {
		if (*text == '|')
			buf_add_text(out, "\\");
		buf_add(out, text, 1);
	}
}

static void write_rows(const struct conf_table *table, struct buf *out)
{
	buf_add_text(out, "| field | values | default | |\n|---|---|---|---|\n");
	for (size_t i = 0; i < table->n_options; i++) {
		const struct conf_option *o = &table->options[i];

		buf_printf(out, "| `%s` | ", o->name);
		write_type(o, o->type, out);
		buf_add_text(out, " | ");
		write_default(o, out);
		buf_add_text(out, " | ");
		write_cell(o->text, out);
		buf_add_text(out, " |\n");
	}
}

void conf_table_document(const struct conf_table *table, struct buf *ret_markdown)
{
	buf_printf(ret_markdown, "### %s\n\n%s\n\n", table->title, table->text);
	write_rows(table, ret_markdown);
	buf_add_text(ret_markdown, "\n");
	for (size_t i = 0; i < table->n_options; i++)
		if (table->options[i].table != NULL)
			conf_table_document(table->options[i].table, ret_markdown);
}

/* ---- The same as roff, for manual pages ---- */

static void write_roff_byte(char c, bool begins, struct buf *out)
{
	if (begins && (c == '.' || c == '\'')) /* else a request */
		buf_add_text(out, "\\&");
	if (c == '\\')
		buf_add_text(out, "\\e");
	else if (c == '-')
		buf_add_text(out, "\\-");
	else
		buf_add(out, &c, 1);
}

static bool begins_link(const char *at)
{
	const char *end = *at == '[' ? strchr(at, ']') : NULL;

	return end != NULL && end[1] == '(';
}

/* A line of Markdown: code is bold, emphasis italic, and of a link only its text stands. */
static void write_roff(const char *text, struct buf *out)
{
	bool code = false, emphasis = false;

	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '`') {
			code = !code;
			buf_add_text(out, code ? "\\fB" : "\\fR");
		} else if (!code && *p == '*') {
			emphasis = !emphasis;
			buf_add_text(out, emphasis ? "\\fI" : "\\fR");
		} else if (!code && p[0] == ']' && p[1] == '(' && strchr(p, ')') != NULL) {
			p = strchr(p, ')');
		} else if (code || !begins_link(p)) {
			write_roff_byte(*p, p == text, out);
		}
	}
	buf_add_text(out, "\n");
}

static void write_entry(const struct conf_option *o, struct buf *out)
{
	struct buf line = {0};

	buf_printf(out, ".TP\n.B ");
	write_roff(o->name, out);
	write_type(o, o->type, &line);
	if (o->required || o->fallback != NULL || o->otherwise != NULL) {
		buf_add_text(&line, o->required ? "; " : "; default: ");
		write_default(o, &line);
	}
	buf_add(&line, "", 1);
	buf_add_text(out, "(");
	write_roff(line.ptr, out);
	out->len--;
	buf_add_text(out, ")\n");
	if (o->text != NULL && o->text[0] != '\0') {
		buf_add_text(out, ".br\n");
		write_roff(o->text, out);
	}
	buf_release(&line);
}

void conf_table_manual(const struct conf_table *table, struct buf *ret_roff)
{
	buf_add_text(ret_roff, ".SS ");
	write_roff(table->title, ret_roff);
	write_roff(table->text, ret_roff);
	for (size_t i = 0; i < table->n_options; i++)
		write_entry(&table->options[i], ret_roff);
	for (size_t i = 0; i < table->n_options; i++)
		if (table->options[i].table != NULL)
			conf_table_manual(table->options[i].table, ret_roff);
}
