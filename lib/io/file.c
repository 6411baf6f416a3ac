#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { STEP_BYTES = 1 << 16 };

static kova_status read_all(int fd, size_t max, struct buf *ret_text)
{
	size_t before = ret_text->len;

	for (;;) {
		char *room = buf_reserve(ret_text, STEP_BYTES);
		ssize_t n = room != NULL ? read(fd, room, STEP_BYTES) : -1;

		if (room == NULL)
			return KOVA_ENOMEM;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? KOVA_OK : KOVA_EIO;
		ret_text->len += (size_t)n;
		if (ret_text->len - before > max) {
			errno = EFBIG;
			return KOVA_EIO;
		}
	}
}

kova_status file_read(const char *path, size_t max, struct buf *ret_text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? KOVA_ENOTFOUND : KOVA_EIO;
	kova_status status = read_all(fd, max, ret_text);
	int error = errno;

	close(fd);
	errno = error;
	return status;
}
