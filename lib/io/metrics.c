#include "io/metrics.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/quote.h"

/* Each bound as a number and as the text of its `le`, in the canonical form of OpenMetrics. */
static const struct {
	double seconds;
	const char *text;
} bounds[METRICS_BUCKETS + 1] = {
	{5e-05, "5e-05"}, {0.0001, "0.0001"}, {0.00025, "0.00025"}, {0.0005, "0.0005"},
	{0.001, "0.001"}, {0.0025, "0.0025"}, {0.005, "0.005"},     {0.01, "0.01"},
	{0.025, "0.025"}, {0.05, "0.05"},     {0.1, "0.1"},         {0.25, "0.25"},
	{1, "1.0"},       {10, "10.0"},       {INFINITY, "+Inf"},
};

/* What a type appends to its family's name in a sample. */
static const char *sample_suffix(enum metric_type type)
{
	return type == METRIC_COUNTER ? "_total" : type == METRIC_INFO ? "_info" : "";
}

static const char *type_name(const struct metrics_writer *w)
{
	switch (w->type) {
	case METRIC_COUNTER:
		return "counter";
	case METRIC_GAUGE:
		return "gauge";
	case METRIC_HISTOGRAM:
		return "histogram";
	case METRIC_INFO:
		return w->openmetrics ? "info" : "gauge"; /* 0.0.4 has no info */
	}
	return "unknown";
}

/*
 * Backslash, newline and, where `quotes`, the double quote are escaped; what is no UTF-8 is
 * replaced.
 */
static void add_escaped(struct buf *b, const char *text, bool quotes)
{
	for (struct slice s = slice_of(text); s.len != 0;) {
		size_t n = quote_utf8_length(s);

		if (n == 0)
			buf_add_text(b, "\xef\xbf\xbd");
		else if (*s.ptr == '\\')
			buf_add_text(b, "\\\\");
		else if (*s.ptr == '\n')
			buf_add_text(b, "\\n");
		else if (*s.ptr == '"' && quotes)
			buf_add_text(b, "\\\"");
		else
			buf_add(b, s.ptr, n);
		n = n != 0 ? n : 1;
		s = (struct slice){s.ptr + n, s.len - n};
	}
}

/* A descriptor's line begins `# TYPE name `; in the older text the name is that of the samples. */
static void add_descriptor(struct metrics_writer *w, const char *keyword)
{
	buf_add_text(w->out, "# ");
	buf_add_text(w->out, keyword);
	buf_add_text(w->out, " ");
	buf_add_text(w->out, w->family);
	if (!w->openmetrics)
		buf_add_text(w->out, sample_suffix(w->type));
	buf_add_text(w->out, " ");
}

static bool ends_in_unit(const char *name, const char *unit)
{
	size_t n = strlen(name), u = strlen(unit);

	return n > u && name[n - u - 1] == '_' && strcmp(name + n - u, unit) == 0;
}

void metrics_family(struct metrics_writer *w, const char *name, enum metric_type type,
		    const char *unit, const char *help)
{
	assert(unit == NULL || ends_in_unit(name, unit));
	w->family = name;
	w->type = type;

	add_descriptor(w, "TYPE");
	buf_add_text(w->out, type_name(w));
	buf_add_text(w->out, "\n");
	if (unit != NULL && w->openmetrics) {
		add_descriptor(w, "UNIT");
		buf_add_text(w->out, unit);
		buf_add_text(w->out, "\n");
	}
	add_descriptor(w, "HELP");
	add_escaped(w->out, help, w->openmetrics);
	buf_add_text(w->out, "\n");
}

static void add_value(struct buf *b, double value)
{
	if (isnan(value))
		buf_add_text(b, "NaN");
	else if (isinf(value))
		buf_add_text(b, value > 0 ? "+Inf" : "-Inf");
	else if (value > -0x1p53 && value < 0x1p53 && value == (double)(int64_t)value)
		buf_add_int(b, (int64_t)value);
	else
		buf_printf(b, "%.15g", value);
}

static void add_label(struct buf *b, bool first, const char *name, const char *value)
{
	buf_add_text(b, first ? "{" : ",");
	buf_add_text(b, name);
	buf_add_text(b, "=\"");
	add_escaped(b, value, true);
	buf_add_text(b, "\"");
}

/* One line; `le` NULL: none. */
static void add_sample(struct metrics_writer *w, const char *suffix,
		       const struct metric_label *labels, unsigned n_labels, const char *le,
		       double value)
{
	struct buf *b = w->out;

	buf_add_text(b, w->family);
	buf_add_text(b, suffix);
	for (unsigned i = 0; i < n_labels; i++)
		add_label(b, i == 0, labels[i].name, labels[i].value);
	if (le != NULL)
		add_label(b, n_labels == 0, "le", le);
	buf_add_text(b, n_labels != 0 || le != NULL ? "} " : " ");
	add_value(b, value);
	buf_add_text(b, "\n");
}

void metrics_sample(struct metrics_writer *w, const struct metric_label *labels, unsigned n_labels,
		    double value)
{
	assert(w->type != METRIC_HISTOGRAM);
	add_sample(w, sample_suffix(w->type), labels, n_labels, NULL, value);
}

void metrics_number(struct metrics_writer *w, const char *name, enum metric_type type,
		    const char *unit, const char *help, double value)
{
	metrics_family(w, name, type, unit, help);
	metrics_sample(w, NULL, 0, value);
}

void metrics_numbers(struct metrics_writer *w, const struct metric_number *numbers, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		metrics_number(w, numbers[i].name, numbers[i].type, NULL, numbers[i].help,
			       (double)numbers[i].value);
}

void metrics_observe(struct metrics_histogram *h, double seconds)
{
	unsigned i = 0;

	while (i < METRICS_BUCKETS && seconds > bounds[i].seconds)
		i++;
	h->bucket[i]++;
	h->sum_s += seconds;
}

double metrics_bound_s(unsigned i)
{
	return bounds[i].seconds;
}

void metrics_histogram(struct metrics_writer *w, const struct metric_label *labels,
		       unsigned n_labels, const struct metrics_histogram *h)
{
	uint64_t count = 0;

	assert(w->type == METRIC_HISTOGRAM);
	for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
		count += h->bucket[i];
		add_sample(w, "_bucket", labels, n_labels, bounds[i].text, (double)count);
	}
	add_sample(w, "_count", labels, n_labels, NULL, (double)count);
	add_sample(w, "_sum", labels, n_labels, NULL, h->sum_s);
}

void metrics_write(struct buf *out, bool openmetrics, metrics_collector *const *collectors,
		   unsigned n, const void *data)
{
	struct metrics_writer w = {.out = out, .openmetrics = openmetrics};

	for (unsigned i = 0; i < n; i++)
		collectors[i](&w, data);
	if (openmetrics)
		buf_add_text(out, "# EOF\n");
}
