#include "core/keyspace.h"

#include <assert.h>

#include "core/name.h"

/* Appends to a buffer that the caller has measured. */
struct out {
	char *ptr;
	size_t len;
};

static void out_char(struct out *o, char c)
{
	o->ptr[o->len++] = c;
}

static void out_slice(struct out *o, struct slice s)
{
	if (s.len != 0)
		memcpy(o->ptr + o->len, s.ptr, s.len);
	o->len += s.len;
}

static void out_number(struct out *o, size_t n)
{
	if (n >= 10)
		out_number(o, n / 10);
	out_char(o, (char)('0' + n % 10));
}

/* A '}' would end the tag early and move the key to another slot; '%' is what escapes it. An empty
 * root gets a lone '%', which no escaped root can be. */
static void out_tag(struct out *o, struct slice root)
{
	if (root.len == 0)
		out_char(o, '%');
	for (size_t i = 0; i < root.len; i++) {
		if (root.ptr[i] == '%')
			out_slice(o, SLICE("%25"));
		else if (root.ptr[i] == '}')
			out_slice(o, SLICE("%7D"));
		else
			out_char(o, root.ptr[i]);
	}
}

static void out_prefix(struct out *o, char kind, struct slice root)
{
	out_slice(o, SLICE("k:"));
	out_char(o, kind);
	out_char(o, '{');
	out_tag(o, root);
	out_char(o, '}');
}

struct slice keyspace_root(struct slice key)
{
	return (struct slice){key.ptr, slice_index(key, '/')};
}

bool keyspace_path(struct slice key, unsigned level, unsigned n_levels, struct slice *ret_path)
{
	size_t end = keyspace_root(key).len;

	assert(level < n_levels);
	for (unsigned i = 0; i < level; i++) {
		if (end == key.len)
			return false;
		end += 1 + keyspace_root(slice_after(key, end + 1)).len;
	}
	*ret_path = level + 1 == n_levels ? key : (struct slice){key.ptr, end};
	return true;
}

static char algorithm_letter(enum algorithm a)
{
	static const char letters[ALGORITHM_N] = {'b', 'g', 'w', 's', 'd', 'c'};

	assert((unsigned)a < ALGORITHM_N);
	return letters[a];
}

size_t keyspace_check(enum algorithm algorithm, struct slice policy, unsigned level,
		      struct slice path, char *ret_name)
{
	struct slice root = keyspace_root(path);
	struct out o = {ret_name, 0};

	assert(path.len <= REQUEST_KEY_MAX && policy.len <= NAME_BYTES_MAX);
	out_prefix(&o, algorithm_letter(algorithm), root);
	out_slice(&o, policy);
	out_char(&o, ':');
	out_number(&o, level);
	out_slice(&o, slice_after(path, root.len));
	return o.len;
}

/* What is kept of the policy and root. */
static size_t of_root(const char *prefix, struct slice check, char *ret_name)
{
	size_t tag = slice_index(check, '{'), end = slice_index(check, '}');
	struct slice rest = slice_after(check, end);
	struct out o = {ret_name, 0};

	assert(tag < end && check.len <= KEYSPACE_NAME_MAX);
	out_slice(&o, slice_of(prefix));
	out_slice(&o, (struct slice){check.ptr + tag, end - tag});
	out_slice(&o, slice_cut(&rest, ':'));
	return o.len;
}

size_t keyspace_ledger(struct slice check, char *ret_name)
{
	return of_root("k:u", check, ret_name);
}

size_t keyspace_quota(struct slice check, char *ret_name)
{
	return of_root("k:q", check, ret_name);
}

