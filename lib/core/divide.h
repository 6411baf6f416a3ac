/* Division of whole numbers that says which way it rounds. */
#pragma once

#include <stdint.h>

/* Ceiling of a / b, for b > 0; cannot overflow. */
static inline uint64_t divide_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* Floor of a / b, for b > 0. */
static inline int64_t divide_down(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Of a and 0 it is a. */
static inline uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}
