#include "command.h"

#include <string.h>

static const struct command *const commands[] = {
	&command_take,     &command_peek,     &command_wait,   &command_watch,  &command_top,
	&command_policies, &command_override, &command_pool,   &command_usage,  &command_plan,
	&command_home,     &command_members,  &command_config, &command_doctor,
};
enum { COMMANDS_N = sizeof commands / sizeof commands[0] };

const struct command *command_at(size_t i)
{
	return i < COMMANDS_N ? commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < COMMANDS_N; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}
