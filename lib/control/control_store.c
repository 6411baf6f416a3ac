#include "control/control_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/gossip_items.h"
#include "io/atomic_file.h"
#include "io/file.h"

enum { FORMAT = 1, JOURNAL_LONG = 4 << 20 };

__attribute__((format(printf, 2, 3))) static void say(struct control_error *e, const char *format,
						      ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(e->text, sizeof e->text, format, args);
	va_end(args);
}

static kova_status fail_io(struct control_error *e, const char *path)
{
	say(e, "%.300s: %s", path, strerror(errno));
	return KOVA_EIO;
}

/* The next line of *text without its end, which must be there. */
static bool line_take(struct slice *text, struct slice *ret_line)
{
	const char *end = text->len > 0 ? memchr(text->ptr, '\n', text->len) : NULL;

	if (end == NULL)
		return false;
	size_t len = (size_t)(end - text->ptr);

	*ret_line = (struct slice){text->ptr, len};
	*text = (struct slice){end + 1, text->len - len - 1};
	return true;
}

/* Puts the record in `line`, unless what is known of its id is newer. */
static kova_status record_put(struct slice line, struct control_state *s)
{
	struct control_item *item;
	kova_status status = control_record_read(line, &item);

	if (status != KOVA_OK)
		return status;
	const struct control_item *known = control_state_find(s, item->id);
	struct gossip_item said, was;

	control_item_read(item, &said);
	if (known != NULL)
		control_item_read(known, &was);
	if (known == NULL || gossip_item_compare(&said, &was) > 0)
		return control_state_put(s, item);
	control_item_unref(item);
	return KOVA_OK;
}

/* The first line: how many records follow. */
static kova_status header_read(struct slice line, uint64_t *ret_items, bool *ret_file_loaded)
{
	struct slice object;
	json_int_t format = 0, items = 0;
	int file_loaded = 0;

	if (control_frame_read(line, &object) != KOVA_OK)
		return KOVA_EPROTO;
	json_t *json = json_loadb(object.ptr, object.len, 0, NULL);
	bool valid = json_unpack(json, "{s:I, s:I, s:b}", "format", &format, "items", &items,
				 "file_loaded", &file_loaded) == 0 &&
		     format == FORMAT && items >= 0;

	json_decref(json);
	if (!valid)
		return KOVA_EPROTO;
	*ret_items = (uint64_t)items;
	*ret_file_loaded = file_loaded != 0;
	return KOVA_OK;
}

static kova_status snapshot_parse(struct slice text, struct control_state *s)
{
	struct slice line;
	uint64_t items = 0;

	if (!line_take(&text, &line) || header_read(line, &items, &s->file_loaded) != KOVA_OK)
		return KOVA_EPROTO;
	for (; items > 0; items--) {
		kova_status status = line_take(&text, &line) ? record_put(line, s) : KOVA_EPROTO;

		if (status != KOVA_OK)
			return status;
	}
	return text.len == 0 ? KOVA_OK : KOVA_EPROTO;
}

/* *ret_whole: bytes up to the end of the last whole record. */
static kova_status journal_parse(struct slice text, struct control_state *s, uint64_t *ret_whole)
{
	struct slice line;
	size_t len = text.len;

	while (line_take(&text, &line)) {
		kova_status status = record_put(line, s);

		if (status == KOVA_EPROTO && text.len == 0)
			break; /* the append that a crash cut off */
		if (status != KOVA_OK)
			return status;
		*ret_whole = len - text.len;
	}
	return KOVA_OK;
}

/* Keeps damaged files for whoever wants to know, out of the way of a next start. */
static void put_aside(const struct control_store *store)
{
	const char *const paths[] = {store->path, store->journal_path};

	for (size_t i = 0; i < 2; i++) {
		char *aside = NULL;

		if (asprintf(&aside, "%s.corrupt", paths[i]) >= 0) {
			rename(paths[i], aside);
			free(aside);
		}
	}
}

static kova_status fail_read(const struct control_store *store, const char *path,
			     kova_status status, struct control_error *e)
{
	if (status == KOVA_EIO)
		return fail_io(e, path);
	if (status == KOVA_ENOMEM) {
		say(e, "%s", kova_status_text(status));
	} else if (status == KOVA_ECONFIG) {
		say(e, "%.300s: holds an item that this version does not accept: not started",
		    path);
	} else {
		put_aside(store);
		say(e,
		    "%.300s: is damaged; it was renamed to *.corrupt. A next start begins without "
		    "the changes that administration made",
		    path);
	}
	return status;
}

