/*
 * A block is: policy, length of the root, root, then its parts, each as: 2 · (number + 1) + its mark, length, bytes; a 0 behind the last.
 * Where a part's length stays, and that is mostly so, nothing moves.
 */
#include "keys.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/varint.h"

enum { SLOTS_MIN = 64, ROOM_MIN = 32, HEAD_MAX = 2 * VARINT_BYTES_MAX };

#define MARK 1u
#define OTHER 0x8000u

struct keys_block {
	uint32_t policy;
	uint16_t root_len; /* and OTHER */
	unsigned char bytes[];
};

/* Another partition's table must not have this one's order. */
static const uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

void keys_release(struct keys *k)
{
	packed_heap_release(&k->heap);
	free(k->at);
	free(k->slots);
	intern_release(&k->policies);
	*k = (struct keys){0};
}

/* ---- Policies ---- */

kova_status keys_policy(struct keys *k, struct slice name, uint32_t *ret_policy)
{
	*ret_policy = intern_find(&k->policies, name);
	return *ret_policy != UINT32_MAX ? KOVA_OK : intern_use(&k->policies, name, ret_policy);
}

uint32_t keys_policy_find(const struct keys *k, struct slice name)
{
	return intern_find(&k->policies, name);
}

struct slice keys_policy_name(const struct keys *k, uint32_t policy)
{
	return intern_string(&k->policies, policy);
}

/* ---- Keys ---- */

static size_t root_len(const struct keys_block *b)
{
	return b->root_len & ~OTHER;
}

static struct keys_name name_of(const struct keys_block *b)
{
	return (struct keys_name){
		b->policy, {(const char *)b->bytes, root_len(b)}, (b->root_len & OTHER) != 0};
}

struct keys_name keys_name(const struct keys *k, uint32_t key)
{
	return name_of(k->at[key]);
}

/* The slot of the key, or the free one where it belongs: there are always some. */
static uint32_t slot_of(const struct keys *k, const struct keys_name *name)
{
	uint64_t hash =
		hash_bytes(name->root, hash_mix(seed + 2 * (uint64_t)name->policy + name->other));
	uint32_t i = (uint32_t)((hash >> 32) * k->n_slots >> 32);

	for (; k->slots[i] != 0; i = i + 1 < k->n_slots ? i + 1 : 0) {
		const struct keys_name is = name_of(k->at[k->slots[i] - 1]);

		if (is.policy == name->policy && is.other == name->other &&
		    slice_equal(is.root, name->root))
			break;
	}
	return i;
}

/* By half, not to twice as many: these are most of the memory that nothing is in. */
static bool slots_grow(struct keys *k)
{
	uint32_t n = k->n_slots > 0 ? k->n_slots + k->n_slots / 2 : SLOTS_MIN;
	uint32_t *slots = calloc(n, sizeof *slots);

	if (slots == NULL)
		return false;
	free(k->slots);
	k->slots = slots;
	k->n_slots = n;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct keys_name name = name_of(k->at[i]);

		slots[slot_of(k, &name)] = i + 1;
	}
	return true;
}

static bool has_room(struct keys *k)
{
	uint32_t room = k->room > 0 ? k->room + k->room / 2 : ROOM_MIN;
	struct keys_block **at;

	if (5 * ((uint64_t)k->n + 1) > 4 * (uint64_t)k->n_slots && !slots_grow(k))
		return false;
	if (k->n < k->room)
		return true;
	at = realloc(k->at, room * sizeof(*at));
	if (at == NULL)
		return false;
	k->at = at;
	k->room = room;
	return true;
}

static struct keys_block *block_new(struct keys *k, const struct keys_name *name)
{
	struct keys_block *b =
		packed_heap_new(&k->heap, offsetof(struct keys_block, bytes) + name->root.len + 1);

	assert(name->root.len <= KEYS_ROOT_MAX);
	if (b == NULL)
		return NULL;
	b->policy = name->policy;
	b->root_len = (uint16_t)(name->root.len | (name->other ? OTHER : 0));
	if (name->root.len > 0)
		memcpy(b->bytes, name->root.ptr, name->root.len);
	b->bytes[name->root.len] = 0;
	return b;
}

uint32_t keys_find(const struct keys *k, const struct keys_name *name)
{
	return k->n_slots > 0 ? k->slots[slot_of(k, name)] - 1 : UINT32_MAX;
}

kova_status keys_make(struct keys *k, const struct keys_name *name, uint32_t *ret_key)
{
	uint32_t key = keys_find(k, name);

	if (key == UINT32_MAX) {
		struct keys_block *b = has_room(k) ? block_new(k, name) : NULL;

		if (b == NULL)
			return KOVA_ENOMEM;
		key = k->n++;
		k->at[key] = b;
		k->slots[slot_of(k, name)] = key + 1;
	}
	*ret_key = key;
	return KOVA_OK;
}

/* ---- Memory ---- */

static const unsigned char *end_of_parts(const unsigned char *at);

static size_t bytes_of(const struct keys_block *b)
{
	return (size_t)(end_of_parts(b->bytes + root_len(b)) - (const unsigned char *)b);
}

/* A larger block with the same at its beginning; the one before is free. NULL: it is as it was. */
static struct keys_block *grown(struct keys *k, struct keys_block *b, size_t from, size_t to)
{
	struct keys_block *is;

