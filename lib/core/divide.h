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
