/* Reading and writing numbers of the decide script's wire format: little endian, unaligned. Inside of script*.c only. */
#pragma once

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "core/bytes.h"
#include "core/limit.h"

enum {
	SCRIPT_LIMIT_BYTES = 1 + 5 * 8, /* of a limit in the program */
	SHARED_BUCKET = 6,              /* where others have their enum algorithm */
};

static inline uint64_t get_u64(const char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | (unsigned char)p[i];
	return v;
}

static inline double get_double(const char *p)
{
	uint64_t bits = get_u64(p);
	double v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

static inline unsigned get_u16(const char *p)
{
	return (unsigned char)p[0] | (unsigned)(unsigned char)p[1] << 8;
}

static inline uint32_t get_u32(const char *p)
{
	return get_u16(p) | (uint32_t)get_u16(p + 2) << 16;
}

static inline char *put_u8(char *p, unsigned v)
{
	*p = (char)v;
	return p + 1;
}

static inline char *put_u16(char *p, unsigned v)
{
	return put_u8(put_u8(p, v & 255), v >> 8 & 255);
}

static inline char *put_u32(char *p, uint32_t v)
{
	return put_u16(put_u16(p, v & 65535), v >> 16);
}

static inline char *put_u64(char *p, uint64_t v)
{
	return put_u32(put_u32(p, (uint32_t)(v & UINT32_MAX)), (uint32_t)(v >> 32));
}

static inline char *put_double(char *p, double v)
{
	uint64_t bits;

	static_assert(sizeof bits == sizeof v, "IEEE 754 binary64");
	memcpy(&bits, &v, sizeof bits);
	return put_u64(p, bits);
}

static inline char *put_number(char *p, uint64_t v)
{
	assert(v <= LIMIT_FOREVER_US);
	return put_double(p, (double)v);
}

static inline char *put_slice(char *p, struct slice s)
{
	if (s.len != 0)
		memcpy(p, s.ptr, s.len);
	return p + s.len;
}
