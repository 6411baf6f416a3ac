/* Reading numbers of the decide script's wire format: little endian, unaligned. Inside of script*.c only. */
#pragma once

#include <stdint.h>
#include <string.h>

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
