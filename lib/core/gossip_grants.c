#include "core/gossip_grants.h"

#include <stdlib.h>
#include <string.h>

#include "core/gossip_rules.h"
#include "core/gossip_wire.h"

enum { COUNT_MAX = 255 };

void gossip_grants_release(struct gossip_grants *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		free(t->list[i].text);
	t->n = t->n_sends = 0;
}

static struct slice region_of(const struct grant_entry *e)
{
	return (struct slice){e->text, e->region_len};
}

static void set_sends(struct gossip_grants *t, struct grant_entry *e, uint8_t sends)
{
	t->n_sends += (uint32_t)(sends > 0) - (uint32_t)(e->sends > 0);
	e->sends = sends;
}

static void drop(struct gossip_grants *t, struct grant_entry *e)
{
	set_sends(t, e, 0);
	free(e->text);
	*e = t->list[--t->n];
}

static struct grant_entry *find(struct gossip_grants *t, uint64_t quota)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->list[i].quota == quota)
			return &t->list[i];
	return NULL;
}

/* Room for one more: what is to be carried the least often goes, of these what ends first. */
static void make_room(struct gossip_grants *t)
{
	struct grant_entry *least = &t->list[0];

	if (t->n < GOSSIP_GRANTS_MAX)
		return;
	for (uint32_t i = 1; i < t->n; i++) {
		struct grant_entry *e = &t->list[i];

		if (e->sends < least->sends ||
		    (e->sends == least->sends && e->until_ms < least->until_ms))
			least = e;
	}
	t->dropped += least->sends > 0;
	drop(t, least);
}

bool gossip_grants_put(struct gossip_grants *t, const struct gossip_grant *grant, uint8_t sends,
		       uint64_t now_ms)
{
	struct grant_entry *e = find(t, grant->quota);
	size_t len = grant->region.len + grant->bytes.len;

	if (e != NULL && e->seq >= grant->seq && GOSSIP_RULE(NEWEST_GRANT))
		return false;
	char *text = malloc(len);

	if (text == NULL)
		return false;
	if (e != NULL)
		drop(t, e);
	make_room(t);
	memcpy(text, grant->region.ptr, grant->region.len);
	memcpy(text + grant->region.len, grant->bytes.ptr, grant->bytes.len);
	e = &t->list[t->n++];
	*e = (struct grant_entry){.quota = grant->quota,
				  .seq = grant->seq,
				  .until_ms = now_ms + grant->keep_ms,
				  .region_len = (uint8_t)grant->region.len,
				  .len = (uint16_t)grant->bytes.len,
				  .text = text};
	set_sends(t, e, sends);
	return true;
}

void gossip_grants_expire(struct gossip_grants *t, uint64_t now_ms)
{
	for (uint32_t i = 0; i < t->n && GOSSIP_RULE(GRANTS_END); i++)
		if (t->list[i].until_ms <= now_ms)
			drop(t, &t->list[i--]);
}

bool gossip_grants_next(const struct gossip_grants *t, struct slice *ret_region)
{
	const struct grant_entry *most = NULL;

	for (uint32_t i = 0; i < t->n; i++)
		if (t->list[i].sends > 0 && (most == NULL || t->list[i].sends > most->sends))
			most = &t->list[i];
	if (most != NULL)
		*ret_region = region_of(most);
	return most != NULL;
}

static void put_grant(struct wire_writer *w, const struct grant_entry *e, uint64_t now_ms)
{
	uint64_t left_ms = e->until_ms > now_ms ? e->until_ms - now_ms : 1;

	wire_put(w, e->quota, 8);
	wire_put(w, e->seq, 8);
	wire_put(w, left_ms < GOSSIP_GRANT_KEEP_MS_MAX ? left_ms : GOSSIP_GRANT_KEEP_MS_MAX, 4);
	wire_put(w, e->region_len, 1);
	wire_put_bytes(w, region_of(e));
	wire_put(w, e->len, 2);
	wire_put_bytes(w, (struct slice){e->text + e->region_len, e->len});
}

/* Of `region`, to be carried the most often, and not in this message yet. */
static struct grant_entry *choose(struct gossip_grants *t, struct slice region)
{
	struct grant_entry *most = NULL;

	for (uint32_t i = 0; i < t->n; i++) {
		struct grant_entry *e = &t->list[i];

		if (e->sends > 0 && !e->is_in && slice_equal(region_of(e), region) &&
		    (most == NULL || e->sends > most->sends))
			most = e;
	}
	return most;
}

void gossip_grants_write(struct gossip_grants *t, struct slice region, uint64_t now_ms,
			 struct wire_writer *w)
{
	struct grant_entry *e;
	size_t at = w->len;
	unsigned n = 0;

	wire_put(w, 0, 1);
	for (; n < COUNT_MAX && (e = choose(t, region)) != NULL; n++) {
		size_t len = w->len;

		put_grant(w, e, now_ms);
		if (w->full) {
			wire_undo(w, len);
			break;
		}
		e->is_in = true;
		set_sends(t, e, (uint8_t)(e->sends - 1));
	}
	w->ptr[at] = (uint8_t)n;
	for (uint32_t i = 0; i < t->n; i++)
		t->list[i].is_in = false;
}

void wire_get_grant(struct wire_reader *r, struct gossip_grant *ret_grant)
{
	ret_grant->quota = wire_get(r, 8);
	ret_grant->seq = wire_get(r, 8);
	ret_grant->keep_ms = (uint32_t)wire_get(r, 4);
	ret_grant->region = wire_get_bytes(r, wire_get(r, 1));
	ret_grant->bytes = wire_get_bytes(r, wire_get(r, 2));
	if (r->failed || !name_is_valid(ret_grant->region) || ret_grant->keep_ms < 1 ||
	    ret_grant->keep_ms > GOSSIP_GRANT_KEEP_MS_MAX || ret_grant->bytes.len < 1 ||
	    ret_grant->bytes.len > GOSSIP_GRANT_BYTES_MAX)
		r->failed = true;
}
