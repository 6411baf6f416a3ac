/*
 * The coordinator's configuration, and docs/coordinator.md against it. After a change of the option table:
 * KOVA_REFRESH=1 build/tests/unit_coord_conf, in the source directory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coord_conf.h"

#define PAGE "docs/coordinator.md"
#define MARK "unit_coord_conf, in the source directory. -->\n"

Test(coord_conf, the_table_is_that_of_the_code)
{
	struct buf page = {0}, table = {0};
	FILE *f = fopen(PAGE, "r+");

	cr_assert_not_null(f, "%s (to be run in the source directory)", PAGE);
	for (size_t n = 1; n > 0; page.len += n)
		n = fread(buf_reserve(&page, 4096), 1, 4096, f);
	buf_add(&page, "", 1);
	char *mark = strstr(page.ptr, MARK);

	cr_assert_not_null(mark, "the mark is gone from " PAGE);
	mark += strlen(MARK);
	buf_add_text(&table, "\n");
	conf_table_document(&coord_table, &table);
	table.len--; /* no empty line at the end */
	if (getenv("KOVA_REFRESH") != NULL) {
		cr_assert_eq(ftruncate(fileno(f), mark - page.ptr), 0);
		cr_assert_eq(fseek(f, 0, SEEK_END), 0);
		fwrite(table.ptr, 1, table.len, f);
	} else {
		cr_expect(slice_equal(slice_of(mark), buf_slice(&table)), PAGE " is out of date");
	}
	fclose(f);
	buf_release(&page);
	buf_release(&table);
}

static kova_status load(const char *json, struct coord_conf *ret_conf, struct buf *ret_errors)
{
	char path[] = "/tmp/kova-coord-XXXXXX";
	int fd = mkstemp(path);
	kova_status status;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, json, strlen(json)), (ssize_t)strlen(json));
	close(fd);
	status = coord_conf_load(path, ret_conf, ret_errors);
	unlink(path);
	return status;
}

#define KAFKA "\"kafka\":{\"bootstrap\":\"a:1\"}"

Test(coord_conf, what_the_rollup_says_of_policies)
{
	struct coord_conf conf;
	struct buf errors = {0};

	cr_assert_eq(load("{" KAFKA ",\"policies\":["
			  "{\"name\":\"z\",\"limit\":10,\"per\":\"5m\"},"
			  "{\"name\":\"l\",\"levels\":[{\"name\":\"a\",\"limit\":7,\"per\":\"1s\"},"
			  "{\"name\":\"b\",\"limit\":3,\"per\":\"2s\"}]},"
			  "{\"name\":\"p\",\"plan\":{\"slots\":50,\"hold\":\"10s\"}},"
			  "{\"name\":\"d\",\"algorithm\":\"calendar\",\"limit\":9,\"per\":\"day\","
			  "\"tz\":"
			  "\"UTC\"}]}",
			  &conf, &errors),
		     KOVA_OK);
	const struct {
		const char *name, *per;
		uint64_t limit;
	} expected[] = {{"z", "5m", 10}, {"l", "1s", 7}, {"p", "10s", 50}, {"d", "day", 9}};

	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
		const struct coord_policy *p = coord_conf_policy(&conf, expected[i].name);

		cr_assert_not_null(p, "%s", expected[i].name);
		cr_expect_eq(p->limit, expected[i].limit, "%s", p->name);
		cr_expect_str_eq(p->per, expected[i].per);
	}
	cr_expect_null(coord_conf_policy(&conf, "none"));
	cr_expect_eq(conf.rollup_ms, 1000);
	cr_expect_str_eq(conf.http, "127.0.0.1:7422");
	coord_conf_release(&conf);
	buf_release(&errors);
}

static void expect_error(const char *json, const char *said)
{
	struct coord_conf conf;
	struct buf errors = {0};

	cr_expect_eq(load(json, &conf, &errors), KOVA_ECONFIG, "%s", json);
	buf_add(&errors, "", 1);
	cr_expect_not_null(strstr(errors.ptr, said), "%s: %s", json, errors.ptr);
	buf_release(&errors);
}

Test(coord_conf, errors)
{
	expect_error("{}", "kafka");
	expect_error("{" KAFKA ",\"grant\":{}}", "not available yet");
	expect_error("{" KAFKA ",\"gossip\":{\"listen\":\"0.0.0.0:7414\"}}",
		     "needs a `secret_file`");
	expect_error("{" KAFKA ",\"rollup\":\"99ms\"}", "100ms");
	expect_error("{" KAFKA ",\"regions\":{\"a b\":{}}}", "a region's name");
	expect_error("{" KAFKA ",\"regions\":{\"a\":1}}", "must be an object");
	expect_error("{" KAFKA ",\"policies\":[{\"name\":\"p\",\"limit\":1,\"per\":\"1s\","
		     "\"scope\":\"global\"}]}",
		     "not available yet");
	expect_error("{" KAFKA ",\"policies\":[{\"name\":\"p\",\"limit\":1,\"per\":\"1s\"},"
		     "{\"name\":\"p\",\"limit\":1,\"per\":\"1s\"}]}",
		     "already");
}
