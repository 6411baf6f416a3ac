/*
 * A resolver that hangs: preloaded (LD_PRELOAD) into an agent, it takes half a minute to find out that there is no slow.test, and no
 * time for none.test. All other names are resolved as ever.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

enum { HANGS_S = 30 };

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **ret_list)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (node != NULL && strcmp(node, "slow.test") == 0) {
		sleep(HANGS_S);
		return EAI_AGAIN;
	}
	if (node != NULL && strcmp(node, "none.test") == 0)
		return EAI_NONAME;
	real = (int (*)(const char *, const char *, const struct addrinfo *,
			struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
	return real(node, service, hints, ret_list);
}
