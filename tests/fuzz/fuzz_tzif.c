/* Any bytes as a time zone's file: refused, or it has an offset at every instant, and the same when asked again. */
#include <assert.h>

#include "core/tzif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INSTANTS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tzif tz;
	const int64_t first_s = -5000000000, step_s = 177177177; /* 1811 to 2170, any time of day */

	if (tzif_parse((struct slice){(const char *)data, size}, &tz) != KOVA_OK)
		return 0;
	for (int i = 0; i < INSTANTS; i++) {
		int64_t at_s = first_s + i * step_s;
		int32_t offset_s = tzif_offset_s(&tz, at_s);

		assert(tzif_offset_s(&tz, at_s) == offset_s);
	}
	return 0;
}
