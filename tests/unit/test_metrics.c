/* Both texts that Prometheus reads. */
#include <criterion/criterion.h>
#include <math.h>

#include "io/metrics.h"

static void collect(struct metrics_writer *w, const void *data)
{
	const struct metric_label one[] = {{"policy", "a\"b\\c\nd"}, {"outcome", "allowed"}};
	const struct metric_label version = {"version", "1\xff"};

	cr_assert_eq(data, (void *)1);
	metrics_family(w, "kova_decisions", METRIC_COUNTER, NULL, "What was \"decided\".\\");
	metrics_sample(w, one, 2, 9007199254740991.0);
	metrics_family(w, "kova_clock_skew_seconds", METRIC_GAUGE, "seconds", "Skew.");
	metrics_sample(w, NULL, 0, -0.25);
	metrics_sample(w, &one[1], 1, INFINITY);
	metrics_family(w, "kova_build", METRIC_INFO, NULL, "What runs.");
	metrics_sample(w, &version, 1, 1);
}

static void expect(bool openmetrics, const char *text)
{
	metrics_collector *const collectors[] = {collect};
	struct buf b = {0};

	metrics_write(&b, openmetrics, collectors, 1, (void *)1);
	cr_assert(slice_equal(buf_slice(&b), slice_of(text)), "%.*s", (int)b.len, b.ptr);
	buf_release(&b);
}

Test(metrics, openmetrics)
{
	expect(true, "# TYPE kova_decisions counter\n"
		     "# HELP kova_decisions What was \\\"decided\\\".\\\\\n"
		     "kova_decisions_total{policy=\"a\\\"b\\\\c\\nd\",outcome=\"allowed\"} "
		     "9007199254740991\n"
		     "# TYPE kova_clock_skew_seconds gauge\n"
		     "# UNIT kova_clock_skew_seconds seconds\n"
		     "# HELP kova_clock_skew_seconds Skew.\n"
		     "kova_clock_skew_seconds -0.25\n"
		     "kova_clock_skew_seconds{outcome=\"allowed\"} +Inf\n"
		     "# TYPE kova_build info\n"
		     "# HELP kova_build What runs.\n"
		     "kova_build_info{version=\"1\xef\xbf\xbd\"} 1\n"
		     "# EOF\n");
}

Test(metrics, older_text)
{
	expect(false, "# TYPE kova_decisions_total counter\n"
		      "# HELP kova_decisions_total What was \"decided\".\\\\\n"
		      "kova_decisions_total{policy=\"a\\\"b\\\\c\\nd\",outcome=\"allowed\"} "
		      "9007199254740991\n"
		      "# TYPE kova_clock_skew_seconds gauge\n"
		      "# HELP kova_clock_skew_seconds Skew.\n"
		      "kova_clock_skew_seconds -0.25\n"
		      "kova_clock_skew_seconds{outcome=\"allowed\"} +Inf\n"
		      "# TYPE kova_build_info gauge\n"
		      "# HELP kova_build_info What runs.\n"
		      "kova_build_info{version=\"1\xef\xbf\xbd\"} 1\n");
}

Test(metrics, histogram)
{
	struct buf b = {0};
	struct metrics_writer w = {.out = &b, .openmetrics = true};
	struct metrics_histogram h = {0};
	const struct metric_label label = {"protocol", "http"};

	metrics_observe(&h, 5e-05); /* a bound is in its own bucket */
	metrics_observe(&h, 0.75);
	metrics_observe(&h, 11);
	metrics_family(&w, "d_seconds", METRIC_HISTOGRAM, "seconds", "D.");
	metrics_histogram(&w, &label, 1, &h);
	metrics_histogram(&w, NULL, 0, &h);
	buf_add(&b, "", 1);
	cr_assert(strstr(b.ptr, "d_seconds_bucket{protocol=\"http\",le=\"5e-05\"} 1\n"), "%s",
		  b.ptr);
	cr_assert(strstr(b.ptr, "d_seconds_bucket{protocol=\"http\",le=\"0.25\"} 1\n"));
	cr_assert(strstr(b.ptr, "d_seconds_bucket{protocol=\"http\",le=\"1.0\"} 2\n"));
	cr_assert(strstr(b.ptr, "d_seconds_bucket{le=\"10.0\"} 2\n"));
	cr_assert(strstr(b.ptr, "d_seconds_bucket{le=\"+Inf\"} 3\n"));
	cr_assert(strstr(b.ptr, "d_seconds_count 3\nd_seconds_sum 11.75005\n"));
	buf_release(&b);
}
