/*
 * The part of Criterion's interface that our tests use, for a build that ThreadSanitizer watches: Criterion's own runner
 * forks from a process with threads, which ThreadSanitizer does not survive. Here main() has none: it forks for each
 * test, waits, counts, and kills what takes too long.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct criterion_options {
	bool given; /* first, so that a list of options is never empty */
	void (*init)(void);
	void (*fini)(void);
	double timeout; /* s; 0: TIMEOUT_DEFAULT_S */
};

struct criterion_test {
	const char *suite, *name;
	void (*run)(void); /* NULL: of no test, the options of its suite */
	struct criterion_options options;
	struct criterion_test *next;
};

enum { TIMEOUT_DEFAULT_S = 60, SLOWER_UNDER_TSAN = 3 };

static struct criterion_test *criterion_tests;
static bool criterion_failed;

static void criterion_add(struct criterion_test *test)
{
	struct criterion_test **end = &criterion_tests;

	while (*end != NULL)
		end = &(*end)->next;
	*end = test;
}

#define CRITERION_ADD_(id, suite_name, test_name, function, ...)               \
	__attribute__((constructor)) static void id(void)                      \
	{                                                                      \
		static struct criterion_test test = {                          \
			suite_name, test_name, function, {__VA_ARGS__}, NULL}; \
		criterion_add(&test);                                          \
	}                                                                      \
	struct criterion_needs_semicolon_

#define TestSuite(suite, ...) \
	CRITERION_ADD_(suite##_options_, #suite, "", NULL, .given = true, __VA_ARGS__)

#define Test(suite, name, ...)                                                                     \
	static void suite##_##name##_run_(void);                                                   \
	CRITERION_ADD_(suite##_##name##_add_, #suite, #name, suite##_##name##_run_, .given = true, \
		       __VA_ARGS__);                                                               \
	static void suite##_##name##_run_(void)

__attribute__((format(printf, 5, 6))) static inline void
criterion_check(bool ok, bool fatal, const char *place, const char *what, const char *format, ...)
{
	if (ok)
		return;
	fprintf(stderr, "%s: not so: %s ", place, what);
	va_list args;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	if (fatal)
		exit(1);
	criterion_failed = true;
}

#define CRITERION_TEXT__(x) #x
#define CRITERION_TEXT_(x) CRITERION_TEXT__(x)
#define CRITERION_CHECK_(fatal, condition, what, ...)                                     \
	criterion_check((condition), fatal, __FILE__ ":" CRITERION_TEXT_(__LINE__), what, \
			"" __VA_ARGS__)

#define cr_assert(c, ...) CRITERION_CHECK_(true, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) CRITERION_CHECK_(true, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_null(p, ...) CRITERION_CHECK_(true, (p) == NULL, #p " is NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) \
	CRITERION_CHECK_(true, (p) != NULL, #p " is not NULL", __VA_ARGS__)
#define cr_assert_eq(a, b, ...) CRITERION_CHECK_(true, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) CRITERION_CHECK_(true, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) CRITERION_CHECK_(true, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) CRITERION_CHECK_(true, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) CRITERION_CHECK_(true, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) CRITERION_CHECK_(true, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) \
	CRITERION_CHECK_(true, strcmp((a), (b)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) \
	CRITERION_CHECK_(true, (a)[0] == '\0', #a " is empty", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, size, ...) \
	CRITERION_CHECK_(true, memcmp((a), (b), (size)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_assert_fail(...) CRITERION_CHECK_(true, false, "failed", __VA_ARGS__)
#define cr_expect(c, ...) CRITERION_CHECK_(false, c, #c, __VA_ARGS__)
#define cr_expect_not(c, ...) CRITERION_CHECK_(false, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_null(p, ...) CRITERION_CHECK_(false, (p) == NULL, #p " is NULL", __VA_ARGS__)
#define cr_expect_not_null(p, ...) \
	CRITERION_CHECK_(false, (p) != NULL, #p " is not NULL", __VA_ARGS__)
#define cr_expect_eq(a, b, ...) CRITERION_CHECK_(false, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) CRITERION_CHECK_(false, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) CRITERION_CHECK_(false, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) CRITERION_CHECK_(false, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) CRITERION_CHECK_(false, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) CRITERION_CHECK_(false, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) \
	CRITERION_CHECK_(false, strcmp((a), (b)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_log_info(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))
#define cr_log_error(...) cr_log_info(__VA_ARGS__)

static const struct criterion_options *criterion_suite(const char *suite)
{
	static const struct criterion_options none;

	for (const struct criterion_test *t = criterion_tests; t != NULL; t = t->next)
		if (t->run == NULL && strcmp(t->suite, suite) == 0)
			return &t->options;
	return &none;
}

static void criterion_call(void (*function)(void))
{
	if (function != NULL)
		function();
}

/* In the child. SIGALRM ends it. */
static void criterion_run(const struct criterion_test *test)
{
	const struct criterion_options *suite = criterion_suite(test->suite);
	double timeout = test->options.timeout != 0 ? test->options.timeout : TIMEOUT_DEFAULT_S;

	alarm((unsigned)timeout * SLOWER_UNDER_TSAN);
	criterion_call(suite->init);
	criterion_call(test->options.init);
	test->run();
	criterion_call(test->options.fini);
	criterion_call(suite->fini);
	exit(criterion_failed ? 1 : 0);
}

int main(void)
{
	unsigned passed = 0, failed = 0;

	for (const struct criterion_test *t = criterion_tests; t != NULL; t = t->next) {
		int status = -1;

		if (t->run == NULL)
			continue;
		fflush(NULL);
		pid_t child = fork();
		if (child == 0)
			criterion_run(t);
		if (child > 0 && waitpid(child, &status, 0) == child && status == 0) {
			passed++;
			continue;
		}
		failed++;
		fprintf(stderr, "FAILED: %s::%s, status %#x\n", t->suite, t->name,
			(unsigned)status);
	}
	printf("passing: %u, failing: %u\n", passed, failed);
	return failed == 0 && passed > 0 ? 0 : 1;
}
