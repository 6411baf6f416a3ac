/* Addresses and paths as configurations write them. (Durations and times: core/duration.h, core/rfc3339.h.) */
#include <arpa/inet.h>
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

bool conf_host_is_ip(struct slice host)
{
	char text[INET6_ADDRSTRLEN];
	unsigned char bytes[16];

	if (host.len >= sizeof text)
		return false;
	memcpy(text, host.ptr, host.len);
	text[host.len] = '\0';
	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
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
