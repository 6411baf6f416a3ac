#include "io/share_codec.h"

#include <assert.h>
#include <kova_share.pb-c.h>

#include "core/limit.h"
#include "core/name.h"

/* What protobuf-c wants as text. */
struct quota_text {
	char region[NAME_BYTES_MAX + 1], policy[NAME_BYTES_MAX + 1];
	ProtobufCBinaryData root;
};

static void quota_text(const struct share_quota *q, struct quota_text *ret_text)
{
	assert(q->region.len <= NAME_BYTES_MAX && q->policy.len <= NAME_BYTES_MAX);
	*ret_text = (struct quota_text){
		.root = {.len = q->root.len, .data = (uint8_t *)(uintptr_t)q->root.ptr}};
	memcpy(ret_text->region, q->region.ptr, q->region.len);
	memcpy(ret_text->policy, q->policy.ptr, q->policy.len);
}

static bool quota_of(const char *region, const char *policy, ProtobufCBinaryData root,
		     struct share_quota *ret_quota)
{
	*ret_quota = (struct share_quota){
		slice_of(region), slice_of(policy), {(const char *)root.data, root.len}};
	return name_is_valid(ret_quota->region) && name_is_valid(ret_quota->policy) &&
	       root.len <= SHARE_ROOT_MAX;
}

/* ---- Reports ---- */

static bool report_is_sound(const struct share_report *r)
{
	return r->whole >= 1 && r->whole <= LIMIT_MAX && r->clock >= 1 &&
	       r->t0_us <= LIMIT_FOREVER_US && r->lent <= r->whole &&
	       r->lent_c0_us <= LIMIT_FOREVER_US;
}

kova_status share_report_parse(struct slice value, struct share_report_message *ret_m)
{
	Kova__V1__ShareReport *p =
		kova__v1__share_report__unpack(NULL, value.len, (const uint8_t *)value.ptr);

	if (p == NULL)
		return KOVA_EPROTO;
	*ret_m = (struct share_report_message){
		.owner = p,
		.report = {.clock = p->clock,
			   .t0_us = p->t0,
			   .seq = p->seq,
			   .live = p->live,
			   .whole = p->whole,
			   .demand = p->demand,
			   .used = p->used,
			   .window = p->window,
			   .floors = p->floors,
			   .lent = p->lent,
			   .lent_epoch = p->lent_epoch,
			   .lent_c0_us = p->lent_c0,
			   .floor = p->floor},
	};
	if (quota_of(p->region, p->policy, p->root, &ret_m->quota) &&
	    report_is_sound(&ret_m->report))
		return KOVA_OK;
	share_report_release(ret_m);
	return KOVA_EPROTO;
}

void share_report_release(struct share_report_message *m)
{
	kova__v1__share_report__free_unpacked(m->owner, NULL);
	m->owner = NULL;
}

void share_report_write(const struct share_quota *q, const struct share_report *r, struct buf *out)
{
	Kova__V1__ShareReport p = KOVA__V1__SHARE_REPORT__INIT;
	struct quota_text text;
	char *to;

	quota_text(q, &text);
	p.region = text.region;
	p.policy = text.policy;
	p.root = text.root;
	p.clock = r->clock;
	p.t0 = r->t0_us;
	p.seq = r->seq;
	p.live = r->live;
	p.whole = r->whole;
	p.demand = r->demand;
	p.used = r->used;
	p.window = r->window;
	p.floors = r->floors;
	p.lent = r->lent;
	p.lent_epoch = r->lent_epoch;
	p.lent_c0 = r->lent_c0_us;
	p.floor = r->floor;
	to = buf_reserve(out, kova__v1__share_report__get_packed_size(&p));
	if (to != NULL)
		out->len += kova__v1__share_report__pack(&p, (uint8_t *)to);
}

/* ---- Grants ---- */

static bool grant_is_sound(const struct share_grant *g)
{
	return g->seq >= 1 && g->clock >= 1 && g->whole >= 1 && g->whole <= LIMIT_MAX &&
	       g->parts <= g->whole && g->before <= g->whole && g->floor <= g->whole &&
	       g->t0_us <= LIMIT_FOREVER_US && g->duration_us <= LIMIT_FOREVER_US &&
	       g->epoch >= 1 && g->c0_us <= LIMIT_FOREVER_US;
}

kova_status share_grant_parse(struct slice value, struct share_grant_message *ret_m)
{
	Kova__V1__ShareGrant *p =
		kova__v1__share_grant__unpack(NULL, value.len, (const uint8_t *)value.ptr);

	if (p == NULL)
		return KOVA_EPROTO;
	*ret_m = (struct share_grant_message){
		.owner = p,
		.grant = {.seq = p->seq,
			  .clock = p->clock,
			  .t0_us = p->t0,
			  .duration_us = p->duration,
			  .whole = p->whole,
			  .parts = p->parts,
			  .before = p->before,
			  .window = p->window,
			  .floor = p->floor,
			  .floors = p->floors,
			  .epoch = p->epoch,
			  .c0_us = p->c0},
	};
	if (quota_of(p->region, p->policy, p->root, &ret_m->quota) && grant_is_sound(&ret_m->grant))
		return KOVA_OK;
	share_grant_release(ret_m);
	return KOVA_EPROTO;
}

void share_grant_release(struct share_grant_message *m)
{
	kova__v1__share_grant__free_unpacked(m->owner, NULL);
	m->owner = NULL;
}

void share_grant_write(const struct share_quota *q, const struct share_grant *g, struct buf *out)
{
	Kova__V1__ShareGrant p = KOVA__V1__SHARE_GRANT__INIT;
	struct quota_text text;
	char *to;

	quota_text(q, &text);
	p.region = text.region;
	p.policy = text.policy;
	p.root = text.root;
	p.seq = g->seq;
	p.clock = g->clock;
	p.t0 = g->t0_us;
	p.duration = g->duration_us;
	p.whole = g->whole;
	p.parts = g->parts;
	p.before = g->before;
	p.window = g->window;
	p.floor = g->floor;
	p.floors = g->floors;
	p.epoch = g->epoch;
	p.c0 = g->c0_us;
	to = buf_reserve(out, kova__v1__share_grant__get_packed_size(&p));
	if (to != NULL)
		out->len += kova__v1__share_grant__pack(&p, (uint8_t *)to);
}
