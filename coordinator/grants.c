#include "grants.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { SLOTS_MIN = 64 };

void grants_init(struct grants *g, const struct global_terms *terms, uint64_t epoch)
{
	*g = (struct grants){.terms = terms, .epoch = epoch};
}

void grants_release(struct grants *g)
{
	for (size_t i = 0; i < g->n_slots; i++)
		free(g->quotas[i]);
	free(g->quotas);
	*g = (struct grants){0};
}

/* ---- Quotas ---- */

static struct slice root_of(const struct grants_quota *q)
{
	return (struct slice){q->root, q->root_len};
}

/* The slot of the quota, or the free one where it belongs. */
static size_t slot_of(const struct grants *g, const struct global_policy *policy, struct slice root)
{
	size_t mask = g->n_slots - 1, number = (size_t)(policy - g->terms->policies);
	size_t i = hash_bytes(root, hash_mix(g->epoch + number)) & mask;

	for (; g->quotas[i] != NULL; i = (i + 1) & mask)
		if (g->quotas[i]->policy == policy && slice_equal(root_of(g->quotas[i]), root))
			break;
	return i;
}

static bool grow(struct grants *g)
{
	struct grants_quota **old = g->quotas;
	size_t n_old = g->n_slots, n = n_old > 0 ? 2 * n_old : SLOTS_MIN;
	struct grants_quota **slots = calloc(n, sizeof(*slots));

	if (slots == NULL)
		return false;
	g->quotas = slots;
	g->n_slots = n;
	for (size_t i = 0; i < n_old; i++)
		if (old[i] != NULL)
			slots[slot_of(g, old[i]->policy, root_of(old[i]))] = old[i];
	free(old);
	return true;
}

static struct grants_quota *quota_new(const struct grants *g, const struct global_policy *policy,
				      struct slice root)
{
	struct grants_quota *q = malloc(sizeof *q + root.len);

	assert(root.len <= SHARE_ROOT_MAX);
	if (q == NULL)
		return NULL;
	q->next_news = NULL;
	q->policy = policy;
	q->root_len = (uint16_t)root.len;
	q->is_news = false;
	allocator_init(&q->allocator, &policy->terms, g->epoch);
	if (root.len > 0)
		memcpy(q->root, root.ptr, root.len);
	return q;
}

/* The quota, which is made if it is not there; NULL: out of memory. */
static struct grants_quota *quota_find(struct grants *g, const struct global_policy *policy,
				       struct slice root)
{
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
static void wait_for(struct grants *g, const struct allocator_terms *t,
		     const struct share_grant *grant, uint64_t now_us)
{
	uint64_t most_us = grant->duration_us;

	if (t->kind == SHARE_WINDOW)
		most_us += t->window_us;
	most_us += t->margin_us + allocator_least_margin_us(most_us, t->max_skew_us);
	if (now_us + most_us > g->waits_until_us)
		g->waits_until_us = now_us + most_us;
}

kova_status grants_restore(struct grants *g, const struct share_quota *quota,
			   const struct share_grant *grant, uint64_t now_us)
{
	const struct global_policy *policy = global_terms_policy(g->terms, quota->policy);
	size_t region = global_terms_region(g->terms, quota->region);
	struct grants_quota *q;

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
	allocator_restore(&q->allocator, &policy->terms, (unsigned)region, now_us, grant);
	return KOVA_OK;
}

/* ---- Reports ---- */

kova_status grants_report(struct grants *g, const struct share_quota *quota,
			  const struct share_report *report, uint64_t now_us)
{
	const struct global_policy *policy = global_terms_policy(g->terms, quota->policy);
	size_t region = global_terms_region(g->terms, quota->region);
	struct grants_quota *q;

	if (policy == NULL || region == g->terms->n_regions || g->terms->region[region].is_dead)
		return KOVA_ENOTFOUND;
	q = quota_find(g, policy, quota->root);
	if (q == NULL)
		return KOVA_ENOMEM;
	allocator_report(&q->allocator, &policy->terms, (unsigned)region, now_us, report);
	if (!q->is_news) {
		q->is_news = true;
		q->next_news = g->news;
		g->news = q;
	}
	return KOVA_OK;
}

/* ---- Grants ---- */

static bool give_all(const struct grants *g, const struct grants_quota *q, uint32_t given,
		     const struct share_grant *grants, grants_give *give, void *data)
{
	bool ok = true;

	for (unsigned i = 0; ok && given != 0; i++, given >>= 1)
		if (given & 1) {
			const struct share_quota quota = {slice_of(g->terms->region[i].name),
							  slice_of(q->policy->name), root_of(q)};

			ok = give(&quota, &grants[i], data);
		}
	return ok;
}

bool grants_decide(struct grants *g, uint64_t now_us, grants_give *give, void *data)
{
	struct share_grant grants[ALLOCATOR_REGIONS_MAX];

	if (now_us < g->waits_until_us)
		return true;
	while (g->news != NULL) {
		struct grants_quota *q = g->news;
		uint32_t given;

		g->news = q->next_news;
		q->is_news = false;
		given = allocator_grant(&q->allocator, &q->policy->terms, now_us, grants);
		if (given != 0 && !give_all(g, q, given, grants, give, data))
			return false;
	}
	return true;
}
