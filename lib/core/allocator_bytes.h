/*
 * An allocator in few bytes, for there may be a million of them: it is worked upon in one struct, and kept so. Numbers of as many bytes
 * as they need; of times the difference to the region before, for all report at about the same time.
 */
#pragma once

#include "core/allocator.h"
#include "core/bytes.h"
#include "core/varint.h"

/* What an allocator of n regions takes at most; of a rate that three regions use, about 100 bytes in all. */
enum { ALLOCATOR_FIELDS = 13 };
#define ALLOCATOR_PACKED_MAX(n) ((3 + ALLOCATOR_FIELDS * (size_t)(n)) * VARINT_BYTES_MAX)

/* `to` has ALLOCATOR_PACKED_MAX(n_regions) bytes. Returns how many were written. */
size_t allocator_pack(const struct allocator *a, unsigned n_regions, unsigned char *to);

/* From the bytes of one of as many regions. */
void allocator_unpack(struct allocator *ret_a, unsigned n_regions, struct slice bytes);
