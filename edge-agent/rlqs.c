/*
 * Buckets and subscriptions are found by their names in two tables of lists. Each bucket is in a heap by when its next round
 * is due; one timer runs while there is a bucket, and looks at least each POLL_US whether the catalogue has changed, upon
 * which all buckets are bound anew and their clients told at once.
 */
#include "rlqs_own.h"

#include <stdlib.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "core/hash.h"

enum { POLL_US = 100000 };

uint64_t rlqs_now_us(struct rlqs *r)
{
	return lease_clock_now_us(&r->clock);
}

void rlqs_new_batch(struct rlqs *r)
{
	r->clock.is_old = true;
}

/* ---- Time ---- */

static void on_timer(uv_timer_t *t);

/* Before the earliest round, and before the catalogue is to be looked at. */
static void set_timer(struct rlqs *r)
{
	const struct timer_entry *first = timer_heap_first(&r->due);
	uint64_t now_us = rlqs_now_us(r), wait_us = 0;

	if (first == NULL) {
		uv_timer_stop(&r->timer);
		return;
	}
	if (first->at > now_us)
		wait_us = first->at - now_us < POLL_US ? first->at - now_us : POLL_US;
	uv_timer_start(&r->timer, on_timer, (wait_us + 999) / 1000, 0);
}

void rlqs_due(struct rlqs_bucket *b, uint64_t at_us)
{
	if (b->due.place != 0 && b->due.at <= at_us)
		return;
	if (timer_heap_set(&b->rlqs->due, &b->due, at_us) == KOVA_OK)
		set_timer(b->rlqs);
}

static void watch_catalogue(struct rlqs *r)
{
	struct catalogue *c = control_catalogue(r->agent->control);

	if (r->catalogue == c)
		return;
	catalogue_unref(r->catalogue);
	r->catalogue = catalogue_ref(c);
	for (unsigned i = 0; i < RLQS_LISTS; i++)
		for (struct rlqs_bucket *b = r->buckets[i]; b != NULL; b = b->next_found) {
			if (b->asking != NULL) /* by what limited it before */
				allot_abandon(&b->asking);
			rlqs_bind(b);
			for (struct rlqs_sub *s = b->subs; s != NULL; s = s->next)
				s->is_sure = false;
			b->again_us = 0;
			rlqs_due(b, rlqs_now_us(r));
		}
}

static void on_timer(uv_timer_t *t)
{
	struct rlqs *r = t->data;
	struct timer_entry *first;

	rlqs_new_batch(r);
	r->in_turn = true;
	watch_catalogue(r);
	while ((first = timer_heap_first(&r->due)) != NULL && first->at <= rlqs_now_us(r)) {
		timer_heap_remove(&r->due, first);
		rlqs_round((struct rlqs_bucket *)first);
	}
	set_timer(r);
	r->in_turn = false;
	rlqs_flush(r);
}

/* ---- Buckets ---- */

static struct rlqs_bucket **bucket_list(struct rlqs *r, uint64_t hash)
{
	return &r->buckets[hash % RLQS_LISTS];
}

static struct rlqs_bucket *bucket_find(struct rlqs *r, struct slice name, uint64_t hash)
{
	struct rlqs_bucket *b = *bucket_list(r, hash);

	while (b != NULL &&
	       (b->hash != hash || !slice_equal((struct slice){b->name, b->name_len}, name)))
		b = b->next_found;
	return b;
}

static struct rlqs_bucket *bucket_new(struct rlqs *r, struct slice name, uint64_t hash)
{
	struct rlqs_bucket *b = calloc(1, sizeof *b + name.len);

	if (b == NULL)
		return NULL;
	b->rlqs = r;
	b->hash = hash;
	b->name_len = name.len;
	memcpy(b->name, name.ptr, name.len);
	if (timer_heap_set(&r->due, &b->due, rlqs_now_us(r)) != KOVA_OK) {
		free(b);
		return NULL;
	}
	b->next_found = *bucket_list(r, hash);
	*bucket_list(r, hash) = b;
	if (r->catalogue == NULL)
		r->catalogue = catalogue_ref(control_catalogue(r->agent->control));
	rlqs_bind(b);
	set_timer(r);
	return b;
}

