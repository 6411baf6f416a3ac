/*
 * The control plane of one agent: the policies, overrides and pools that came from the file, from
 * administration and from earlier runs; their stamps, their persistence in the state directory, and the
 * catalogue built from them. Every change goes through here.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "control/catalogue.h"
#include "control/rule_set.h"
#include "core/status.h"

struct control;
struct control_state;

/* Why a change was refused; `text` says what is allowed. No secrets. */
struct control_error {
	char text[512];
};

/* What this node has not: administration can't put a policy that asks for it, and one that is there is held back. */
struct control_lacks {
	bool replicas; /* of the store */
	bool regions, kafka;
};

/*
 * The control plane of node `node` (copied: on the stamps of its writes). Loads what an earlier run left in `state_dir` (must
 * exist), then merges the file's items
 * (`lists`: already validated, borrowed) by the rules of the contract: an item that
 * changed since the last load of that file is a new write. NULL with *ret_error set on failure.
 */
struct control *control_new(const char *state_dir, const char *node, struct control_lacks lacks,
			    struct rule_lists lists, struct control_error *ret_error);
void control_free(struct control *c);

/* The catalogue in force; borrowed, valid until the loop turn ends: catalogue_ref() to keep it. */
struct catalogue *control_catalogue(const struct control *c);

/*
 * What another loop has of `owner`'s: its policies and overrides, as of now. Takes no changes; control_free() frees it.
 * On the owner's loop, or before there are others. NULL: out of memory.
 */
struct control *control_replica_new(const struct control *owner);
/* The state in force, which goes with control_follow() to every replica; referenced: control_state_unref(). */
struct control_state *control_snapshot(const struct control *c);
/* On the replica's loop: `state` (borrowed) is in force from here on. */
void control_follow(struct control *replica, struct control_state *state);

/* Called after each change of the catalogue. One listener: the engine. */
void control_on_change(struct control *c, void (*changed)(void *data), void *data);

/* A change that administration or a reload made here, in force now. */
struct control_write {
	const char *kind;    /* "policy", "override", "weights", "pool" */
	struct slice policy; /* its name, or that of the policy it is about */
	const char
		*member;  /* of others than policies and pools: "key", "prefix" or "parent", ... */
	struct slice key; /* ... and what that is; else NULL and empty */
	struct slice who;
	struct slice before,
		after; /* JSON, of a pool without secrets; empty: there was none, it was deleted */
};
/* Called for each; all is borrowed for the call. On the owner's loop. */
void control_on_write(struct control *c, void (*wrote)(const struct control_write *w, void *data),
		      void *data);

/* One write that is in force: `item` in place of `was`. NULL: there was none; there is none any more, not even a deletion. */
struct control_item;
struct control_written {
	struct control_item *item, *was; /* borrowed */
};
typedef void control_writes(const struct control_written *list, size_t n, void *data);
/*
 * Called with the writes of each change, from the file, administration or gossip, when they are in force; at first, at once, with
 * those that the start made. One listener; NULL: none.
 */
void control_on_written(struct control *c, control_writes *written, void *data);

/* Why the policy `item` can't be in force here, or NULL. */
const char *control_misfit(const struct control *c, const struct control_item *item);

/* A reload of the file (SIGHUP). Changes all or nothing. */
KOVA_MUST_CHECK kova_status control_reload(struct control *c, struct rule_lists lists,
					   struct control_error *ret_error);

/*
 * As control_reload(), without holding up the loop: reading, merging and writing run in a thread of libuv's pool, only
 * the swap on the loop. `on_done` comes on the loop, once, unless control_free() comes first; its `error` is NULL when
 * the status is KOVA_OK. Changes by administration go on meanwhile. It waits for a take in progress; not
 * while another reload is.
 */
typedef void control_done(kova_status status, const struct control_error *error, void *data);
void control_reload_async(struct control *c, uv_loop_t *loop, struct rule_lists lists,
			  control_done *on_done, void *data);

