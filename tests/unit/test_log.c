/* Log lines: each one JSON object whatever is in it, few from one site, for people in text. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/log.h"

/* stderr becomes a file; returns what was written since. */
static int captured = -1, saved = -1;

static void capture(void)
{
	char path[] = "/tmp/kova-test-log-XXXXXX";

	captured = mkstemp(path);
	cr_assert_geq(captured, 0);
	unlink(path);
	saved = dup(STDERR_FILENO);
	dup2(captured, STDERR_FILENO);
}

static void give_back(void)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
}

static char text[1 << 17];

static const char *read_captured(void)
{
	ssize_t n = pread(captured, text, sizeof text - 1, 0);

	cr_assert_geq(n, 0);
	text[n] = '\0';
	return text;
}

static json_t *only_line(void)
{
	json_error_t error;
	const char *line = read_captured();

	cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1, "one line: %s", line);
	json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &error);
	cr_assert_not_null(json, "%s: %s", error.text, line);
	return json;
}

static void expect_member(const json_t *json, const char *name, const char *value)
{
	const char *is = json_string_value(json_object_get(json, name));

	cr_assert(is != NULL && strcmp(is, value) == 0, "%s: %s", name, is);
}

TestSuite(log, .init = capture, .fini = give_back);

Test(log, members)
{
	log_setup(LOG_JSON, LOG_INFO, "worker-17");
	log_event(LOG_WARN, "redis_down", "can't be reached",
		  LOG_TEXT_FIELD("why", "\"\n\xff\033[31m"), LOG_INT_FIELD("code", -7));
	json_t *json = only_line();

	expect_member(json, "level", "warn");
	expect_member(json, "event", "redis_down");
	expect_member(json, "message", "can't be reached");
	expect_member(json, "node", "worker-17");
	expect_member(json, "why", "\"\n\xef\xbf\xbd\033[31m");
	cr_assert_eq(json_integer_value(json_object_get(json, "code")), -7);
	const char *ts = json_string_value(json_object_get(json, "ts"));
	cr_assert(ts != NULL && strlen(ts) == strlen("2026-11-30T12:00:00.123Z") && ts[10] == 'T' &&
			  ts[19] == '.' && ts[23] == 'Z',
		  "%s", ts);
	json_decref(json);
}

Test(log, no_fields_no_node)
{
	log_setup(LOG_JSON, LOG_INFO, NULL);
	log_event(LOG_INFO, "started", "running");
	json_t *json = only_line();

	cr_assert_null(json_object_get(json, "node"));
	cr_assert_eq(json_object_size(json), 4);
	json_decref(json);
}

Test(log, level)
{
	log_setup(LOG_JSON, LOG_WARN, NULL);
	log_event(LOG_INFO, "no", "no");
	cr_assert_str_empty(read_captured());
}

Test(log, long_values_are_cut_between_characters)
{
	static char value[3 * LOG_VALUE_MAX + 1];

	for (size_t i = 0; i < sizeof value - 1; i += 3)
		memcpy(&value[i], "\xe2\x82\xac", 3);
	log_setup(LOG_JSON, LOG_INFO, NULL);
	log_event(LOG_INFO, "long", value);
	json_t *json = only_line();
	const char *message = json_string_value(json_object_get(json, "message"));

	cr_assert_eq(strlen(message), LOG_VALUE_MAX / 3 * 3 + 3);
	cr_assert_str_eq(message + strlen(message) - 3, "…");
	cr_assert_eq(strncmp(message, value, LOG_VALUE_MAX / 3 * 3), 0);
	json_decref(json);
}

static void write_often(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		log_event(LOG_WARN, "often", "again", LOG_INT_FIELD("i", i));
}

static unsigned count_lines(void)
{
	unsigned n = 0;

	for (const char *at = read_captured(); (at = strchr(at, '\n')) != NULL; at++)
		n++;
	return n;
}

