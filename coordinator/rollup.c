#include "rollup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/rfc3339.h"

static int compare_series(const void *a, const void *b)
{
	const struct book_series *x = *(const struct book_series *const *)a;
	const struct book_series *y = *(const struct book_series *const *)b;
	int order = strcmp(x->policy, y->policy);

	return order != 0 ? order : strcmp(x->region, y->region);
}

/* Those of all books, by policy, then region. Owned; NULL: out of memory. */
static const struct book_series **series_sorted(const struct book *const *books, size_t n,
						size_t *ret_n)
{
	const struct book_series **all;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += books[i]->n_series;
	all = malloc((count + 1) * sizeof(*all));
	if (all == NULL)
		return NULL;
	*ret_n = count;
	for (size_t i = 0, at = 0; i < n; i++)
		for (size_t j = 0; j < books[i]->n_series; j++)
			all[at++] = &books[i]->series[j];
	qsort(all, count, sizeof(*all), compare_series);
	return all;
}

static void add_counts(struct usage_counts *sum, struct usage_counts c)
{
	sum->admitted += c.admitted;
	sum->refused += c.refused;
	sum->waited += c.waited;
}

/* What was used since it was published: modulo 2^64, so that it is exact. */
static void add_interval(struct usage_counts *sum, const struct book_series *s)
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

/* Without grants every region may use all of the limit, always. */
static void write_region(struct buf *out, const char *region, struct usage_counts interval,
			 uint64_t admitted_total, const struct coord_policy *p)
{
	buf_printf(out, "\"%s\":{", region);
	write_counts(out, interval);
	buf_printf(out, ",\"admitted_total\":%" PRIu64, admitted_total);
	if (p != NULL)
		buf_printf(out, ",\"share\":%" PRIu64 ",\"grant\":0,\"floor\":%" PRIu64, p->limit,
			   p->limit);
	buf_add_text(out, "}");
}

/* `all`: the `n` series of one policy, those of a region one after another. */
static void write_row(struct buf *out, const struct book_series *const *all, size_t n,
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
	for (size_t i = 0, next; i < n; i = next) {
		struct usage_counts region = {0};
		uint64_t total = 0;

		for (next = i; next < n && strcmp(all[next]->region, all[i]->region) == 0; next++) {
			add_interval(&region, all[next]);
			total += all[next]->total.admitted;
		}
		if (i > 0)
			buf_add_text(out, ",");
		write_region(out, all[i]->region, region, total, p);
	}
	buf_add_text(out, "}}");
}

bool rollup_each(const struct book *const *books, size_t n, const struct rollup_interval *interval,
		 rollup_row *row, void *data)
{
	size_t count;
	const struct book_series **all = series_sorted(books, n, &count);
	struct buf json = {0};
	bool ok = all != NULL;

	for (size_t i = 0, next; ok && i < count; i = next) {
		for (next = i; next < count && strcmp(all[next]->policy, all[i]->policy) == 0;)
			next++;
		buf_clear(&json);
		write_row(&json, all + i, next - i, interval);
		ok = !buf_failed(&json) && row(slice_of(all[i]->policy), buf_slice(&json), data);
	}
	buf_release(&json);
	free(all);
	return ok;
}
