/*
 * What the control plane keeps in the state directory: `control.json`, all items as of some time, replaced whole;
 * and `control.journal`, a record for each change since, appended and synced. Both are lines of
 * `["CHECKSUM",{…}]` (control_item.h); the first line of control.json says how many follow. A last line of the
 * journal that is cut off or damaged was never acknowledged, and is dropped; any other damage is an error.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/control.h"
#include "control/control_state.h"

struct control_store {
	char *path; /* of control.json */
	char *journal_path;
	int journal; /* descriptor, −1: closed */
	uint64_t journal_bytes;
};

/*
 * Opens the files in `state_dir` and reads them into *ret_state (without a catalogue yet). KOVA_EPROTO: damaged; the
 * files were renamed to *.corrupt, so that a next start begins without them. KOVA_EIO, KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status control_store_open(struct control_store *store, const char *state_dir,
					       struct control_state **ret_state,
					       struct control_error *ret_error);
void control_store_close(struct control_store *store);

/* Appends changes to the journal and syncs it. KOVA_EIO: nothing was appended. */
KOVA_MUST_CHECK kova_status control_store_append(struct control_store *store,
						 struct control_item *const *items, size_t n,
						 struct control_error *ret_error);
/* The journal is long enough that a new control.json pays. */
bool control_store_is_long(const struct control_store *store);

/* A new control.json in two steps: prepare may run in another thread, commit replaces the old one. */
KOVA_MUST_CHECK kova_status control_store_prepare(const char *path,
						  const struct control_state *state,
						  struct control_error *ret_error);
KOVA_MUST_CHECK kova_status control_store_commit(struct control_store *store,
						 struct control_error *ret_error);
