/*
 * The texts of --help, laid out from the tables of commands and options.
 */
#pragma once

#include "command.h"

void help_program(void);
/* `common`: the options that every subcommand has. */
void help_command(const struct command *command, const struct option_spec *common);
