/* Small seeded random numbers for property tests: the seed is in the failure's message. */
#pragma once

#include <stdint.h>

struct dice {
	uint64_t state;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t dice_next(struct dice *d)
{
	uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0..n-1 */
static inline uint64_t dice_below(struct dice *d, uint64_t n)
{
	return dice_next(d) % n;
}
