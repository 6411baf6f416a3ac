#include "core/concurrency.h"

#include <assert.h>

bool concurrency_init_empty(struct concurrency *c, const struct limit *l, uint64_t now_us)
{
	*c = (struct concurrency){0};
	return l->limit == 0 || admission_log_add(&c->log, now_us + l->hold_us, l->limit, 0);
}

void concurrency_release(struct concurrency *c)
{
	admission_log_release(&c->log);
}

static void take(struct concurrency *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		 bool doubted, struct limiter_verdict *ret_verdict)
{
	bool fits;

	assert(cost >= 1 && cost <= LIMIT_MAX);
	fits = admission_log_used(&c->log, now_us, 0, doubted) + cost <= l->limit;
	if (fits) {
		if (!doubted)
			admission_log_expire(&c->log, now_us, 0);
		if (!admission_log_add(&c->log, now_us + l->hold_us, cost, 0)) {
			*ret_verdict = (struct limiter_verdict){.wait_us = (int64_t)l->hold_us};
			return;
		}
	}
	admission_log_verdict(&c->log, l->limit, now_us, 0, cost, fits, doubted, ret_verdict);
}

void concurrency_take(struct concurrency *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		      struct limiter_verdict *ret_verdict)
{
	take(c, l, now_us, cost, false, ret_verdict);
}

void concurrency_take_doubted(struct concurrency *c, const struct limit *l, uint64_t now_us,
			      uint64_t cost, struct limiter_verdict *ret_verdict)
{
	take(c, l, now_us, cost, true, ret_verdict);
}
