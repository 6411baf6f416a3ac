#include "core/base64url.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_write(struct buf *out, struct slice bytes)
{
	uint32_t bits = 0;
	unsigned n = 0; /* bits held that are not written yet, fewer than 6 between bytes */

	for (size_t i = 0; i < bytes.len; i++) {
		bits = bits << 8 | (unsigned char)bytes.ptr[i];
		for (n += 8; n >= 6; n -= 6)
			buf_add(out, &alphabet[bits >> (n - 6) & 63], 1);
	}
	if (n > 0)
		buf_add(out, &alphabet[bits << (6 - n) & 63], 1);
}

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' ? 62 : c == '_' ? 63 : -1;
}

kova_status base64url_parse(struct buf *out, struct slice text)
{
	size_t before = out->len;
	uint32_t bits = 0;
	unsigned n = 0;

	for (size_t i = 0; i < text.len; i++) {
		int d = digit(text.ptr[i]);

		if (d < 0) {
			out->len = before;
			return KOVA_EPROTO;
		}
		bits = bits << 6 | (uint32_t)d;
		n += 6;
		if (n >= 8) {
			char byte = (char)(bits >> (n - 8) & 255);

			n -= 8;
			buf_add(out, &byte, 1);
		}
	}
	/* One writing for each value: no half byte, and no bits set that carry nothing. */
	if (n >= 6 || (bits & ((1u << n) - 1)) != 0) {
		out->len = before;
		return KOVA_EPROTO;
	}
	return KOVA_OK;
}
