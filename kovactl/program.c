#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "output.h"

static int can_run(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno == ENOENT || errno == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? EXIT_ALLOWED : EXIT_CANNOT_RUN;
}

/* `name` in the directory that `path` begins with, up to a colon; an empty one is the current. */
static int in_directory(const char *path, size_t len, const char *name)
{
	char file[4096];
	int n = snprintf(file, sizeof file, "%.*s%s%s", (int)len, path, len > 0 ? "/" : "./", name);

	return n > 0 && (size_t)n < sizeof file ? can_run(file) : EXIT_NOT_FOUND;
}

int program_find(const char *name)
{
	const char *path = getenv("PATH");
	int found = EXIT_NOT_FOUND;

	if (*name == '\0')
		return EXIT_NOT_FOUND;
	if (strchr(name, '/') != NULL)
		return can_run(name);
	if (path == NULL)
		path = "/bin:/usr/bin";
	for (;;) {
		size_t len = strcspn(path, ":");
		int here = in_directory(path, len, name);

		if (here != EXIT_NOT_FOUND)
			found = here;
		if (found == EXIT_ALLOWED || path[len] == '\0')
			return found;
		path += len + 1;
	}
}

int program_become(char **argv)
{
	signal(SIGPIPE, SIG_DFL); /* main() ignored it, and that would be inherited */
	fflush(stdout);
	execvp(argv[0], argv);
	int why = errno;
	complain("%s: %s", argv[0], strerror(why));
	return why == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
