#include "granter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { SLOTS_MIN = 64, PPM = 1000000 };

/* `rest`: the allocator of so many regions as there are, then the root. */
struct granter_quota {
	struct granter_quota *next_news;
	uint32_t policy; /* index of the terms' */
	uint16_t root_len;
	bool is_news; /* a report came since it was last decided upon */
	_Alignas(8) unsigned char rest[];
};

kova_status granter_init(struct granter *g, const struct global_terms *terms, uint64_t epoch,
			 uint64_t now_us)
{
	*g = (struct granter){
		.terms = terms,
		.epoch = epoch,
		.base_us = now_us - 1,
		.sums = calloc(terms->n + 1, sizeof *g->sums),
		.next_sums = calloc(terms->n + 1, sizeof *g->next_sums),
	};
	return g->sums != NULL && g->next_sums != NULL ? KOVA_OK : KOVA_ENOMEM;
}

void granter_release(struct granter *g)
{
	for (size_t i = 0; i < g->n_slots; i++)
		free(g->quotas[i]);
	free(g->quotas);
	free(g->sums);
	free(g->next_sums);
	*g = (struct granter){0};
}

/* The allocators' clock begins with the ownership; one that lasts too long ends nothing any more. */
static uint64_t own_us(const struct granter *g, uint64_t now_us)
{
	uint64_t own = now_us > g->base_us ? now_us - g->base_us : 1;

	return own < ALLOCATOR_NOW_MAX_US ? own : ALLOCATOR_NOW_MAX_US;
}

static struct allocator *allocator_of(struct granter_quota *q)
{
	return (struct allocator *)q->rest;
}

static const struct allocator_terms *terms_of(const struct granter *g,
					      const struct granter_quota *q)
{
	return &g->terms->policies[q->policy].terms;
}

/* ---- Quotas ---- */

static struct slice root_of(const struct granter *g, const struct granter_quota *q)
{
	return (struct slice){(const char *)q->rest + ALLOCATOR_BYTES(g->terms->n_regions),
			      q->root_len};
}

static size_t home_of(const struct granter *g, uint32_t policy, struct slice root)
{
	return hash_bytes(root, hash_mix(g->epoch + policy)) & (g->n_slots - 1);
}

/* The slot of the quota, or the free one where it belongs. */
static size_t slot_of(const struct granter *g, uint32_t policy, struct slice root)
{
	size_t i = home_of(g, policy, root);

	for (; g->quotas[i] != NULL; i = (i + 1) & (g->n_slots - 1))
		if (g->quotas[i]->policy == policy && slice_equal(root_of(g, g->quotas[i]), root))
			break;
	return i;
}

static bool grow(struct granter *g)
{
	struct granter_quota **old = g->quotas;
	size_t n_old = g->n_slots, n = n_old > 0 ? 2 * n_old : SLOTS_MIN;
	struct granter_quota **slots = calloc(n, sizeof(*slots));

	if (slots == NULL)
		return false;
	g->quotas = slots;
	g->n_slots = n;
	for (size_t i = 0; i < n_old; i++)
		if (old[i] != NULL)
			slots[slot_of(g, old[i]->policy, root_of(g, old[i]))] = old[i];
	free(old);
	return true;
}

static struct granter_quota *quota_new(const struct granter *g, uint32_t policy, struct slice root)
{
	size_t bytes = ALLOCATOR_BYTES(g->terms->n_regions);
	struct granter_quota *q = malloc(sizeof *q + bytes + root.len);

	assert(root.len <= SHARE_ROOT_MAX);
	if (q == NULL)
		return NULL;
	q->next_news = NULL;
	q->policy = policy;
	q->root_len = (uint16_t)root.len;
	q->is_news = false;
	allocator_init(allocator_of(q), terms_of(g, q));
	if (root.len > 0)
		memcpy(q->rest + bytes, root.ptr, root.len);
	return q;
}

/* Those that came to lie behind it because of it move up (Knuth, 6.4, algorithm R). */
static void quota_drop(struct granter *g, size_t slot)
{
	size_t mask = g->n_slots - 1, hole = slot;

	free(g->quotas[slot]);
	g->quotas[slot] = NULL;
	g->n_quotas--;
	for (size_t i = (slot + 1) & mask; g->quotas[i] != NULL; i = (i + 1) & mask) {
		size_t home = home_of(g, g->quotas[i]->policy, root_of(g, g->quotas[i]));

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		g->quotas[hole] = g->quotas[i];
		g->quotas[i] = NULL;
		hole = i;
	}
}

/* The quota, which is made if it is not there; NULL: out of memory. */
static struct granter_quota *quota_find(struct granter *g, const struct global_policy *of,
					struct slice root)
{
	uint32_t policy = (uint32_t)(of - g->terms->policies);
	size_t slot;

