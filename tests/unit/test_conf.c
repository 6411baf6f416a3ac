#include <criterion/criterion.h>
#include <stddef.h>

#include "io/conf.h"

/* ---- Values ---- */

Test(conf, addresses)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
	} good[] = {{"127.0.0.1:7411", "127.0.0.1", 7411},
		    {"[::1]:0", "::1", 0},
		    {"redis-1.example_x:65535", "redis-1.example_x", 65535}};
	static const char *const bad[] = {"",       "7411",     ":7411",      "host:", "host:65536",
					  "host:x", "::1:7411", "[]:7411",    "a b:1", "host:-1",
					  "[::1]",  "host:1 ",  "host:00001 "};
	struct slice host;
	uint16_t port;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		cr_expect(conf_address_parse(good[i].text, &host, &port), "%s", good[i].text);
		cr_expect(slice_equal(host, slice_of(good[i].host)), "%s", good[i].text);
		cr_expect_eq(port, good[i].port, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_not(conf_address_parse(bad[i], &host, &port), "%s", bad[i]);
}

Test(conf, paths_are_relative_to_the_file)
{
	static const char *const cases[][3] = {
		{"/etc/kova/agent.json", "tokens", "/etc/kova/tokens"},
		{"/etc/kova/agent.json", "/run/x", "/run/x"},
		{"agent.json", "tokens", "tokens"},
		{"./a/agent.json", "../t", "./a/../t"},
		{"/agent.json", "t", "/t"}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *path = conf_path_resolve(cases[i][0], cases[i][1]);

		cr_expect_str_eq(path, cases[i][2]);
		free(path);
	}
}

/* ---- Tables ---- */

struct inner_values {
	int64_t size;
	const char *at;
};

struct values {
	const char *text, *name, *path, *address, *off;
	struct slice bytes;
	int64_t number, wait, until;
	bool yes, no;
	int color;
	struct inner_values inner;
	const json_t *hosts, *raw;
};

static const char *const colors[] = {"red", "green", NULL};

static const struct conf_option inner_options[] = {
	{.name = "size",
	 .type = CONF_INT,
	 .at = offsetof(struct inner_values, size),
	 .fallback = "7",
	 .min = 1,
	 .max = 9,
	 .text = "a size"},
	{.name = "at",
	 .type = CONF_ADDRESS,
	 .at = offsetof(struct inner_values, at),
	 .text = "a place"},
};

static const struct conf_table inner_table = {
	.title = "`inner`", .text = "Inside.", .options = inner_options, .n_options = 2};

#define OPTION(name_, type_, member_) \
	.name = name_, .type = type_, .at = offsetof(struct values, member_), .text = "a " name_

static const struct conf_option options[] = {
	{OPTION("text", CONF_STRING, text), .fallback = "default"},
	{OPTION("name", CONF_NAME, name), .required = true},
	{OPTION("path", CONF_PATH, path)},
	{OPTION("address", CONF_ADDRESS, address), .fallback = "a:1"},
	{OPTION("off", CONF_ADDRESS, off), .fallback = "b:2", .nullable = true},
	{OPTION("bytes", CONF_BYTES, bytes), .min = 1, .max = 3},
	{OPTION("number", CONF_INT, number), .min = -5, .max = 5},
	{OPTION("wait", CONF_DURATION, wait), .fallback = "2s", .min = 1, .max = 60000},
	{OPTION("until", CONF_TIME, until)},
	{OPTION("yes", CONF_BOOL, yes), .fallback = "true"},
	{OPTION("no", CONF_BOOL, no)},
	{OPTION("color", CONF_ENUM, color), .values = colors, .fallback = "green"},
	{OPTION("inner", CONF_OBJECT, inner), .table = &inner_table},
	{OPTION("hosts", CONF_LIST, hosts), .item = CONF_ADDRESS},
	{OPTION("raw", CONF_RAW, raw), .form = "anything"},
	{.name = "later", .type = CONF_LATER, .text = ""},
};

static const struct conf_table table = {.title = "Test",
					.text = "All types.",
					.options = options,
					.n_options = sizeof options / sizeof options[0]};

