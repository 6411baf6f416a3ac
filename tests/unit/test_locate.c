#include <criterion/criterion.h>

#include "io/locate.h"

#define KEY(name) ((struct locate_step){.key = SLICE(name)})
#define ITEM(i) ((struct locate_step){.index = (i)})
#define LOCATE(text, at_key, ...)                                           \
	locate_json(SLICE(text), (const struct locate_step[]){__VA_ARGS__}, \
		    sizeof((const struct locate_step[]){__VA_ARGS__}) /     \
			    sizeof(struct locate_step),                     \
		    at_key)

static void is_at(struct locate_position p, size_t line, size_t column)
{
	cr_expect(p.line == line && p.column == column, "at %zu:%zu, not %zu:%zu", p.line, p.column,
		  line, column);
}

#define TEXT                                      \
	"{ \"a\": [1, {\"b\": \"x,}\\\"\"},\n"    \
	"        {\"b\": {\"c\": null}}],\n"      \
	"  \"\\u0064\\ud83d\\ude00\\n\": true,\n" \
	"  \"é\": 1, \"z\": [ ], \"z\": 3 }\n"

Test(locate, values_and_names)
{
	is_at(LOCATE(TEXT, false, KEY("a")), 1, 8);
	is_at(LOCATE(TEXT, true, KEY("a")), 1, 3);
	is_at(LOCATE(TEXT, false, KEY("a"), ITEM(0)), 1, 9);
	is_at(LOCATE(TEXT, false, KEY("a"), ITEM(1), KEY("b")), 1, 18);
	is_at(LOCATE(TEXT, false, KEY("a"), ITEM(2)), 2, 9);
	is_at(LOCATE(TEXT, true, KEY("a"), ITEM(2), KEY("b"), KEY("c")), 2, 16);
	is_at(LOCATE(TEXT, false, KEY("a"), ITEM(2), KEY("b"), KEY("c")), 2, 21);
}

Test(locate, names_with_escapes)
{
	is_at(LOCATE(TEXT, false, KEY("d\xf0\x9f\x98\x80\n")), 3, 27);
}

Test(locate, columns_count_characters_and_the_last_of_equal_names_is_taken)
{
	is_at(LOCATE(TEXT, false, KEY("\xc3\xa9")), 4, 8);
	is_at(LOCATE(TEXT, false, KEY("z")), 4, 26);
	is_at(LOCATE(TEXT, true, KEY("z")), 4, 21);
}

Test(locate, what_is_not_there_is_where_it_should_be)
{
	is_at(LOCATE(TEXT, false, KEY("a"), ITEM(7)), 1, 8);
	is_at(LOCATE(TEXT, false, KEY("a"), KEY("b")), 1, 8);
	is_at(LOCATE(TEXT, false, KEY("none")), 1, 1);
	is_at(LOCATE(TEXT, true, KEY("a"), ITEM(2)), 2, 9);
	is_at(locate_json(SLICE("  {}"), NULL, 0, false), 1, 3);
}

Test(locate, tokens_of_any_text)
{
	is_at(locate_json_token(SLICE("{\n  \"ab\" 12x ]"), 8), 2, 3);
	is_at(locate_json_token(SLICE("{\n  \"ab\" 12x ]"), 9), 2, 8);
	is_at(locate_json_token(SLICE("{\n  \"ab\" 12x ]"), 12), 2, 8);
	is_at(locate_json_token(SLICE("{\n  \"ab"), 99), 2, 6);
	is_at(locate_json_token(SLICE("\"a\n\"b\""), 5), 2, 1);
	is_at(locate_json_token(SLICE(""), 1), 1, 1);
}

/* Wherever a text is cut off, nothing outside it is read (ASan watches), and the place is within it. */
Test(locate, every_prefix)
{
	static const char text[] = TEXT;

	for (size_t n = 0; n < sizeof text; n++) {
		char *cut = memcpy(malloc(n + 1), text, n);

		for (size_t offset = 0; offset <= n; offset++)
			cr_expect(locate_json_token((struct slice){cut, n}, offset).line <= 5);
		free(cut);
	}
}
