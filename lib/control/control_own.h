/* The inside of struct control, for control*.c only. */
#pragma once

#include "control/control.h"
#include "control/control_state.h"
#include "control/control_store.h"

/* One load of the file, or of what came by gossip, to the state that is to be in force. */
struct control_load {
	bool of_file;                      /* `lists`; else `items` */
	struct rule_lists lists;           /* borrowed */
	struct control_item *const *items; /* borrowed: what came */
	size_t n_items;
	const char *node;
	const char *path;                /* of control.json */
	struct control_state *base;      /* borrowed */
	struct hlc clock;                /* a copy, to be taken over with the state */
	struct control_state *next;      /* the result */
	bool made;                       /* `next` is there already */
	bool few;                        /* writes go to the journal, not to a new control.json */
	bool changed;                    /* control.json.tmp was written */
	struct control_written *written; /* owned; items belong to the states */
	size_t n_written;
	struct control_error error;
};

struct control {
	struct control_state *state; /* in force */
	struct control_store store;
	struct hlc clock;
	void (*changed)(void *data);
	void *changed_data;
	void (*wrote)(const struct control_write *w, void *data);
	void *wrote_data;
	control_writes *written;
	void *written_data;
	struct control_load first; /* what the start wrote; told to the first listener */
	char *node;                /* owned; NULL of a replica */
	struct control_lacks lacks;
	bool is_replica;            /* another loop's: takes no changes, has no store */
	bool reloading;             /* a job of control_reload.c builds the next state */
	struct reload_job *waiting; /* for that job's end; NULL: none */
	unsigned jobs;              /* jobs that have not ended */
	bool closed; /* control_free() was called while there were: the last one frees it */
};

/* Any thread. KOVA_ECONFIG, KOVA_EIO, KOVA_ENOMEM with load->error set. */
KOVA_MUST_CHECK kova_status control_load_run(struct control_load *load);

/* Puts load->next in force, and sets it to the state that was. */
KOVA_MUST_CHECK kova_status control_load_commit(struct control *c, struct control_load *load);
/* Frees what a load has made; what it borrowed stays. Any thread. */
void control_load_release(struct control_load *load);

void control_destroy(struct control *c);

/* ---- Parts of a change, for control.c and control_pool.c ---- */

/* Each sets `e` and returns the status that goes with it. */
kova_status control_fail(struct control_error *e, kova_status status, const char *text);
kova_status control_fail_memory(struct control_error *e);
kova_status control_fail_reader(const struct conf_reader *r, struct control_error *e);
const char *control_none_of(enum control_kind kind);

/* `value`, a `what`, with its name, which it may leave out but not contradict; a new reference. */
KOVA_MUST_CHECK kova_status control_with_name(const char *what, const json_t *value,
					      struct slice name, json_t **ret_named,
					      struct control_error *e);
/* Writes the item of these parts, stamped now by `who`; what the file said of it stays known. */
KOVA_MUST_CHECK kova_status control_change(struct control *c, struct control_item_parts *parts,
					   const char *who, struct control_error *e);
KOVA_MUST_CHECK kova_status control_delete_item(struct control *c, const struct control_id *id,
						const char *who, struct control_error *e);
