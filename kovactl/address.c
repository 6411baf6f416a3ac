#include "address.h"

#include "core/host_port.h"

static kova_status text_copy(struct slice text, char *to, size_t size)
{
	if (text.len == 0 || memchr(text.ptr, '\0', text.len) != NULL)
		return KOVA_EPROTO;
	if (text.len >= size)
		return KOVA_ETOOBIG;
	memcpy(to, text.ptr, text.len);
	to[text.len] = '\0';
	return KOVA_OK;
}

static kova_status tcp_parse(struct slice text, struct address *a)
{
	struct host_port tcp;
	kova_status status = host_port_parse(text, &tcp);

	if (status != KOVA_OK)
		return status;
	if (!tcp.bracketed && slice_index(tcp.host, ':') < tcp.host.len)
		return KOVA_EPROTO;
	if (tcp.port == 0)
		return KOVA_ERANGE;
	a->port = tcp.port;
	return text_copy(tcp.host, a->host, sizeof a->host);
}

kova_status address_parse(struct slice text, struct address *ret_address)
{
	struct address a = {0};
	kova_status status;

	if (text.len > 5 && memcmp(text.ptr, "unix:", 5) == 0) {
		a.is_unix = true;
		status = text_copy((struct slice){text.ptr + 5, text.len - 5}, a.path,
				   sizeof a.path);
	} else {
		const struct slice scheme = SLICE("rediss://");

		a.tls = text.len > scheme.len && memcmp(text.ptr, scheme.ptr, scheme.len) == 0;
		status = tcp_parse(a.tls ? slice_after(text, scheme.len) : text, &a);
	}
	if (status == KOVA_OK)
		*ret_address = a;
	return status;
}

bool address_is_wildcard(const struct address *a)
{
	return !a->is_unix && (strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0);
}

bool address_is_loopback(const struct address *a)
{
	return !a->is_unix && (strcmp(a->host, "localhost") == 0 || strcmp(a->host, "::1") == 0 ||
			       strncmp(a->host, "127.", 4) == 0);
}
