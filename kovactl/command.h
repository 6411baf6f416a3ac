/*
 * One subcommand: what it is called, what --help says of it, and the function that runs it. The
 * table of all is in commands.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* kovactl's exit status is one of these, or that of the command that `wait` ran. */
enum exit_status {
	EXIT_ALLOWED = 0,      /* allowed; or done, nothing wrong */
	EXIT_REFUSED = 1,      /* refused; or doctor and config check found something */
	EXIT_USAGE = 2,        /* the command line, or the agent calls the request invalid */
	EXIT_UNREACHABLE = 3,  /* no answer from the agent */
	EXIT_CANNOT_RUN = 126, /* wait: as a shell, the command is not executable ... */
	EXIT_NOT_FOUND = 127   /* ... or not there */
};

/* An option, all static. A list of them ends with one whose name is NULL. */
struct option_spec {
	int id;            /* what arguments_next() returns; > ARGUMENT_WORD */
	const char *name;  /* without the dashes */
	const char *value; /* what --help calls its value; NULL: it takes none */
	const char *text;  /* one line of --help */
};

struct session;
struct arguments;

struct command {
	const char *name;
	const char *summary;  /* one line, as a command: "Take from a limit" */
	const char *usage;    /* one or more lines, each what follows the command's name */
	const char *details;  /* paragraphs of --help, may be NULL */
	const char *examples; /* lines of --help, may be NULL */
	const struct option_spec *options; /* its own; may be NULL */
	bool runs; /* what follows "--" is a command to run, not words of its own */
	int (*run)(struct session *s, struct arguments *a); /* returns the exit status */
};

/* The `i`th subcommand in the order of --help, or NULL after the last. */
const struct command *command_at(size_t i);
const struct command *command_find(const char *name); /* NULL: there is none of that name */

extern const struct command command_take, command_peek, command_wait, command_watch,
	command_policies, command_override, command_usage, command_top, command_members,
	command_home, command_plan, command_doctor, command_config, command_pool;
