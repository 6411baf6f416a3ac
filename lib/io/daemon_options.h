/* The command line that the daemons have in common. */
#pragma once

#include <stdbool.h>

#include "core/buf.h"
#include "core/status.h"
#include "io/log.h"

/* Borrowed texts. */
struct daemon_program {
	const char *name; /* of the binary */
	const char *help; /* what --help prints */
};

struct daemon_options {
	const char *config; /* borrowed from argv */
	bool check;         /* --check-config */
	enum log_format format;
	enum log_level level;
};

/* −1: go on; else the exit status, and all is said: --help and --version on stdout, what is wrong on stderr. */
int daemon_options_parse(const struct daemon_program *p, int argc, char **argv,
			 struct daemon_options *ret);

/* What --check-config prints and the exit status, after `file` was loaded with these errors. */
int daemon_options_checked(const char *file, kova_status loaded, const struct buf *errors);
