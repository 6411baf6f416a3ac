/*
 * Calls by when their time is up. An intrusive list: a node is the first member of what it stands for, in memory of
 * its user.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_due {
	struct redis_due *prev, *next; /* NULL: in no list */
	uint64_t deadline_ms;
};

/* `list`: the head of a list, here of none. */
void redis_due_init(struct redis_due *list);

/* By node->deadline_ms; after those with the same. */
void redis_due_add(struct redis_due *list, struct redis_due *node);

void redis_due_remove(struct redis_due *node);

static inline bool redis_due_is_in(const struct redis_due *node)
{
	return node->next != NULL;
}

/* The one that is due next; NULL: none. */
static inline struct redis_due *redis_due_first(const struct redis_due *list)
{
	return list->next != list ? list->next : NULL;
}
