#include "address.h"

static kova_status port_parse(struct slice text, uint16_t *ret_port)
{
	uint32_t port = 0;

	if (text.len == 0 || text.len > 5)
		return KOVA_EPROTO;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return KOVA_EPROTO;
		port = port * 10 + (uint32_t)(text.ptr[i] - '0');
	}
	if (port == 0 || port > 65535)
		return KOVA_ERANGE;
	*ret_port = (uint16_t)port;
	return KOVA_OK;
}

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

/* Splits at the last colon; brackets are taken off, and are required around a host with colons. */
static kova_status tcp_split(struct slice text, struct slice *ret_host, struct slice *ret_port)
{
	size_t colon = text.len;

	while (colon > 0 && text.ptr[colon - 1] != ':')
		colon--;
	if (colon == 0)
		return KOVA_EPROTO;

	struct slice host = {text.ptr, colon - 1};
	if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
		host = (struct slice){host.ptr + 1, host.len - 2};
	else if (host.len > 0 && memchr(host.ptr, ':', host.len) != NULL)
		return KOVA_EPROTO;
	*ret_host = host;
	*ret_port = (struct slice){text.ptr + colon, text.len - colon};
	return KOVA_OK;
}

kova_status address_parse(struct slice text, struct address *ret_address)
{
	struct address a = {0};
	struct slice host, port;
	kova_status status;

	if (text.len > 5 && memcmp(text.ptr, "unix:", 5) == 0) {
		a.is_unix = true;
		status = text_copy((struct slice){text.ptr + 5, text.len - 5}, a.path,
				   sizeof a.path);
	} else {
		status = tcp_split(text, &host, &port);
		if (status == KOVA_OK)
			status = port_parse(port, &a.port);
		if (status == KOVA_OK)
			status = text_copy(host, a.host, sizeof a.host);
	}
	if (status == KOVA_OK)
		*ret_address = a;
	return status;
}

bool address_is_wildcard(const struct address *a)
{
	return !a->is_unix && (strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0);
}
