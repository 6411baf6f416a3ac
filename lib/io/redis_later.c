#include "io/redis_later.h"

#include <stdlib.h>

struct redis_later_entry {
	struct redis_later_entry *next;
	kova_status status;
	redis_store_reply *on_reply;
	void *data;
};

void redis_later_init(struct redis_later *later, uv_loop_t *loop)
{
	uv_idle_init(loop, &later->turn);
	later->turn.data = later;
	later->first = NULL;
	later->end = &later->first;
}

static void answer_all(struct redis_later_entry *entry, bool closed)
{
	while (entry != NULL) {
		struct redis_later_entry *next = entry->next;

		entry->on_reply(closed ? KOVA_ECLOSED : entry->status, NULL, entry->data);
		free(entry);
		entry = next;
	}
}

/* Takes the list first: a callback may add to it, or close us. */
static struct redis_later_entry *take_all(struct redis_later *later)
{
	struct redis_later_entry *first = later->first;

	later->first = NULL;
	later->end = &later->first;
	return first;
}

static void on_turn(uv_idle_t *turn)
{
	uv_idle_stop(turn);
	answer_all(take_all(turn->data), false);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct redis_later *later = handle->data;

	if (later->on_closed != NULL)
		later->on_closed(later->data);
}

void redis_later_close(struct redis_later *later, void (*on_closed)(void *data), void *data)
{
	later->on_closed = on_closed;
	later->data = data;
	uv_close((uv_handle_t *)&later->turn, on_handle_closed);
	answer_all(take_all(later), true);
}

void redis_later_add(struct redis_later *later, kova_status status, redis_store_reply *on_reply,
		     void *data)
{
	struct redis_later_entry *entry = malloc(sizeof(*entry));

	if (entry == NULL) {
		on_reply(KOVA_ENOMEM, NULL, data);
		return;
	}
	*entry = (struct redis_later_entry){.status = status, .on_reply = on_reply, .data = data};
	*later->end = entry;
	later->end = &entry->next;
	uv_idle_start(&later->turn, on_turn);
}
