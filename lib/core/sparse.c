#include "core/sparse.h"

#include <stdbool.h>
#include <string.h>

static bool is_zero(const uint64_t group[static SPARSE_GROUP_WORDS])
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SPARSE_GROUP_WORDS; i++)
		any |= group[i];
	return any == 0;
}

size_t sparse_pack(const void *bytes, size_t len, uint64_t *ret_packed)
{
	uint64_t group[SPARSE_GROUP_WORDS];
	uint64_t *at = ret_packed;

	for (size_t done = 0; done < len; done += SPARSE_GROUP_BYTES) {
		uint64_t *bitmap = at++;

		*bitmap = 0;
		memcpy(group, (const char *)bytes + done, sizeof group);
		if (is_zero(group))
			continue;
		for (unsigned i = 0; i < SPARSE_GROUP_WORDS; i++)
			if (group[i] != 0) {
				*bitmap |= (uint64_t)1 << i;
				*at++ = group[i];
			}
	}
	return (size_t)(at - ret_packed);
}

void sparse_unpack(const uint64_t *packed, void *zeros, size_t len)
{
	for (size_t at = 0; at < len; at += SPARSE_GROUP_BYTES) {
		uint64_t bitmap = *packed++;

		for (unsigned i = 0; bitmap != 0; i++, bitmap >>= 1)
			if ((bitmap & 1) != 0)
				memcpy((char *)zeros + at + i * sizeof *packed, packed++,
				       sizeof *packed);
	}
}
