/* Pages that a program carries: what is found, in which form, and when it need not be sent again. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "io/web_site.h"

extern const struct web_site site_agent;

static struct http_field fields[2];
static struct buf said;

static struct http_request request(const char *path, const char *encoding, const char *known)
{
	struct http_request r = {.method = METHOD_GET, .path = slice_of(path), .fields = fields};

	if (encoding != NULL)
		fields[r.n_fields++] =
			(struct http_field){SLICE("Accept-Encoding"), slice_of(encoding)};
	if (known != NULL)
		fields[r.n_fields++] = (struct http_field){SLICE("If-None-Match"), slice_of(known)};
	return r;
}

static struct http_answer ask(const char *path, const char *encoding, const char *known)
{
	struct http_request r = request(path, encoding, known);
	const struct web_file *f = web_site_find(&site_agent, &r);

	cr_assert_not_null(f, "%s", path);
	buf_clear(&said);
	struct http_answer a = web_site_answer(&site_agent, f, &r, &said);

	buf_add(&said, "", 1);
	return a;
}

static const char *asset(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "/assets/%s/%s", site_agent.version, name);
	return path;
}

static bool is_there(const char *path)
{
	struct http_request r = request(path, NULL, NULL);

	return web_site_find(&site_agent, &r) != NULL;
}

Test(web_site, finding)
{
	cr_assert(is_there("/"));
	cr_assert(is_there(asset("style.css")));
	cr_assert(!is_there(asset("style.cs")));
	cr_assert(!is_there(asset("")));
	cr_assert(!is_there(asset("agent.html")), "the index has one address");
	cr_assert(!is_there("/assets/"));
	cr_assert(!is_there("/assets/0123456789abcdef/style.css"), "of another version");
	cr_assert(!is_there("/assets/style.css"));
	cr_assert(!is_there("/asset"));
}

Test(web_site, the_index)
{
	struct http_answer a = ask("/", NULL, NULL);

	cr_assert_eq(a.status, 200);
	cr_assert_str_eq(a.media_type, "text/html; charset=utf-8");
	cr_assert_not_null(memmem(a.body.ptr, a.body.len, site_agent.version, 16),
			   "it names its files by their version");
	cr_assert_null(memmem(a.body.ptr, a.body.len, "@ASSETS@", 8));
	cr_assert_not_null(strstr(said.ptr, "Cache-Control: no-cache\r\n"));
	cr_assert_not_null(strstr(said.ptr, "Content-Security-Policy: default-src 'self';"));
	cr_assert_null(strstr(said.ptr, "unsafe"));
	buf_release(&said);
}

Test(web_site, compressed)
{
	struct http_answer plain = ask(asset("style.css"), "identity", NULL);

	cr_assert_null(strstr(said.ptr, "Content-Encoding"));
	cr_assert_not_null(strstr(said.ptr, "Vary: Accept-Encoding\r\n"));

	struct http_answer packed = ask(asset("style.css"), "br, gzip", NULL);

	cr_assert_not_null(strstr(said.ptr, "Content-Encoding: gzip\r\n"));
	cr_assert_not_null(strstr(said.ptr, "immutable"));
	cr_assert_lt(packed.body.len, plain.body.len);
	cr_assert_eq(memcmp(packed.body.ptr, "\x1f\x8b", 2), 0);
	buf_release(&said);
}

/* The index's entity tag between `before` and `behind`. */
static const char *tagged(const char *before, const char *behind)
{
	static char text[64];

	snprintf(text, sizeof text, "%s%s%s", before, site_agent.files[0].hash, behind);
	return text;
}

Test(web_site, not_modified)
{
	cr_assert_eq(ask("/", NULL, tagged("\"", "\"")).status, 304);
	cr_assert_eq(ask("/", "gzip", tagged("W/\"", "-gzip\"")).status, 304);
	cr_assert_eq(ask("/", NULL, tagged("\"other\", \"", "\"")).status, 304);
	cr_assert_eq(ask("/", NULL, "*").status, 304);
	cr_assert_eq(ask("/", NULL, "\"0123\"").status, 200);
	cr_assert_eq(ask("/", NULL, "*").body.len, 0);
	cr_assert_not_null(strstr(said.ptr, "ETag: \""));
	buf_release(&said);
}

/* All of the dashboard on the wire, to who takes it compressed. */
Test(web_site, it_is_small)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < site_agent.n; i++)
		bytes += site_agent.files[i].gzip.len;
	cr_assert_leq(bytes, 100 * 1024, "%zu bytes", bytes);
}
