#include "agent_info.h"

#include <stdio.h>

static struct slice next_line(struct slice *rest)
{
	const char *end = rest->len == 0 ? NULL : memchr(rest->ptr, '\n', rest->len);
	size_t len = end == NULL ? rest->len : (size_t)(end - rest->ptr);
	struct slice line = {rest->ptr, len};

	rest->ptr += len + (end != NULL);
	rest->len -= len + (end != NULL);
	if (line.len > 0 && line.ptr[line.len - 1] == '\r')
		line.len--;
	return line;
}

bool info_field(struct slice info, const char *name, struct slice *ret_value)
{
	size_t name_len = strlen(name);

	while (info.len > 0) {
		struct slice line = next_line(&info);

		if (line.len <= name_len || line.ptr[name_len] != ':' ||
		    memcmp(line.ptr, name, name_len) != 0)
			continue;
		*ret_value = (struct slice){line.ptr + name_len + 1, line.len - name_len - 1};
		return true;
	}
	return false;
}

kova_status info_http_address(struct slice info, const struct address *resp,
			      struct address *ret_address)
{
	struct slice text;
	struct address a;

	if (!info_field(info, "kova_http", &text) || text.len == 0)
		return KOVA_ENOTFOUND;
	if (address_parse(text, &a) != KOVA_OK || a.is_unix)
		return KOVA_EPROTO;
	if (address_is_wildcard(&a))
		snprintf(a.host, sizeof a.host, "%s", resp->is_unix ? "127.0.0.1" : resp->host);
	a.tls = info_field(info, "kova_http_tls", &text) && slice_equal(text, SLICE("1"));
	if (resp->tls && !a.tls && !address_is_loopback(&a))
		return KOVA_EAUTH;
	if (!resp->is_unix)
		snprintf(a.name, sizeof a.name, "%s", resp->host);
	*ret_address = a;
	return KOVA_OK;
}
