/*
 * Any bytes as a configuration file and as a record of the control plane's files: each is read or refused, a refusal has
 * a place within the text, and a record that was read is written as it was.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "control/control_item.h"
#include "control/rule_set.h"
#include "edge_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_document(struct slice text)
{
	static struct conf_reader r;
	struct conf_document d;
	struct edge_fields fields;
	struct rule_set rules;
	struct buf errors = {0};

	r.n_errors = 0;
	if (conf_document_parse("f", text, &d, &errors) == KOVA_OK) {
		conf_read(&r, NULL, d.root, &edge_table, &fields);
		const struct rule_lists lists = {json_object_get(d.root, "policies"),
						 json_object_get(d.root, "overrides"),
						 json_object_get(d.root, "pools")};

		if (rule_set_read(&r, &lists, &rules) == KOVA_OK)
			rule_set_release(&rules);
		conf_report(&r, &d, &errors);
		assert((r.n_errors == 0) == (errors.len == 0));
		conf_document_release(&d);
	} else {
		assert(errors.len > 0);
	}
	assert(errors.len == 0 || errors.ptr[errors.len - 1] == '\n');
	buf_release(&errors);
}

static void read_record(struct slice text)
{
	struct control_item *item, *again;
	struct buf framed = {0}, written = {0};

	control_frame_write(text, &framed);
	framed.len--; /* without the end of the line */
	if (control_record_read(buf_slice(&framed), &item) == KOVA_OK) {
		control_record_write(item, &written);
		written.len--;
		kova_status status = control_record_read(buf_slice(&written), &again);

		assert(status == KOVA_OK && slice_equal(again->id, item->id) &&
		       slice_equal(again->text, item->text) && slice_equal(again->who, item->who) &&
		       again->version == item->version && again->file_hash == item->file_hash);
		control_item_unref(item);
		control_item_unref(again);
	}
	buf_release(&framed);
	buf_release(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};

	read_document(text);
	read_record(text);
	return 0;
}