/* The root that a tag stands for; false: it stands for none. */
static bool read_tag(struct slice tag, char *ret_root, size_t *ret_len)
{
	size_t n = 0;

	if (slice_equal(tag, SLICE("%")))
		tag.len = 0;
	else if (tag.len == 0)
		return false;
	for (size_t i = 0; i < tag.len; i++) {
		char c = tag.ptr[i];

		if (n == REQUEST_KEY_MAX || c == '/')
			return false;
		if (c == '%') {
			struct slice code = slice_after(tag, i + 1);

			code.len = code.len < 2 ? code.len : 2;
			if (slice_equal(code, SLICE("7D")))
				c = '}';
			else if (!slice_equal(code, SLICE("25")))
				return false;
			i += 2;
		}
		ret_root[n++] = c;
	}
	*ret_len = n;
	return true;
}

bool keyspace_ledger_parse(struct slice name, char *ret_root, size_t *ret_root_len,
			   struct slice *ret_policy)
{
	struct slice rest = slice_after(name, 4), tag = slice_cut(&rest, '}');

	if (name.len < 4 || memcmp(name.ptr, "k:u{", 4) != 0 || !name_is_valid(rest) ||
	    !read_tag(tag, ret_root, ret_root_len))
		return false;
	*ret_policy = rest;
	return true;
}

size_t keyspace_throttle(struct slice key, char *ret_name)
{
	struct slice root = keyspace_root(key);
	struct out o = {ret_name, 0};

	assert(key.len <= REQUEST_KEY_MAX);
	out_prefix(&o, 't', root);
	out_slice(&o, slice_after(key, root.len));
	return o.len;
}

size_t keyspace_receipt(struct slice root, struct slice nonce, char *ret_name)
{
	struct out o = {ret_name, 0};

	assert(root.len <= REQUEST_KEY_MAX && nonce.len <= 64);
	out_prefix(&o, 'r', root);
	out_slice(&o, nonce);
	return o.len;
}

size_t keyspace_id(struct slice root, struct slice id, char *ret_name)
{
	struct out o = {ret_name, 0};

	assert(root.len <= REQUEST_KEY_MAX && id.len <= REQUEST_ID_MAX);
	out_prefix(&o, 'i', root);
	out_number(&o, id.len);
	out_char(&o, ':');
	out_slice(&o, id);
	return o.len;
}

/* CRC-16/XMODEM (polynomial 0x1021, initial value 0), four bits at a time. */
static uint16_t crc16(struct slice s)
{
	static const uint16_t table[16] = {
		0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
		0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
	};
	uint32_t crc = 0;

	for (size_t i = 0; i < s.len; i++) {
		uint32_t byte = (unsigned char)s.ptr[i];

		crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ byte >> 4];
		crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (byte & 15)];
	}
	return (uint16_t)crc;
}

/* What is hashed: between the first '{' and the next '}', unless that is nothing. */
static struct slice hash_tag(struct slice name)
{
	const char *open = name.len == 0 ? NULL : memchr(name.ptr, '{', name.len);
	const char *close;

	if (open == NULL)
		return name;
	close = memchr(open, '}', name.len - (size_t)(open - name.ptr));
	if (close == NULL || close == open + 1)
		return name;
	return (struct slice){open + 1, (size_t)(close - open) - 1};
}

uint16_t keyspace_slot(struct slice name)
{
	return crc16(hash_tag(name)) % 16384;
}

/* Nearly every number below 2^18 is needed for one slot or another. */
void keyspace_probe(uint16_t slot, char ret_name[static KEYSPACE_PROBE_MAX])
{
	static const char start[] = "k:probe{";

	for (uint32_t n = 0;; n++) {
		char digits[10];
		size_t len = sizeof start - 1, n_digits = 0;

		memcpy(ret_name, start, len);
		for (uint32_t rest = n; rest > 0 || n_digits == 0; rest /= 10)
			digits[n_digits++] = (char)('0' + rest % 10);
		while (n_digits > 0)
			ret_name[len++] = digits[--n_digits];
		memcpy(ret_name + len, "}", sizeof "}");
		if (keyspace_slot((struct slice){ret_name, len + 1}) == slot)
			return;
	}
}
