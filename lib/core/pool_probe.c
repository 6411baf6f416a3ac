#include "core/pool_probe.h"

#include <arpa/inet.h>

enum { ADDRESS_TEXT_MAX = 45 };

const char *const pool_probe_names[POOL_PROBES] = {
	[POOL_PROBE_NONE] = "",
	[POOL_PROBE_OK] = "ok",
	[POOL_PROBE_CONNECT] = "connect",
	[POOL_PROBE_AUTH] = "auth",
	[POOL_PROBE_TUNNEL] = "tunnel",
	[POOL_PROBE_STATUS] = "status",
	[POOL_PROBE_FAMILY] = "family",
	[POOL_PROBE_EXIT_CHANGED] = "exit_changed",
	[POOL_PROBE_NOT_ROTATING] = "not_rotating",
	[POOL_PROBE_TIMEOUT] = "timeout",
	[POOL_PROBE_BODY] = "body",
	[POOL_PROBE_NAME] = "name",
};

/* ---- The address ---- */

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '.' || c == ':' || c == '-' || c == '_';
}

static bool read_v4(struct slice s, struct pool_exit_address *a)
{
	char text[ADDRESS_TEXT_MAX + 1];

	if (s.len > ADDRESS_TEXT_MAX)
		return false;
	memcpy(text, s.ptr, s.len);
	text[s.len] = '\0';
	*a = (struct pool_exit_address){0};
	return inet_pton(AF_INET, text, a->bytes) == 1;
}

static bool read_v6(struct slice s, struct pool_exit_address *a)
{
	static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
	char text[ADDRESS_TEXT_MAX + 1];
	unsigned char bytes[16];

	if (s.len > ADDRESS_TEXT_MAX)
		return false;
	memcpy(text, s.ptr, s.len);
	text[s.len] = '\0';
	if (inet_pton(AF_INET6, text, bytes) != 1)
		return false;
	*a = (struct pool_exit_address){.is_v6 = memcmp(bytes, mapped, sizeof mapped) != 0};
	if (a->is_v6)
		memcpy(a->bytes, bytes, sizeof bytes);
	else
		memcpy(a->bytes, bytes + sizeof mapped, 4);
	return true;
}

/* Without a full stop or a colon that ends it. */
static struct slice trim(struct slice s)
{
	while (s.len > 0 && (s.ptr[s.len - 1] == '.' ||
			     (s.ptr[s.len - 1] == ':' && (s.len < 2 || s.ptr[s.len - 2] != ':'))))
		s.len--;
	return s;
}

/* A word may be an address, or an IPv4 one with a name or a port beside it: "ip:192.0.2.1", "192.0.2.1:80". */
static bool read_word(struct slice word, struct pool_exit_address *a)
{
	word = trim(word);
	if (word.len > 2 && slice_index(word, ':') < word.len && read_v6(word, a))
		return true;
	while (word.len > 0)
		if (read_v4(slice_cut(&word, ':'), a))
			return true;
	return false;
}

bool pool_exit_address_find(struct slice text, struct pool_exit_address *ret_address)
{
	struct pool_exit_address a;

	for (size_t at = 0, end; at < text.len; at = end + 1) {
		for (end = at; end < text.len && is_word(text.ptr[end]);)
			end++;
		if (read_word((struct slice){text.ptr + at, end - at}, &a)) {
			*ret_address = a;
			return true;
		}
	}
	return false;
}

/* ---- What it means ---- */

/* Whether the endpoint had done what it is asked for when the connection ended without an answer of the service. */
static bool had_tunnel(enum pool_scheme scheme, const struct pool_contact *c)
{
	switch (scheme) {
	case POOL_HTTP:
	case POOL_HTTPS:
		return c->connect_status != 0;
	case POOL_SOCKS4:
	case POOL_SOCKS4A:
	case POOL_SOCKS5:
	case POOL_SOCKS5H:
		return c->end == POOL_CONTACT_LOST;
	case POOL_DIRECT:
	case POOL_SCHEMES:
		break;
	}
	return false;
}

static enum pool_probe answer_judge(enum pool_family family, const struct pool_contact *c,
				    struct pool_exit_address *ret_address)
{
	if (c->status != 200)
		return POOL_PROBE_STATUS;
	if (c->end == POOL_CONTACT_TIMED_OUT)
		return POOL_PROBE_TIMEOUT;
	if (c->end != POOL_CONTACT_WHOLE || !pool_exit_address_find(c->body, ret_address))
		return POOL_PROBE_BODY;
	if (family != POOL_FAMILY_ANY && ret_address->is_v6 != (family == POOL_FAMILY_V6))
		return POOL_PROBE_FAMILY;
	return POOL_PROBE_OK;
}

enum pool_probe pool_probe_judge(enum pool_scheme scheme, enum pool_family family,
				 const struct pool_contact *c,
				 struct pool_exit_address *ret_address)
{
	if (c->end == POOL_CONTACT_NO_MEMORY)
		return POOL_PROBE_NONE;
	if (c->end == POOL_CONTACT_NO_NAME)
		return POOL_PROBE_NAME;
	if (c->connect_status == 407 || c->end == POOL_CONTACT_AUTH)
		return POOL_PROBE_AUTH;
	if (c->end == POOL_CONTACT_REFUSED ||
	    (c->connect_status != 0 && c->connect_status / 100 != 2))
		return POOL_PROBE_TUNNEL;
	if (c->status != 0)
		return answer_judge(family, c, ret_address);
	if (c->end == POOL_CONTACT_TIMED_OUT)
		return POOL_PROBE_TIMEOUT;
	return had_tunnel(scheme, c) ? POOL_PROBE_TUNNEL : POOL_PROBE_CONNECT;
}

enum pool_probe pool_probe_compare(enum pool_exit exit, const struct pool_exit_address *first,
				   const struct pool_exit_address *second)
{
	bool same = first->is_v6 == second->is_v6 &&
		    memcmp(first->bytes, second->bytes, sizeof first->bytes) == 0;

	if (exit == POOL_EXIT_SAME && !same)
		return POOL_PROBE_EXIT_CHANGED;
	if (exit == POOL_EXIT_ROTATING && same)
		return POOL_PROBE_NOT_ROTATING;
	return POOL_PROBE_OK;
}
