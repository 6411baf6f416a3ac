/* The inside of struct control, for control.c and control_reload.c only. */
#pragma once

#include "control.h"
#include "control_state.h"
#include "control_store.h"

struct control {
	struct control_state *state; /* in force */
	struct control_store store;
	struct hlc clock;
	void (*changed)(void *data);
	void *changed_data;
	void (*wrote)(const struct control_write *w, void *data);
	void *wrote_data;
	struct control_lacks lacks; /* see control_refuse() */
	bool is_replica;            /* another loop's: takes no changes, has no store */
	bool reloading;             /* a job of control_reload.c builds the next state */
	unsigned jobs;              /* jobs that have not ended */
	bool closed; /* control_free() was called while there were: the last one frees it */
};

/* One load of the file, from its JSON to the state that is to be in force. */
struct control_load {
	const json_t *policies, *overrides; /* borrowed */
	const char *path;                   /* of control.json */
	struct control_state *base;         /* borrowed */
	struct hlc clock;                   /* a copy, to be taken over with the state */
	struct control_state *next;         /* the result */
	bool changed;                       /* control.json.tmp was written */
	struct control_error error;
};

/* Any thread. KOVA_ECONFIG, KOVA_EIO, KOVA_ENOMEM with load->error set. */
KOVA_MUST_CHECK kova_status control_load_run(struct control_load *load);

/* Puts load->next in force, and sets it to the state that was. */
KOVA_MUST_CHECK kova_status control_load_commit(struct control *c, struct control_load *load);

void control_destroy(struct control *c);
