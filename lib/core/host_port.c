#include "core/host_port.h"

static kova_status port_parse(struct slice text, uint16_t *ret_port)
{
	uint32_t port = 0;

	if (text.len < 1 || text.len > 5)
		return KOVA_EPROTO;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return KOVA_EPROTO;
		port = port * 10 + (uint32_t)(text.ptr[i] - '0');
	}
	if (port > UINT16_MAX)
		return KOVA_ERANGE;
	*ret_port = (uint16_t)port;
	return KOVA_OK;
}

kova_status host_port_parse(struct slice text, struct host_port *ret_address)
{
	struct host_port a = {0};
	size_t colon = text.len;
	kova_status status;

	while (colon > 0 && text.ptr[colon - 1] != ':')
		colon--;
	if (colon == 0)
		return KOVA_EPROTO;
	status = port_parse(slice_after(text, colon), &a.port);
	if (status != KOVA_OK)
		return status;
	a.host = (struct slice){text.ptr, colon - 1};
	a.bracketed = a.host.len >= 2 && a.host.ptr[0] == '[' && a.host.ptr[a.host.len - 1] == ']';
	if (a.bracketed)
		a.host = (struct slice){a.host.ptr + 1, a.host.len - 2};
	*ret_address = a;
	return KOVA_OK;
}
