#include "granter.h"

#include <stdlib.h>
#include <string.h>

#include "core/allocator_bytes.h"

enum { NEWS_MIN = 64, PPM = 1000000 };

static kova_status find_policies(struct granter *g)
{
	kova_status status = KOVA_OK;

	for (size_t i = 0; status == KOVA_OK && i < g->terms->n; i++)
		status = keys_policy(g->keys, slice_of(g->terms->policies[i].name),
				     &g->key_policy[i]);
	return status;
}

kova_status granter_init(struct granter *g, const struct global_terms *terms, struct keys *keys,
			 uint64_t epoch, uint64_t now_us)
{
	*g = (struct granter){
		.terms = terms,
		.keys = keys,
		.epoch = epoch,
		.base_us = now_us - 1,
		.key_policy = calloc(terms->n + 1, sizeof *g->key_policy),
		.allocator = malloc(ALLOCATOR_BYTES(terms->n_regions)),
		.sums = calloc(terms->n + 1, sizeof *g->sums),
		.next_sums = calloc(terms->n + 1, sizeof *g->next_sums),
	};
	if (g->key_policy == NULL || g->allocator == NULL || g->sums == NULL ||
	    g->next_sums == NULL)
		return KOVA_ENOMEM;
	return find_policies(g);
}

void granter_release(struct granter *g)
{
	for (uint32_t key = 0; g->keys != NULL && key < g->keys->n; key++)
		keys_drop(g->keys, key, GRANTER_PART);
	free(g->key_policy);
	free(g->news);
	free(g->allocator);
	free(g->sums);
	free(g->next_sums);
	*g = (struct granter){0};
}

/* The allocator of a key of `from`, if it has one. */
static kova_status move_part(struct granter *g, const struct keys *from, uint32_t key)
{
	struct keys_name name = keys_name(from, key);
	struct keys_part part;
	uint32_t moved;

	if (!keys_part(from, key, GRANTER_PART, &part))
		return KOVA_OK;
	name.policy = keys_policy_find(g->keys, keys_policy_name(from, name.policy));
	if (keys_make(g->keys, &name, &moved) != KOVA_OK)
		return KOVA_ENOMEM;
	return keys_set(g->keys, moved, &part);
}

kova_status granter_move(struct granter *g, struct keys *keys)
{
	const struct keys *from = g->keys;

	g->keys = keys;
	kova_status status = find_policies(g);

	for (uint32_t key = 0; status == KOVA_OK && key < from->n; key++)
		status = move_part(g, from, key);
	return status;
}

/* The allocators' clock begins with the ownership; one that lasts too long ends nothing any more. */
static uint64_t own_us(const struct granter *g, uint64_t now_us)
{
	uint64_t own = now_us > g->base_us ? now_us - g->base_us : 1;

	return own < ALLOCATOR_NOW_MAX_US ? own : ALLOCATOR_NOW_MAX_US;
}

/* ---- Quotas ---- */

/* A quota: its allocator is g->allocator. */
struct quota {
	uint32_t key;
	const struct global_policy *policy;
	bool is_news, is_new;
};

static unsigned n_regions(const struct granter *g)
{
	return (unsigned)g->terms->n_regions;
}

/* It is made if it is not there. */
static kova_status quota_make(struct granter *g, const struct global_policy *policy,
			      struct slice root, struct quota *ret_quota)
{
	const struct keys_name name = {g->key_policy[policy - g->terms->policies], root, false};
	struct quota q = {.policy = policy};
	struct keys_part part;

	if (keys_make(g->keys, &name, &q.key) != KOVA_OK)
		return KOVA_ENOMEM;
	q.is_new = !keys_part(g->keys, q.key, GRANTER_PART, &part);
	q.is_news = !q.is_new && part.marked;
	if (q.is_new)
		allocator_init(g->allocator, &policy->terms);
	else
		allocator_unpack(g->allocator, n_regions(g), part.bytes);
	*ret_quota = q;
	return KOVA_OK;
}

/* False: of this key there is none. */
static bool quota_load(struct granter *g, uint32_t key, struct quota *ret_quota)
{
	struct keys_part part;

	if (!keys_part(g->keys, key, GRANTER_PART, &part))
		return false;
	const struct slice policy = keys_policy_name(g->keys, keys_name(g->keys, key).policy);

	*ret_quota = (struct quota){.key = key,
				    .policy = global_terms_policy(g->terms, policy),
				    .is_news = part.marked};
	allocator_unpack(g->allocator, n_regions(g), part.bytes);
	return true;
}

