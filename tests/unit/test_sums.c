/* The sums of all partitions: each record counts once, whatever comes late or twice, and rows say each difference once. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "coord_conf.h"
#include "dice.h"
#include "rollup.h"
#include "sum_record.h"

static struct usage_counts counts(uint64_t n)
{
	return (struct usage_counts){n, 2 * n, n / 2};
}

static void put(struct sums *s, uint32_t partition, const char *policy, const char *region,
		uint64_t n)
{
	cr_assert_eq(sums_put(s, partition, slice_of(policy), slice_of(region), counts(n)),
		     KOVA_OK);
}

static const struct sums_series *find(const struct sums *s, const char *policy, const char *region)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->series[i]->policy, policy) == 0 &&
		    strcmp(s->series[i]->region, region) == 0)
			return s->series[i];
	return NULL;
}

Test(sums, partitions_add_up_and_what_is_late_changes_nothing)
{
	struct sums s = {0};

	put(&s, 3, "p", "eu", 5);
	put(&s, 0, "p", "eu", 7);
	put(&s, 3, "p", "eu", 9);
	put(&s, 3, "p", "eu", 6);
	put(&s, 1, "p", "us", 1);
	put(&s, 1, "pp", "eu", 2);
	cr_expect_eq(find(&s, "p", "eu")->total.admitted, 16);
	cr_expect_eq(find(&s, "p", "eu")->total.refused, 32);
	cr_expect_eq(find(&s, "p", "eu")->total.waited, 7);
	cr_expect_eq(find(&s, "p", "us")->total.admitted, 1);
	cr_expect_eq(find(&s, "pp", "eu")->total.admitted, 2);
	cr_expect_eq(s.n, 3);
	sums_release(&s);
}

Test(sums, series_are_in_order)
{
	struct dice dice = {3};
	struct sums s = {0};

	for (int i = 0; i < 2000; i++) {
		char policy[8], region[8];

		snprintf(policy, sizeof policy, "p%lu", dice_below(&dice, 30));
		snprintf(region, sizeof region, "r%lu", dice_below(&dice, 30));
		put(&s, (uint32_t)dice_below(&dice, 5), policy, region, 1);
	}
	for (size_t i = 1; i < s.n; i++) {
		int order = strcmp(s.series[i - 1]->policy, s.series[i]->policy);

		cr_assert(order < 0 ||
			  (order == 0 && strcmp(s.series[i - 1]->region, s.series[i]->region) < 0));
	}
	sums_release(&s);
}

/* As it would come back from the topic. */
static void write_and_read(const struct sum_record *r, const char *expected_key, struct sums *s)
{
	struct buf key = {0}, value = {0};

	cr_assert_eq(sum_record_write(r, &key, &value), KOVA_OK);
	cr_expect(slice_equal(buf_slice(&key), slice_of(expected_key)));
	cr_assert_eq(sum_record_read(buf_slice(&value), s), KOVA_OK);
	for (size_t n = 0; n < value.len; n++) { /* no prefix is more than a part of it */
		struct sums part = {0};

		(void)!sum_record_read((struct slice){value.ptr, n}, &part);
		sums_release(&part);
	}
	buf_release(&key);
	buf_release(&value);
}

Test(sums, records)
{
	const struct sum_record part = {.kind = SUM_PARTITION,
					.policy = SLICE("p"),
					.region = SLICE("eu"),
					.partition = 11,
					.counts = counts(8)},
				published = {.kind = SUM_PUBLISHED,
					     .policy = SLICE("p"),
					     .region = SLICE("eu"),
					     .counts = counts(6)},
				end = {.kind = SUM_END, .to_ms = 1796036573654};
	struct sums s = {0};

	write_and_read(&part, "11/p/eu", &s);
	write_and_read(&published, "p/eu", &s);
	write_and_read(&end, "to", &s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.series[0]->part[11].admitted, 8);
	cr_expect_eq(s.series[0]->total.waited, 4);
	cr_expect_eq(s.series[0]->published.admitted, 6);
	cr_expect_eq(s.series[0]->published.refused, 12);
	cr_expect_eq(s.to_ms, 1796036573654);
	cr_expect_eq(sum_record_read(SLICE("\xff\xff"), &s), KOVA_EPROTO);
	cr_expect_eq(sum_record_read(SLICE(""), &s), KOVA_EPROTO);
	/* A partition that can't be: 5 is the field, 65536 the number. */
	cr_expect_eq(sum_record_read(SLICE("\x0a\x01p\x12\x01r\x1a\x00\x28\x80\x80\x04"), &s),
		     KOVA_EPROTO);
	cr_expect_eq(sum_record_read(SLICE("\x0a\x01/\x12\x01r\x1a\x00"), &s), KOVA_EPROTO);
	sums_release(&s);
}

