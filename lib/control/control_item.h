/*
 * One thing that the control plane knows: a policy, an override, weights or a pool, or that one was deleted. Immutable and
 * reference-counted (by any thread): states share their items.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>

#include "control/policy_rule.h"
#include "control/pool_def.h"
#include "core/buf.h"
#include "core/gossip_wire.h"
#include "core/request_bounds.h"

enum control_kind {
	CONTROL_POLICY = 'p',
	CONTROL_KEY = 'k',
	CONTROL_PREFIX = 'x',
	CONTROL_WEIGHTS = 'w',
	CONTROL_POOL = 'o', /* its JSON is {"pool":{…}} */
};

enum { CONTROL_ID_MAX = 1 + NAME_BYTES_MAX + 1 + REQUEST_KEY_MAX, CONTROL_WHO_MAX = 128 };

/* What the item is about: kind byte, then a policy's or a pool's name; else the policy, NUL, and the key, prefix or parent's path. */
struct control_id {
	size_t len;
	char bytes[CONTROL_ID_MAX];
};

struct control_item {
	atomic_uint refs;
	uint64_t version; /* stamp of the write (core/hlc.h); 0: older than any other */
	uint64_t
		file_hash; /* of what the file said of it when it was loaded last; 0: it said nothing */
	uint64_t id_hash;
	bool unread; /* can't be in force here: kept and passed on; the rule is that of `in_force` */
	struct policy_rule *policy;     /* CONTROL_POLICY */
	struct override_rule *override; /* CONTROL_KEY, CONTROL_PREFIX */
	struct pool_def *pool;          /* CONTROL_POOL */
	struct weights_rule *weights;   /* CONTROL_WEIGHTS */
	struct slice id;                /* these five lie in `bytes` */
	struct slice text;              /* its JSON, compact, names sorted; empty: deleted */
	struct slice who;
	struct slice writer; /* the node that stamped it; empty with version 0 */
	struct slice
		in_force; /* the text that is in force in place of an unread item's, or empty */
	char bytes[];
};

static inline enum control_kind control_item_kind(const struct control_item *item)
{
	return (enum control_kind)item->id.ptr[0];
}

static inline bool control_item_is_deleted(const struct control_item *item)
{
	return item->text.len == 0;
}

/* `policy`: a valid name; `key`: at most REQUEST_KEY_MAX bytes, empty for CONTROL_POLICY and CONTROL_POOL. */
void control_id_set(struct control_id *id, enum control_kind kind, struct slice policy,
		    struct slice key);
uint64_t control_id_hash(struct slice id);

/* What a new item is made of. All is copied; the rules get references of their own. */
struct control_item_parts {
	struct slice id, text, who, writer, in_force;
	bool unread;
	uint64_t version, file_hash;
	struct policy_rule *policy;
	struct override_rule *override;
	struct pool_def *pool;
	struct weights_rule *weights;
};

/* With one reference; NULL: out of memory. */
struct control_item *control_item_new(const struct control_item_parts *parts);
/* The parts of `item`, borrowed: for one that differs a little. */
struct control_item_parts control_item_parts(const struct control_item *item);
struct control_item *control_item_ref(struct control_item *item);
void control_item_unref(struct control_item *item); /* NULL is nothing */

/* A deletion so old, at `now_ms` of the wall clock, that nobody can bring the item back by mistake. */
bool control_item_is_old_deletion(const struct control_item *item, uint64_t now_ms);

/* As gossip says it; slices of the item. */
void control_item_read(const void *item, struct gossip_item *ret_item);
/*
 * What gossip said as an item; what this version does not understand is `unread`. KOVA_EPROTO: who wrote it can't be told;
 * KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status control_item_of_gossip(const struct gossip_item *said,
						   struct control_item **ret_item);
/* Before others have it: it has no rule, as if it could not be read. */
void control_item_shut(struct control_item *item);
/* An item of `parts` that can't be in force, with the rule of what is in its place, if anything is. NULL: out of memory. */
struct control_item *control_item_held_back(const struct control_item_parts *parts);
/* Whether both are the same write. */
bool control_item_is_same_write(const struct control_item *a, const struct control_item *b);

/* The text of an item's JSON as items keep it, owned: free(). NULL: out of memory. */
char *control_item_text(const json_t *value);

/* Whether it is an id of this version's kinds. */
bool control_id_is_known(struct slice id);
/* "policy", "override", "weights"; and what an item of the kind names beside its policy: "key", "prefix", "parent", NULL for a policy. */
const char *control_kind_name(enum control_kind kind);
const char *control_kind_member(enum control_kind kind);
/* The id that `value` (a whole item, or of a deleted one its names) says. */
bool control_id_of_json(const json_t *value, struct control_id *ret_id);
/* Compiles `value` into the rule of its kind. KOVA_ECONFIG: what this version does not accept; KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status control_rule_read(const json_t *value, enum control_kind kind,
					      struct control_item_parts *parts);
/* The id of an override or of a policy. */
/* Whether ids of this kind are a name alone. */
bool control_kind_is_named(enum control_kind kind);
/* Gives back the rules that control_rule_read() made. */
void control_rule_release(struct control_item_parts *parts);
void control_id_of_pool(const struct pool_def *pool, struct control_id *ret_id);
void control_id_of_policy(const struct policy_rule *rule, struct control_id *ret_id);
void control_id_of_override(const struct override_rule *rule, struct control_id *ret_id);

/*
 * A record of the state directory: one line of JSON, `["CHECKSUM",{…}]`. control_record_read() takes one line
 * without its end. KOVA_EPROTO: the checksum is wrong, or it is no record; KOVA_ENOMEM.
 */
void control_record_write(const struct control_item *item, struct buf *out);
KOVA_MUST_CHECK kova_status control_record_read(struct slice line, struct control_item **ret_item);

/* The same frame around any JSON object. */
void control_frame_write(struct slice object, struct buf *out);
KOVA_MUST_CHECK kova_status control_frame_read(struct slice line, struct slice *ret_object);
