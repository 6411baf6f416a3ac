#include "core/limiter.h"

#include <assert.h>

bool limiter_init(struct limiter_state *s, const struct limit *l, uint64_t now_us, bool empty)
{
	*s = (struct limiter_state){.algorithm = l->algorithm};
	if (!empty || l->limit == 0)
		return true;
	switch (l->algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		bucket_init_empty(&s->bucket, l, now_us);
		return true;
	case ALGORITHM_GCRA:
		gcra_init_empty(&s->gcra, l, now_us);
		return true;
	case ALGORITHM_SLIDING_WINDOW:
		return window_init_empty(&s->window, l, now_us);
	case ALGORITHM_SLIDING_COUNTER:
		counter_init_empty(&s->counter, l, now_us);
		return true;
	case ALGORITHM_CALENDAR:
		calendar_init_empty(&s->calendar, l, now_us);
		return true;
	case ALGORITHM_CONCURRENCY:
		return concurrency_init_empty(&s->concurrency, l, now_us);
	case ALGORITHM_N:
		break;
	}
	return false;
}

void limiter_release(struct limiter_state *s)
{
	if (s->algorithm == ALGORITHM_SLIDING_WINDOW)
		window_release(&s->window);
	if (s->algorithm == ALGORITHM_CONCURRENCY)
		concurrency_release(&s->concurrency);
}

void limiter_admit(const struct limit *l, struct limiter_state *s, uint64_t now_us, uint64_t cost,
		   struct limiter_verdict *ret_verdict)
{
	assert(s->algorithm == l->algorithm);
	switch (l->algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		bucket_take(&s->bucket, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_GCRA:
		gcra_take(&s->gcra, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_SLIDING_WINDOW:
		window_take(&s->window, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_SLIDING_COUNTER:
		counter_take(&s->counter, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_CALENDAR:
		calendar_take(&s->calendar, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_CONCURRENCY:
		concurrency_take(&s->concurrency, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_N:
		break;
	}
}

void limiter_admit_doubted(const struct limit *l, struct limiter_state *s, uint64_t now_us,
			   uint64_t cost, struct limiter_verdict *ret_verdict)
{
	assert(s->algorithm == l->algorithm && l->algorithm != ALGORITHM_TOKEN_BUCKET);
	switch (l->algorithm) {
	case ALGORITHM_GCRA:
		gcra_take_doubted(&s->gcra, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_SLIDING_WINDOW:
		window_take_doubted(&s->window, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_SLIDING_COUNTER:
		counter_take_doubted(&s->counter, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_CALENDAR:
		calendar_take_doubted(&s->calendar, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_CONCURRENCY:
		concurrency_take_doubted(&s->concurrency, l, now_us, cost, ret_verdict);
		break;
	case ALGORITHM_TOKEN_BUCKET:
	case ALGORITHM_N:
		break;
	}
}

void limiter_untake(const struct limit *l, struct limiter_state *s,
		    const struct limiter_state *before, uint64_t now_us, uint64_t cost)
{
	if (s->algorithm == ALGORITHM_SLIDING_WINDOW)
		admission_log_untake(&s->window.log, now_us, cost);
	else if (s->algorithm == ALGORITHM_CONCURRENCY)
		admission_log_untake(&s->concurrency.log, now_us + l->hold_us, cost);
	else
		*s = *before;
}
