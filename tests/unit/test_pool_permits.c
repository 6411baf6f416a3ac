/* What goes with an endpoint, as the pool script is told it: layout in lua/README.md. */
#include <criterion/criterion.h>

#include "core/keyspace.h"
#include "core/pool_permits.h"
#include "core/script_wire.h"

#define POLICY "k.1"

static struct script_batch *batch;

static void make(void)
{
	batch = script_batch_new();
	cr_assert_not_null(batch);
}

static void drop(void)
{
	script_batch_free(batch);
}

TestSuite(pool_permits, .init = make, .fini = drop);

struct part {
	unsigned has_gap;
	struct slice before, behind;
};

static struct slice cut(struct slice *rest)
{
	size_t len = get_u16(rest->ptr);
	struct slice text = {rest->ptr + 2, len};

	*rest = slice_after(*rest, 2 + len);
	return text;
}

static struct part part_of(struct slice *rest)
{
	struct part p = {.has_gap = (unsigned char)rest->ptr[0]};

	*rest = slice_after(*rest, 1);
	p.before = cut(rest);
	if (p.has_gap == 1)
		p.behind = cut(rest);
	return p;
}

static struct script_check check_of(const struct limit *l, const char *policy, const char *key,
				    char *name)
{
	size_t len = keyspace_check(l->algorithm, slice_of(policy), 0, slice_of(key), name);

	return (struct script_check){.limit = l, .key = {name, len}, .cost = 3};
}

static const struct script_call call = {.stamp = 7, .latest_us = LIMIT_FOREVER_US};

Test(pool_permits, the_account_has_a_gap_in_its_own_keys_alone)
{
	struct limit bucket = {.limit = 10, .per_us = 1000000, .burst = 20},
		     window = {
			     .algorithm = ALGORITHM_SLIDING_WINDOW, .limit = 10, .per_us = 1000000};
	char names[3][KEYSPACE_NAME_MAX];
	struct pool_permits p = {0};
	struct part parts[5];

	cr_assert(limit_init(&bucket) == KOVA_OK && limit_init(&window) == KOVA_OK);
	struct script_check checks[] = {
		check_of(&window, POLICY, POOL_PERMITS_HOLDER, names[0]),
		check_of(&bucket, POLICY "0", POOL_PERMITS_HOLDER, names[1]),
		check_of(&bucket, "other", "x", names[2])};
	struct script_op take = {.kind = SCRIPT_TAKE, .checks = checks, .n_checks = 3};

	cr_assert(pool_permits_write(&p, batch, &take, 1, SLICE(POLICY), 0, &call) == KOVA_OK);
	struct slice rest = buf_slice(&p.text);

	cr_assert_eq(p.n_keys, 4); /* two buckets; the window, and where its hold is */
	for (size_t i = 0; i < p.n_keys; i++)
		parts[i] = part_of(&rest);
	for (size_t i = 0; i < p.n_keys; i++) {
		bool is_own = parts[i].has_gap == 1;
		struct slice end = is_own ? parts[i].behind : parts[i].before;

		cr_assert_eq(is_own, slice_equal(end, SLICE("}" POLICY ":0")), "%.*s", (int)end.len,
			     end.ptr);
		if (is_own)
			cr_assert_eq(parts[i].before.ptr[parts[i].before.len - 1], '{');
	}
	cr_assert_eq(parts[0].has_gap + parts[1].has_gap + parts[2].has_gap + parts[3].has_gap, 2);
	cr_assert_eq(get_u16(rest.ptr), 1);
	cr_assert_eq(get_double(rest.ptr + 2), -1); /* its reply is never short */
	cr_assert_eq(get_u32(rest.ptr + 10), rest.len - 14);
	pool_permits_release(&p);
}

Test(pool_permits, a_short_reply_admits_up_to_a_debt)
{
	struct limit bucket = {.limit = 10, .per_us = 1000000, .burst = 20};
	char name[KEYSPACE_NAME_MAX];
	struct pool_permits p = {0};

	cr_assert(limit_init(&bucket) == KOVA_OK);
	struct script_check check = check_of(&bucket, POLICY, POOL_PERMITS_HOLDER, name);
	struct script_op take = {.kind = SCRIPT_TAKE, .checks = &check, .n_checks = 1};

	for (int i = 0; i < 2; i++) { /* it may be used again */
		cr_assert(pool_permits_write(&p, batch, &take, 1, SLICE(POLICY), 0, &call) ==
			  KOVA_OK);
		struct slice rest = buf_slice(&p.text);

		cr_assert_eq(part_of(&rest).has_gap, 1);
		cr_assert_eq(get_double(rest.ptr + 2), 17000000);
	}
	pool_permits_release(&p);
}

Test(pool_permits, the_holder_is_the_group_or_the_id)
{
	struct pool_endpoint e = {.id = SLICE("k1@0123abcd"), .account = SLICE("acct")};

	cr_assert(slice_equal(pool_permits_holder(&e), SLICE("acct")));
	e.account = (struct slice){0};
	cr_assert(slice_equal(pool_permits_holder(&e), SLICE("k1")));
	e.id = SLICE("k1");
	cr_assert(slice_equal(pool_permits_holder(&e), SLICE("k1")));
}
