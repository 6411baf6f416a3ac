/* Whole numbers in as few bytes as they need, seven bits a byte, the low ones first (LEB128, as in Protocol Buffers). For memory, not for input. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { VARINT_BYTES_MAX = 10 };

/* `to` has VARINT_BYTES_MAX. Returns how many were written. */
static inline size_t varint_write(unsigned char *to, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		to[n++] = (unsigned char)(value | 0x80);
	to[n++] = (unsigned char)value;
	return n;
}

/* What varint_write() wrote at *at, which becomes what is behind it. */
static inline uint64_t varint_read(const unsigned char **at)
{
	uint64_t value = 0;
	unsigned shift = 0;

	for (; **at >= 0x80; ++*at, shift += 7)
		value |= (uint64_t)(**at & 0x7f) << shift;
	value |= (uint64_t) * *at << shift;
	++*at;
	return value;
}
