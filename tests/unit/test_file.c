#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

static char path[] = "/tmp/kova-test-file-XXXXXX";

static void write_file(const char *text, size_t n)
{
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
}

Test(file, is_read_whole_behind_what_is_there)
{
	static char text[200000];
	struct buf b = {0};

	memset(text, 'x', sizeof text);
	write_file(text, sizeof text);
	buf_add(&b, "begin", 5);
	cr_expect_eq(file_read(path, sizeof text, &b), KOVA_OK);
	cr_expect_eq(b.len, 5 + sizeof text);
	cr_expect(memcmp(b.ptr + 5, text, sizeof text) == 0);
	buf_release(&b);
	unlink(path);
}

Test(file, one_that_is_larger_is_an_error)
{
	struct buf b = {0};

	write_file("12345", 5);
	cr_expect_eq(file_read(path, 4, &b), KOVA_EIO);
	cr_expect_eq(errno, EFBIG);
	buf_release(&b);
	cr_expect_eq(file_read(path, 5, &b), KOVA_OK);
	buf_release(&b);
	unlink(path);
}

Test(file, none_and_none_that_can_be_read)
{
	struct buf b = {0};

	cr_expect_eq(file_read("/tmp/kova-no-such-file", 10, &b), KOVA_ENOTFOUND);
	cr_expect_eq(errno, ENOENT);
	cr_expect_eq(file_read("/tmp", 10, &b), KOVA_EIO);
	cr_expect_eq(errno, EISDIR);
	cr_expect_eq(file_read("/dev/null", 10, &b), KOVA_OK);
	cr_expect_eq(b.len, 0);
	buf_release(&b);
}
