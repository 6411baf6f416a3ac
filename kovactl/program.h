/*
 * Other programs: found as a shell finds them, and become this process.
 */
#pragma once

/* Can execvp() run it? EXIT_ALLOWED, EXIT_NOT_FOUND or EXIT_CANNOT_RUN, as a shell has them. */
int program_find(const char *name);

/*
 * Becomes argv[0]. Returns only on failure: a complaint was made, and which of the two above it
 * is.
 */
int program_become(char **argv);
