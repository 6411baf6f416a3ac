/* Memory that is zero but for a little, written down in as much as that little takes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What is packed is a multiple of it: 64 words, of which a bitmap says which are not 0. */
enum { SPARSE_GROUP_WORDS = 64, SPARSE_GROUP_BYTES = SPARSE_GROUP_WORDS * sizeof(uint64_t) };

/* The most words that `len` bytes take when they are packed. */
#define SPARSE_WORDS_MAX(len) ((len) / SPARSE_GROUP_BYTES * (SPARSE_GROUP_WORDS + 1))

/* Writes each group's bitmap, then its words that are not 0, to `ret_packed`; returns how many words in all. */
size_t sparse_pack(const void *bytes, size_t len, uint64_t *ret_packed);

/* Puts back what sparse_pack() found in `len` bytes, into as many that are zero. */
void sparse_unpack(const uint64_t *packed, void *zeros, size_t len);
