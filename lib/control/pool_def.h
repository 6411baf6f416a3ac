/*
 * A pool as its JSON says it, checked and compiled. Immutable and reference-counted (by any thread). It holds the credentials of its
 * endpoints: they are told to workers, and to nobody else.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "core/name.h"
#include "core/pool.h"
#include "core/pool_url.h"
#include "io/conf.h"
#include "io/conf_copy.h"
#include "io/pool_fields.h"

/* `id`@8 digits that depend on the address: a changed address is another endpoint. */
enum { POOL_STATE_ID_MAX = NAME_BYTES_MAX + 1 + 8 };

struct pool_member {
	char id[NAME_BYTES_MAX + 1];
	char state_id[POOL_STATE_ID_MAX + 1];
	char group[NAME_BYTES_MAX + 1]; /* "": none */
	char *address;                  /* owned; a URL or a key: secret */
	struct pool_url url;            /* of a proxy; slices of `address` */
	uint32_t slots;
	uint16_t weight;
	uint8_t tier;
	bool off;
};

/* The same address under two ids: one endpoint. */
struct pool_duplicate {
	char kept[NAME_BYTES_MAX + 1], dropped[NAME_BYTES_MAX + 1];
};

struct pool_health {
	char *url; /* owned; NULL: no probes */
	uint64_t timeout_us;
	enum pool_family family;
	enum pool_exit exit;
};

struct pool_def {
	atomic_uint refs;
	char name[NAME_BYTES_MAX + 1];
	struct pool_rule rule;
	enum pool_dialect dialect;
	char permit[NAME_BYTES_MAX + 1], target_policy[NAME_BYTES_MAX + 1]; /* "": none */
	struct pool_health health;
	struct pool_member *members; /* in the order of the definition */
	size_t n_members;
	struct pool_duplicate *duplicates;
	size_t n_duplicates;
	struct buf script; /* what the script is given of it (core/pool_script.h) */
};

/*
 * What `value`, at `path` in its document, says. NULL: errors were recorded in `r`, none with a secret in it, or, if none was, memory
 * is out. Files it can't name: pool_def_expand() puts their contents in.
 */
struct pool_def *pool_def_read(struct conf_reader *r, const struct conf_path *path,
			       const json_t *value);
struct pool_def *pool_def_ref(struct pool_def *def);
void pool_def_unref(struct pool_def *def); /* NULL is nothing */

/* The member of this id; NULL: there is none. */
const struct pool_member *pool_def_member(const struct pool_def *def, struct slice id);

/*
 * `value` with what `endpoints_file` and `key_file` name in the place of them; a new reference. Errors go to c->r. NULL: out of
 * memory.
 */
json_t *pool_def_expand(struct conf_copier *c, const struct conf_path *path, const json_t *value);

/*
 * `list` as the endpoints of a pool that has the endpoints `was` (both JSON): of an address that stays, what `was` says and `list` does
 * not is kept. `is_key`: the pool's kind. A new reference, to values of both: `was` is changed. NULL: out of memory. Checks nothing:
 * pool_def_read() does.
 */
json_t *pool_endpoints_merge(json_t *was, const json_t *list, bool is_key);

/* `value` without its addresses and keys, for those who may know that a pool changed; a new reference; NULL: out of memory. */
json_t *pool_def_redacted(const json_t *value);