/* The errors that a text gives; the file is called f. */
static void read_text(const char *text, struct values *v, char ret_errors[4096])
{
	struct conf_document d;
	struct conf_reader r = {0};
	struct buf errors = {0};

	memset(v, 0xa5, sizeof *v);
	if (conf_document_parse("f", slice_of(text), &d, &errors) == KOVA_OK) {
		conf_read(&r, NULL, d.root, &table, v);
		conf_report(&r, &d, &errors);
		conf_document_release(&d);
	}
	snprintf(ret_errors, 4096, "%.*s", (int)errors.len, errors.len > 0 ? errors.ptr : "");
	buf_release(&errors);
}

static void errors_are(const char *text, const char *expected)
{
	char errors[4096];
	struct values v;

	read_text(text, &v, errors);
	cr_expect_str_eq(errors, expected, "%s\ngave\n%s", text, errors);
}

Test(conf, defaults)
{
	char errors[4096];
	struct values v;

	read_text("{\"name\": \"n\", \"off\": null}", &v, errors);
	cr_expect_str_eq(errors, "");
	cr_expect_str_eq(v.text, "default");
	cr_expect_str_eq(v.address, "a:1");
	cr_expect_null(v.off, "null turns the default off");
	cr_expect_null(v.path);
	cr_expect_null(v.bytes.ptr);
	cr_expect_eq(v.number, CONF_ABSENT);
	cr_expect_eq(v.wait, 2000);
	cr_expect_eq(v.until, CONF_ABSENT);
	cr_expect(v.yes && !v.no);
	cr_expect_eq(v.color, 1);
	cr_expect_eq(v.inner.size, 7);
	cr_expect_null(v.inner.at);
	cr_expect(v.hosts == NULL && v.raw == NULL);
}

Test(conf, values_of_all_types)
{
	static const char text[] =
		"{\"text\":\"t\",\"name\":\"a.B_9-\",\"path\":\"p\",\"address\":\"[::1]:5\","
		"\"off\":\"c:3\",\"bytes\":\"\\u0000/\",\"number\":-5,\"wait\":\"1m\","
		"\"until\":\"1970-01-01T00:00:01Z\",\"yes\":false,\"no\":true,\"color\":\"red\","
		"\"inner\":{\"size\":9},\"hosts\":[\"a:1\",\"b:2\"],\"raw\":null}";
	struct conf_document d;
	struct conf_reader r = {0};
	struct buf errors = {0};
	struct values v;

	cr_assert_eq(conf_document_parse("f", SLICE(text), &d, &errors), KOVA_OK);
	conf_read(&r, NULL, d.root, &table, &v);
	cr_expect_eq(r.n_errors, 0);
	cr_expect_str_eq(v.text, "t");
	cr_expect_str_eq(v.name, "a.B_9-");
	cr_expect_str_eq(v.off, "c:3");
	cr_expect(slice_equal(v.bytes, (struct slice){"\0/", 2}));
	cr_expect_eq(v.number, -5);
	cr_expect_eq(v.wait, 60000);
	cr_expect_eq(v.until, 1000);
	cr_expect(!v.yes && v.no);
	cr_expect_eq(v.color, 0);
	cr_expect_eq(v.inner.size, 9);
	cr_expect_eq(json_array_size(v.hosts), 2);
	cr_expect(json_is_null(v.raw));
	conf_document_release(&d);
}