/*
 * What came by gossip: `items` (borrowed), of which those that are newer than what is there are put in force, all or
 * nothing. The async form is for many, as control_reload_async(); its items stay until `on_done`. Neither while the control
 * plane is busy with another load.
 */
KOVA_MUST_CHECK kova_status control_take(struct control *c, struct control_item *const *items,
					 size_t n, struct control_error *ret_error);
void control_take_async(struct control *c, uv_loop_t *loop, struct control_item *const *items,
			size_t n, control_done *on_done, void *data);
bool control_is_busy(const struct control *c);

/*
 * The write of `id` with the stamp `version` was stamped ahead: it counts as older than any other (stamp 0), a deletion as if it had not
 * been. If it is not there, nothing happens. KOVA_EIO, KOVA_ENOMEM: all is as it was. Not while the control plane is busy.
 */
KOVA_MUST_CHECK kova_status control_withdraw(struct control *c, struct slice id, uint64_t version,
					     struct control_error *ret_error);
/* Forgets deletions that are older than a node may be away. As above. */
KOVA_MUST_CHECK kova_status control_forget_old(struct control *c, struct control_error *ret_error);

/*
 * Administration. `who` is `token:NAME` or `local`, at most 127 bytes. In force and persisted when they return KOVA_OK.
 * KOVA_ECONFIG: ret_error says what is wrong; KOVA_ENOTFOUND: nothing of that name to delete; KOVA_EIO: could not be persisted.
 */
KOVA_MUST_CHECK kova_status control_put_policy(struct control *c, struct slice name,
					       const json_t *policy, const char *who,
					       struct control_error *ret_error);
KOVA_MUST_CHECK kova_status control_delete_policy(struct control *c, struct slice name,
						  const char *who, struct control_error *ret_error);
KOVA_MUST_CHECK kova_status control_put_override(struct control *c, const json_t *override,
						 const char *who, struct control_error *ret_error);
/* Exactly one of `key` and `prefix` has ptr != NULL. */
KOVA_MUST_CHECK kova_status control_delete_override(struct control *c, struct slice policy,
						    struct slice key, struct slice prefix,
						    const char *who,
						    struct control_error *ret_error);

/*
 * Weights (weights.h) of `value` by `who`. Nothing happens where the same is said already. As above; KOVA_ERANGE: more than an item
 * may have.
 */
KOVA_MUST_CHECK kova_status control_put_weights(struct control *c, const json_t *value,
						const char *who, struct control_error *ret_error);

/* The policies in force, each as a file says it: a new reference to an array; NULL: out of memory. */
json_t *control_policies_in_force(const struct control *c);

/* A pool as policies are; what it says is not kept with files that it names (pool_def.h). */
KOVA_MUST_CHECK kova_status control_put_pool(struct control *c, struct slice name,
					     const json_t *pool, const char *who,
					     struct control_error *ret_error);
KOVA_MUST_CHECK kova_status control_delete_pool(struct control *c, struct slice name,
						const char *who, struct control_error *ret_error);
/*
 * Changes which endpoints a pool has, and nothing else: `body` has `endpoints`, a list (pool_endpoints_merge()). KOVA_ENOTFOUND: no such
 * pool.
 */
KOVA_MUST_CHECK kova_status control_put_endpoints(struct control *c, struct slice pool,
						  const json_t *body, const char *who,
						  struct control_error *ret_error);
/*
 * Changes members of the endpoint `id` of a pool: `change` has `state`, `weight`, `slots`, `tier`, some of them. KOVA_ENOTFOUND: no
 * such pool or endpoint.
 */
KOVA_MUST_CHECK kova_status control_patch_endpoint(struct control *c, struct slice pool,
						   struct slice id, const json_t *change,
						   const char *who,
						   struct control_error *ret_error);

/* New references: {"policies":[…]} and {"overrides":[…]} each item with "version" and "who". */
json_t *control_policies(const struct control *c);
json_t *control_overrides(const struct control *c);
