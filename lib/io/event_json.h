/* What agents and coordinators have in common of the events on kova.events.v1 (docs/kafka.md, proto/events.schema.json). */
#pragma once

#include <jansson.h>

#define EVENTS_TOPIC "kova.events.v1"

/*
 * For pages that need no right to see keys: takes from `event` (NULL is nothing) whom an override or weights are of, and what anything
 * was and is.
 */
void event_json_hide_keys(json_t *event);
