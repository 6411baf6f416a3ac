#include "core/window.h"

#include <assert.h>

bool window_init_empty(struct window *w, const struct limit *l, uint64_t now_us)
{
	*w = (struct window){0};
	return l->limit == 0 || admission_log_add(&w->log, now_us, l->limit, 0);
}

void window_release(struct window *w)
{
	admission_log_release(&w->log);
}

static void take(struct window *w, const struct limit *l, uint64_t now_us, uint64_t cost,
		 bool doubted, struct limiter_verdict *ret_verdict)
{
	bool fits;

	assert(cost >= 1 && cost <= LIMIT_MAX);
	fits = admission_log_used(&w->log, now_us, l->per_us, doubted) + cost <= l->limit;
	if (fits) {
		if (!doubted)
			admission_log_expire(&w->log, now_us, l->per_us);
		if (!admission_log_add(&w->log, now_us, cost, 0)) {
			*ret_verdict = (struct limiter_verdict){.wait_us = (int64_t)l->per_us};
			return;
		}
	}
	admission_log_verdict(&w->log, l->limit, now_us, l->per_us, cost, fits, doubted,
			      ret_verdict);
}

void window_take(struct window *w, const struct limit *l, uint64_t now_us, uint64_t cost,
		 struct limiter_verdict *ret_verdict)
{
	take(w, l, now_us, cost, false, ret_verdict);
}

void window_take_doubted(struct window *w, const struct limit *l, uint64_t now_us, uint64_t cost,
			 struct limiter_verdict *ret_verdict)
{
	take(w, l, now_us, cost, true, ret_verdict);
}
