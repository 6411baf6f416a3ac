/* JSON strings from any bytes: always valid, and what was text comes back. */
#include <criterion/criterion.h>
#include <jansson.h>

#include "core/quote.h"

static void expect(struct slice in, const char *out)
{
	struct buf b = {0};

	quote_json(&b, in);
	cr_assert(slice_equal(buf_slice(&b), slice_of(out)), "%.*s", (int)b.len, b.ptr);
	buf_release(&b);
}

Test(quote, escapes)
{
	expect(SLICE(""), "\"\"");
	expect(SLICE("a/b c"), "\"a/b c\"");
	expect(SLICE("\"\\\n\r\t\x01\x7f"), "\"\\\"\\\\\\n\\r\\t\\u0001\\u007f\"");
	expect(SLICE("a\0b"), "\"a\\u0000b\"");
	expect(SLICE("kova g\xc3\xb6l\xc3\xbc \xf0\x9f\xaa\xa3"),
	       "\"kova g\xc3\xb6l\xc3\xbc \xf0\x9f\xaa\xa3\"");
}

/* Terminals may obey U+009B as ESC [. */
Test(quote, c1_controls)
{
	expect(SLICE("\xc2\x9b"), "\"\\u009b\"");
	expect(SLICE("\xc2\xa0"), "\"\xc2\xa0\"");
}

Test(quote, what_is_no_utf8)
{
	expect(SLICE("\xff"), "\"\xef\xbf\xbd\"");
	expect(SLICE("\xc0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");                   /* overlong */
	expect(SLICE("\xed\xa0\x80z"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\""); /* surrogate */
	expect(SLICE("\xf4\x90\x80\x80"),
	       "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* above U+10FFFF */
	expect(SLICE("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");      /* cut off */
}

/* Every string of two bytes, followed by an ASCII letter, gives JSON that a parser takes. */
Test(quote, always_json)
{
	for (unsigned v = 0; v < 65536; v++) {
		char in[3] = {(char)(v >> 8), (char)(v & 255), 'x'};
		struct buf b = {0};
		json_error_t error;

		quote_json(&b, (struct slice){in, sizeof in});
		json_t *json = json_loadb(b.ptr, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
		cr_assert_not_null(json, "%04x: %s", v, error.text);
		json_decref(json);
		buf_release(&b);
	}
}