	if (packed_heap_fits(from, to))
		return b;
	is = packed_heap_new(&k->heap, to);
	if (is == NULL)
		return NULL;
	memcpy(is, b, from);
	packed_heap_free(&k->heap, b, from);
	return is;
}

/* Out of memory: it stays as it is. */
static void tidy(struct keys *k)
{
	if (!packed_heap_is_sparse(&k->heap))
		return;
	for (uint32_t i = 0; i < k->n; i++) {
		struct keys_block *b = k->at[i], *is;
		size_t bytes;

		if (!packed_heap_is_in_sparse_page(&k->heap, b))
			continue;
		bytes = bytes_of(b);
		is = packed_heap_new(&k->heap, bytes);
		if (is == NULL)
			return;
		memcpy(is, b, bytes);
		packed_heap_free(&k->heap, b, bytes);
		k->at[i] = is;
	}
}

/* ---- Parts ---- */

/* Where a part is: from its head to behind its bytes. */
struct place {
	unsigned char *begin, *end;
};

static unsigned char *first_part(const struct keys *k, uint32_t key)
{
	struct keys_block *b = k->at[key];

	return b->bytes + root_len(b);
}

/* The part at `at`, which becomes what is behind it. False: there is none. */
static bool part_read(const unsigned char **at, struct keys_part *ret_part)
{
	uint64_t head = varint_read(at);

	if (head == 0)
		return false;
	ret_part->number = (uint32_t)(head >> 1) - 1;
	ret_part->marked = (head & MARK) != 0;
	ret_part->bytes.len = varint_read(at);
	ret_part->bytes.ptr = (const char *)*at;
	*at += ret_part->bytes.len;
	return true;
}

bool keys_part_at(const struct keys *k, uint32_t key, unsigned i, struct keys_part *ret_part)
{
	const unsigned char *at = first_part(k, key);

	while (part_read(&at, ret_part))
		if (i-- == 0)
			return true;
	return false;
}

/* Where the part is; both ends are where the parts end, if there is none. */
static struct place place_of(const struct keys *k, uint32_t key, uint32_t number,
			     struct keys_part *ret_part)
{
	unsigned char *begin = first_part(k, key);
	const unsigned char *at = begin;

	while (part_read(&at, ret_part)) {
		unsigned char *end = begin + (at - begin);

		if (ret_part->number == number)
			return (struct place){begin, end};
		begin = end;
	}
	return (struct place){begin, begin};
}

bool keys_part(const struct keys *k, uint32_t key, uint32_t number, struct keys_part *ret_part)
{
	struct place place = place_of(k, key, number, ret_part);

	return place.begin < place.end;
}

static const unsigned char *end_of_parts(const unsigned char *at)
{
	struct keys_part part;

	while (part_read(&at, &part))
		;
	return at;
}

/* The place gets other bytes, and what is behind it moves. */
static kova_status replace(struct keys *k, uint32_t key, struct place place, struct slice head,
			   struct slice bytes)
{
	struct keys_block *b = k->at[key];
	size_t from = (size_t)(place.begin - (unsigned char *)b),
	       to = (size_t)(place.end - (unsigned char *)b);
	size_t was = bytes_of(b), is = was - (to - from) + head.len + bytes.len;
	unsigned char *at;

	if (is > was)
		b = grown(k, b, was, is);
	if (b == NULL)
		return KOVA_ENOMEM;
	at = (unsigned char *)b + from;
	if (is != was)
		memmove(at + head.len + bytes.len, (unsigned char *)b + to, was - to);
	if (head.len > 0)
		memcpy(at, head.ptr, head.len);
	if (bytes.len > 0)
		memcpy(at + head.len, bytes.ptr, bytes.len);
	if (is < was)
		packed_heap_shrink(&k->heap, b, was, is);
	k->at[key] = b;
	return KOVA_OK;
}

kova_status keys_set(struct keys *k, uint32_t key, const struct keys_part *part)
{
	struct keys_part was;
	struct place place = place_of(k, key, part->number, &was);
	unsigned char head[HEAD_MAX];
	size_t n = varint_write(head, 2 * ((uint64_t)part->number + 1) + part->marked);

	assert(part->number < KEYS_PART_MAX);
	n += varint_write(head + n, part->bytes.len);
	if (replace(k, key, place, (struct slice){(const char *)head, n}, part->bytes) != KOVA_OK)
		return KOVA_ENOMEM;
	tidy(k);
	return KOVA_OK;
}

void keys_mark(struct keys *k, uint32_t key, uint32_t number, bool marked)
{
	struct keys_part part;
	struct place place = place_of(k, key, number, &part);

	assert(place.begin < place.end);
	*place.begin = (unsigned char)((*place.begin & ~MARK) | marked);
}

void keys_drop(struct keys *k, uint32_t key, uint32_t number)
{
	const struct slice nothing = {NULL, 0};
	struct keys_part part;
	struct place place = place_of(k, key, number, &part);

	if (place.begin == place.end)
		return;
	kova_status status = replace(k, key, place, nothing, nothing);

	assert(status == KOVA_OK); /* a block that loses some stays where it is */
	tidy(k);
}
