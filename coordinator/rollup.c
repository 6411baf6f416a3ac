#include "rollup.h"

#include <inttypes.h>
#include <string.h>

#include "core/rfc3339.h"

static void add_counts(struct usage_counts *sum, struct usage_counts c)
{
	sum->admitted += c.admitted;
	sum->refused += c.refused;
	sum->waited += c.waited;
}

/* What was used since it was published: modulo 2^64, so that it is exact. */
static void add_interval(struct usage_counts *sum, const struct sums_series *s)
{
	add_counts(sum, (struct usage_counts){s->total.admitted - s->published.admitted,
					      s->total.refused - s->published.refused,
					      s->total.waited - s->published.waited});
}

static void write_counts(struct buf *out, struct usage_counts c)
{
	buf_printf(out, "\"admitted\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"waited\":%" PRIu64,
		   c.admitted, c.refused, c.waited);
}

/* The mean of the quotas that are in use; where there is none, each region has its floor. */
static void write_shares(struct buf *out, const struct sums_series *s, const struct coord_policy *p,
			 const struct coord_regions *regions)
{
	struct share_sum sum = sums_shares(s);
	size_t region = coord_regions_find(regions, slice_of(s->region));
	double limit = (double)p->limit / 1e6, share, floor;

	if (sum.n == 0 && region < regions->n) {
		sum.share_ppm = sum.floor_ppm = regions->of[region].floor_ppm;
		sum.n = 1;
	}
	share = sum.n > 0 ? (double)sum.share_ppm * limit / (double)sum.n : 0;
	floor = sum.n > 0 ? (double)sum.floor_ppm * limit / (double)sum.n : 0;
	buf_printf(out, ",\"share\":%.10g,\"grant\":%.10g,\"floor\":%.10g", share, share - floor,
		   floor);
}

/* Of what is not shared out every region may use all, always. */
static void write_region(struct buf *out, const struct sums_series *s, struct usage_counts interval,
			 const struct coord_policy *p, const struct coord_regions *regions)
{
	buf_printf(out, "\"%s\":{", s->region);
	write_counts(out, interval);
	buf_printf(out, ",\"admitted_total\":%" PRIu64, s->total.admitted);
	if (p != NULL && p->is_global)
		write_shares(out, s, p, regions);
	else if (p != NULL)
		buf_printf(out, ",\"share\":%" PRIu64 ",\"grant\":0,\"floor\":%" PRIu64, p->limit,
			   p->limit);
	buf_add_text(out, "}");
}

/* `all`: the `n` series of one policy. */
static void write_row(struct buf *out, struct sums_series *const *all, size_t n,
		      const struct rollup_interval *interval)
{
	const struct coord_policy *p = coord_conf_policy(interval->conf, all[0]->policy);
	char from[RFC3339_TEXT_MAX], to[RFC3339_TEXT_MAX];
	struct usage_counts sum = {0};

	rfc3339_write(interval->from_ms, from);
	rfc3339_write(interval->to_ms, to);
	buf_printf(out, "{\"policy\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",", all[0]->policy, from,
		   to);
	if (p != NULL)
		buf_printf(out, "\"limit\":%" PRIu64 ",\"per\":\"%s\",", p->limit, p->per);
	for (size_t i = 0; i < n; i++)
		add_interval(&sum, all[i]);
	write_counts(out, sum);
	buf_add_text(out, ",\"regions\":{");
	for (size_t i = 0; i < n; i++) {
		struct usage_counts region = {0};

		add_interval(&region, all[i]);
		if (i > 0)
			buf_add_text(out, ",");
		write_region(out, all[i], region, p, &interval->conf->regions);
	}
	buf_add_text(out, "}}");
}

bool rollup_each(const struct sums *sums, const struct rollup_interval *interval, rollup_row *row,
		 void *data)
{
	struct buf json = {0};
	bool ok = true;

	for (size_t i = 0, next; ok && i < sums->n; i = next) {
		const char *policy = sums->series[i]->policy;

		for (next = i; next < sums->n && strcmp(sums->series[next]->policy, policy) == 0;)
			next++;
		buf_clear(&json);
		write_row(&json, sums->series + i, next - i, interval);
		ok = !buf_failed(&json) && row(slice_of(policy), buf_slice(&json), data);
	}
	buf_release(&json);
	return ok;
}
