/*
 * From what conf_read() borrowed to what outlives the document: owned copies of texts, of paths made absolute, of secrets in
 * files. The first failure of memory sticks; what is wrong with a file is an error of the configuration.
 */
#pragma once

#include <stdbool.h>

#include "io/conf.h"

struct conf_copier {
	struct conf_reader *r;
	const char *file; /* paths are relative to its directory */
	bool no_memory;
};

/* Each returns an owned text; NULL for NULL, or when memory is out. */
char *conf_copy(struct conf_copier *c, const char *text);
char *conf_copy_path(struct conf_copier *c, const char *path);
/* As conf_copy_path(), of a file that must be readable; it is the option `name` of `object`. */
char *conf_copy_file(struct conf_copier *c, const struct conf_path *object, const char *name,
		     const char *path);
/* The first line of the file `path`, which must be there and not be empty. Free it with conf_secret_free(). */
char *conf_copy_secret(struct conf_copier *c, const struct conf_path *object, const char *name,
		       const char *path);
void conf_secret_free(char *secret); /* NULL is nothing */
