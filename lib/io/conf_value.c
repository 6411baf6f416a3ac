/* Addresses and paths as configurations write them. (Durations and times: core/duration.h, core/rfc3339.h.) */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/host_port.h"
#include "io/conf.h"

/* A name or an IPv4 address: nothing that would need brackets. */
static bool host_is_plain(struct slice host)
{
	for (size_t i = 0; i < host.len; i++)
		if (!isalnum((unsigned char)host.ptr[i]) && strchr("._-", host.ptr[i]) == NULL)
			return false;
	return true;
}

bool conf_address_parse(const char *text, struct slice *ret_host, uint16_t *ret_port)
{
	struct host_port a;

	if (host_port_parse(slice_of(text), &a) != KOVA_OK || a.host.len == 0 ||
	    (!a.bracketed && !host_is_plain(a.host)))
		return false;
	*ret_host = a.host;
	*ret_port = a.port;
	return true;
}

char *conf_path_resolve(const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');
	char *resolved = NULL;

	if (path[0] == '/' || slash == NULL)
		return strdup(path);
	if (asprintf(&resolved, "%.*s/%s", (int)(slash - file), file, path) < 0)
		return NULL;
	return resolved;
}
