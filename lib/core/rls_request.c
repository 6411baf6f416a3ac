#include "core/rls_request.h"

#include "core/proto_wire.h"

/* An entry's key and value. */
static kova_status entry_parse(struct slice rest, struct slice *ret_key, struct slice *ret_value)
{
	struct wire_field f;
	kova_status status;

	*ret_key = *ret_value = (struct slice){NULL, 0};
	while ((status = wire_next(&rest, &f)) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_BYTES))
			*ret_key = f.bytes;
		else if (wire_is(&f, 2, WIRE_BYTES))
			*ret_value = f.bytes;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

static kova_status limit_parse(struct slice rest, struct rls_descriptor *d)
{
	struct wire_field f;
	kova_status status;

	d->has_limit = true;
	while ((status = wire_next(&rest, &f)) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_VARINT))
			d->requests_per_unit = (uint32_t)f.value;
		else if (wire_is(&f, 2, WIRE_VARINT))
			d->unit = f.value;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

static kova_status hits_parse(struct slice rest, struct rls_descriptor *d)
{
	struct wire_field f;
	kova_status status;

	d->has_hits = true;
	while ((status = wire_next(&rest, &f)) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_VARINT))
			d->hits = f.value;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

static kova_status descriptor_parse(struct slice rest, struct rls_descriptor *d)
{
	struct wire_field f;
	struct slice key, value;
	kova_status status = KOVA_OK, next;

	*d = (struct rls_descriptor){.bytes = rest};
	while (status == KOVA_OK && (next = wire_next(&rest, &f)) != KOVA_ENOTFOUND) {
		status = next;
		if (status != KOVA_OK)
			break;
		if (wire_is(&f, 1, WIRE_BYTES)) {
			d->n_entries++;
			status = entry_parse(f.bytes, &key, &value);
		} else if (wire_is(&f, 2, WIRE_BYTES)) {
			status = limit_parse(f.bytes, d);
		} else if (wire_is(&f, 3, WIRE_BYTES)) {
			status = hits_parse(f.bytes, d);
		} else if (wire_is(&f, 4, WIRE_VARINT)) {
			d->gives_back = f.value != 0;
		}
	}
	return status;
}

kova_status rls_request_parse(struct slice message, struct rls_request *ret_request)
{
	struct rls_request *m = ret_request;
	struct wire_field f;
	kova_status status;

	m->domain = (struct slice){NULL, 0};
	m->n_descriptors = 0;
	m->hits = 0;
	while ((status = wire_next(&message, &f)) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_BYTES))
			m->domain = f.bytes;
		else if (wire_is(&f, 3, WIRE_VARINT))
			m->hits = (uint32_t)f.value;
		else if (wire_is(&f, 2, WIRE_BYTES) && m->n_descriptors++ < RLS_DESCRIPTORS_MAX &&
			 descriptor_parse(f.bytes, &m->descriptor[m->n_descriptors - 1]) != KOVA_OK)
			return KOVA_EPROTO;
	return status == KOVA_ENOTFOUND ? KOVA_OK : status;
}

bool rls_entry_next(struct slice *rest, struct slice *ret_key, struct slice *ret_value)
{
	struct wire_field f;

	while (wire_next(rest, &f) == KOVA_OK)
		if (wire_is(&f, 1, WIRE_BYTES))
			return entry_parse(f.bytes, ret_key, ret_value) == KOVA_OK;
	return false;
}
