#include "core/rlqs_report.h"

#include "core/limit.h"
#include "core/proto_wire.h"
#include "core/rls_key.h"

static kova_status entry_parse(struct slice rest, struct rlqs_entry *ret_entry)
{
	struct wire_field f;
	kova_status status;

	*ret_entry = (struct rlqs_entry){{NULL, 0}, {NULL, 0}};
	while ((status = wire_next(&rest, &f)) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_BYTES))
			ret_entry->key = f.bytes;
		else if (wire_is(&f, 2, WIRE_BYTES))
			ret_entry->value = f.bytes;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

/* Of two entries with a key the last one counts, as in every map. False: there is no room. */
static bool id_add(struct rlqs_id *id, const struct rlqs_entry *entry)
{
	unsigned at = 0;

	while (at < id->n_entries && slice_compare(id->entry[at].key, entry->key) < 0)
		at++;
	if (at < id->n_entries && slice_compare(id->entry[at].key, entry->key) == 0) {
		id->entry[at] = *entry;
		return true;
	}
	if (id->n_entries == RLQS_ENTRIES_MAX)
		return false;
	memmove(&id->entry[at + 1], &id->entry[at], (id->n_entries - at) * sizeof id->entry[0]);
	id->entry[at] = *entry;
	id->n_entries++;
	return true;
}

static kova_status id_parse(struct slice bytes, struct rlqs_id *id)
{
	struct slice rest = bytes;
	struct rlqs_entry entry;
	struct wire_field f;
	kova_status status;
	bool fits = true;

	id->bytes = bytes;
	id->n_entries = 0;
	while ((status = wire_next(&rest, &f)) == KOVA_OK) {
		if (!wire_is(&f, 1, WIRE_BYTES))
			continue;
		if (entry_parse(f.bytes, &entry) != KOVA_OK)
			return KOVA_EPROTO;
		fits = fits && id_add(id, &entry);
	}
	if (!fits)
		id->n_entries = 0;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

/* As much as any request may cost: sums of such counts stay exact. */
static uint64_t count_of(uint64_t n)
{
	return n < LIMIT_MAX ? n : LIMIT_MAX;
}

static kova_status usage_parse(struct slice rest, struct rlqs_usage *u)
{
	struct wire_field f;
	kova_status status = KOVA_OK, next;

	*u = (struct rlqs_usage){.allowed = 0};
	while (status == KOVA_OK && (next = wire_next(&rest, &f)) != KOVA_ENOTFOUND) {
		status = next;
		if (status != KOVA_OK)
			break;
		if (wire_is(&f, 1, WIRE_BYTES))
			status = id_parse(f.bytes, &u->id);
		else if (wire_is(&f, 3, WIRE_VARINT))
			u->allowed = count_of(f.value);
		else if (wire_is(&f, 4, WIRE_VARINT))
			u->denied = count_of(f.value);
	}
	return status;
}

kova_status rlqs_report_parse(struct slice message, struct rlqs_report *ret_report)
{
	struct rlqs_report *r = ret_report;
	struct rlqs_usage usage;
	struct wire_field f;
	kova_status status;

	*r = (struct rlqs_report){.bytes = message};
	while ((status = wire_next(&message, &f)) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_BYTES))
			r->domain = f.bytes;
		else if (wire_is(&f, 2, WIRE_BYTES) && ++r->n_usages > 0 &&
			 usage_parse(f.bytes, &usage) != KOVA_OK)
			return KOVA_EPROTO;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

bool rlqs_usage_next(struct slice *rest, struct rlqs_usage *ret_usage)
{
	struct wire_field f;

	while (wire_next(rest, &f) == KOVA_OK)
		if (wire_is(&f, 2, WIRE_BYTES))
			return usage_parse(f.bytes, ret_usage) == KOVA_OK;
	return false;
}

void rlqs_id_write(struct buf *out, struct slice domain, const struct rlqs_id *id)
{
	rls_name_add(out, domain);
	for (unsigned i = 0; i < id->n_entries; i++) {
		rls_name_add(out, id->entry[i].key);
		rls_name_add(out, id->entry[i].value);
	}
}

bool rlqs_id_find(const struct rlqs_id *id, struct slice key, struct slice *ret_value)
{
	for (unsigned i = 0; i < id->n_entries; i++)
		if (slice_equal(id->entry[i].key, key)) {
			*ret_value = id->entry[i].value;
			return true;
		}
	return false;
}
