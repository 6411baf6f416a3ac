/* The fields of a protobuf message, as they stand on the wire: nothing is copied, nothing allocated. */
#pragma once

#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
	uint32_t number; /* 1..2^29-1 */
	enum wire_type type;
	uint64_t value;     /* of a number */
	struct slice bytes; /* WIRE_BYTES: in the message; else empty */
};

/* Takes the first field off *rest. KOVA_ENOTFOUND: there is none; KOVA_EPROTO: malformed, or a group. */
KOVA_MUST_CHECK kova_status wire_next(struct slice *rest, struct wire_field *ret_field);

/* Whether it is the field `number` of `type`. */
static inline bool wire_is(const struct wire_field *f, uint32_t number, enum wire_type type)
{
	return f->number == number && f->type == type;
}
