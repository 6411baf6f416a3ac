#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/atomic_file.h"

static char directory[64], path[96], temporary[112];

static void setup(void)
{
	strcpy(directory, "/tmp/kova-atomic-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/file", directory);
	snprintf(temporary, sizeof temporary, "%s.tmp", path);
}

static void teardown(void)
{
	unlink(path);
	unlink(temporary);
	rmdir(directory);
}

TestSuite(atomic_file, .init = setup, .fini = teardown);

static void holds(const char *file, const char *expected)
{
	char text[64] = "";
	FILE *f = fopen(file, "r");

	cr_assert_not_null(f);
	cr_expect(fread(text, 1, sizeof text - 1, f) == strlen(expected));
	fclose(f);
	cr_expect_str_eq(text, expected);
}

Test(atomic_file, the_old_content_stays_until_the_commit)
{
	struct stat st;

	cr_assert_eq(atomic_file_prepare(path, SLICE("old")), KOVA_OK);
	cr_assert_eq(atomic_file_commit(path), KOVA_OK);
	cr_assert_eq(atomic_file_prepare(path, SLICE("new")), KOVA_OK);
	holds(path, "old");
	cr_assert_eq(atomic_file_commit(path), KOVA_OK);
	holds(path, "new");
	cr_expect_eq(access(temporary, F_OK), -1);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600, "it may hold what is not for everyone");
}

Test(atomic_file, giving_up_leaves_nothing)
{
	cr_assert_eq(atomic_file_prepare(path, SLICE("new")), KOVA_OK);
	atomic_file_abort(path);
	cr_expect_eq(access(temporary, F_OK), -1);
	cr_expect_eq(access(path, F_OK), -1);
	cr_expect_eq(atomic_file_commit(path), KOVA_EIO);
}

Test(atomic_file, a_full_disk_is_an_error_and_leaves_nothing)
{
	/* The temporary file leads to a device on which every write fails. */
	cr_assert_eq(symlink("/dev/full", temporary), 0);
	cr_expect_eq(atomic_file_prepare(path, SLICE("new")), KOVA_EIO);
	cr_expect_eq(errno, ENOSPC);
	cr_expect_eq(access(path, F_OK), -1);
	cr_expect_eq(access(temporary, F_OK), -1);
}

Test(atomic_file, no_directory)
{
	cr_expect_eq(atomic_file_prepare("/nonesuch/file", SLICE("x")), KOVA_EIO);
	cr_expect_eq(errno, ENOENT);
	cr_expect_eq(atomic_file_sync_directory("/nonesuch/file"), KOVA_EIO);
}
