/* Changes of what is known that are no writes: a write that is withdrawn, deletions that are forgotten. */
#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "control/control_own.h"
#include "io/atomic_file.h"

struct amendment {
	/* What takes the place of `item`, with a reference; NULL: nothing, or (*ret_ok false) memory is out. */
	struct control_item *(*of)(struct control_item *item, const struct amendment *a,
				   bool *ret_ok);
	struct slice id;
	uint64_t version;
	uint64_t now_ms;
};

static struct control_state *amended(const struct control_state *base, const struct amendment *a)
{
	struct control_state *s = control_state_new(base->n_items);
	bool ok = s != NULL;

	if (ok)
		s->file_loaded = base->file_loaded;
	for (size_t i = 0; ok && i < base->n_items; i++) {
		struct control_item *item = a->of(base->items[i], a, &ok);

		if (item != NULL)
			ok = control_state_put(s, item) == KOVA_OK;
	}
	if (ok && control_state_finish(s) == KOVA_OK)
		return s;
	control_state_unref(s);
	return NULL;
}

/* The newest stamp that is left: those above are void. */
static uint64_t newest(const struct control_state *s)
{
	uint64_t last = 0;

	for (size_t i = 0; i < s->n_items; i++)
		if (s->items[i]->version > last)
			last = s->items[i]->version;
	return last;
}

static kova_status amend(struct control *c, const struct amendment *a, bool clock_back,
			 struct control_error *ret_error)
{
	struct control_load load = {.base = c->state,
				    .path = c->store.path,
				    .clock = c->clock,
				    .next = amended(c->state, a),
				    .made = true,
				    .changed = true};

	assert(!c->reloading && !c->is_replica);
	if (load.next == NULL) {
		snprintf(ret_error->text, sizeof ret_error->text, "%s",
			 kova_status_text(KOVA_ENOMEM));
		return KOVA_ENOMEM;
	}
	if (clock_back)
		load.clock.last = newest(load.next);
	kova_status status = control_load_run(&load);

	if (status == KOVA_OK)
		status = control_load_commit(c, &load);
	if (status != KOVA_OK)
		*ret_error = load.error;
	control_load_release(&load);
	return status;
}

/* ---- A write that is withdrawn ---- */

static struct control_item *withdrawn(struct control_item *item, const struct amendment *a,
				      bool *ret_ok)
{
	if (!slice_equal(item->id, a->id))
		return control_item_ref(item);
	if (control_item_is_deleted(item))
		return NULL;
	struct control_item_parts parts = control_item_parts(item);

	parts.version = 0;
	parts.writer = (struct slice){0};
	struct control_item *first = control_item_new(&parts);

	*ret_ok = first != NULL;
	return first;
}

kova_status control_withdraw(struct control *c, struct slice id, uint64_t version,
			     struct control_error *ret_error)
{
	const struct control_item *known = control_state_find(c->state, id);
	const struct amendment a = {.of = withdrawn, .id = id};

	if (known == NULL || known->version != version)
		return KOVA_OK;
	return amend(c, &a, true, ret_error);
}

/* ---- Old deletions ---- */

static struct control_item *kept(struct control_item *item, const struct amendment *a, bool *ret_ok)
{
	(void)ret_ok;
	return control_item_is_old_deletion(item, a->now_ms) ? NULL : control_item_ref(item);
}

kova_status control_forget_old(struct control *c, struct control_error *ret_error)
{
	struct timespec now;
	struct amendment a = {.of = kept};
	size_t n = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	a.now_ms = (uint64_t)now.tv_sec * 1000;
	for (size_t i = 0; i < c->state->n_items; i++)
		n += control_item_is_old_deletion(c->state->items[i], a.now_ms);
	return n > 0 ? amend(c, &a, false, ret_error) : KOVA_OK;
}
