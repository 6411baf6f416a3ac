/* What the event config_changed says of a change (proto/events.schema.json). */
#pragma once

#include <jansson.h>

#include "control/control.h"

/* A new reference. NULL: out of memory. */
json_t *write_fields(const struct control_write *w);
