#include "io/conf_copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECRET_BYTES_MAX = 1023 };

char *conf_copy(struct conf_copier *c, const char *text)
{
	char *copied = text != NULL ? strdup(text) : NULL;

	if (text != NULL && copied == NULL)
		c->no_memory = true;
	return copied;
}

char *conf_copy_path(struct conf_copier *c, const char *path)
{
	char *resolved = path != NULL ? conf_path_resolve(c->file, path) : NULL;

	if (path != NULL && resolved == NULL)
		c->no_memory = true;
	return resolved;
}

char *conf_copy_file(struct conf_copier *c, const struct conf_path *object, const char *name,
		     const char *path)
{
	char *resolved = conf_copy_path(c, path);

	if (resolved != NULL && access(resolved, R_OK) != 0)
		conf_fail(c->r, object, name, CONF_AT_VALUE, "`%s`: %s: %s", name, resolved,
			  strerror(errno));
	return resolved;
}

/* The first line of `resolved`; NULL: it can't be opened, or memory is out. */
static char *read_line(struct conf_copier *c, const char *resolved)
{
	char text[SECRET_BYTES_MAX + 1] = "";
	FILE *f = fopen(resolved, "re");

	if (f == NULL)
		return NULL;
	size_t n = fread(text, 1, sizeof text - 1, f);

	fclose(f);
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	char *line = conf_copy(c, text);

	explicit_bzero(text, sizeof text);
	return line;
}

char *conf_copy_secret(struct conf_copier *c, const struct conf_path *object, const char *name,
		       const char *path)
{
	char *resolved = conf_copy_file(c, object, name, path);
	char *secret = resolved != NULL ? read_line(c, resolved) : NULL;

	if (secret != NULL && secret[0] == '\0')
		conf_fail(c->r, object, name, CONF_AT_VALUE,
			  "`%s`: there is no password on the first line of %s", name, resolved);
	free(resolved);
	return secret;
}

void conf_secret_free(char *secret)
{
	if (secret != NULL)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}
