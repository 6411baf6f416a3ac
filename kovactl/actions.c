#include "actions.h"

#include <string.h>

#include "core/buf.h"
#include "core/nearest.h"

static const char *action_name_at(const void *list, size_t i)
{
	return ((const struct action *)list)[i].name;
}

static void unknown(struct arguments *a, const struct action *list, const char *word)
{
	const char *near = nearest_find(word, action_name_at, list);
	struct buf names = {0};

	if (near != NULL) {
		arguments_error(a, "%s has no action %s; did you mean %s?", a->command->name, word,
				near);
		return;
	}
	for (const struct action *action = list; action->name != NULL; action++) {
		buf_add_text(&names, action == list ? "" : ", ");
		buf_add_text(&names, action->name);
	}
	buf_add(&names, "", 1);
	arguments_error(a, "%s has no action %s, but %s", a->command->name, word,
			buf_failed(&names) ? "others" : names.ptr);
	buf_release(&names);
}

const struct action *actions_choose(struct arguments *a, const struct action *list,
				    const char *const *words, size_t n)
{
	if (n == 0)
		return list;
	for (const struct action *action = list; action->name != NULL; action++) {
		if (strcmp(action->name, words[0]) != 0)
			continue;
		if (n - 1 >= action->min && n - 1 <= action->max)
			return action;
		if (action->max == 0)
			arguments_error(a, "%s %s takes nothing more", a->command->name,
					action->name);
		else
			arguments_error(a, "%s %s takes %s", a->command->name, action->name,
					action->usage);
		return NULL;
	}
	unknown(a, list, words[0]);
	return NULL;
}
