#include "control/control_state.h"

#include <assert.h>
#include <stdlib.h>

#include "control/catalogue_build.h"
#include "core/gossip_items.h"
#include "core/hash.h"

struct control_state *control_state_new(size_t room)
{
	struct control_state *s = calloc(1, sizeof *s);
	size_t size = 16;

	if (s == NULL)
		return NULL;
	while (size < room * 2)
		size *= 2;
	atomic_init(&s->refs, 1);
	s->room = size / 2;
	s->mask = size - 1;
	s->items = malloc(s->room * sizeof(struct control_item *));
	s->index = calloc(size, sizeof *s->index);
	if (s->items == NULL || s->index == NULL) {
		control_state_unref(s);
		return NULL;
	}
	return s;
}

struct control_state *control_state_ref(struct control_state *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void control_state_unref(struct control_state *s)
{
	if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < s->n_items; i++)
		control_item_unref(s->items[i]);
	catalogue_unref(s->catalogue);
	free(s->items);
	free(s->index);
	free(s);
}

/* The place of the item of this id in the index, or the empty place where it belongs. */
static uint32_t *place_of(const struct control_state *s, struct slice id, uint64_t hash)
{
	for (size_t i = hash & s->mask;; i = (i + 1) & s->mask) {
		uint32_t at = s->index[i];

		if (at == 0 ||
		    (s->items[at - 1]->id_hash == hash && slice_equal(s->items[at - 1]->id, id)))
			return &s->index[i];
	}
}

struct control_item *control_state_find(const struct control_state *s, struct slice id)
{
	uint32_t at = *place_of(s, id, control_id_hash(id));

	return at != 0 ? s->items[at - 1] : NULL;
}

static bool grow(struct control_state *s)
{
	size_t size = (s->mask + 1) * 2;
	struct control_item **items = realloc(s->items, size / 2 * sizeof(struct control_item *));

	if (items == NULL)
		return false;
	s->items = items;
	uint32_t *index = calloc(size, sizeof *index);

	if (index == NULL)
		return false;
	free(s->index);
	s->index = index;
	s->mask = size - 1;
	s->room = size / 2;
	for (size_t i = 0; i < s->n_items; i++)
		*place_of(s, items[i]->id, items[i]->id_hash) = (uint32_t)i + 1;
	return true;
}

kova_status control_state_put(struct control_state *s, struct control_item *item)
{
	assert(s->catalogue == NULL);
	if (s->n_items == s->room && !grow(s)) {
		control_item_unref(item);
		return KOVA_ENOMEM;
	}
	uint32_t *at = place_of(s, item->id, item->id_hash);

	if (*at != 0) {
		control_item_unref(s->items[*at - 1]);
		s->items[*at - 1] = item;
		return KOVA_OK;
	}
	s->items[s->n_items++] = item;
	*at = (uint32_t)s->n_items;
	return KOVA_OK;
}

kova_status control_state_finish(struct control_state *s)
{
	struct policy_rule **policies = malloc((s->n_items + 1) * sizeof(struct policy_rule *));
	struct override_rule **overrides =
		malloc((s->n_items + 1) * sizeof(struct override_rule *));
	struct pool_def **pools = malloc((s->n_items + 1) * sizeof(struct pool_def *));
	struct weights_rule **weights = malloc((s->n_items + 1) * sizeof(struct weights_rule *));
	size_t n_policies = 0, n_overrides = 0, n_pools = 0, n_weights = 0;

	if (policies != NULL && overrides != NULL && pools != NULL && weights != NULL) {
		for (size_t i = 0; i < s->n_items; i++) {
			if (s->items[i]->policy != NULL)
				policies[n_policies++] = s->items[i]->policy;
			else if (s->items[i]->override != NULL)
				overrides[n_overrides++] = s->items[i]->override;
			else if (s->items[i]->pool != NULL)
				pools[n_pools++] = s->items[i]->pool;
			else if (s->items[i]->weights != NULL)
				weights[n_weights++] = s->items[i]->weights;
		}
		s->catalogue = catalogue_new(policies, n_policies, overrides, n_overrides);
	}
	if (s->catalogue != NULL && (!catalogue_set_pools(s->catalogue, pools, n_pools) ||
				     !catalogue_set_weights(s->catalogue, weights, n_weights))) {
		catalogue_unref(s->catalogue);
		s->catalogue = NULL;
	}
	free(pools);
	free(policies);
	free(overrides);
	free(weights);
	return s->catalogue != NULL ? KOVA_OK : KOVA_ENOMEM;
}

/* A state with the items of `base` that can still be put into. */
static struct control_state *state_copy(const struct control_state *base, size_t more)
{
	struct control_state *s = control_state_new(base->n_items + more);

	if (s == NULL)
		return NULL;
	s->file_loaded = base->file_loaded;
	for (size_t i = 0; i < base->n_items; i++)
		if (control_state_put(s, control_item_ref(base->items[i])) != KOVA_OK) {
			control_state_unref(s);
			return NULL;
		}
	return s;
}

kova_status control_state_with(const struct control_state *base, struct control_item *item,
			       struct control_state **ret_state)
{
	struct control_state *s = state_copy(base, 1);

	if (s == NULL)
		return KOVA_ENOMEM;
	if (control_state_put(s, control_item_ref(item)) != KOVA_OK ||
	    control_state_finish(s) != KOVA_OK) {
		control_state_unref(s);
		return KOVA_ENOMEM;
	}
	*ret_state = s;
	return KOVA_OK;
}

/* `item` as it is put in place of `known` (NULL: nothing is): with what else is known of it. NULL: out of memory. */
static struct control_item *taken(struct control_item *item, const struct control_item *known)
{
	struct control_item_parts parts = control_item_parts(item);

	if (known == NULL || (known->file_hash == 0 && !item->unread))
		return control_item_ref(item);
	parts.file_hash = known->file_hash;
	if (item->unread && !control_item_is_deleted(item)) {
		parts.in_force = known->unread ? known->in_force : known->text;
		parts.policy = known->policy;
		parts.override = known->override;
		parts.pool = known->pool;
		parts.weights = known->weights;
	}
	return control_item_new(&parts);
}

static kova_status take_one(struct control_state *s, struct control_item *item)
{
	const struct control_item *known = control_state_find(s, item->id);
	struct gossip_item said, was;

	control_item_read(item, &said);
	if (known != NULL)
		control_item_read(known, &was);
	if (known != NULL && gossip_item_compare(&said, &was) <= 0)
		return KOVA_OK;
	struct control_item *put = taken(item, known);

	return put != NULL ? control_state_put(s, put) : KOVA_ENOMEM;
}

kova_status control_state_take(const struct control_state *base, struct control_item *const *items,
			       size_t n, struct control_state **ret_state)
{
	struct control_state *s = state_copy(base, n);
	kova_status status = s != NULL ? KOVA_OK : KOVA_ENOMEM;

	for (size_t i = 0; i < n && status == KOVA_OK; i++)
		status = take_one(s, items[i]);
	if (status == KOVA_OK)
		status = control_state_finish(s);
	if (status != KOVA_OK) {
		control_state_unref(s);
		return status;
	}
	*ret_state = s;
	return KOVA_OK;
}
