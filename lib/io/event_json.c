#include "io/event_json.h"

#include <stddef.h>

void event_json_hide_keys(json_t *event)
{
	static const char *const names[] = {"key", "prefix", "parent", "before", "after"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		json_object_del(event, names[i]);
}
