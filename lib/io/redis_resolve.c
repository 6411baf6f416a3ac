#include "io/redis_resolve.h"

#include <netdb.h>
#include <sys/socket.h>

enum { ADDRESS_BYTES = 64 + 32 }; /* INET6_ADDRSTRLEN and a scope */

static bool choose_address(const struct addrinfo *all, unsigned nth, char *ret_address, size_t size)
{
	const struct addrinfo *one = all;
	unsigned n = 0;

	for (const struct addrinfo *a = all; a != NULL; a = a->ai_next)
		n++;
	if (n == 0)
		return false;
	for (unsigned i = nth % n; i > 0; i--)
		one = one->ai_next;
	return getnameinfo(one->ai_addr, one->ai_addrlen, ret_address, (socklen_t)size, NULL, 0,
			   NI_NUMERICHOST) == 0;
}

static void on_answer(uv_getaddrinfo_t *req, int status, struct addrinfo *all)
{
	struct redis_resolve *r = req->data;
	char address[ADDRESS_BYTES];
	bool found = status == 0 && choose_address(all, r->nth, address, sizeof address);

	uv_freeaddrinfo(all);
	r->on_resolved(status, found ? address : NULL, r->data);
}

int redis_resolve(struct redis_resolve *r, uv_loop_t *loop, const char *host, unsigned nth,
		  redis_resolved *on_resolved, void *data)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};

	*r = (struct redis_resolve){.nth = nth, .on_resolved = on_resolved, .data = data};
	r->req.data = r;
	return uv_getaddrinfo(loop, &r->req, on_answer, host, NULL, &hints);
}

void redis_resolve_cancel(struct redis_resolve *r)
{
	uv_cancel((uv_req_t *)&r->req);
}

bool redis_is_address(const char *host)
{
	unsigned char address[16];

	return uv_inet_pton(AF_INET, host, address) == 0 ||
	       uv_inet_pton(AF_INET6, host, address) == 0;
}