static bool add_row(struct slice policy, struct slice json, void *data)
{
	(void)policy;
	buf_add_slice(data, json);
	buf_add_text(data, "\n");
	return true;
}

Test(sums, a_row_says_what_was_used_since_the_last)
{
	struct coord_policy policies[] = {{.name = "p", .limit = 10, .per = "1s"}};
	const struct coord_conf conf = {.policies = policies, .n_policies = 1};
	const struct rollup_interval interval = {1000, 2000, &conf};
	struct sums s = {0};
	struct buf rows = {0};

	put(&s, 0, "p", "eu", 5);
	sums_settle(&s, 1000);
	cr_expect_eq(s.to_ms, 1000);
	put(&s, 0, "p", "eu", 8);
	put(&s, 1, "p", "eu", 1);
	put(&s, 1, "p", "us", 2);
	put(&s, 1, "q", "us", 2);
	cr_assert(rollup_each(&s, &interval, add_row, &rows));
	buf_add(&rows, "", 1);
	cr_expect_str_eq(
		rows.ptr,
		"{\"policy\":\"p\",\"from\":\"1970-01-01T00:00:01.000Z\",\"to\":\"1970-01-01T00:00:"
		"02.000Z\","
		"\"limit\":10,\"per\":\"1s\",\"admitted\":6,\"refused\":12,\"waited\":3,"
		"\"regions\":{"
		"\"eu\":{\"admitted\":4,\"refused\":8,\"waited\":2,\"admitted_total\":9,\"share\":"
		"10,\"grant\":0,"
		"\"floor\":10},"
		"\"us\":{\"admitted\":2,\"refused\":4,\"waited\":1,\"admitted_total\":2,\"share\":"
		"10,\"grant\":0,"
		"\"floor\":10}}}\n"
		"{\"policy\":\"q\",\"from\":\"1970-01-01T00:00:01.000Z\",\"to\":\"1970-01-01T00:00:"
		"02.000Z\","
		"\"admitted\":2,\"refused\":4,\"waited\":1,\"regions\":{"
		"\"us\":{\"admitted\":2,\"refused\":4,\"waited\":1,\"admitted_total\":2}}}\n");
	sums_release(&s);
	buf_release(&rows);
}

Test(sums, a_row_of_a_global_policy_says_the_mean_of_what_its_quotas_have)
{
	struct coord_policy policies[] = {
		{.name = "p", .limit = 500, .per = "1s", .is_global = true}};
	char eu[] = "eu", us[] = "us";
	struct coord_region regions[] = {{.name = eu, .floor_ppm = 100000},
					 {.name = us, .floor_ppm = 20000}};
	const struct coord_conf conf = {
		.policies = policies, .n_policies = 1, .regions = {.of = regions, .n = 2}};
	const struct rollup_interval interval = {1000, 2000, &conf};
	const struct sum_record told = {.kind = SUM_PARTITION,
					.policy = SLICE("p"),
					.region = SLICE("eu"),
					.partition = 3,
					.shares = {3, 1800000, 300000}};
	struct sums s = {0};
	struct buf rows = {0};

	write_and_read(&told, "3/p/eu", &s);
	cr_assert_eq(sums_put_shares(&s, 1, SLICE("p"), SLICE("eu"),
				     (struct share_sum){1, 200000, 100000}),
		     KOVA_OK);
	put(&s, 1, "p", "us", 0);
	cr_assert(rollup_each(&s, &interval, add_row, &rows));
	buf_add(&rows, "", 1);
	cr_expect_not_null(strstr(rows.ptr, "\"share\":250,\"grant\":200,\"floor\":50}"), "%s",
			   rows.ptr);
	cr_expect_not_null(strstr(rows.ptr, "\"share\":10,\"grant\":0,\"floor\":10}"),
			   "none is in use: %s", rows.ptr);
	sums_release(&s);
	buf_release(&rows);
}
