/*
 * The manual pages of section 5 in docs/man against the program: what they say of options is made of the option tables.
 * After a change of these: KOVA_REFRESH=1 build/tests/unit_manual, in the source directory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord_conf.h"
#include "edge_fields.h"

#define BEGIN                                                              \
	".\\\" The option tables. After a change of them: KOVA_REFRESH=1 " \
	"build/tests/unit_manual, in the source directory.\n"
#define END ".\\\" End of the option tables.\n"

static struct buf read_page(const char *path)
{
	struct buf text = {0};
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f, "%s (to be run in the source directory)", path);
	for (size_t n = 1; n > 0; text.len += n)
		n = fread(buf_reserve(&text, 4096), 1, 4096, f);
	fclose(f);
	buf_add(&text, "", 1);
	return text;
}

static void refresh(const char *path, struct slice before, const struct buf *tables,
		    const char *after)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fwrite(before.ptr, 1, before.len, f);
	fwrite(tables->ptr, 1, tables->len, f);
	fputs(after, f);
	fclose(f);
}

static void check_page(const char *path, const struct conf_table *table)
{
	struct buf page = read_page(path), tables = {0};
	const char *begin = strstr(page.ptr, BEGIN), *end = strstr(page.ptr, END);

	cr_assert(begin != NULL && end != NULL && begin < end, "the marks are gone from %s", path);
	begin += strlen(BEGIN);
	conf_table_manual(table, &tables);
	if (getenv("KOVA_REFRESH") != NULL)
		refresh(path, (struct slice){page.ptr, (size_t)(begin - page.ptr)}, &tables, end);
	else
		cr_expect(slice_equal((struct slice){begin, (size_t)(end - begin)},
				      buf_slice(&tables)),
			  "%s is out of date: run KOVA_REFRESH=1 build/tests/unit_manual", path);
	buf_release(&page);
	buf_release(&tables);
}

Test(manual, the_agents_options_are_those_of_the_code)
{
	check_page("docs/man/kova-agent.json.5", &edge_table);
}

Test(manual, the_coordinators_options_are_those_of_the_code)
{
	check_page("docs/man/kova-coordinator.json.5", &coord_table);
}
