#include "change_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change_json.h"
#include "io/atomic_file.h"
#include "io/buf_json.h"
#include "io/file.h"
#include "io/log.h"

enum { FILE_BYTES_MAX = 16 << 20 };

struct change_log {
	char *path;
	json_t *changes; /* an array, the oldest first */
	size_t lines;    /* of the file */
	size_t bytes;
};

/* ---- The file ---- */

static void trim(struct change_log *l)
{
	while (json_array_size(l->changes) > CHANGE_LOG_MAX)
		json_array_remove(l->changes, 0);
}

static void write_line(struct buf *out, const json_t *change)
{
	buf_add_json(out, change, JSON_COMPACT | JSON_SORT_KEYS);
	buf_add_text(out, "\n");
}

static void read_lines(struct change_log *l, struct slice text)
{
	while (text.len > 0) {
		struct slice line = slice_cut(&text, '\n');
		json_t *change = json_loadb(line.ptr, line.len, JSON_ALLOW_NUL, NULL);

		l->lines++;
		if (json_is_object(change))
			json_array_append(l->changes, change);
		json_decref(change);
	}
	trim(l);
}

/* The file anew, with what is in memory. */
static bool fold(struct change_log *l)
{
	struct buf text = {0};
	json_t *change;
	size_t i;

	json_array_foreach(l->changes, i, change)
		write_line(&text, change);
	bool done = !buf_failed(&text) &&
		    atomic_file_prepare(l->path, buf_slice(&text)) == KOVA_OK &&
		    atomic_file_commit(l->path) == KOVA_OK;

	l->lines = json_array_size(l->changes);
	l->bytes = text.len;
	buf_release(&text);
	return done;
}

static bool append(struct change_log *l, struct slice text)
{
	int fd = open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	bool done = fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len;

	if (fd >= 0)
		close(fd);
	l->bytes += text.len;
	return done;
}

struct change_log *change_log_new(const char *state_dir)
{
	struct change_log *l = calloc(1, sizeof *l);
	struct buf text = {0};

	if (l == NULL)
		return NULL;
	l->changes = json_array();
	if (asprintf(&l->path, "%s/changes.log", state_dir) < 0)
		l->path = NULL;
	if (l->path == NULL || l->changes == NULL) {
		change_log_free(l);
		return NULL;
	}
	if (file_read(l->path, FILE_BYTES_MAX, &text) == KOVA_OK)
		read_lines(l, buf_slice(&text));
	l->bytes = text.len;
	buf_release(&text);
	return l;
}

void change_log_free(struct change_log *l)
{
	if (l == NULL)
		return;
	json_decref(l->changes);
	free(l->path);
	free(l);
}

/* ---- Changes ---- */

void change_log_add(struct change_log *l, const struct control_written *list, size_t n)
{
	struct buf lines = {0};

	for (size_t i = n > CHANGE_LOG_BATCH_MAX ? n - CHANGE_LOG_BATCH_MAX : 0; i < n; i++) {
		json_t *change = change_json(&list[i]);

		if (change == NULL)
			continue;
		write_line(&lines, change);
		json_array_append_new(l->changes, change);
		l->lines++;
	}
	trim(l);
	if (lines.len > 0) {
		bool is_long = l->lines > 2 * CHANGE_LOG_MAX || l->bytes > FILE_BYTES_MAX / 2;
		bool done = is_long ? fold(l) : !buf_failed(&lines) && append(l, buf_slice(&lines));

		if (!done)
			log_event(LOG_ERROR, "change_log", "changes.log can't be written",
				  LOG_TEXT_FIELD("why", strerror(errno)));
	}
	buf_release(&lines);
}

json_t *change_log_list(const struct change_log *l, size_t most)
{
	json_t *list = json_array();
	size_t n = json_array_size(l->changes);

	for (size_t i = 0; i < n && i < most; i++)
		if (json_array_append(list, json_array_get(l->changes, n - 1 - i)) != 0) {
			json_decref(list);
			return NULL;
		}
	return json_pack("{s:o}", "changes", list);
}
