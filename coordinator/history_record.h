/* The bytes of kova.history.v1 and of the records of children on kova.usage.v1 (proto/kova_children.proto). */
#pragma once

#include "core/buf.h"
#include "histories.h"

#define HISTORY_TOPIC "kova.history.v1"
#define CHILDREN_SCHEMA "kova.children.v1"

/* A record of CHILDREN_SCHEMA. Its slices live until it is released. */
struct child_message {
	struct child_usage usage;
	void *owner;
};

/* KOVA_EPROTO: no such message, or a name, path or child that is none. */
KOVA_MUST_CHECK kova_status child_message_parse(struct slice value, struct child_message *ret_m);
void child_message_release(struct child_message *m);

/* Appends the record of a parent: POLICY/PATH, and its value. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status history_record_write(const struct history_parent *p, struct buf *key,
						 struct buf *value);
/* Takes over what was kept of a parent. KOVA_EPROTO, KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status history_record_read(struct slice value, struct histories *h);

/*
 * Appends the weights as a configuration item: `{"policy":…,"parent":…,"weights":{…}}`. Children whose names are no UTF-8, or hold a zero
 * byte, are left out: they have an average weight. False: its path is such a one, and nothing was appended; or memory is out.
 */
bool history_weights_write(const struct history_parent *p, struct buf *out);
