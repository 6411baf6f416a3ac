/*
 * Any bytes as what Envoy's rate limit quota filter reports: what was counted is found, an id is in order, its name says it
 * back, and an action for it is as long as it says.
 */
#include <assert.h>
#include <stdint.h>

#include "core/rlqs_action.h"
#include "core/rlqs_report.h"
#include "core/rls_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Domain, and each entry's key and value. */
static void check_name(struct slice domain, const struct rlqs_id *id)
{
	struct buf name = {0};
	struct slice rest, text;

	rlqs_id_write(&name, domain, id);
	rest = buf_slice(&name);
	assert(rls_name_next(&rest, &text) && slice_equal(text, domain));
	for (unsigned i = 0; i < id->n_entries; i++) {
		assert(i == 0 || slice_compare(id->entry[i - 1].key, id->entry[i].key) < 0);
		assert(rls_name_next(&rest, &text) && slice_equal(text, id->entry[i].key));
		assert(rls_name_next(&rest, &text) && slice_equal(text, id->entry[i].value));
		assert(rlqs_id_find(id, id->entry[i].key, &text));
	}
	assert(!rls_name_next(&rest, &text));
	buf_release(&name);
}

static void check_action(const struct rlqs_usage *u)
{
	const struct rlqs_action action = {(enum rlqs_kind)(u->denied % 4), (uint32_t)u->allowed,
					   (uint32_t)u->denied};
	struct buf bytes = {0};

	rlqs_action_write(&bytes, u->id.bytes, &action);
	assert(!buf_failed(&bytes) && bytes.len > u->id.bytes.len);
	buf_release(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rlqs_report report;
	struct rlqs_usage usage;
	struct slice rest;
	size_t n = 0;

	if (rlqs_report_parse((struct slice){(const char *)data, size}, &report) != KOVA_OK)
		return 0;
	rest = report.bytes;
	while (rlqs_usage_next(&rest, &usage)) {
		n++;
		check_name(report.domain, &usage.id);
		check_action(&usage);
	}
	assert(n == report.n_usages);
	return 0;
}
