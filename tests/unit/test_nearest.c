#include <criterion/criterion.h>

#include "core/nearest.h"

static const char *of_commands(const char *text)
{
	static const char *const names[] = {"take",     "peek",     "wait", "watch",
					    "policies", "override", NULL};

	return nearest_in_list(text, names);
}

static const char *of_fields(const char *text)
{
	static const char *const names[] = {"limit", "levels", "algorithm", "per", "burst", NULL};

	return nearest_in_list(text, names);
}

Test(nearest, typing_mistakes)
{
	cr_expect_str_eq(of_commands("tkae"), "take");
	cr_expect_str_eq(of_commands("pek"), "peek");
	cr_expect_str_eq(of_commands("wiat"), "wait");
	cr_expect_str_eq(of_commands("policys"), "policies");
	cr_expect_str_eq(of_commands("overide"), "override");
	cr_expect_str_eq(of_fields("limits"), "limit");
	cr_expect_str_eq(of_fields("lmiit"), "limit");
	cr_expect_str_eq(of_fields("algoritm"), "algorithm");
}

Test(nearest, case_does_not_count)
{
	cr_expect_str_eq(of_fields("Limit"), "limit");
	cr_expect_str_eq(of_fields("BURTS"), "burst");
}

Test(nearest, the_only_name_that_begins_so)
{
	cr_expect_str_eq(of_commands("pol"), "policies");
	cr_expect_str_eq(of_commands("over"), "override");
	cr_expect_null(of_fields("l"), "two begin so");
}

Test(nearest, nothing_near_is_nothing)
{
	static const char *const far[] = {
		"frobnicate",
		"xyz",
		"x",
		"",
		"frequency",
		"a-word-that-is-far-too-long-to-be-the-name-of-anything-that-is-known-here"};

	for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
		cr_expect_null(of_commands(far[i]), "%s", far[i]);
		cr_expect_null(of_fields(far[i]), "%s", far[i]);
	}
}

static const char *numbered(const void *names, size_t i)
{
	return i < 2 ? ((const char *const *)names)[i + 1] : NULL;
}

Test(nearest, walks_what_it_is_given)
{
	static const char *const names[] = {"first", "second", "third"};

	cr_expect_str_eq(nearest_find("secnod", numbered, names), "second");
	cr_expect_null(nearest_find("frist", numbered, names));
}