	if (4 * (g->n_quotas + 1) > 3 * g->n_slots && !grow(g))
		return NULL;
	slot = slot_of(g, policy, root);
	if (g->quotas[slot] == NULL) {
		g->quotas[slot] = quota_new(g, policy, root);
		g->n_quotas += g->quotas[slot] != NULL;
	}
	return g->quotas[slot];
}

/* ---- Taking over ---- */

/* A region that is not shared with any more may go on with what it got: nobody else gets it meanwhile. */
static void wait_for(struct granter *g, const struct allocator_terms *t,
		     const struct share_grant *grant, uint64_t now_us)
{
	uint64_t most_us = grant->duration_us;

	if (t->kind == SHARE_WINDOW)
		most_us += t->window_us;
	most_us += t->margin_us + allocator_least_margin_us(most_us, t->max_skew_us);
	if (now_us + most_us > g->waits_until_us)
		g->waits_until_us = now_us + most_us;
}

kova_status granter_restore(struct granter *g, const struct share_quota *quota,
			    const struct share_grant *grant, uint64_t now_us)
{
	const struct global_policy *policy = global_terms_policy(g->terms, quota->policy);
	size_t region = global_terms_region(g->terms, quota->region);
	struct granter_quota *q;

	if (policy == NULL)
		return KOVA_ENOTFOUND;
	if (region < g->terms->n_regions && g->terms->region[region].is_dead)
		return KOVA_OK;
	if (region == g->terms->n_regions) {
		wait_for(g, &policy->terms, grant, now_us);
		return KOVA_OK;
	}
	q = quota_find(g, policy, quota->root);
	if (q == NULL)
		return KOVA_ENOMEM;
	allocator_restore(allocator_of(q), &policy->terms, (unsigned)region, own_us(g, now_us),
			  grant);
	return KOVA_OK;
}

/* ---- Reports ---- */

kova_status granter_report(struct granter *g, const struct share_quota *quota,
			   const struct share_report *report, uint64_t now_us)
{
	const struct global_policy *policy = global_terms_policy(g->terms, quota->policy);
	size_t region = global_terms_region(g->terms, quota->region);
	struct granter_quota *q;
	struct share_report r;

	if (policy == NULL || region == g->terms->n_regions || g->terms->region[region].is_dead)
		return KOVA_ENOTFOUND;
	q = quota_find(g, policy, quota->root);
	if (q == NULL)
		return KOVA_ENOMEM;
	r = *report;
	if (r.lent_c0_us <= g->base_us) /* of no grant of this ownership */
		r.lent_epoch = 0;
	r.lent_c0_us = own_us(g, r.lent_c0_us);
	allocator_report(allocator_of(q), &policy->terms, g->epoch, (unsigned)region,
			 own_us(g, now_us), &r);
	if (!q->is_news) {
		q->is_news = true;
		q->next_news = g->news;
		g->news = q;
	}
	return KOVA_OK;
}

/* ---- Grants ---- */

static struct share_quota quota_of(const struct granter *g, const struct granter_quota *q,
				   unsigned region)
{
	return (struct share_quota){slice_of(g->terms->region[region].name),
				    slice_of(g->terms->policies[q->policy].name), root_of(g, q)};
}

static bool give_all(const struct granter *g, const struct granter_quota *q, uint32_t given,
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
	while (g->news != NULL) {
		struct granter_quota *q = g->news;
		uint32_t given;

		g->news = q->next_news;
		q->is_news = false;
		given = allocator_grant(allocator_of(q), terms_of(g, q), g->epoch,
					own_us(g, now_us), grants);
		if (given != 0 && !give_all(g, q, given, grants, give, data))
			return false;
	}
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

static void add_up(struct granter *g, struct granter_quota *q, uint64_t now_us)
{
	const struct allocator_terms *t = terms_of(g, q);
	const struct allocator *a = allocator_of(q);
	struct granter_sum *sum = &g->next_sums[q->policy];
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

static bool forget_all(const struct granter *g, struct granter_quota *q, granter_forget *forget,
		       void *data)
{
	bool ok = true;

	for (unsigned i = 0; ok && i < g->terms->n_regions; i++)
		if (allocator_of(q)->region[i].seq > 0) {
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

bool granter_sweep(struct granter *g, uint64_t now_us, size_t n, granter_forget *forget, void *data)
{
	uint64_t own = own_us(g, now_us);

	for (; n > 0 && g->swept < g->n_slots; n--) {
		struct granter_quota *q = g->quotas[g->swept];

		if (q != NULL && !q->is_news &&
		    allocator_is_at_rest(allocator_of(q), terms_of(g, q), own, GRANTER_IDLE_US)) {
			if (!forget_all(g, q, forget, data))
				return false;
			quota_drop(g, g->swept); /* another one may be there now */
			continue;
		}
		if (q != NULL)
			add_up(g, q, own);
		g->swept++;
	}
	if (g->swept >= g->n_slots)
		sweep_ended(g);
	return true;
}
