/* What a control keeps on disk: what is cut off or damaged is seen, and nothing that was answered is lost. */
#include <criterion/criterion.h>

#include "control_fixture.h"

TestSuite(control_store, .init = setup, .fini = teardown);

static void append_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

Test(control_store, an_append_that_a_crash_cut_off_is_dropped)
{
	struct control *c = start("[]", "[]");
	off_t after_a;

	put_ok(c, "a", "{\"limit\":1,\"per\":\"1s\"}");
	after_a = size_of(journal);
	put_ok(c, "b", "{\"limit\":1,\"per\":\"1s\"}");
	off_t after_b = size_of(journal);

	control_free(c);
	for (off_t cut = after_b - 1; cut >= after_a; cut--) {
		cr_assert_eq(truncate(journal, cut), 0);
		c = start("[]", "[]");
		cr_assert_eq(limit_of(c, "a"), 1);
		cr_assert_eq(limit_of(c, "b"), -1);
		control_free(c);
		cr_assert_eq(size_of(journal), after_a);
	}
}

Test(control_store, a_damaged_last_record_is_dropped_and_the_next_change_is_whole)
{
	struct control *c = start("[]", "[]");

	put_ok(c, "a", "{\"limit\":1,\"per\":\"1s\"}");
	control_free(c);
	append_to(journal, "[\"0000000000000000\",{\"half\n");
	c = start("[]", "[]");
	put_ok(c, "b", "{\"limit\":2,\"per\":\"1s\"}");
	control_free(c);
	c = start("[]", "[]");
	cr_expect_eq(limit_of(c, "a"), 1);
	cr_expect_eq(limit_of(c, "b"), 2);
	control_free(c);
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	char c;

	cr_assert(fd >= 0 && pread(fd, &c, 1, at) == 1);
	c ^= 1;
	cr_assert_eq(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

Test(control_store, a_damaged_file_is_refused_and_kept_aside)
{
	struct control_error error = {""};
	char aside[128];
	struct control *c = start("[" POLICY("a", 1) "," POLICY("b", 1) "]", "[]");

	control_free(c);
	flip(snapshot, size_of(snapshot) / 2);
	c = try_start("[" POLICY("a", 1) "]", "[]", &error);
	cr_expect_null(c);
	cr_expect_not_null(strstr(error.text, "control.json: is damaged"), "%s", error.text);
	snprintf(aside, sizeof aside, "%s.corrupt", snapshot);
	cr_expect_gt(size_of(aside), 0);
	cr_expect_eq(size_of(snapshot), -1);
	c = start("[" POLICY("a", 1) "]", "[]");
	cr_expect_eq(limit_of(c, "a"), 1);
	control_free(c);
}

/* Wherever control.json is cut off or a bit of it flips, it is refused. */
Test(control_store, every_cut_and_every_flip_is_seen)
{
	struct control *c = start("[" POLICY("a", 1) "]", "[]");
	struct control_error error;
	char copy[4096];
	int fd = open(snapshot, O_RDONLY);
	ssize_t n = read(fd, copy, sizeof copy);

	close(fd);
	control_free(c);
	for (ssize_t at = 0; at < 2 * n; at++) {
		fd = open(snapshot, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		cr_assert_eq(write(fd, copy, (size_t)(at < n ? at : n)), at < n ? at : n);
		close(fd);
		if (at >= n)
			flip(snapshot, at - n);
		cr_assert_null(try_start("[]", "[]", &error), "%zd of %zd", at, n);
	}
}

Test(control_store, damage_inside_the_journal_is_refused)
{
	struct control *c = start("[]", "[]");
	struct control_error error = {""};

	put_ok(c, "a", "{\"limit\":1,\"per\":\"1s\"}");
	put_ok(c, "b", "{\"limit\":1,\"per\":\"1s\"}");
	control_free(c);
	flip(journal, 40);
	cr_expect_null(try_start("[]", "[]", &error));
	cr_expect_not_null(strstr(error.text, "control.journal: is damaged"), "%s", error.text);
}

/* A write that fails (the file size limit stands for a full disk) leaves memory and disk as they were. */
Test(control_store, a_change_that_cannot_be_persisted_is_none)
{
	struct control *c = start("[" POLICY("a", 1) "]", "[]");
	struct control_error error = {""};
	struct rlimit limit;

	put_ok(c, "a", "{\"limit\":2,\"per\":\"1s\"}");
	off_t size = size_of(journal);

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)size + 20, limit.rlim_max});
	cr_expect_eq(put(c, "a", "{\"limit\":3,\"per\":\"1s\"}", &error), KOVA_EIO);
	cr_expect_not_null(strstr(error.text, "control.journal: "), "%s", error.text);
	cr_expect_eq(
		reload(c, "[" POLICY("a", 4) "," POLICY("b", 4) "," POLICY("c", 4) "]", &error),
		KOVA_EIO);
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_expect_eq(limit_of(c, "a"), 2);
	cr_expect_eq(size_of(journal), size);
	put_ok(c, "b", "{\"limit\":5,\"per\":\"1s\"}");
	control_free(c);
	c = start("[" POLICY("a", 1) "]", "[]");
	cr_expect_eq(limit_of(c, "a"), 2);
	cr_expect_eq(limit_of(c, "b"), 5);
	control_free(c);
}

Test(control_store, no_directory)
{
	struct control_error error = {""};
	json_t *none = json_array();

	cr_expect_null(control_new("/nonesuch/kova", "node-1", LACKS,
				   (struct rule_lists){none, none, NULL}, &error));
	cr_expect_not_null(strstr(error.text, "/nonesuch/kova/control.journal: No such file"), "%s",
			   error.text);
	json_decref(none);
}

Test(control_store, a_store_without_replicas)
{
	struct control_error error = {""};
	json_t *none = json_array();
	struct control *c = control_new(directory, "node-1", LACKS,
					(struct rule_lists){none, none, NULL}, &error);

	cr_assert_not_null(c, "%s", error.text);
	put_ok(c, "before", "{\"limit\":1,\"per\":\"1s\",\"durability\":\"replica:1\"}");
	control_free(c);
	c = control_new(directory, "node-1", (struct control_lacks){.replicas = true},
			(struct rule_lists){none, none, NULL}, &error);
	cr_assert_not_null(c, "%s", error.text);
	cr_expect_eq(limit_of(c, "before"), -1, "it is held back");
	put_ok(c, "file", "{\"limit\":1,\"per\":\"1s\",\"durability\":\"aof\"}");
	cr_expect_eq(
		put(c, "p", "{\"limit\":1,\"per\":\"1s\",\"durability\":\"replica:1\"}", &error),
		KOVA_ECONFIG);
	cr_expect_not_null(strstr(error.text, "no replicas"), "%s", error.text);
	cr_expect_eq(limit_of(c, "p"), -1);
	control_free(c);
	c = control_new(directory, "node-1", LACKS, (struct rule_lists){none, none, NULL}, &error);
	cr_expect_eq(limit_of(c, "before"), 1, "it can be in force again");
	control_free(c);
	json_decref(none);
}
