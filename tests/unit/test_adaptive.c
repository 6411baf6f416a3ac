/* adaptive.c by itself, and in front of a server that nobody knows: it finds what that can take. */
#include <criterion/criterion.h>

#include "core/adaptive.h"

#define SECOND UINT64_C(1000000)
#define BEGIN_US (UINT64_C(1700000000) * SECOND)

static const struct adaptive_rule aimd = {.mode = ADAPTIVE_AIMD,
					  .min = 10,
					  .max = 200,
					  .increase = 4,
					  .decrease = 20,
					  .tolerance = 50,
					  .window_us = SECOND};

static enum adaptive_change feed(struct adaptive *a, uint64_t now_us, bool congested, bool used,
				 uint64_t latency_us)
{
	return adaptive_feed(a, &aimd, SECOND, now_us,
			     &(struct adaptive_outcome){.congested = congested,
							.spent = used,
							.latency_us = latency_us});
}

Test(adaptive, a_burst_of_errors_of_one_moment_counts_once)
{
	struct adaptive a = {0};

	cr_assert_eq(adaptive_limit(&a, &aimd), 200);
	cr_assert_eq(feed(&a, BEGIN_US, true, true, 0), ADAPTIVE_LOWERED);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(feed(&a, BEGIN_US + (uint64_t)i * 9999, true, true, 0), ADAPTIVE_SAME);
	cr_assert_eq(adaptive_limit(&a, &aimd), 160);
	/* A window later, of a request that was sent before the limit fell: the fall was its answer. */
	cr_assert_eq(feed(&a, BEGIN_US + 3 * SECOND, true, true, 3 * SECOND + 1), ADAPTIVE_SAME);
	cr_assert_eq(feed(&a, BEGIN_US + 3 * SECOND, true, true, 3 * SECOND), ADAPTIVE_LOWERED);
	cr_assert_eq(adaptive_limit(&a, &aimd), 128);
}

Test(adaptive, it_rises_only_while_it_is_used)
{
	struct adaptive a = {0};
	uint64_t now_us = BEGIN_US;

	feed(&a, now_us, true, true, 0);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(feed(&a, now_us += SECOND / 10, false, false, 0), ADAPTIVE_SAME);
	cr_assert_eq(adaptive_limit(&a, &aimd), 160);
	for (int i = 0; i < 20; i++)
		feed(&a, now_us += SECOND / 10, false, true, 0);
	cr_assert_eq(adaptive_limit(&a, &aimd), 168, "a step a window");
}

Test(adaptive, it_stays_within_its_bounds_also_when_they_change)
{
	struct adaptive a = {0};
	struct adaptive_rule other = aimd;

	for (uint64_t i = 0; i < 100; i++)
		feed(&a, BEGIN_US + i * 2 * SECOND, true, true, 0);
	cr_assert_eq(adaptive_limit(&a, &aimd), 10);
	other.min = 20;
	cr_assert_eq(adaptive_limit(&a, &other), 20);
	other.min = other.max = 5;
	cr_assert_eq(adaptive_limit(&a, &other), 5);
	for (uint64_t i = 0; i < 100; i++)
		feed(&a, BEGIN_US + (200 + i) * SECOND, false, true, 0);
	cr_assert_eq(adaptive_limit(&a, &aimd), 200);
	cr_assert_eq(a.limit, 0, "as if nothing had been");
}

Test(adaptive, a_clock_that_goes_back_begins_the_window_anew)
{
	struct adaptive a = {0};

	feed(&a, BEGIN_US, true, true, 0);
	cr_assert_eq(feed(&a, BEGIN_US - 3600 * SECOND, true, true, 0), ADAPTIVE_SAME);
	cr_assert_eq(feed(&a, BEGIN_US - 3599 * SECOND, true, true, 0), ADAPTIVE_LOWERED);
}

/* A server with a queue: takes `rate` a second, refuses what would wait for longer than `patience_us`. */
struct server {
	double rate;
	uint64_t patience_us, base_us;
	uint64_t free_us; /* when its queue is empty */
};