Test(conf, each_error_says_where_it_is_and_what_is_allowed)
{
	errors_are("{}", "f:1:1: `name` is missing: a name\n");
	errors_are("{\"name\":\"a b\"}",
		   "f:1:9: `name` must be 1 to 64 characters of A-Z a-z 0-9 . _ -\n");
	errors_are("{\"name\":\"n\",\n \"numbr\": 1}",
		   "f:2:2: unknown field `numbr`; did you mean `number`?\n");
	errors_are("{\"name\":\"n\",\"number\":6}",
		   "f:1:22: `number` must be a whole number from -5 to 5, not 6\n");
	errors_are(
		"{\"name\":\"n\",\"number\":1.0}",
		"f:1:22: `number` must be a whole number from -5 to 5, not one with a fraction or "
		"exponent\n");
	errors_are("{\"name\":\"n\",\"number\":\"1\"}",
		   "f:1:22: `number` must be a whole number from -5 to 5, not a string\n");
	errors_are("{\"name\":\"n\",\"yes\":1}",
		   "f:1:19: `yes` must be true or false, not a number\n");
	errors_are("{\"name\":\"n\",\"bytes\":\"\"}",
		   "f:1:21: `bytes` must be 1 to 3 bytes long, not 0\n");
	errors_are("{\"name\":\"n\",\"bytes\":\"\\u00e9\\u00e9\"}",
		   "f:1:21: `bytes` must be 1 to 3 bytes long, not 4\n");
	errors_are("{\"name\":\"n\",\"wait\":\"2h\"}",
		   "f:1:20: `wait` must be a duration from 1ms to 1m, not 2h\n");
	errors_are(
		"{\"name\":\"n\",\"wait\":5}",
		"f:1:20: `wait` must be a duration as \"250ms\" \"10s\" \"5m\" \"1h\" \"7d\" from "
		"1ms to 1m, not a number\n");
	errors_are("{\"name\":\"n\",\"color\":\"gren\"}",
		   "f:1:21: `color` must be one of `red` `green`; did you mean `green`?\n");
	errors_are("{\"name\":\"n\",\"color\":7}",
		   "f:1:21: `color` must be one of `red` `green`\n");
	errors_are("{\"name\":\"n\",\"until\":\"tomorrow\"}",
		   "f:1:21: `until` must be an RFC 3339 time as \"2027-01-31T18:00:00Z\"\n");
	errors_are("{\"name\":\"n\",\"path\":\"a\\u0000b\"}",
		   "f:1:20: `path` must be a string, and not empty or with a NUL byte\n");
	errors_are("{\"name\":\"n\",\"inner\":[]}",
		   "f:1:21: `inner` must be an object, not a list\n");
	errors_are("{\"name\":\"n\",\"inner\":{\"size\":0,\"zzz\":1}}",
		   "f:1:29: `size` must be a whole number from 1 to 9, not 0\n"
		   "f:1:31: unknown field `zzz`; allowed: `size` `at`\n");
	errors_are("{\"name\":\"n\",\"hosts\":[\"a:1\",\"b\"]}",
		   "f:1:28: `hosts` must hold addresses as \"host:port\" or \"[v6]:port\"\n");
	errors_are("{\"name\":\"n\",\"address\":null}",
		   "f:1:23: `address` must be an address as \"host:port\" or \"[v6]:port\", not "
		   "null\n");
	errors_are("{\"name\":\"n\",\n\"later\": {}}", "f:2:1: `later` is not available yet\n");
}

Test(conf, errors_come_in_the_order_of_the_file)
{
	errors_are(
		"{\"yes\":1,\"x\":1,\n\"number\":9,\"inner\":{\"size\":10},\n\"no\":2}",
		"f:1:1: `name` is missing: a name\n"
		"f:1:8: `yes` must be true or false, not a number\n"
		"f:1:10: unknown field `x`; allowed: `text` `name` `path` `address` `off` `bytes` "
		"`number` `wait` `until` `yes` `no` `color` `inner` `hosts` `raw`\n"
		"f:2:10: `number` must be a whole number from -5 to 5, not 9\n"
		"f:2:28: `size` must be a whole number from 1 to 9, not 10\n"
		"f:3:6: `no` must be true or false, not a number\n");
}

