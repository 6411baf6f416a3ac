#include "core/intern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { ROOM_MIN = 16 };

struct intern_string {
	uint32_t uses, len;
	char bytes[];
};

void intern_release(struct intern *in)
{
	for (uint32_t i = 0; i < in->n; i++)
		free(in->at[i]);
	free(in->at);
	free(in->heads);
	free(in->next);
	*in = (struct intern){0};
}

struct slice intern_string(const struct intern *in, uint32_t number)
{
	return (struct slice){in->at[number]->bytes, in->at[number]->len};
}

static uint32_t *head_of(const struct intern *in, struct slice s)
{
	return &in->heads[hash_bytes(s, in->room) & (in->room - 1)];
}

uint32_t intern_find(const struct intern *in, struct slice s)
{
	uint32_t i = in->room > 0 ? *head_of(in, s) : 0;

	while (i > 0 && !slice_equal(intern_string(in, i - 1), s))
		i = in->next[i - 1];
	return i - 1;
}

static void chain(struct intern *in, uint32_t number)
{
	uint32_t *head = head_of(in, intern_string(in, number));

	in->next[number] = *head;
	*head = number + 1;
}

static bool grow(struct intern *in)
{
	uint32_t room = in->room > 0 ? 2 * in->room : ROOM_MIN;
	struct intern_string **at = realloc(in->at, room * sizeof(*at));
	uint32_t *next = realloc(in->next, room * sizeof *next);
	uint32_t *heads = calloc(room, sizeof *heads);

	if (at != NULL)
		in->at = at;
	if (next != NULL)
		in->next = next;
	if (at == NULL || next == NULL || heads == NULL) {
		free(heads);
		return false;
	}
	free(in->heads);
	in->heads = heads;
	in->room = room;
	for (uint32_t i = 0; i < in->n; i++)
		chain(in, i);
	return true;
}

/* Where none is free all are in use, and each may be chained anew. */
static kova_status add(struct intern *in, struct slice s, uint32_t *ret_number)
{
	struct intern_string *string;

	if (in->free == 0 && in->n == in->room && !grow(in))
		return KOVA_ENOMEM;
	string = malloc(sizeof *string + s.len);
	if (string == NULL)
		return KOVA_ENOMEM;
	*string = (struct intern_string){.uses = 1, .len = (uint32_t)s.len};
	if (s.len > 0)
		memcpy(string->bytes, s.ptr, s.len);
	*ret_number = in->free > 0 ? in->free - 1 : in->n++;
	if (in->free > 0)
		in->free = in->next[*ret_number];
	in->at[*ret_number] = string;
	chain(in, *ret_number);
	return KOVA_OK;
}

kova_status intern_use(struct intern *in, struct slice s, uint32_t *ret_number)
{
	uint32_t number = intern_find(in, s);

	if (number == UINT32_MAX)
		return add(in, s, ret_number);
	in->at[number]->uses++;
	*ret_number = number;
	return KOVA_OK;
}

void intern_drop(struct intern *in, uint32_t number)
{
	uint32_t *link;

	assert(number < in->n && in->at[number] != NULL);
	if (--in->at[number]->uses > 0)
		return;
	link = head_of(in, intern_string(in, number));
	while (*link != number + 1)
		link = &in->next[*link - 1];
	*link = in->next[number];
	free(in->at[number]);
	in->at[number] = NULL;
	in->next[number] = in->free;
	in->free = number + 1;
}
