/*
 * A tally's roots are here paths, behind one byte: at which level they end. For the last level takes the rest of a key, so that a path does
 * not say how many parts its parent has.
 */
#include "usage_children.h"

#include <assert.h>
#include <inttypes.h>
#include <kova_children.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyspace.h"
#include "io/clock.h"

#define CHILDREN_SCHEMA "kova.children.v1"

enum { SENT_A_TURN = 64, HLC_TEXT_MAX = 24 };

struct usage_children {
	struct kafka_producer *producer;
	struct hlc *hlc;
	struct usage_source source;
	struct tally *sums;
	uint64_t due_ms;
	bool sending;
	struct buf value;
};

static void add_child(struct tally *t, struct slice policy, unsigned level, struct slice path,
		      const struct tally_counts *counts)
{
	char name[1 + REQUEST_KEY_MAX];

	assert(path.len <= REQUEST_KEY_MAX);
	name[0] = (char)level;
	memcpy(name + 1, path.ptr, path.len);
	const struct tally_key key = {.policy = policy, .root = {name, 1 + path.len}};

	(void)!tally_add(t, &key, counts, 0);
}

void usage_children_add(struct tally *t, const struct catalogue *catalogue, struct slice policy,
			struct slice key, uint64_t admitted)
{
	const struct policy *p = catalogue_policy(catalogue, policy);
	const struct tally_counts counts = {.admitted = admitted};
	struct slice path;

	if (p == NULL || !p->weighs_history || admitted == 0)
		return;
	for (unsigned i = 1; i < p->n_levels && keyspace_path(key, i, p->n_levels, &path); i++)
		if (p->levels[i].weight > 0)
			add_child(t, policy, i, path, &counts);
}

/* The parent has as many parts as there are levels before the child's. */
void usage_children_split(const struct tally_key *key, struct slice *ret_parent,
			  struct slice *ret_child)
{
	struct slice path = slice_after(key->root, 1);
	size_t at = 0;

	for (int level = key->root.ptr[0]; level > 0; level--) {
		at += level < key->root.ptr[0]; /* the '/' before this part */
		at += slice_index(slice_after(path, at), '/');
	}
	*ret_parent = (struct slice){path.ptr, at};
	*ret_child = slice_after(path, at + 1);
}

struct usage_children *usage_children_new(struct kafka_producer *producer, struct hlc *hlc,
					  const struct usage_source *source)
{
	struct usage_children *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	*c = (struct usage_children){.producer = producer,
				     .hlc = hlc,
				     .source = *source,
				     .sums = tally_new(USAGE_CHILDREN)};
	if (c->sums != NULL)
		return c;
	free(c);
	return NULL;
}

void usage_children_free(struct usage_children *c)
{
	if (c == NULL)
		return;
	tally_free(c->sums);
	buf_release(&c->value);
	free(c);
}

void usage_children_take(struct usage_children *c, struct tally *from)
{
	struct tally_key key;
	struct tally_counts counts;

	while (tally_take(from, &key, &counts))
		if (!key.other)
			(void)!tally_add(c->sums, &key, &counts, 0);
}

/* ---- Sending ---- */

static ProtobufCBinaryData bytes_of(struct slice s)
{
	return (ProtobufCBinaryData){s.len, (uint8_t *)(uintptr_t)s.ptr};
}

static void write_value(struct usage_children *c, const struct tally_key *key, uint64_t admitted,
			uint64_t hlc)
{
	Kova__V1__ChildUsage m = KOVA__V1__CHILD_USAGE__INIT;
	char policy[NAME_BYTES_MAX + 1] = "";
	struct slice parent, child;

	usage_children_split(key, &parent, &child);
	memcpy(policy, key->policy.ptr, key->policy.len);
	m.region = (char *)(uintptr_t)c->source.region;
	m.agent = (char *)(uintptr_t)c->source.agent;
	m.policy = policy;
	m.parent = bytes_of(parent);
	m.child = bytes_of(child);
	m.hlc = hlc;
	m.admitted = admitted;
	buf_clear(&c->value);
	if (buf_reserve(&c->value, kova__v1__child_usage__get_packed_size(&m)) != NULL)
		c->value.len = kova__v1__child_usage__pack(&m, (uint8_t *)c->value.ptr);
}

/* What can't be produced now is not told. */
static void produce(struct usage_children *c, const struct tally_key *key, uint64_t admitted)
{
	const struct slice root = keyspace_root(slice_after(key->root, 1));
	uint64_t hlc = hlc_now(c->hlc, clock_read().wall_us / 1000);
	char text[NAME_BYTES_MAX + 1 + REQUEST_KEY_MAX], hlc_text[HLC_TEXT_MAX];
	int hlc_len = snprintf(hlc_text, sizeof hlc_text, "%" PRIu64, hlc);
	const struct kafka_header headers[] = {
		{"schema", SLICE(CHILDREN_SCHEMA)},
		{"region", slice_of(c->source.region)},
		{"agent", slice_of(c->source.agent)},
		{"hlc", {hlc_text, (size_t)hlc_len}},
	};

	memcpy(text, key->policy.ptr, key->policy.len);
	text[key->policy.len] = '/';
	if (root.len > 0)
		memcpy(text + key->policy.len + 1, root.ptr, root.len);
	write_value(c, key, admitted, hlc);
	if (buf_failed(&c->value))
		return;
	const struct kafka_record record = {.topic = USAGE_TOPIC,
					    .key = {text, key->policy.len + 1 + root.len},
					    .value = buf_slice(&c->value),
					    .headers = headers,
					    .n_headers = sizeof headers / sizeof headers[0],
					    .opaque = c};

	(void)!kafka_produce(c->producer, &record);
}

bool usage_children_send(struct usage_children *c, uint64_t now_ms)
{
	struct tally_key key;
	struct tally_counts counts;

	if (!c->sending && now_ms < c->due_ms)
		return false;
	if (!c->sending)
		c->due_ms = now_ms + USAGE_CHILDREN_MS;
	c->sending = true;
	for (unsigned n = 0; n < SENT_A_TURN; n++) {
		c->sending = tally_take(c->sums, &key, &counts);
		if (!c->sending)
			return false;
		if (!key.other)
			produce(c, &key, counts.admitted);
	}
	return true;
}

bool usage_children_delivered(const struct usage_children *c, const void *opaque)
{
	return opaque == c;
}
