/* The clocks that kovactl reads. */
#pragma once

#include <stdint.h>

uint64_t now_monotonic_us(void);
int64_t now_wall_ms(void);      /* since the epoch */
void now_sleep_ms(uint64_t ms); /* shorter when a signal is caught */
