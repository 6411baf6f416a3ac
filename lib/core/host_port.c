#include "core/host_port.h"

#include "core/decimal.h"

kova_status host_port_parse(struct slice text, struct host_port *ret_address)
{
	struct host_port a = {0};
	size_t colon = text.len;
	uint64_t port;
	kova_status status;

	while (colon > 0 && text.ptr[colon - 1] != ':')
		colon--;
	if (colon == 0)
		return KOVA_EPROTO;
	if (text.len - colon > 5)
		return KOVA_EPROTO;
	status = decimal_parse(slice_after(text, colon), UINT16_MAX, &port);
	if (status != KOVA_OK)
		return status;
	a.port = (uint16_t)port;
	a.host = (struct slice){text.ptr, colon - 1};
	a.bracketed = a.host.len >= 2 && a.host.ptr[0] == '[' && a.host.ptr[a.host.len - 1] == ']';
	if (a.bracketed)
		a.host = (struct slice){a.host.ptr + 1, a.host.len - 2};
	*ret_address = a;
	return KOVA_OK;
}
