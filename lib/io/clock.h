/* Reading the clocks. */
#pragma once

#include "core/clock_offset.h"

/*
 * The wall clock and CLOCK_BOOTTIME, one right after the other. If the kernel has no CLOCK_BOOTTIME it is UINT64_MAX / 2:
 * whatever ends by it has ended.
 */
struct clock_reading clock_read(void);
