/*
 * Any bytes as a Retry-After, as an instant and as a length of time: refused with the result untouched, or read within its
 * range; what is read, written and read again is the same.
 */
#include <assert.h>
#include <string.h>

#include "core/duration.h"
#include "core/retry_after.h"
#include "core/rfc3339.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_retry_after(struct slice text)
{
	static const uint64_t nows_us[] = {0, 784111777000000, 1796036573654321,
					   253402300799999999};

	for (size_t i = 0; i < sizeof nows_us / sizeof *nows_us; i++) {
		uint64_t us = 42;

		if (retry_after_parse(text, nows_us[i], &us) == KOVA_OK)
			assert(us <= RETRY_AFTER_MAX_US);
		else
			assert(us == 42);
	}
}

static void check_instant(struct slice text)
{
	char written[RFC3339_TEXT_MAX];
	int64_t ms = 42, again;

	if (!rfc3339_parse(text, &ms)) {
		assert(ms == 42);
		return;
	}
	rfc3339_write(ms, written);
	if (ms >= -62167219200000 && ms <= 253402300799999) /* the years 0 to 9999 in UTC too */
		assert(rfc3339_parse(slice_of(written), &again) && again == ms);
}

static void check_duration(struct slice text)
{
	char written[DURATION_TEXT_MAX];
	uint64_t ms = 42, again;

	if (duration_parse(text, &ms) != KOVA_OK) {
		assert(ms == 42);
		return;
	}
	assert(ms <= INT64_MAX);
	duration_write(ms, written);
	kova_status status = duration_parse(slice_of(written), &again);
	assert(status == KOVA_OK && again == ms);
	duration_write_rounded(ms, written);
	assert(written[0] >= '0' && written[0] <= '9');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};

	check_retry_after(text);
	check_instant(text);
	check_duration(text);
	return 0;
}
