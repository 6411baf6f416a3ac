/* The keys that ask for most and of which most is refused, as JSON. */
#pragma once

#include "core/buf.h"
#include "top_keys.h"

/* `"asked":[{"policy","key","count","error"},…],"refused":[…]`: the first `max` of a policy, empty: of all. */
void top_json_write(const struct top_keys *t, struct slice policy, unsigned max, struct buf *out);
