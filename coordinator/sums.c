#include "sums.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16 };

void sums_release(struct sums *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->series[i]->part);
		free(s->series[i]->shares);
		free(s->series[i]);
	}
	free(s->series);
	*s = (struct sums){0};
}

static int compare_names(const char *a, struct slice b)
{
	int order = strncmp(a, b.ptr, b.len);

	return order != 0 ? order : a[b.len] != '\0';
}

static int compare(const struct sums_series *a, struct slice policy, struct slice region)
{
	int order = compare_names(a->policy, policy);

	return order != 0 ? order : compare_names(a->region, region);
}

/* Where the series is, or belongs. */
static size_t place_of(const struct sums *s, struct slice policy, struct slice region)
{
	size_t from = 0, to = s->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (compare(s->series[middle], policy, region) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static struct sums_series *series_new(struct slice policy, struct slice region)
{
	struct sums_series *series = calloc(1, sizeof *series);

	assert(policy.len <= NAME_BYTES_MAX && region.len <= NAME_BYTES_MAX);
	if (series == NULL)
		return NULL;
	memcpy(series->policy, policy.ptr, policy.len);
	memcpy(series->region, region.ptr, region.len);
	return series;
}

/* The series, which is made if it is not there. */
static struct sums_series *series_find(struct sums *s, struct slice policy, struct slice region)
{
	size_t at = place_of(s, policy, region);
	struct sums_series *series;

	if (at < s->n && compare(s->series[at], policy, region) == 0)
		return s->series[at];
	if (s->n == s->room) {
		size_t room = s->room > 0 ? 2 * s->room : ROOM_MIN;
		struct sums_series **all = realloc(s->series, room * sizeof(*all));

		if (all == NULL)
			return NULL;
		s->series = all;
		s->room = room;
	}
	series = series_new(policy, region);
	if (series == NULL)
		return NULL;
	memmove(s->series + at + 1, s->series + at, (s->n - at) * sizeof(*s->series));
	s->series[at] = series;
	s->n++;
	return series;
}

static bool has_room(struct sums_series *series, uint32_t partition)
{
	uint32_t n = partition + 1;
	struct usage_counts *part;
	struct share_sum *shares;

	if (n <= series->n_parts)
		return true;
	part = realloc(series->part, n * sizeof *part);
	if (part == NULL)
		return false;
	series->part = part;
	shares = realloc(series->shares, n * sizeof *shares);
	if (shares == NULL)
		return false;
	series->shares = shares;
	memset(part + series->n_parts, 0, (n - series->n_parts) * sizeof *part);
	memset(shares + series->n_parts, 0, (n - series->n_parts) * sizeof *shares);
	series->n_parts = n;
	return true;
}

/* `*was` becomes `is` if that is greater; the sum follows. */
static void raise(uint64_t *was, uint64_t is, uint64_t *sum)
{
	if (is <= *was)
		return;
	*sum += is - *was;
	*was = is;
}

kova_status sums_put(struct sums *s, uint32_t partition, struct slice policy, struct slice region,
		     struct usage_counts counts)
{
	struct sums_series *series = series_find(s, policy, region);

	assert(partition < SUMS_PARTITIONS_MAX);
	if (series == NULL || !has_room(series, partition))
		return KOVA_ENOMEM;
	struct usage_counts *part = &series->part[partition];

	raise(&part->admitted, counts.admitted, &series->total.admitted);
	raise(&part->refused, counts.refused, &series->total.refused);
	raise(&part->waited, counts.waited, &series->total.waited);
	return KOVA_OK;
}

kova_status sums_put_shares(struct sums *s, uint32_t partition, struct slice policy,
			    struct slice region, struct share_sum shares)
{
	struct sums_series *series = series_find(s, policy, region);

	assert(partition < SUMS_PARTITIONS_MAX);
	if (series == NULL || !has_room(series, partition))
		return KOVA_ENOMEM;
	series->shares[partition] = shares;
	return KOVA_OK;
}

struct share_sum sums_shares(const struct sums_series *s)
{
	struct share_sum sum = {0};

	for (uint32_t i = 0; i < s->n_parts; i++) {
		sum.n += s->shares[i].n;
		sum.share_ppm += s->shares[i].share_ppm;
		sum.floor_ppm += s->shares[i].floor_ppm;
	}
	return sum;
}

kova_status sums_put_published(struct sums *s, struct slice policy, struct slice region,
			       struct usage_counts counts)
{
	struct sums_series *series = series_find(s, policy, region);

	if (series == NULL)
		return KOVA_ENOMEM;
	series->published = counts;
	return KOVA_OK;
}

void sums_settle(struct sums *s, int64_t to_ms)
{
	for (size_t i = 0; i < s->n; i++)
		s->series[i]->published = s->series[i]->total;
	s->to_ms = to_ms;
}