static kova_status quota_store(struct granter *g, const struct quota *q)
{
	unsigned char bytes[ALLOCATOR_PACKED_MAX(ALLOCATOR_REGIONS_MAX)];
	const struct keys_part part = {
		GRANTER_PART,
		q->is_news,
		{(const char *)bytes, allocator_pack(g->allocator, n_regions(g), bytes)}};
	kova_status status = keys_set(g->keys, q->key, &part);

	g->n_quotas += status == KOVA_OK && q->is_new;
	return status;
}

static bool has_room(struct granter *g)
{
	size_t room = g->news_room > 0 ? 2 * g->news_room : NEWS_MIN;
	uint32_t *news;

	if (g->n_news < g->news_room)
		return true;
	news = realloc(g->news, room * sizeof *news);
	if (news == NULL)
		return false;
	g->news = news;
	g->news_room = room;
	return true;
}

/* ---- Taking over ---- */

static void grant_not_before(struct granter *g, uint64_t at_us)
{
	if (at_us > g->waits_until_us)
		g->waits_until_us = at_us;
}

/* A region that is not shared with any more may go on with what it got: nobody else gets it meanwhile. */
static void wait_for(struct granter *g, const struct allocator_terms *t,
		     const struct share_grant *grant, uint64_t now_us)
{
	uint64_t most_us = grant->duration_us;

	if (t->kind == SHARE_WINDOW)
		most_us += t->window_us;
	most_us += t->margin_us + allocator_least_margin_us(most_us, t->max_skew_us);
	grant_not_before(g, now_us + most_us);
}

kova_status granter_restore(struct granter *g, const struct share_quota *quota,
			    const struct share_grant *grant, uint64_t now_us)
{
	const struct global_policy *policy = global_terms_policy(g->terms, quota->policy);
	size_t region = global_terms_region(g->terms, quota->region);
	struct quota q;

	if (policy == NULL)
		return KOVA_ENOTFOUND;
	if (region < g->terms->n_regions && g->terms->region[region].is_dead)
		return KOVA_OK;
	if (region == g->terms->n_regions) {
		wait_for(g, &policy->terms, grant, now_us);
		return KOVA_OK;
	}
	if (quota_make(g, policy, quota->root, &q) != KOVA_OK)
		return KOVA_ENOMEM;
	allocator_restore(g->allocator, &policy->terms, (unsigned)region, own_us(g, now_us), grant);
	return quota_store(g, &q);
}

/* ---- Reports ---- */

kova_status granter_report(struct granter *g, const struct share_quota *quota,
			   const struct share_report *report, uint64_t now_us)
{
	const struct global_policy *policy = global_terms_policy(g->terms, quota->policy);
	size_t region = global_terms_region(g->terms, quota->region);
	struct quota q;
	struct share_report r;
	bool was_news;

	if (policy == NULL || region == g->terms->n_regions || g->terms->region[region].is_dead)
		return KOVA_ENOTFOUND;
	if (report->floor > 0 && report->floors == policy->terms.floors &&
	    report->floor - 1 != g->terms->region[region].floor_ppm) {
		grant_not_before(g, now_us + GRANTER_FLOORS_US);
		return KOVA_ECONFIG;
	}
	if (!has_room(g) || quota_make(g, policy, quota->root, &q) != KOVA_OK)
		return KOVA_ENOMEM;
	r = *report;
	if (r.lent_c0_us <= g->base_us) /* of no grant of this ownership */
		r.lent_epoch = 0;
	r.lent_c0_us = own_us(g, r.lent_c0_us);
	allocator_report(g->allocator, &policy->terms, g->epoch, (unsigned)region,
			 own_us(g, now_us), &r);
	was_news = q.is_news;
	q.is_news = true;
	if (quota_store(g, &q) != KOVA_OK)
		return KOVA_ENOMEM;
	if (!was_news)
		g->news[g->n_news++] = q.key;
	return KOVA_OK;
}

/* ---- Grants ---- */

static struct share_quota quota_of(const struct granter *g, const struct quota *q, unsigned region)
{
	return (struct share_quota){slice_of(g->terms->region[region].name),
				    slice_of(q->policy->name), keys_name(g->keys, q->key).root};
}