static void bucket_free(struct rlqs_bucket *b)
{
	struct rlqs_bucket **at = bucket_list(b->rlqs, b->hash);

	while (*at != b)
		at = &(*at)->next_found;
	*at = b->next_found;
	timer_heap_remove(&b->rlqs->due, &b->due);
	if (b->asking != NULL)
		allot_abandon(&b->asking);
	buf_release(&b->text);
	free(b);
}

/* ---- Subscriptions ---- */

static struct rlqs_sub **sub_list(const struct rlqs_stream *st, uint64_t hash)
{
	return &st->rlqs->subs[(hash ^ hash_mix((uintptr_t)st)) % RLQS_LISTS];
}

struct rlqs_sub *rlqs_find(struct rlqs_stream *st, struct slice name, uint64_t hash)
{
	struct rlqs_sub *s = *sub_list(st, hash);

	while (s != NULL &&
	       (s->stream != st || s->bucket->hash != hash ||
		!slice_equal((struct slice){s->bucket->name, s->bucket->name_len}, name)))
		s = s->next_found;
	return s;
}

static void link_sub(struct rlqs_sub *s)
{
	struct rlqs_sub **list = sub_list(s->stream, s->bucket->hash);

	s->next_found = *list;
	*list = s;
	s->next = s->bucket->subs;
	if (s->next != NULL)
		s->next->prev = s;
	s->bucket->subs = s;
	s->bucket->n_subs++;
	s->next_own = s->stream->subs;
	if (s->next_own != NULL)
		s->next_own->prev_own = s;
	s->stream->subs = s;
	s->stream->n_subs++;
	rlqs_counters(s->stream->rlqs)->buckets++;
}

struct rlqs_sub *rlqs_subscribe(struct rlqs_stream *st, struct slice name, uint64_t hash,
				struct slice id)
{
	struct rlqs *r = st->rlqs;
	struct rlqs_bucket *b = bucket_find(r, name, hash);
	struct rlqs_sub *s = NULL;

	if (st->n_subs < RLQS_STREAM_BUCKETS_MAX && rlqs_counters(r)->buckets < RLQS_BUCKETS_MAX)
		s = calloc(1, sizeof *s + id.len);
	if (s == NULL) {
		rlqs_counters(r)->too_many++;
		return NULL;
	}
	if (b == NULL)
		b = bucket_new(r, name, hash);
	if (b == NULL) {
		free(s);
		return NULL;
	}
	s->stream = st;
	s->bucket = b;
	s->id_len = id.len;
	memcpy(s->id, id.ptr, id.len);
	link_sub(s);
	return s;
}

void rlqs_unsubscribe(struct rlqs_sub *s)
{
	struct rlqs_bucket *b = s->bucket;
	struct rlqs_sub **found = sub_list(s->stream, b->hash);

	while (*found != s)
		found = &(*found)->next_found;
	*found = s->next_found;
	*(s->prev != NULL ? &s->prev->next : &b->subs) = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	*(s->prev_own != NULL ? &s->prev_own->next_own : &s->stream->subs) = s->next_own;
	if (s->next_own != NULL)
		s->next_own->prev_own = s->prev_own;
	s->stream->n_subs--;
	rlqs_counters(b->rlqs)->buckets--;
	free(s);
	if (--b->n_subs == 0)
		bucket_free(b);
}

/* ---- Life ---- */

struct rlqs *rlqs_new(struct agent *a)
{
	struct rlqs *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	r->agent = a;
	r->clock.is_old = true;
	uv_timer_init(a->loop, &r->timer);
	r->timer.data = r;
	return r;
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

void rlqs_close(struct rlqs *r)
{
	if (r == NULL)
		return;
	catalogue_unref(r->catalogue);
	timer_heap_release(&r->due);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}
