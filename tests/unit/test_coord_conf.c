/*
 * The coordinator's configuration, and docs/coordinator.md against it. After a change of the option table:
 * KOVA_REFRESH=1 build/tests/unit_coord_conf, in the source directory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coord_conf.h"
#include "global_terms.h"

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
	expect_error("{" KAFKA ",\"gossip\":{\"listen\":\"0.0.0.0:7414\"}}",
		     "needs a `secret_file`");
	expect_error("{" KAFKA ",\"http\":\"0.0.0.0:7422\"}", "`http` listens beyond loopback");
	expect_error("{" KAFKA ",\"http\":\"[::]:7422\",\"insecure\":false}", "needs `auth`");
	expect_error("{" KAFKA ",\"http\":\"example.com:7422\"}", "an IP address or `localhost`");
	expect_error("{" KAFKA ",\"auth\":{\"tokens_file\":\"/nonexistent/tokens\"}}",
		     "tokens_file");
	expect_error("{" KAFKA ",\"tls\":{\"cert\":\"kova.pem\"}}", "needs both `cert` and `key`");
	expect_error("{" KAFKA ",\"tls\":{\"fronts\":[\"http\"]}}", "fronts");
	expect_error("{" KAFKA ",\"rollup\":\"99ms\"}", "100ms");
	expect_error("{" KAFKA ",\"regions\":{\"a b\":{}}}", "a region's name");
	expect_error("{" KAFKA ",\"regions\":{\"a\":1}}", "must be an object");
	expect_error("{" KAFKA ",\"policies\":[{\"name\":\"p\",\"limit\":1,\"per\":\"1s\"},"
		     "{\"name\":\"p\",\"limit\":1,\"per\":\"1s\"}]}",
		     "already");
}

#define GLOBAL(more) ",\"policies\":[{\"name\":\"p\",\"scope\":\"global\"," more "}]"
#define RATE GLOBAL("\"limit\":1,\"per\":\"1s\"")

Test(coord_conf, what_is_wrong_with_shares)
{
	expect_error("{" KAFKA RATE "}", "needs `regions`");
	expect_error("{" KAFKA
		     ",\"regions\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{},"
		     "\"g\":{},\"h\":{},\"i\":{}}" RATE "}",
		     "at most 8 `regions`, not 9");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{}}" GLOBAL(
			     "\"algorithm\":\"sliding-counter\",\"limit\":1,\"per\":\"1s\"") "}",
		     "`token-bucket` `gcra` `sliding-window` `calendar`");
	expect_error("{" KAFKA
		     ",\"regions\":{\"a\":{}}" GLOBAL("\"plan\":{\"slots\":5,\"hold\":\"1s\"}") "}",
		     "not for a `plan`");
	expect_error("{" KAFKA ",\"policies\":[{\"name\":\"p\",\"limit\":1,\"per\":\"1s\","
		     "\"global\":\"loose\"}]}",
		     "goes with `scope` `global`");
	expect_error("{" KAFKA ",\"regions\":{}}", "1 to 64 members");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{\"floor\":0.5},\"b\":{\"floor\":0.6}}}",
		     "at most 1, not 1.100000");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{\"dead\":true}}}", "must be 0");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{}},\"regions_version\":2}", "floors_before");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{}},\"floors_before\":[{\"a\":0.1}]}",
		     "at least 2");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{}},\"regions_version\":2,\"floors_before\":"
		     "[{\"b\":0.1}]}",
		     "`b` must be one of `regions`");
	expect_error("{" KAFKA ",\"regions\":{\"a\":{}},\"regions_version\":2,\"floors_before\":"
		     "[{\"a\":1.5}]}",
		     "from 0 to 1");
	expect_error("{" KAFKA ",\"grant\":{\"margin\":\"549ms\"}}", "at least 550ms");
	expect_error("{" KAFKA ",\"clock\":{\"max_skew\":\"300ms\"}}", "at least 650ms");
	expect_error("{" KAFKA ",\"grant\":{\"duration\":\"15s\"}}", "at least 650ms");
	expect_error("{" KAFKA ",\"grant\":{\"duration\":\"999ms\"}}", "1s");
}

static struct global_terms terms_of(const char *json)
{
	struct coord_conf conf;
	struct buf errors = {0};
	struct global_terms terms;
	kova_status status = load(json, &conf, &errors);

	buf_add(&errors, "", 1);
	cr_assert_eq(status, KOVA_OK, "%s", errors.ptr);
	cr_assert_eq(global_terms_copy(&conf, &conf, &terms), KOVA_OK);
	coord_conf_release(&conf);
	buf_release(&errors);
	return terms;
}

Test(coord_conf, what_shares_are_parts_of)
{
	struct global_terms terms = terms_of(
		"{" KAFKA ",\"regions\":{\"us\":{\"weight\":3,\"floor\":0.25},\"eu\":{}},"
		"\"regions_version\":3,\"floors_before\":[{\"us\":0.1,\"eu\":0.3},{\"us\":0.3}],"
		"\"grant\":{\"duration\":\"8s\",\"margin\":\"1s\"},\"policies\":["
		"{\"name\":\"r\",\"scope\":\"global\",\"limit\":7,\"per\":\"1s\"},"
		"{\"name\":\"here\",\"limit\":7,\"per\":\"1s\"},"
		"{\"name\":\"c\",\"scope\":\"global\",\"algorithm\":\"calendar\",\"limit\":70,"
		"\"per\":\"day\",\"global\":\"loose\"},"
		"{\"name\":\"w\",\"scope\":\"global\",\"algorithm\":\"sliding-window\",\"levels\":"
		"[{\"name\":\"a\",\"limit\":7,\"per\":\"1m\"},"
		"{\"name\":\"b\",\"limit\":40,\"per\":\"1s\"}]}]}");
	const struct global_policy *c = global_terms_policy(&terms, SLICE("c"));
	const struct global_policy *r = global_terms_policy(&terms, SLICE("r"));
	const struct global_policy *w = global_terms_policy(&terms, SLICE("w"));

	cr_assert(c != NULL && r != NULL && w != NULL && terms.n == 3);
	cr_expect_null(global_terms_policy(&terms, SLICE("here")));
	cr_expect_null(global_terms_policy(&terms, SLICE("rr")));
	cr_expect_eq(global_terms_region(&terms, SLICE("eu")), 0);
	cr_expect_eq(global_terms_region(&terms, SLICE("us")), 1);
	cr_expect_eq(global_terms_region(&terms, SLICE("u")), 2);
	cr_expect(r->terms.kind == SHARE_RATE && r->terms.whole == 1000 && !r->terms.loose);
	cr_expect(c->terms.kind == SHARE_CALENDAR && c->terms.whole == 70 && c->terms.loose);
	cr_expect(w->terms.kind == SHARE_WINDOW && w->terms.whole == 40);
	cr_expect_eq(w->terms.window_us, 60000000);
	cr_expect_eq(r->terms.duration_us, 8000000);
	cr_expect_eq(r->terms.margin_us, 1000000);
	cr_expect_eq(r->terms.max_skew_us, 250000);
	cr_expect_eq(r->terms.floors, 3);
	cr_expect_eq(r->terms.region[0].floor, 50, "a tenth, shared by two");
	cr_expect_eq(r->terms.region[0].before, 300);
	cr_expect_eq(r->terms.region[0].weight, 1);
	cr_expect_eq(r->terms.region[1].floor, 250);
	cr_expect_eq(r->terms.region[1].before, 300, "the most that it ever was");
	cr_expect_eq(r->terms.region[1].weight, 3);
	cr_expect_eq(c->terms.region[1].floor, 17, "rounded down");
	global_terms_release(&terms);
}
