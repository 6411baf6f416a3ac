/*
 * Answers that must not be given from within the call that asked: they come in the next loop turn.
 */
#pragma once

#include <uv.h>

#include "core/status.h"
#include "io/redis_store.h"

struct redis_later_entry;

/* Owned by its user; part of a larger object. */
struct redis_later {
	uv_idle_t turn;
	struct redis_later_entry *first, **end;
	void (*on_closed)(void *data);
	void *data;
};

void redis_later_init(struct redis_later *later, uv_loop_t *loop);
/* What is left is answered with KOVA_ECLOSED, here. `on_closed` comes when the handle is gone. */
void redis_later_close(struct redis_later *later, void (*on_closed)(void *data), void *data);

/*
 * on_reply(status, NULL, data) in the next turn; when memory is out, with KOVA_ENOMEM and at once.
 */
void redis_later_add(struct redis_later *later, kova_status status, redis_store_reply *on_reply,
		     void *data);
