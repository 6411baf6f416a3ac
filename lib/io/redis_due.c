#include "io/redis_due.h"

void redis_due_init(struct redis_due *list)
{
	list->prev = list->next = list;
}

/* From the end: most calls have the latest deadline. */
void redis_due_add(struct redis_due *list, struct redis_due *node)
{
	struct redis_due *after = list->prev;

	while (after != list && after->deadline_ms > node->deadline_ms)
		after = after->prev;
	node->prev = after;
	node->next = after->next;
	after->next->prev = node;
	after->next = node;
}

void redis_due_remove(struct redis_due *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->prev = node->next = NULL;
}
