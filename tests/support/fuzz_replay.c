/*
 * main() for a fuzz harness without libFuzzer: runs LLVMFuzzerTestOneInput() over each file of the directories and
 * files named on the command line, and over each of their prefixes of at most PREFIX_MAX bytes. Fails when there was none.
 */
#include <assert.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PREFIX_MAX = 512, PATH_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of the exact size, so that ASan sees a read past the end. */
static void run_exact(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	assert(copy != NULL);
	memcpy(copy, data, size);
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static uint8_t *read_whole(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(size > 0 ? size : 1);

	assert(data != NULL);
	if (f == NULL || fread(data, 1, size, f) != size) {
		perror(path);
		exit(1);
	}
	(void)fclose(f);
	return data;
}

static unsigned replay_file(const char *path, size_t size)
{
	uint8_t *data = read_whole(path, size);

	for (size_t n = 0; n < size && n <= PREFIX_MAX; n++)
		run_exact(data, n);
	run_exact(data, size);
	free(data);
	return 1;
}

static unsigned replay(const char *path)
{
	struct stat st;
	unsigned n = 0;

	if (stat(path, &st) != 0) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path, (size_t)st.st_size);

	DIR *dir = opendir(path);
	assert(dir != NULL);
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		char child[PATH_BYTES];

		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
		n += replay(child);
	}
	(void)closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	unsigned n = 0;

	for (int i = 1; i < argc; i++)
		n += replay(argv[i]);
	printf("%u inputs replayed\n", n);
	return n > 0 ? 0 : 1;
}