/* What is written and what is said to be left out add up, within two seconds of the clock. */
Test(log, a_site_is_limited_and_says_so)
{
	log_setup(LOG_JSON, LOG_INFO, NULL);
	write_often(1000);
	unsigned written = count_lines();
	cr_assert_leq(written, 3 * LOG_SITE_PER_SECOND, "%u", written);
	usleep(1100 * 1000);
	log_flush();
	log_flush();

	unsigned left_out = 0, lines = 0;
	for (const char *at = read_captured(); (at = strstr(at, "\"left_out\":")) != NULL;) {
		at += strlen("\"left_out\":");
		left_out += (unsigned)atoi(at);
		lines++;
	}
	cr_assert_eq(left_out + count_lines() - lines, 1000, "%s", text);

	unsigned before = count_lines();
	write_often(1);
	cr_assert_eq(count_lines(), before + 1, "%s", text);
}

Test(log, no_line_of_a_report_is_left_out)
{
	enum { REPORTS = 1000 };

	log_setup(LOG_JSON, LOG_INFO, NULL);
	for (unsigned i = 0; i < REPORTS; i++)
		log_report(LOG_INFO, "numbers", "of one of many", LOG_INT_FIELD("i", i));
	cr_assert_eq(count_lines(), REPORTS);
}

enum { THREADS = 4, EVENTS = 100000 };

static void *log_many(void *value)
{
	for (unsigned i = 0; i < EVENTS; i++)
		log_event(LOG_INFO, "of_threads", "one of many",
			  LOG_TEXT_FIELD("value", (const char *)value), LOG_INT_FIELD("i", i));
	return NULL;
}

/* Lines stay whole, and each event is either written or counted as left out. */
Test(log, threads)
{
	pthread_t threads[THREADS];
	char value[1000];
	json_int_t n = 0;

	memset(value, 'x', sizeof value - 1);
	value[sizeof value - 1] = '\0';
	log_setup(LOG_JSON, LOG_INFO, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, log_many, value), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	sleep(1); /* the second of the site is over */
	log_flush();
	read_captured();
	for (char *rest = text, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
		json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		const json_t *left_out = json_object_get(json, "left_out");

		cr_assert_not_null(json, "%s", line);
		n += left_out != NULL ? json_integer_value(left_out) : 1;
		json_decref(json);
	}
	cr_assert_eq(n, THREADS * EVENTS);
}

Test(log, text_for_people)
{
	log_setup(LOG_TEXT, LOG_INFO, "node");
	log_event(LOG_ERROR, "bad", "it's bad\033[2J", LOG_TEXT_FIELD("why", "two words"),
		  LOG_TEXT_FIELD("file", "/a/b"), LOG_TEXT_FIELD("none", NULL),
		  LOG_TEXT_FIELD_IF(false, "left_out", "x"), LOG_TEXT_FIELD_IF(true, "given", "x"),
		  LOG_INT_FIELD("n", 3));
	const char *line = read_captured();

	cr_assert_not_null(strstr(line, " ERROR it's bad\\u001b[2J  event=bad why=\"two words\" "
					"file=/a/b none=\"\" given=x n=3\n"),
			   "%s", line);
	cr_assert_null(strchr(line, '\033'), "colours in a file");
}

static const char members[] = "\"pool\":\"a,b\\\"}\",\"share\":{\"x\":[1,2],\"y\":0},\"n\":null";

Test(log, members_in_text)
{
	log_setup(LOG_TEXT, LOG_INFO, NULL);
	log_event(LOG_INFO, "numbers", "numbers", LOG_MEMBERS_FIELD("numbers", members),
		  LOG_INT_FIELD("code", 1));
	const char *line = read_captured();

	cr_assert_not_null(strstr(line,
				  " event=numbers pool=\"a,b\\\"}\" share={\"x\":[1,2],\"y\":0} "
				  "n=null code=1\n"),
			   "%s", line);
}

Test(log, members_in_json)
{
	log_setup(LOG_JSON, LOG_INFO, NULL);
	log_event(LOG_INFO, "numbers", "numbers", LOG_MEMBERS_FIELD("numbers", members),
		  LOG_TEXT_FIELD_IF(false, "left_out", "x"));
	json_t *json = only_line();

	expect_member(json, "pool", "a,b\"}");
	cr_assert_eq(json_object_size(json_object_get(json, "share")), 2);
	cr_assert_eq(json_object_size(json), 4 + 3);
	json_decref(json);
}
