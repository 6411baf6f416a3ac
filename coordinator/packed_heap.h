/*
 * Memory for very many small blocks that live long and now and then need some bytes more: one behind the other in pages, without
 * a head of their own. What blocks leave behind them is not used again, but goes when its page is empty: the owner moves the blocks
 * out of sparse pages when it is time (a log-structured heap: Rumble, Kejriwal, Ousterhout, "Log-structured Memory for DRAM-based
 * Storage", FAST 2014).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct packed_page;

/* All zeros: empty. */
struct packed_heap {
	struct packed_page *pages;   /* a list */
	struct packed_page *current; /* that new blocks go to; NULL: none yet */
	size_t live, lost;           /* bytes of blocks; that blocks have left behind them */
};

void packed_heap_release(struct packed_heap *h);

/* Aligned for 32-bit numbers. NULL: out of memory. */
void *packed_heap_new(struct packed_heap *h, size_t bytes);
/* `bytes` as it was asked for. */
void packed_heap_free(struct packed_heap *h, void *block, size_t bytes);
/* It loses its end. */
void packed_heap_shrink(struct packed_heap *h, void *block, size_t from, size_t to);
/* Whether a block may become one of `to` bytes where it is. */
bool packed_heap_fits(size_t from, size_t to);

/* Whether a sixth or more is lost: then each block that is in a sparse page is to be moved, by a new one and a free. */
bool packed_heap_is_sparse(const struct packed_heap *h);
/* Whether an eighth or more of the block's page is lost. */
bool packed_heap_is_in_sparse_page(const struct packed_heap *h, const void *block);