Test(conf, texts_that_are_no_json)
{
	errors_are("", "f:1:1: not JSON: the text ends too early\n");
	errors_are("[]", "f:1:1: must be a JSON object: { … }\n");
	errors_are("{\"name\":\n  \"n\"", "f:2:6: not JSON: the text ends too early\n");
	errors_are("{\"name\" \"secret\"}", "f:1:9: not JSON: ':' expected\n");
	errors_are("{\"name\": \"n\",}", "f:1:14: not JSON: string or '}' expected\n");
	errors_are("{\"name\": \"n\"} x", "f:1:15: not JSON: end of file expected\n");
	errors_are("{\"name\": \"n\", \"yes\": true,\n  \"yes\": false}",
		   "f:2:3: this name stands twice in the same object\n");
	errors_are("{\"name\": 'n'}", "f:1:10: not JSON: invalid token\n");
	errors_are("{\"name\": \"\xff\"}", "f:1:10: not JSON: unable to decode byte 0xff\n");
}

Test(conf, a_secret_is_in_no_error)
{
	static const char *const texts[] = {"{\"name\":\"n\",\"text\":[\"hunter2\"]}",
					    "{\"name\":\"n\",\"text\":\"hunter2\\u0000\"}",
					    "{\"text\" \"hunter2\"}",
					    "{\"text\": hunter2}",
					    "{\"text\": \"hunter2",
					    "{\"text\": \"hunter2\" \"x\"}",
					    "{\"text\": \"hunter2\n\"}",
					    "{\"text\": \"hunter2\\x\"}"};
	char errors[4096];
	struct values v;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		read_text(texts[i], &v, errors);
		cr_expect_neq(errors[0], '\0', "%s", texts[i]);
		cr_expect_null(strstr(errors, "hunter2"), "%s", errors);
	}
}

Test(conf, more_errors_than_are_kept_are_counted)
{
	char text[2048] = "{\"name\":\"n\"", errors[4096];
	struct values v;

	for (int i = 0; i < CONF_ERRORS_MAX + 3; i++)
		snprintf(text + strlen(text), 32, ",\"unknown%d\":1", i);
	strcat(text, "}");
	read_text(text, &v, errors);
	cr_expect_not_null(strstr(errors, "f: and 3 more errors\n"), "%s", errors);
}

Test(conf, an_error_for_those_without_a_file)
{
	struct conf_reader r = {0};
	const struct conf_path list = {.key = "levels"}, item = {.up = &list, .index = 2};
	char text[256];

	conf_fail(&r, &item, "limit", CONF_AT_VALUE, "`limit` is wrong");
	conf_reader_text(&r, text, sizeof text);
	cr_expect_str_eq(text, "levels[2]: `limit` is wrong");
	r.n_errors = 0;
	conf_fail(&r, NULL, "limit", CONF_AT_VALUE, "`limit` is wrong");
	conf_reader_text(&r, text, sizeof text);
	cr_expect_str_eq(text, "`limit` is wrong");
}

Test(conf, files_that_cannot_be_read)
{
	struct conf_document d;
	struct buf errors = {0};

	cr_expect_eq(conf_document_load("/nonesuch/kova.json", &d, &errors), KOVA_ECONFIG);
	cr_expect_eq(conf_document_load("/tmp", &d, &errors), KOVA_ECONFIG);
	buf_add(&errors, "", 1);
	cr_expect_str_eq(errors.ptr, "/nonesuch/kova.json: No such file or directory\n"
				     "/tmp: Is a directory\n");
	buf_release(&errors);
}

/* Every allocation that the parser makes fails once. */
static int allocations_left;

static void *failing_malloc(size_t n)
{
	return allocations_left-- > 0 ? malloc(n) : NULL;
}

Test(conf, out_of_memory)
{
	static const char text[] =
		"{\"name\": \"n\", \"inner\": {\"size\": 3}, \"hosts\": [\"a:1\"]}";
	struct conf_document d;
	struct buf errors = {0};
	int k = 0;

	json_set_alloc_funcs(failing_malloc, free);
	for (;; k++) {
		allocations_left = k;
		kova_status status = conf_document_parse("f", SLICE(text), &d, &errors);

		if (status == KOVA_OK)
			break;
		cr_assert(status == KOVA_ENOMEM || status == KOVA_ECONFIG, "allocation %d", k);
	}
	cr_expect_gt(k, 10);
	conf_document_release(&d);
	buf_release(&errors);
}
