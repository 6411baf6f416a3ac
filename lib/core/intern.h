/* Strings of bytes under small numbers: each is there once, for as long as it is used. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

struct intern_string;

/* All zeros: empty. Owned: intern_release(). */
struct intern {
	struct intern_string **at; /* by number; NULL: it is free */
	uint32_t *heads;           /* by hash: number + 1 of the first of a chain; 0: none */
	uint32_t n, room; /* numbers that were in use at once; as many as there are heads */
	uint32_t free;    /* number + 1 of the first that is free; 0: none */
	uint32_t *next;   /* by number: as in `heads`, and of those that are free */
};

void intern_release(struct intern *in);

/* The number of `s`, which is used once more. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status intern_use(struct intern *in, struct slice s, uint32_t *ret_number);

/* Once less. At none the number is free, and may be another string's. */
void intern_drop(struct intern *in, uint32_t number);

/* UINT32_MAX: `s` is not there. */
uint32_t intern_find(const struct intern *in, struct slice s);

/* Of a number that is in use. Borrowed for as long as it is. */
struct slice intern_string(const struct intern *in, uint32_t number);