static bool give_all(const struct granter *g, const struct quota *q, uint32_t given,
		     struct share_grant *grants, granter_give *give, void *data)
{
	bool ok = true;

	for (unsigned i = 0; ok && given != 0; i++, given >>= 1)
		if (given & 1) {
			const struct share_quota quota = quota_of(g, q, i);

			grants[i].c0_us += g->base_us;
			ok = give(&quota, &grants[i], data);
		}
	return ok;
}

bool granter_decide(struct granter *g, uint64_t now_us, granter_give *give, void *data)
{
	struct share_grant grants[ALLOCATOR_REGIONS_MAX];

	if (now_us < g->waits_until_us)
		return true;
	while (g->n_news > 0) {
		struct quota q;
		uint32_t given;

		if (!quota_load(g, g->news[--g->n_news], &q))
			continue;
		q.is_news = false;
		given = allocator_grant(g->allocator, &q.policy->terms, g->epoch, own_us(g, now_us),
					grants);
		if (quota_store(g, &q) != KOVA_OK ||
		    (given != 0 && !give_all(g, &q, given, grants, give, data)))
			return false;
	}
	free(g->news);
	g->news = NULL;
	g->news_room = 0;
	return true;
}

/* ---- All of them, one after the other ---- */

void granter_sum_add(struct granter_sum *to, const struct granter_sum *sum)
{
	to->n_active += sum->n_active;
	to->excess_ppm = sum->excess_ppm > to->excess_ppm ? sum->excess_ppm : to->excess_ppm;
	for (unsigned i = 0; i < ALLOCATOR_REGIONS_MAX; i++) {
		to->region[i].share_ppm += sum->region[i].share_ppm;
		to->region[i].floor_ppm += sum->region[i].floor_ppm;
	}
}

static uint64_t ppm(uint64_t parts, const struct allocator_terms *t)
{
	return parts * PPM / t->whole;
}

static void add_up(struct granter *g, const struct quota *q, uint64_t now_us)
{
	const struct allocator_terms *t = &q->policy->terms;
	const struct allocator *a = g->allocator;
	struct granter_sum *sum = &g->next_sums[q->policy - g->terms->policies];
	uint64_t excess = ppm(allocator_excess(a, t, now_us), t);

	sum->excess_ppm = excess > sum->excess_ppm ? excess : sum->excess_ppm;
	if (allocator_is_silent(a, t, now_us))
		return;
	sum->n_active++;
	for (unsigned i = 0; i < t->n_regions; i++) {
		uint32_t share = allocator_share(a, t, i, now_us), floor = a->region[i].floor;

		sum->region[i].share_ppm += ppm(share, t);
		sum->region[i].floor_ppm += ppm(share < floor ? share : floor, t);
	}
}

static bool forget_all(const struct granter *g, const struct quota *q, granter_forget *forget,
		       void *data)
{
	bool ok = true;

	for (unsigned i = 0; ok && i < g->terms->n_regions; i++)
		if (g->allocator->region[i].seq > 0) {
			const struct share_quota quota = quota_of(g, q, i);

			ok = forget(&quota, data);
		}
	return ok;
}

static void sweep_ended(struct granter *g)
{
	struct granter_sum *sums = g->sums;

	g->sums = g->next_sums;
	g->next_sums = sums;
	memset(sums, 0, g->terms->n * sizeof *sums);
	g->swept = 0;
}

/* One more key. */
static bool look_at(struct granter *g, uint32_t key, uint64_t now_us, granter_forget *forget,
		    void *data)
{
	struct quota q;

	if (!quota_load(g, key, &q))
		return true;
	if (q.is_news ||
	    !allocator_is_at_rest(g->allocator, &q.policy->terms, now_us, GRANTER_IDLE_US)) {
		add_up(g, &q, now_us);
		return true;
	}
	if (!forget_all(g, &q, forget, data))
		return false;
	keys_drop(g->keys, key, GRANTER_PART);
	g->n_quotas--;
	return true;
}

bool granter_sweep(struct granter *g, uint64_t now_us, size_t n, granter_forget *forget, void *data)
{
	uint64_t own = own_us(g, now_us);

	for (; n > 0 && g->swept < g->keys->n; n--)
		if (!look_at(g, g->swept++, own, forget, data))
			return false;
	if (g->swept >= g->keys->n)
		sweep_ended(g);
	return true;
}
