#include "core/gossip_wire.h"

#include <string.h>

/* ---- Reading ---- */

struct wire_reader wire_reader(struct slice bytes)
{
	const uint8_t *at = (const uint8_t *)bytes.ptr;

	return (struct wire_reader){.at = at, .end = at + bytes.len};
}

static bool has(struct wire_reader *r, size_t n)
{
	if (!r->failed && (size_t)(r->end - r->at) >= n)
		return true;
	r->failed = true;
	return false;
}

uint64_t wire_get(struct wire_reader *r, unsigned n_bytes)
{
	uint64_t value = 0;

	if (!has(r, n_bytes))
		return 0;
	for (unsigned i = 0; i < n_bytes; i++)
		value = value << 8 | *r->at++;
	return value;
}

struct slice wire_get_bytes(struct wire_reader *r, size_t len)
{
	struct slice s = {NULL, 0};

	if (has(r, len)) {
		s = (struct slice){(const char *)r->at, len};
		r->at += len;
	}
	return s;
}

/* As wire_get(), but what is above `max` is an error. */
static uint64_t get_upto(struct wire_reader *r, unsigned n_bytes, uint64_t max)
{
	uint64_t value = wire_get(r, n_bytes);

	if (value <= max)
		return value;
	r->failed = true;
	return 0;
}

static struct slice get_name(struct wire_reader *r, bool may_be_empty)
{
	struct slice name = wire_get_bytes(r, wire_get(r, 1));

	if (!r->failed && !(name.len == 0 && may_be_empty) && !name_is_valid(name))
		r->failed = true;
	return r->failed ? (struct slice){NULL, 0} : name;
}

void wire_get_address(struct wire_reader *r, struct gossip_address *ret_address)
{
	struct gossip_address a = {.family = (uint8_t)wire_get(r, 1)};

	if (a.family == 4 || a.family == 6) {
		struct slice host = wire_get_bytes(r, a.family == 4 ? 4 : 16);

		if (host.len > 0)
			memcpy(a.host, host.ptr, host.len);
		a.port = (uint16_t)wire_get(r, 2);
	} else if (a.family != 0) {
		r->failed = true;
	}
	*ret_address = a;
}

void wire_get_record(struct wire_reader *r, struct gossip_record *ret_record)
{
	ret_record->name = get_name(r, false);
	ret_record->region = get_name(r, true);
	ret_record->role = (enum gossip_role)get_upto(r, 1, GOSSIP_ROLES - 1);
	ret_record->state = (enum gossip_state)get_upto(r, 1, GOSSIP_STATES - 1);
	ret_record->incarnation = (uint32_t)wire_get(r, 4);
	ret_record->accuser = ret_record->state == GOSSIP_SUSPECT ? (uint32_t)wire_get(r, 4) : 0;
	wire_get_address(r, &ret_record->address);
}

void wire_get_item(struct wire_reader *r, struct gossip_item *ret_item)
{
	ret_item->stamp = wire_get(r, 8);
	ret_item->writer = get_name(r, ret_item->stamp == 0);
	ret_item->id = wire_get_bytes(r, get_upto(r, 2, GOSSIP_ID_MAX));
	ret_item->who = wire_get_bytes(r, wire_get(r, 1));
	ret_item->value = wire_get_bytes(r, get_upto(r, 4, GOSSIP_VALUE_MAX));
	if (ret_item->id.len == 0)
		r->failed = true;
}

void wire_get_head(struct wire_reader *r, struct gossip_head *ret_head)
{
	ret_head->type = (enum gossip_type)get_upto(r, 1, GOSSIP_TYPES - 1);
	if (ret_head->type == 0)
		r->failed = true;
	ret_head->seq = (uint32_t)wire_get(r, 4);
	ret_head->wall_ms = get_upto(r, 8, (UINT64_C(1) << 47) - 1);
	ret_head->items = wire_get(r, 8);
	ret_head->members = wire_get(r, 8);
	wire_get_record(r, &ret_head->sender);
}

/* ---- Writing ---- */

void wire_put(struct wire_writer *w, uint64_t value, unsigned n_bytes)
{
	if (w->full || w->cap - w->len < n_bytes) {
		w->full = true;
		return;
	}
	for (unsigned i = n_bytes; i > 0; i--)
		w->ptr[w->len++] = (uint8_t)(value >> (8 * (i - 1)));
}

void wire_put_bytes(struct wire_writer *w, struct slice bytes)
{
	if (w->full || w->cap - w->len < bytes.len) {
		w->full = true;
		return;
	}
	if (bytes.len > 0)
		memcpy(w->ptr + w->len, bytes.ptr, bytes.len);
	w->len += bytes.len;
}

static void put_short(struct wire_writer *w, struct slice bytes)
{
	wire_put(w, bytes.len, 1);
	wire_put_bytes(w, bytes);
}

void wire_put_address(struct wire_writer *w, const struct gossip_address *address)
{
	wire_put(w, address->family, 1);
	if (address->family == 0)
		return;
	wire_put_bytes(w,
		       (struct slice){(const char *)address->host, address->family == 4 ? 4 : 16});
	wire_put(w, address->port, 2);
}

void wire_put_record(struct wire_writer *w, const struct gossip_record *record)
{
	put_short(w, record->name);
	put_short(w, record->region);
	wire_put(w, record->role, 1);
	wire_put(w, record->state, 1);
	wire_put(w, record->incarnation, 4);
	if (record->state == GOSSIP_SUSPECT)
		wire_put(w, record->accuser, 4);
	wire_put_address(w, &record->address);
}

void wire_put_item(struct wire_writer *w, const struct gossip_item *item)
{
	wire_put(w, item->stamp, 8);
	put_short(w, item->writer);
	wire_put(w, item->id.len, 2);
	wire_put_bytes(w, item->id);
	put_short(w, item->who);
	wire_put(w, item->value.len, 4);
	wire_put_bytes(w, item->value);
}

size_t wire_item_bytes(const struct gossip_item *item)
{
	return 8 + 1 + item->writer.len + 2 + item->id.len + 1 + item->who.len + 4 +
	       item->value.len;
}

void wire_put_head(struct wire_writer *w, const struct gossip_head *head)
{
	wire_put(w, head->type, 1);
	wire_put(w, head->seq, 4);
	wire_put(w, head->wall_ms, 8);
	wire_put(w, head->items, 8);
	wire_put(w, head->members, 8);
	wire_put_record(w, &head->sender);
}
