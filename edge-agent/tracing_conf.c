#include "tracing_conf.h"

#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/option_table.h"
#include "io/transfers.h"

enum { QUEUE_MAX = 1000000, TIMEOUT_MAX_MS = 60000 };

static const struct conf_option tracing_options[] = {
	{.name = "endpoint",
	 .type = CONF_STRING,
	 .at = offsetof(struct tracing_fields, endpoint),
	 .otherwise = "none: required in `tracing`",
	 .text = "the collector's URL for traces by OTLP/HTTP, whole, such as "
		 "`http://127.0.0.1:4318/v1/traces`. Credentials go into `headers_file`"},
	{.name = "sample",
	 .type = CONF_PART,
	 .at = offsetof(struct tracing_fields, sample),
	 .fallback = "0.01",
	 .text = "the part of the requests without a `traceparent` that are traced; of the others "
		 "`traceparent` says it"},
	{.name = "headers_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct tracing_fields, headers_file),
	 .otherwise = "none",
	 .text = "fields for the collector, one `Name: value` a line, such as `Authorization: "
		 "Bearer …`; `#` begins a comment"},
	{.name = "timeout",
	 .type = CONF_DURATION,
	 .at = offsetof(struct tracing_fields, timeout),
	 .fallback = "10s",
	 .min = 100,
	 .max = TIMEOUT_MAX_MS,
	 .text = "how long the collector may take for one message"},
	{.name = "queue",
	 .type = CONF_INT,
	 .at = offsetof(struct tracing_fields, queue),
	 .fallback = "2048",
	 .min = 1,
	 .max = QUEUE_MAX,
	 .text = "how many spans wait for the collector at most, about 1 kB each; further ones are "
		 "dropped and counted"},
};

const struct conf_table tracing_table = {
	.title = "`tracing`",
	.text = "Spans for an OpenTelemetry collector. Without this section nothing is traced. "
		"What is in them: [Tracing](tracing.md).",
	.options = tracing_options,
	.n_options = COUNT(tracing_options),
};

/* ---- Checks ---- */

/* `user:password@` before the host. */
static bool has_credentials(const char *url)
{
	struct slice rest = slice_after(slice_of(url), strcspn(url, ":") + 3);

	rest.len = rest.len > 0 ? strcspn(rest.ptr, "/?#") : 0;
	return slice_index(rest, '@') < rest.len;
}

void tracing_conf_check(struct conf_reader *r, const struct conf_path *object,
			const struct tracing_fields *f, bool given)
{
	if (!given)
		return;
	if (f->endpoint == NULL)
		conf_fail(r, object, NULL, CONF_AT_VALUE, "`endpoint` is missing");
	else if (!web_url_is_valid(f->endpoint))
		conf_fail(r, object, "endpoint", CONF_AT_VALUE,
			  "`endpoint` must be a URL that begins with http:// or https:// and names "
			  "the collector's host, as http://127.0.0.1:4318/v1/traces");
	else if (has_credentials(f->endpoint))
		conf_fail(r, object, "endpoint", CONF_AT_VALUE,
			  "`endpoint` must not hold credentials: put `Authorization: …` into "
			  "`headers_file`");
}

/* ---- The collector's fields ---- */

static bool is_token(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];

		if (c <= ' ' || c > '~' || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL)
			return false;
	}
	return name.len > 0;
}

/* The agent's own. */
static bool is_taken(struct slice name)
{
	return (name.len >= 8 && strncasecmp(name.ptr, "Content-", 8) == 0) ||
	       (name.len == 17 && strncasecmp(name.ptr, "Transfer-Encoding", 17) == 0);
}

static bool is_field(struct slice line)
{
	struct slice value = line, name = slice_cut(&value, ':');

	for (size_t i = 0; i < value.len; i++)
		if ((unsigned char)value.ptr[i] < ' ' && value.ptr[i] != '\t')
			return false;
	while (value.len > 0 && (value.ptr[0] == ' ' || value.ptr[0] == '\t'))
		value = slice_after(value, 1);
	return is_token(name) && !is_taken(name) && value.len > 0;
}

static struct slice without_end(struct slice line)
{
	while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1]) != NULL)
		line.len--;
	return line;
}

static void read_fields(struct conf_copier *c, const struct conf_path *object, struct slice text,
			char **ret_headers)
{
	unsigned n = 0;

	for (unsigned number = 1; text.len > 0; number++) {
		struct slice line = without_end(slice_cut(&text, '\n'));

		if (line.len == 0 || line.ptr[0] == '#')
			continue;
		if (!is_field(line) || n == TRACING_FIELDS_MAX) {
			conf_fail(
				c->r, object, "headers_file", CONF_AT_VALUE,
				"`headers_file`: line %u must be `Name: value` of a field that is "
				"not about the content, and there may be %d of them",
				number, TRACING_FIELDS_MAX);
			return;
		}
		ret_headers[n] = strndup(line.ptr, line.len);
		if (ret_headers[n++] == NULL)
			c->no_memory = true;
	}
}

static void copy_headers(struct conf_copier *c, const struct conf_path *object, const char *path,
			 struct tracing_conf *conf)
{
	struct buf text = {0};

	if (path == NULL)
		return;
	if (file_read(path, TRACING_FIELDS_BYTES_MAX, &text) != KOVA_OK)
		conf_fail(c->r, object, "headers_file", CONF_AT_VALUE,
			  "`headers_file` can't be read, or has more than %d bytes",
			  TRACING_FIELDS_BYTES_MAX);
	conf->headers = calloc(TRACING_FIELDS_MAX + 1, sizeof *conf->headers);
	if (conf->headers == NULL)
		c->no_memory = true;
	else
		read_fields(c, object, buf_slice(&text), conf->headers);
	if (text.ptr != NULL)
		explicit_bzero(text.ptr, text.len);
	buf_release(&text);
}

/* ---- Life ---- */

void tracing_conf_fill(struct conf_copier *c, const struct conf_path *object,
		       const struct tracing_fields *f, struct tracing_conf *ret_conf)
{
	char *path = conf_copy_path(c, f->headers_file);

	ret_conf->endpoint = conf_copy(c, f->endpoint);
	ret_conf->sample = (uint32_t)f->sample;
	ret_conf->timeout_ms = (uint64_t)f->timeout;
	ret_conf->queue = (unsigned)f->queue;
	copy_headers(c, object, path, ret_conf);
	free(path);
}

void tracing_conf_release(struct tracing_conf *conf)
{
	for (char **h = conf->headers; h != NULL && *h != NULL; h++)
		conf_secret_free(*h);
	free(conf->headers);
	free(conf->endpoint);
}
