#include "io/locate.h"

#include <stdint.h>

#include "core/hex.h"

/* A cursor over tokens: names of objects, values and punctuation. */
struct cursor {
	struct slice text;
	size_t at;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_punctuation(char c)
{
	return c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',';
}

static void skip_space(struct cursor *c)
{
	while (c->at < c->text.len && is_space(c->text.ptr[c->at]))
		c->at++;
}

static char peek(const struct cursor *c)
{
	return c->at < c->text.len ? c->text.ptr[c->at] : '\0';
}

/* Past the string that begins here. A line's end ends an unterminated one. */
static void skip_string(struct cursor *c)
{
	for (c->at++; c->at < c->text.len; c->at++) {
		char b = c->text.ptr[c->at];

		if (b == '\\')
			c->at++;
		else if (b == '"' || b == '\n')
			break;
	}
	c->at = c->at < c->text.len ? c->at + 1 : c->text.len;
}

/* Past one token: a string, a punctuation mark, or a run of anything else. */
static void skip_token(struct cursor *c)
{
	if (peek(c) == '"') {
		skip_string(c);
		return;
	}
	if (is_punctuation(peek(c))) {
		c->at++;
		return;
	}
	while (c->at < c->text.len && !is_space(peek(c)) && !is_punctuation(peek(c)) &&
	       peek(c) != '"')
		c->at++;
}

static void skip_value(struct cursor *c)
{
	size_t depth = 0;

	do {
		skip_space(c);
		if (peek(c) == '{' || peek(c) == '[')
			depth++;
		else if (peek(c) == '}' || peek(c) == ']')
			depth--;
		skip_token(c);
	} while (depth > 0 && c->at < c->text.len);
}

static uint32_t hex4(const char *at)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | (uint32_t)(hex_value(at[i]) & 15);
	return v;
}

static size_t utf8_write(uint32_t point, char ret_bytes[4])
{
	if (point < 0x80) {
		ret_bytes[0] = (char)point;
		return 1;
	}
	size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = n - 1; i > 0; i--) {
		ret_bytes[i] = (char)(0x80 | (point & 0x3f));
		point >>= 6;
	}
	ret_bytes[0] = (char)(lead[n] | point);
	return n;
}

/* Decodes the escape at `raw` (past its backslash); returns how much of `raw` it took, 0 if it is cut off. */
static size_t escape_read(struct slice raw, char ret_bytes[4], size_t *ret_n)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";

	if (raw.len == 0)
		return 0;
	if (raw.ptr[0] != 'u') {
		const char *found = strchr(from, raw.ptr[0]);

		ret_bytes[0] = found != NULL && *found != '\0' ? to[found - from] : raw.ptr[0];
		*ret_n = 1;
		return 1;
	}
	if (raw.len < 5)
		return 0;
	uint32_t point = hex4(raw.ptr + 1);
	size_t used = 5;

	if (point >= 0xd800 && point < 0xdc00 && raw.len >= 11) {
		point = 0x10000 + ((point - 0xd800) << 10) + (hex4(raw.ptr + 7) - 0xdc00);
		used = 11;
	}
	*ret_n = utf8_write(point, ret_bytes);
	return used;
}

/* Whether the raw inside of a string, with its escapes, spells `key`. */
static bool spells(struct slice raw, struct slice key)
{
	size_t at = 0;

	while (raw.len > 0) {
		char bytes[4];
		size_t n = 1, used = 1;

		bytes[0] = raw.ptr[0];
		if (raw.ptr[0] == '\\') {
			struct slice rest = {raw.ptr + 1, raw.len - 1};

			used = escape_read(rest, bytes, &n) + 1;
			if (used == 1)
				return false;
		}
		if (key.len - at < n || memcmp(key.ptr + at, bytes, n) != 0)
			return false;
		at += n;
		raw = (struct slice){raw.ptr + used, raw.len - used};
	}
	return at == key.len;
}

/* In the object that begins here: the offsets of the last member named `key`. */
static bool find_member(struct cursor *c, struct slice key, size_t *ret_name, size_t *ret_value)
{
	bool found = false;

	c->at++;
	for (skip_space(c); peek(c) == '"'; skip_space(c)) {
		size_t name = c->at;

		skip_string(c);
		struct slice raw = {c->text.ptr + name + 1, c->at - name - 2};

		skip_space(c);
		c->at++; /* the colon */
		skip_space(c);
		if (spells(raw, key)) {
			*ret_name = name;
			*ret_value = c->at;
			found = true;
		}
		skip_value(c);
		skip_space(c);
		if (peek(c) == ',')
			c->at++;
	}
	return found;
}

static bool find_item(struct cursor *c, size_t index, size_t *ret_value)
{
	c->at++;
	for (skip_space(c); c->at < c->text.len && peek(c) != ']'; skip_space(c)) {
		if (index-- == 0) {
			*ret_value = c->at;
			return true;
		}
		skip_value(c);
		skip_space(c);
		if (peek(c) == ',')
			c->at++;
	}
	return false;
}

static struct locate_position position_of(struct slice text, size_t offset)
{
	struct locate_position p = {1, 1};

	for (size_t i = 0; i < offset && i < text.len; i++) {
		if (text.ptr[i] == '\n') {
			p.line++;
			p.column = 1;
		} else if (((unsigned char)text.ptr[i] & 0xc0) != 0x80) {
			p.column++;
		}
	}
	return p;
}

struct locate_position locate_json(struct slice text, const struct locate_step *steps,
				   size_t n_steps, bool at_key)
{
	struct cursor c = {.text = text};
	size_t name, value;

	skip_space(&c);
	value = name = c.at;
	for (size_t i = 0; i < n_steps; i++) {
		size_t next = value;
		bool found = false;

		c.at = value;
		if (steps[i].key.ptr != NULL && peek(&c) == '{')
			found = find_member(&c, steps[i].key, &name, &next);
		else if (steps[i].key.ptr == NULL && peek(&c) == '[')
			found = find_item(&c, steps[i].index, &next);
		if (!found)
			return position_of(text, value);
		if (steps[i].key.ptr == NULL)
			name = next;
		value = next;
	}
	return position_of(text, at_key ? name : value);
}

struct locate_position locate_json_token(struct slice text, size_t offset)
{
	struct cursor c = {.text = text};

	for (skip_space(&c); c.at < text.len; skip_space(&c)) {
		size_t start = c.at;

		skip_token(&c);
		if (c.at >= offset)
			return position_of(text, start);
	}
	return position_of(text, text.len);
}
