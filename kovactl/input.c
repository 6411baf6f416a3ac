#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "output.h"

json_t *input_json(const char *name)
{
	bool standard = strcmp(name, "-") == 0;
	FILE *file = standard ? stdin : fopen(name, "re");
	json_error_t error;

	if (file == NULL) {
		complain("%s: %s", name, strerror(errno));
		return NULL;
	}
	json_t *json = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	if (json == NULL)
		complain("%s:%d:%d: %s", standard ? "(standard input)" : name,
			 error.line < 1 ? 1 : error.line, error.column < 1 ? 1 : error.column,
			 error.text);
	if (!standard)
		fclose(file);
	return json;
}

void input_strip_stamps(json_t *items)
{
	json_t *item;
	size_t i;

	json_array_foreach(items, i, item) {
		json_object_del(item, "version");
		json_object_del(item, "who");
	}
}
