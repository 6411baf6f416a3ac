#include "table.h"

#include <assert.h>
#include <stdlib.h>

#include "command.h"
#include "output.h"

void table_init(struct table *t, const char *const *heads, unsigned columns)
{
	assert(columns <= TABLE_COLUMNS_MAX);
	*t = (struct table){.columns = columns, .heads = heads};
}

void table_release(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){0};
}

static char *safe_copy(const char *text)
{
	struct buf b = {0};

	output_safe(&b, slice_of(text));
	buf_add(&b, "", 1);
	if (buf_failed(&b)) {
		buf_release(&b);
		return NULL;
	}
	return b.ptr;
}

void table_cell(struct table *t, const char *text)
{
	if (t->n == t->cap && !t->failed) {
		size_t cap = t->cap == 0 ? 64 : t->cap * 2;
		char **cells = realloc(t->cells, cap * sizeof *cells);

		t->failed = cells == NULL;
		if (cells != NULL) {
			t->cells = cells;
			t->cap = cap;
		}
	}
	if (t->failed)
		return;
	t->cells[t->n] = safe_copy(text != NULL ? text : "");
	if (t->cells[t->n] == NULL)
		t->failed = true;
	else
		t->n++;
}

/* Characters, not bytes: what does not continue a UTF-8 sequence. */
static unsigned width_of(const char *text)
{
	unsigned width = 0;

	for (; *text != '\0'; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static bool aligns_right(const char *head)
{
	return head[0] == '>';
}

static const char *head_text(const char *head)
{
	return head + aligns_right(head);
}

static void print_cell(const char *text, unsigned width, bool right, bool last)
{
	int pad = (int)(width - width_of(text));

	if (right)
		printf("%*s%s", pad, "", text);
	else
		printf("%s%*s", text, last ? 0 : pad, "");
	fputs(last ? "\n" : "  ", stdout);
}

static void print_heads(const struct table *t, const unsigned *widths)
{
	fputs(paint(stdout, PAINT_DIM), stdout);
	for (unsigned c = 0; c < t->columns; c++)
		print_cell(head_text(t->heads[c]), widths[c], aligns_right(t->heads[c]),
			   c + 1 == t->columns);
	fputs(paint(stdout, PAINT_PLAIN), stdout);
}

int table_print(const struct table *t)
{
	unsigned widths[TABLE_COLUMNS_MAX];

	if (t->failed) {
		complain("out of memory");
		return EXIT_USAGE;
	}
	for (unsigned c = 0; c < t->columns; c++)
		widths[c] = width_of(head_text(t->heads[c]));
	for (size_t i = 0; i < t->n; i++) {
		unsigned width = width_of(t->cells[i]);
		if (width > widths[i % t->columns])
			widths[i % t->columns] = width;
	}
	print_heads(t, widths);
	for (size_t i = 0; i < t->n; i++) {
		unsigned c = (unsigned)(i % t->columns);
		print_cell(t->cells[i], widths[c], aligns_right(t->heads[c]), c + 1 == t->columns);
	}
	return EXIT_ALLOWED;
}
