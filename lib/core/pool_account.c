#include "core/pool_account.h"

#include <string.h>

#include "core/pool_rules.h"

#define DAY_US UINT64_C(86400000000)
#define SAME_US 1000000

void pool_account_hold(struct pool_account *a, uint64_t now_us, uint64_t us)
{
	if (us > 0 && (now_us + us > a->held_us || !POOL_RULE(HOLDS_NEVER_SHORTEN)))
		a->held_us = now_us + us;
}

static struct pool_quota *find(struct pool_account *a, const char *name)
{
	for (unsigned i = 0; i < a->n; i++)
		if (strcmp(a->quotas[i].name, name) == 0)
			return &a->quotas[i];
	return NULL;
}

void pool_account_learn(struct pool_account *a, uint64_t now_us, const struct pool_quota *said)
{
	uint64_t reset_us = said->absolute ? said->reset_us : now_us + said->reset_us;
	struct pool_quota *q = find(a, said->name);
	int64_t left = said->left, apart;
	bool same;

	if (reset_us <= now_us || reset_us > now_us + DAY_US ||
	    (q == NULL && a->n == POOL_QUOTAS_MAX))
		return;
	if (q == NULL) {
		q = &a->quotas[a->n++];
		*q = (struct pool_quota){.limit = -1, .left = -1, .absolute = true};
		memcpy(q->name, said->name, sizeof q->name);
	}
	apart = (int64_t)(reset_us - q->reset_us);
	same = apart <= SAME_US && apart >= -SAME_US;
	if (same && q->left >= 0 && (left < 0 || left > q->left) && POOL_RULE(LEFT_NEVER_GROWS))
		left = q->left;
	q->limit = said->limit >= 0 ? said->limit : q->limit;
	q->left = left;
	q->reset_us = same ? q->reset_us : reset_us;
}

uint64_t pool_account_wait_us(const struct pool_account *a, uint64_t now_us)
{
	uint64_t stop_us = a->held_us;

	for (unsigned i = 0; i < a->n; i++)
		if (a->quotas[i].left == 0 && a->quotas[i].reset_us > stop_us)
			stop_us = a->quotas[i].reset_us;
	return stop_us > now_us ? stop_us - now_us : 0;
}

void pool_account_use(struct pool_account *a, uint64_t now_us, bool undone)
{
	struct pool_quota *q = find(a, "requests");

	if (q == NULL || q->reset_us <= now_us || !POOL_RULE(EACH_NEXT_TAKES_ONE))
		return;
	if (undone && q->left >= 0)
		q->left++;
	else if (!undone && q->left > 0)
		q->left--;
}