static kova_status store_read(struct control_store *store, struct control_state *s,
			      uint64_t *ret_journal_whole, struct control_error *e)
{
	struct buf text = {0};
	kova_status status = file_read(store->path, SIZE_MAX, &text);

	if (status == KOVA_OK)
		status = snapshot_parse(buf_slice(&text), s);
	buf_release(&text);
	if (status != KOVA_OK && status != KOVA_ENOTFOUND)
		return fail_read(store, store->path, status, e);
	status = file_read(store->journal_path, SIZE_MAX, &text);
	if (status == KOVA_OK)
		status = journal_parse(buf_slice(&text), s, ret_journal_whole);
	buf_release(&text);
	if (status != KOVA_OK && status != KOVA_ENOTFOUND)
		return fail_read(store, store->journal_path, status, e);
	return KOVA_OK;
}

static kova_status journal_open(struct control_store *store, struct control_error *e)
{
	store->journal = open(store->journal_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (store->journal < 0 || ftruncate(store->journal, (off_t)store->journal_bytes) != 0 ||
	    atomic_file_sync_directory(store->journal_path) != KOVA_OK)
		return fail_io(e, store->journal_path);
	return KOVA_OK;
}

kova_status control_store_open(struct control_store *store, const char *state_dir,
			       struct control_state **ret_state, struct control_error *ret_error)
{
	struct control_state *s = control_state_new(0);
	kova_status status = KOVA_ENOMEM;

	*store = (struct control_store){.journal = -1};
	if (asprintf(&store->path, "%s/control.json", state_dir) < 0)
		store->path = NULL;
	if (asprintf(&store->journal_path, "%s/control.journal", state_dir) < 0)
		store->journal_path = NULL;
	if (s != NULL && store->path != NULL && store->journal_path != NULL)
		status = store_read(store, s, &store->journal_bytes, ret_error);
	else
		say(ret_error, "%s", kova_status_text(status));
	if (status == KOVA_OK)
		status = journal_open(store, ret_error);
	if (status != KOVA_OK) {
		control_state_unref(s);
		control_store_close(store);
		return status;
	}
	*ret_state = s;
	return KOVA_OK;
}

void control_store_close(struct control_store *store)
{
	if (store->journal >= 0)
		close(store->journal);
	free(store->path);
	free(store->journal_path);
	*store = (struct control_store){.journal = -1};
}

/* One write, so that a crash leaves a beginning of it at most. */
static bool journal_write(struct control_store *store, struct slice record)
{
	ssize_t n;

	do
		n = write(store->journal, record.ptr, record.len);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)record.len && fdatasync(store->journal) == 0) {
		store->journal_bytes += record.len;
		return true;
	}
	int error = n >= 0 && n < (ssize_t)record.len ? ENOSPC : errno;

	/* If this fails too, the next start drops the half record, or finds it whole but unacknowledged. */
	if (ftruncate(store->journal, (off_t)store->journal_bytes) != 0)
		error = EIO;
	errno = error;
	return false;
}

kova_status control_store_append(struct control_store *store, struct control_item *const *items,
				 size_t n, struct control_error *ret_error)
{
	struct buf record = {0};
	kova_status status = KOVA_OK;

	for (size_t i = 0; i < n; i++)
		control_record_write(items[i], &record);
	if (buf_failed(&record)) {
		say(ret_error, "%s", kova_status_text(KOVA_ENOMEM));
		status = KOVA_ENOMEM;
	} else if (!journal_write(store, buf_slice(&record))) {
		status = fail_io(ret_error, store->journal_path);
	}
	buf_release(&record);
	return status;
}

bool control_store_is_long(const struct control_store *store)
{
	return store->journal_bytes > JOURNAL_LONG;
}

kova_status control_store_prepare(const char *path, const struct control_state *state,
				  struct control_error *ret_error)
{
	struct buf text = {0}, header = {0};
	kova_status status = KOVA_OK;

	buf_printf(&header, "{\"format\":%d,\"items\":%zu,\"file_loaded\":%s}", FORMAT,
		   state->n_items, state->file_loaded ? "true" : "false");
	control_frame_write(buf_slice(&header), &text);
	for (size_t i = 0; i < state->n_items; i++)
		control_record_write(state->items[i], &text);
	if (buf_failed(&header) || buf_failed(&text)) {
		say(ret_error, "%s", kova_status_text(KOVA_ENOMEM));
		status = KOVA_ENOMEM;
	} else if (atomic_file_prepare(path, buf_slice(&text)) != KOVA_OK) {
		status = fail_io(ret_error, path);
	}
	buf_release(&header);
	buf_release(&text);
	return status;
}

kova_status control_store_commit(struct control_store *store, struct control_error *ret_error)
{
	if (atomic_file_commit(store->path) != KOVA_OK) {
		kova_status status = fail_io(ret_error, store->path);

		atomic_file_abort(store->path);
		return status;
	}
	/* Its records are in control.json; left there, they would be older than what is. */
	if (ftruncate(store->journal, 0) == 0)
		store->journal_bytes = 0;
	return KOVA_OK;
}
