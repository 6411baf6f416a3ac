/* Option tables as Markdown: docs/configuration.md is made of them. */
#include <inttypes.h>

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
