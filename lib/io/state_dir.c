#include "io/state_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

kova_status state_dir_default(const char *name, char **ret_path)
{
	const char *systemd = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char *path;
	int n;

	if (systemd != NULL && systemd[0] == '/')
		n = asprintf(&path, "%.*s", (int)strcspn(systemd, ":"), systemd);
	else if (xdg != NULL && xdg[0] == '/')
		n = asprintf(&path, "%s/%s", xdg, name);
	else if (home != NULL && home[0] == '/')
		n = asprintf(&path, "%s/.local/state/%s", home, name);
	else
		return KOVA_ENOTFOUND;
	if (n < 0)
		return KOVA_ENOMEM;
	*ret_path = path;
	return KOVA_OK;
}

bool state_dir_make(const char *path)
{
	char *copy = strdup(path);
	bool made = copy != NULL;

	for (char *slash = copy; made && (slash = strchr(slash + 1, '/')) != NULL;) {
		*slash = '\0';
		made = mkdir(copy, 0755) == 0 || errno == EEXIST;
		*slash = '/';
	}
	if (made)
		made = mkdir(path, 0700) == 0 || errno == EEXIST;
	free(copy);
	return made;
}
