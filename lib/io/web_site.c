#include "io/web_site.h"

#include <string.h>

static const struct slice assets = {"/assets/", 8};

const struct web_file *web_site_find(const struct web_site *s, const struct http_request *r)
{
	const size_t version_len = strlen(s->version);
	struct slice rest = r->path;

	if (slice_equal(rest, SLICE("/")))
		return &s->files[0];
	if (rest.len <= assets.len + version_len + 1 ||
	    memcmp(rest.ptr, assets.ptr, assets.len) != 0)
		return NULL;
	rest = slice_after(rest, assets.len);
	if (memcmp(rest.ptr, s->version, version_len) != 0 || rest.ptr[version_len] != '/')
		return NULL;
	rest = slice_after(rest, version_len + 1);
	for (unsigned i = 1; i < s->n; i++)
		if (slice_equal(rest, slice_of(s->files[i].name)))
			return &s->files[i];
	return NULL;
}

/* RFC 9110 §13.1.2: a list of entity tags, weak ones too, or `*`. */
static bool has_it(const struct http_request *r, const char *hash)
{
	for (unsigned i = 0; i < r->n_fields; i++) {
		const struct http_field *field = &r->fields[i];

		if (!http_same_text(field->name, SLICE("If-None-Match")))
			continue;
		if (slice_equal(field->value, SLICE("*")) ||
		    memmem(field->value.ptr, field->value.len, hash, strlen(hash)) != NULL)
			return true;
	}
	return false;
}

struct http_answer web_site_answer(const struct web_site *s, const struct web_file *f,
				   const struct http_request *r, struct buf *fields)
{
	bool packed = http_request_accepts_coding(r, SLICE("gzip"));
	bool is_index = f == &s->files[0];

	buf_printf(fields, "ETag: \"%s%s\"\r\n", f->hash, packed ? "-gzip" : "");
	buf_printf(fields, "Cache-Control: %s\r\n",
		   is_index ? "no-cache" : "public, max-age=31536000, immutable");
	buf_add_text(fields, "Vary: Accept-Encoding\r\n"
			     "X-Content-Type-Options: nosniff\r\n");
	if (has_it(r, f->hash))
		return (struct http_answer){.status = 304, .fields = buf_slice(fields)};
	if (packed)
		buf_add_text(fields, "Content-Encoding: gzip\r\n");
	if (is_index)
		buf_add_text(fields,
			     "Content-Security-Policy: default-src 'self'; base-uri 'none'; "
			     "form-action 'none'; frame-ancestors 'none'; object-src 'none'\r\n"
			     "Referrer-Policy: no-referrer\r\n");
	return (struct http_answer){.status = 200,
				    .media_type = f->media_type,
				    .fields = buf_slice(fields),
				    .body = packed ? f->gzip : f->plain};
}
