/* What an algorithm answers when `cost` is asked of a limit: the same figures as the script's (core/script.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct limiter_verdict {
	bool allowed;
	uint64_t remaining; /* whole units, after this */
	int64_t wait_us; /* refused: until it fits, -1 never; allowed: until one more is there, 0 when full */
	uint64_t reset_us; /* until full again */
};

#define VERDICT_NEVER INT64_C(-1)

/* While the clock is doubted nobody knows when; asked again sooner than in 100 ms, it would be the same. */
static inline int64_t verdict_later_us(int64_t wait_us, bool doubted)
{
	return doubted && wait_us < 100000 ? 100000 : wait_us;
}
