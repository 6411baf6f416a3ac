/*
 * docs/configuration.md against the program: its tables are those of the code, and the examples in the documentation load.
 * After a change of the option tables: KOVA_REFRESH=1 build/tests/unit_configuration_docs, in the source directory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "edge_conf.h"
#include "edge_fields.h"

#define PAGE "docs/configuration.md"
#define MARK "unit_configuration_docs, in the source directory. -->\n"

static struct buf read_file(const char *path)
{
	struct buf text = {0};
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f, "%s (to be run in the source directory)", path);
	for (size_t n = 1; n > 0; text.len += n)
		n = fread(buf_reserve(&text, 4096), 1, 4096, f);
	fclose(f);
	buf_add(&text, "", 1);
	text.len--;
	return text;
}

static void refresh(struct slice kept, const struct buf *tables)
{
	FILE *f = fopen(PAGE, "w");

	cr_assert_not_null(f);
	fwrite(kept.ptr, 1, kept.len, f);
	fwrite(tables->ptr, 1, tables->len, f);
	fclose(f);
}

Test(configuration_docs, the_tables_are_those_of_the_code)
{
	struct buf page = read_file(PAGE), tables = {0};
	const char *mark = strstr(page.ptr, MARK);

	cr_assert_not_null(mark, "the mark is gone from " PAGE);
	const char *after = mark + strlen(MARK);

	buf_add_text(&tables, "\n");
	conf_table_document(&edge_table, &tables);
	tables.len--; /* no empty line at the end */
	if (getenv("KOVA_REFRESH") != NULL)
		refresh((struct slice){page.ptr, (size_t)(after - page.ptr)}, &tables);
	else
		cr_expect(
			slice_equal(slice_of(after), buf_slice(&tables)), PAGE
			" is out of date: run KOVA_REFRESH=1 build/tests/unit_configuration_docs");
	buf_release(&page);
	buf_release(&tables);
}

/* ---- Examples ---- */

static const char *const companions[] = {"tokens", "redis.password", "ca.pem", "agent.pem",
					 "agent.key"};
static char directory[64];

static void write_file(const char *name, struct slice text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fwrite(text.ptr, 1, text.len, f);
	fclose(f);
}

static void load(const char *from, struct slice text)
{
	struct edge_conf conf;
	struct buf errors = {0};
	char path[128];

	write_file("agent.json", text);
	snprintf(path, sizeof path, "%s/agent.json", directory);
	kova_status status = edge_conf_load(path, &conf, &errors);

	cr_expect_eq(status, KOVA_OK, "%s: %.*s\n%.*s", from, (int)errors.len, errors.ptr,
		     (int)text.len, text.ptr);
	if (status == KOVA_OK)
		edge_conf_release(&conf);
	buf_release(&errors);
}

/* Loads the JSON blocks of a page; of pages about other things as well, those with policies. */
static size_t load_blocks(const char *path, bool only_policies)
{
	struct buf page = read_file(path);
	size_t n = 0;

	for (char *at = page.ptr; (at = strstr(at, "```json\n")) != NULL;) {
		char *begin = at + strlen("```json\n"), *end = strstr(begin, "```");

		cr_assert_not_null(end, "%s: a block does not end", path);
		*end = '\0';
		if (!only_policies || strstr(begin, "\"policies\"") != NULL) {
			load(path, slice_of(begin));
			n++;
		}
		at = end + 1;
	}
	buf_release(&page);
	return n;
}

Test(configuration_docs, every_example_loads)
{
	strcpy(directory, "/tmp/kova-docs-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++)
		write_file(companions[i], SLICE("x\n"));
	cr_expect_geq(load_blocks(PAGE, false), 4);
	load_blocks("README.md", true);
	load_blocks("docs/operations.md", true);
	struct buf demo = read_file("deploy/demo.json");

	load("deploy/demo.json", buf_slice(&demo));
	buf_release(&demo);
	char command[96];

	snprintf(command, sizeof command, "rm -r %s", directory);
	cr_expect_eq(system(command), 0);
}
