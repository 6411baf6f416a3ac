/*
 * Subcommands with actions of their own: `policies list|show|put|delete`. The first word chooses.
 */
#pragma once

#include "arguments.h"
#include "command.h"

struct action {
	const char *name;
	size_t min, max;   /* how many words follow */
	const char *usage; /* those words, for the complaint about their number */
};

/*
 * The action that `words` begins with, the first of the list when there are no words. The list
 * ends with a name of NULL. NULL after a complaint: the command returns a->status.
 */
const struct action *actions_choose(struct arguments *a, const struct action *list,
				    const char *const *words, size_t n);
