/* The last texts of many, bounded in number and in bytes: a ring that forgets the oldest. The last one stays, however long it is. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/status.h"

struct recent {
	struct buf *texts; /* owned; of `max` */
	size_t max, max_bytes;
	size_t bytes;
	uint64_t first; /* the number of the oldest that is there */
	uint64_t n;     /* that were added: the newest has the number n − 1 */
};

/* False: out of memory. */
KOVA_MUST_CHECK bool recent_init(struct recent *r, size_t max, size_t max_bytes);
void recent_release(struct recent *r);

/* Takes what `text` has, which is empty afterwards. */
void recent_add(struct recent *r, struct buf *text);
void recent_clear(struct recent *r);

/* Appends those with the number `since` or more that are still there, the oldest first, as a JSON array: each is JSON. */
void recent_write(const struct recent *r, uint64_t since, struct buf *out);
