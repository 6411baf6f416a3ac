/*
 * Any bytes as the body of a datagram, and as a part of a stream: refused, or taken in, and what they bring about is bounded. The
 * first byte says how much later it arrives.
 */
#include <assert.h>

#include "core/gossip_bulk.h"
#include "gossip_fixture.h"

enum { ITEMS = 32, OUTPUTS_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gossip_item *kept[ITEMS];
static unsigned n_kept;

static void keep(struct gossip *g, const struct gossip_item *said)
{
	const void *was;

	assert(said->id.len >= 1 && said->id.len <= GOSSIP_ID_MAX);
	assert(said->value.len <= GOSSIP_VALUE_MAX);
	if (n_kept == ITEMS)
		return;
	kept[n_kept] = fixture_keep(said);
	assert(gossip_put(g, kept[n_kept], true, &was) == KOVA_OK);
	n_kept++;
}

static void look(struct gossip *g, struct gossip_out *out)
{
	unsigned n = 0;

	for (size_t i = 0; i < out->n; i++) {
		struct gossip_output *o = &out->list[i];

		if (o->kind == GOSSIP_SEND) {
			assert(o->len <= GOSSIP_BODY_MAX && o->at + o->len <= out->bytes.len);
			n++;
		} else if (o->kind == GOSSIP_CAME) {
			keep(g, &o->item);
		}
	}
	assert(n <= OUTPUTS_MAX);
	gossip_out_clear(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gossip *g = fixture_node(1, "a");
	struct gossip_out out = {0};
	struct gossip_time now = {0, UINT64_C(1700000000000)};
	struct gossip_item own = {
		.id = SLICE("pown"), .value = SLICE("{}"), .writer = SLICE("a"), .stamp = 5};
	struct gossip_input input = {fixture_address(2), {(const char *)data, size}};

	n_kept = 0;
	keep(g, &own);
	gossip_step(g, now, &input, &out);
	look(g, &out);
	if (size > 0)
		now.mono_ms += (uint64_t)data[size - 1] * 100;
	gossip_step(g, now, &input, &out);
	look(g, &out);
	if (gossip_bulk_read(g, now, input.body, &out) == KOVA_OK)
		look(g, &out);
	gossip_leave(g, now, &out);
	gossip_out_release(&out);
	gossip_free(g);
	for (unsigned i = 0; i < n_kept; i++)
		free(kept[i]);
	return 0;
}
