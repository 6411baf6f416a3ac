/*
 * Any bytes as a policy and a key path: the names of their keys in Redis are read back here, by the rules of
 * lua/README.md, to what they were made of. What can be read back is shared by no two different (policy, key path).
 * All names of one root are in one slot.
 */
#include <assert.h>
#include <string.h>

#include "core/buf.h"
#include "core/keyspace.h"
#include "core/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LEVELS = 3 };

static char name[KEYSPACE_NAME_MAX];

/* Takes `text` off *rest, which must begin with it. */
static void expect(struct slice *rest, struct slice text)
{
	assert(rest->len >= text.len && memcmp(rest->ptr, text.ptr, text.len) == 0);
	*rest = (struct slice){rest->ptr + text.len, rest->len - text.len};
}

/* What the hash tag `tag` stands for. */
static void read_tag(struct slice tag, struct buf *out)
{
	assert(tag.len > 0);
	if (slice_equal(tag, SLICE("%")))
		return;
	for (size_t i = 0; i < tag.len; i++) {
		bool escape = tag.ptr[i] == '%';

		if (escape && tag.len - i >= 3 && memcmp(tag.ptr + i, "%25", 3) == 0)
			buf_add(out, "%", 1);
		else if (escape && tag.len - i >= 3 && memcmp(tag.ptr + i, "%7D", 3) == 0)
			buf_add(out, "}", 1);
		else
			assert(!escape), buf_add(out, tag.ptr + i, 1);
		i += escape ? 2 : 0;
	}
}

/* "k:", the letter and the tag; appends the root to `root` and leaves what follows. */
static struct slice read_prefix(size_t len, char letter, struct buf *root)
{
	struct slice rest = {name, len};
	const char prefix[] = {'k', ':', letter, '{'};

	assert(len <= KEYSPACE_NAME_MAX);
	expect(&rest, (struct slice){prefix, sizeof prefix});
	read_tag(slice_cut(&rest, '}'), root);
	return rest;
}

static void check_level(struct slice policy, unsigned level, struct slice path, uint16_t slot)
{
	static const char letters[] = "bgwsdc";
	enum algorithm algorithm = (enum algorithm)(path.len % ALGORITHM_N);
	size_t len = keyspace_check(algorithm, policy, level, path, name);
	struct buf again = {0};
	struct slice rest = read_prefix(len, letters[algorithm], &again);
	const char number[] = {(char)('0' + level)};

	assert(slice_equal(slice_cut(&rest, ':'), policy)); /* no name has a colon */
	expect(&rest, (struct slice){number, 1});
	assert(rest.len == 0 || rest.ptr[0] == '/');
	buf_add_slice(&again, rest);
	assert(slice_equal(buf_slice(&again), path));
	assert(keyspace_slot((struct slice){name, len}) == slot);
	buf_release(&again);
}

static void check_throttle(struct slice key, uint16_t slot)
{
	size_t len = keyspace_throttle(key, name);
	struct buf again = {0};
	struct slice rest = read_prefix(len, 't', &again);

	buf_add_slice(&again, rest);
	assert(slice_equal(buf_slice(&again), key));
	assert(keyspace_slot((struct slice){name, len}) == slot);
	buf_release(&again);
}

static void check_id(struct slice root, struct slice id, uint16_t slot)
{
	size_t len = keyspace_id(root, id, name);
	struct buf again = {0}, number = {0};
	struct slice rest = read_prefix(len, 'i', &again);

	buf_add_int(&number, (int64_t)id.len);
	assert(slice_equal(slice_cut(&rest, ':'), buf_slice(&number)));
	assert(slice_equal(rest, id) && slice_equal(buf_slice(&again), root));
	assert(keyspace_slot((struct slice){name, len}) == slot);
	buf_release(&again);
	buf_release(&number);
}

static struct slice at_most(struct slice s, size_t len)
{
	return (struct slice){s.ptr, s.len < len ? s.len : len};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice rest = {(const char *)data, size}, path;
	struct slice policy = slice_cut(&rest, '\n');
	struct slice key = at_most(rest, REQUEST_KEY_MAX), root = keyspace_root(key);

	if (!name_is_valid(policy))
		policy = SLICE("p");
	uint16_t slot = keyspace_slot((struct slice){name, keyspace_throttle(root, name)});

	for (unsigned level = 0; level < LEVELS; level++)
		if (keyspace_path(key, level, LEVELS, &path))
			check_level(policy, level, path, slot);
	check_throttle(key, slot);
	check_id(root, at_most(key, REQUEST_ID_MAX), slot);
	return 0;
}