static bool serve(struct server *s, uint64_t now_us, uint64_t *ret_latency_us)
{
	uint64_t begin_us = s->free_us > now_us ? s->free_us : now_us;

	*ret_latency_us = s->base_us;
	if (begin_us - now_us > s->patience_us)
		return false;
	s->free_us = begin_us + (uint64_t)(1e6 / s->rate);
	*ret_latency_us += s->free_us - now_us;
	return true;
}

struct flight {
	uint64_t done_us, latency_us;
	bool served;
};

struct figures {
	double served, refused, latency_us; /* a second; a second; the mean */
};

/* Demand without end for `seconds`: each token is spent as soon as it is there, each outcome is fed back when it is known. */
static struct figures drive(struct adaptive *a, const struct adaptive_rule *rule, struct server *s,
			    uint64_t *now_us, unsigned seconds)
{
	static struct flight flights[65536];
	size_t first = 0, last = 0;
	struct figures f = {0};
	uint64_t end_us = *now_us + seconds * SECOND, next_us = *now_us;

	for (; *now_us < end_us; *now_us += 500) {
		for (; first < last && flights[first % 65536].done_us <= *now_us; first++) {
			struct flight *d = &flights[first % 65536];

			adaptive_feed(a, rule, SECOND, *now_us,
				      &(struct adaptive_outcome){.congested = !d->served,
								 .spent = true,
								 .latency_us = d->latency_us});
			f.served += d->served;
			f.refused += !d->served;
			f.latency_us += d->served ? (double)d->latency_us : 0;
		}
		for (; next_us <= *now_us; next_us += SECOND / adaptive_limit(a, rule)) {
			struct flight *d = &flights[last++ % 65536];

			d->served = serve(s, *now_us, &d->latency_us);
			d->done_us = *now_us + d->latency_us;
			if (last - first > 1 && flights[(last - 2) % 65536].done_us > d->done_us)
				d->done_us = flights[(last - 2) % 65536].done_us;
		}
	}
	f.latency_us /= f.served;
	f.served /= seconds;
	f.refused /= seconds;
	return f;
}

static void check(const char *when, const struct figures *f, double rate, double most_latency_us)
{
	cr_log_info("%s: %.1f of %.0f a second, %.2f %% refused, %.0f ms", when, f->served, rate,
		    100 * f->refused / (f->served + f->refused), f->latency_us / 1000);
	cr_assert_geq(f->served, 0.8 * rate, "%s: %.1f", when, f->served);
	cr_assert_leq(f->refused, 0.03 * f->served, "%s: %.1f", when, f->refused);
	cr_assert_leq(f->latency_us, most_latency_us, "%s: %.0f", when, f->latency_us);
}

static void find(const struct adaptive_rule *rule, uint64_t patience_us, double most_latency_us)
{
	struct server s = {.rate = 97, .patience_us = patience_us, .base_us = 50000};
	struct adaptive a = {0};
	uint64_t now_us = BEGIN_US;
	struct figures f;

	drive(&a, rule, &s, &now_us, 60);
	f = drive(&a, rule, &s, &now_us, 300);
	check("found", &f, s.rate, most_latency_us);
	s.rate /= 2;
	drive(&a, rule, &s, &now_us, 60);
	f = drive(&a, rule, &s, &now_us, 300);
	check("halved", &f, s.rate, most_latency_us);
	s.rate *= 3;
	drive(&a, rule, &s, &now_us, 60);
	f = drive(&a, rule, &s, &now_us, 300);
	check("risen", &f, s.rate, most_latency_us);
}

Test(adaptive, aimd_finds_what_a_server_takes_by_its_refusals)
{
	find(&aimd, 20000, 1e6);
}

Test(adaptive, gradient_finds_what_a_server_takes_by_its_latency)
{
	struct adaptive_rule rule = aimd;

	rule.mode = ADAPTIVE_GRADIENT;
	find(&rule, 10 * SECOND, 2 * 60000);
}
