#include "io/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool temporary_name(const char *path, char ret_name[static PATH_MAX])
{
	int n = snprintf(ret_name, PATH_MAX, "%s.tmp", path);

	if (n < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

static bool write_all(int fd, struct slice data)
{
	while (data.len > 0) {
		ssize_t n = write(fd, data.ptr, data.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		data = (struct slice){data.ptr + n, data.len - (size_t)n};
	}
	return true;
}

kova_status atomic_file_prepare(const char *path, struct slice data)
{
	char temporary[PATH_MAX];

	if (!temporary_name(path, temporary))
		return KOVA_EIO;
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return KOVA_EIO;
	bool written = write_all(fd, data) && fsync(fd) == 0;
	int error = errno;

	if (close(fd) != 0 && written) {
		written = false;
		error = errno;
	}
	if (written)
		return KOVA_OK;
	unlink(temporary);
	errno = error;
	return KOVA_EIO;
}

kova_status atomic_file_sync_directory(const char *path)
{
	char directory[PATH_MAX] = ".";
	const char *slash = strrchr(path, '/');

	if (slash == path)
		strcpy(directory, "/");
	else if (slash != NULL)
		snprintf(directory, sizeof directory, "%.*s", (int)(slash - path), path);
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return KOVA_EIO;
	bool synced = fsync(fd) == 0;
	int error = errno;

	close(fd);
	errno = error;
	return synced ? KOVA_OK : KOVA_EIO;
}

kova_status atomic_file_commit(const char *path)
{
	char temporary[PATH_MAX];

	if (!temporary_name(path, temporary) || rename(temporary, path) != 0)
		return KOVA_EIO;
	return atomic_file_sync_directory(path);
}

void atomic_file_abort(const char *path)
{
	char temporary[PATH_MAX];

	if (temporary_name(path, temporary))
		unlink(temporary);
}
