#include "core/quote.h"

#include <stdint.h>

static bool continues(struct slice text, size_t at)
{
	return at < text.len && ((unsigned char)text.ptr[at] & 0xc0) == 0x80;
}

/*
 * The second byte's range depends on the first: no overlong forms, no surrogates, nothing above
 * U+10FFFF.
 */
static bool second_fits(unsigned char first, unsigned char second)
{
	switch (first) {
	case 0xe0:
		return second >= 0xa0;
	case 0xed:
		return second < 0xa0;
	case 0xf0:
		return second >= 0x90;
	case 0xf4:
		return second < 0x90;
	default:
		return true;
	}
}

size_t quote_utf8_length(struct slice text)
{
	if (text.len == 0)
		return 0;

	unsigned char first = (unsigned char)text.ptr[0];
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;

	size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	for (size_t i = 1; i < length; i++)
		if (!continues(text, i))
			return 0;
	return second_fits(first, (unsigned char)text.ptr[1]) ? length : 0;
}

static void add_escape(struct buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	const char *shorthand = c == '"'    ? "\\\""
				: c == '\\' ? "\\\\"
				: c == '\n' ? "\\n"
				: c == '\r' ? "\\r"
				: c == '\t' ? "\\t"
					    : NULL;

	if (shorthand != NULL) {
		buf_add(b, shorthand, 2);
		return;
	}
	char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
	buf_add(b, text, sizeof text);
}

/* U+0080 to U+009F: some terminals obey them. */
static bool is_c1_control(struct slice text, size_t at)
{
	return (unsigned char)text.ptr[at] == 0xc2 && (unsigned char)text.ptr[at + 1] < 0xa0;
}

/* Appends the character at `at`, which is not plain; returns its length in the input. */
static size_t add_special(struct buf *b, struct slice text, size_t at)
{
	unsigned char c = (unsigned char)text.ptr[at];

	if (c < 0x80) {
		add_escape(b, c);
		return 1;
	}
	size_t length = quote_utf8_length((struct slice){text.ptr + at, text.len - at});
	if (length == 0) {
		buf_add(b, "\xef\xbf\xbd", 3);
		return 1;
	}
	if (length == 2 && is_c1_control(text, at))
		add_escape(b, (unsigned char)text.ptr[at + 1]);
	else
		buf_add(b, text.ptr + at, length);
	return length;
}

/* Bytes from `at` on that stand for themselves. */
static size_t plain_run(struct slice text, size_t at)
{
	size_t end = at;

	while (end < text.len) {
		unsigned char c = (unsigned char)text.ptr[end];

		if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
			break;
		end++;
	}
	return end - at;
}

void quote_json_inner(struct buf *b, struct slice text)
{
	size_t at = 0;

	while (at < text.len) {
		size_t run = plain_run(text, at);

		if (run != 0)
			buf_add(b, text.ptr + at, run);
		else
			run = add_special(b, text, at);
		at += run;
	}
}

void quote_json(struct buf *b, struct slice text)
{
	buf_add(b, "\"", 1);
	quote_json_inner(b, text);
	buf_add(b, "\"", 1);
}
