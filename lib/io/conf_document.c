/* A JSON file as a whole: read, parsed, its errors placed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/conf.h"
#include "io/file.h"

enum { CONF_FILE_MAX = 1 << 28 }; /* 256 MiB */

static void report_line(struct buf *errors, const char *file, struct locate_position at,
			const char *text)
{
	buf_printf(errors, "%s:%zu:%zu: %s\n", file, at.line, at.column, text);
}

/*
 * The parser's error in our form. Its "near '…'" is left out, for that may be a secret, and it stands after
 * the token that is wrong: we say where that begins.
 */
static void report_syntax(const char *file, struct slice text, const json_error_t *error,
			  struct buf *ret_errors)
{
	const char *near = strstr(error->text, " near ");
	size_t len = near != NULL ? (size_t)(near - error->text) : strlen(error->text);
	enum json_error_code code = json_error_code(error);
	size_t offset = error->position > 0 ? (size_t)error->position : 0;
	char message[JSON_ERROR_TEXT_LENGTH + 32];

	if (code == json_error_duplicate_key) {
		snprintf(message, sizeof message, "this name stands twice in the same object");
	} else if (code == json_error_premature_end_of_input) {
		snprintf(message, sizeof message, "not JSON: the text ends too early");
		offset = SIZE_MAX;
	} else {
		snprintf(message, sizeof message, "not JSON: %.*s", (int)len, error->text);
	}
	report_line(ret_errors, file, locate_json_token(text, offset), message);
}

kova_status conf_document_parse(const char *name, struct slice text,
				struct conf_document *ret_document, struct buf *ret_errors)
{
	struct conf_document d = {.len = text.len};
	json_error_t error;

	d.file = strdup(name);
	d.text = malloc(text.len + 1);
	if (d.file == NULL || d.text == NULL) {
		conf_document_release(&d);
		return KOVA_ENOMEM;
	}
	memcpy(d.text, text.ptr, text.len);
	d.text[text.len] = '\0';
	d.root = json_loadb(d.text, d.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!json_is_object(d.root)) {
		kova_status status = KOVA_ECONFIG;

		if (d.root != NULL)
			report_line(ret_errors, name, locate_json(text, NULL, 0, false),
				    "must be a JSON object: { … }");
		else if (json_error_code(&error) == json_error_out_of_memory)
			status = KOVA_ENOMEM;
		else
			report_syntax(name, text, &error, ret_errors);
		conf_document_release(&d);
		return status;
	}
	*ret_document = d;
	return KOVA_OK;
}

kova_status conf_document_load(const char *file, struct conf_document *ret_document,
			       struct buf *ret_errors)
{
	struct buf text = {0};
	kova_status status = file_read(file, CONF_FILE_MAX, &text);

	if (status == KOVA_OK) {
		status = conf_document_parse(file, buf_slice(&text), ret_document, ret_errors);
	} else if (status != KOVA_ENOMEM) {
		buf_printf(ret_errors, "%s: %s\n", file, strerror(errno));
		status = KOVA_ECONFIG;
	}
	buf_release(&text);
	return status;
}

void conf_document_release(struct conf_document *d)
{
	json_decref(d->root);
	free(d->text);
	free(d->file);
	*d = (struct conf_document){0};
}

static bool is_before(struct locate_position a, struct locate_position b)
{
	return a.line != b.line ? a.line < b.line : a.column < b.column;
}

void conf_report(const struct conf_reader *r, const struct conf_document *d, struct buf *ret_errors)
{
	size_t n = r->n_errors < CONF_ERRORS_MAX ? r->n_errors : CONF_ERRORS_MAX;
	struct locate_position at[CONF_ERRORS_MAX];
	size_t order[CONF_ERRORS_MAX];

	/* In the order of the file: insertion sort, for they are few. */
	for (size_t i = 0; i < n; i++) {
		const struct conf_error *e = &r->errors[i];
		size_t j = i;

		at[i] = locate_json((struct slice){d->text, d->len}, e->steps, e->n_steps,
				    e->place == CONF_AT_KEY);
		for (; j > 0 && is_before(at[i], at[order[j - 1]]); j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
	for (size_t i = 0; i < n; i++)
		report_line(ret_errors, d->file, at[order[i]], r->errors[order[i]].text);
	if (r->n_errors > n)
		buf_printf(ret_errors, "%s: and %zu more errors\n", d->file, r->n_errors - n);
}

kova_status conf_file_read(const char *file,
			   kova_status (*read)(struct conf_reader *r, const struct conf_document *d,
					       void *conf),
			   void *conf, struct buf *ret_errors)
{
	struct conf_document d;
	struct conf_reader r = {0};
	kova_status status = conf_document_load(file, &d, ret_errors);

	if (status != KOVA_OK)
		return status;
	status = read(&r, &d, conf);
	if (status == KOVA_ECONFIG)
		conf_report(&r, &d, ret_errors);
	conf_document_release(&d);
	return status;
}
