#include <criterion/criterion.h>
#include <string.h>

#include "core/base64url.h"

Test(base64url, vectors_of_rfc_4648)
{
	static const char *const vectors[][2] = {
		{"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
		{"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"},
	};

	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
		struct buf text = {0}, back = {0};

		base64url_write(&text, slice_of(vectors[i][0]));
		cr_assert(slice_equal(buf_slice(&text), slice_of(vectors[i][1])));
		cr_assert_eq(base64url_parse(&back, buf_slice(&text)), KOVA_OK);
		cr_assert(slice_equal(buf_slice(&back), slice_of(vectors[i][0])));
		buf_release(&text);
		buf_release(&back);
	}
}

Test(base64url, every_byte_survives)
{
	char bytes[256];
	struct buf text = {0}, back = {0};

	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	base64url_write(&text, (struct slice){bytes, sizeof bytes});
	cr_assert_eq(base64url_parse(&back, buf_slice(&text)), KOVA_OK);
	cr_assert(slice_equal(buf_slice(&back), (struct slice){bytes, sizeof bytes}));
	buf_release(&text);
	buf_release(&back);
}

Test(base64url, refuses_what_it_would_not_write)
{
	static const char *const bad[] = {"Z", "Zm9vY", "Zg==", "Z+", "Z/", "Zh", "Zm9", "Z g"};
	struct buf out = {0};

	buf_add_text(&out, "kept");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		cr_assert_eq(base64url_parse(&out, slice_of(bad[i])), KOVA_EPROTO, "%s", bad[i]);
		cr_assert(slice_equal(buf_slice(&out), SLICE("kept")));
	}
	buf_release(&out);
}
