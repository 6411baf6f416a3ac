/* What the script does beyond one check: all or none, chains, ids, peeking, storage, clocks, lost scripts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

#include "dice.h"
#include "script_fixture.h"

TestSuite(script, .init = start, .fini = stop);

/* ---- All or none ---- */

Test(script, a_refusing_check_leaves_the_others_untouched)
{
	uint64_t edge[4];

	for (int a = 0; a < ALGORITHM_N; a++) {
		for (int b = 0; b < ALGORITHM_N; b++) {
			struct limit la = of_each((enum algorithm)a, 1, edge),
				     lb = of_each((enum algorithm)b, 5, edge);
			char key_a[32], key_b[32];
			struct script_check c[2] = {{.limit = &lb, .cost = 2},
						    {.limit = &la, .cost = 1}};
			struct script_op op = {.kind = SCRIPT_TAKE, .checks = c, .n_checks = 2};
			struct script_answer answer;

			snprintf(key_a, sizeof key_a, "k:a{t}%d%d", a, b);
			snprintf(key_b, sizeof key_b, "k:b{t}%d%d", a, b);
			c[0].key = slice_of(key_b);
			c[1].key = slice_of(key_a);
			cr_assert_eq(take(&la, key_a, 1).status, SCRIPT_ALLOWED);
			for (int i = 0; i < 20; i++) {
				answer = run(&op);
				cr_assert_eq(answer.status, SCRIPT_REFUSED);
				cr_assert_eq(answer.check, 1);
				cr_assert_gt(answer.wait_us, 0);
			}
			cr_assert_eq(peek(&lb, key_b).remaining, 5, "algorithms %d and %d", a, b);
			cr_assert_eq(redis_client_integer(&rig.client, "EXISTS %s", key_b), 0);
		}
	}
}

Test(script, an_operation_is_answered_by_its_scarcest_check)
{
	struct limit many = bucket(100, 3600 * SECOND, 100), few = bucket(10, 3600 * SECOND, 10);
	struct script_check c[3] = {{.limit = &many, .key = SLICE("k:b{t}m"), .cost = 1},
				    {.limit = &few, .key = SLICE("k:b{t}f"), .cost = 1},
				    {.limit = &many, .key = SLICE("k:b{t}n"), .cost = 1}};
	struct script_answer a =
		run(&(struct script_op){.kind = SCRIPT_TAKE, .checks = c, .n_checks = 3});

	cr_assert_eq(a.status, SCRIPT_ALLOWED);
	cr_assert_eq(a.check, 1);
	cr_assert_eq(a.remaining, 9);
}

Test(script, of_two_refusing_checks_the_longer_wait_is_told)
{
	struct limit soon = bucket(1, 1 * SECOND, 1), late = bucket(1, 100 * SECOND, 1);
	struct script_check c[2] = {{.limit = &soon, .key = SLICE("k:b{t}s"), .cost = 1},
				    {.limit = &late, .key = SLICE("k:b{t}l"), .cost = 1}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = c, .n_checks = 2};
	struct script_answer a;

	cr_assert_eq(run(&op).status, SCRIPT_ALLOWED);
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_REFUSED);
	cr_assert_eq(a.check, 1);
	cr_assert_gt(a.wait_us, 90 * (int64_t)SECOND);
}

Test(script, one_key_twice_in_an_operation_is_charged_twice)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 5, edge);
		char key[32];
		struct script_check c[2] = {{.limit = &l, .cost = 2}, {.limit = &l, .cost = 2}};
		struct script_op op = {.kind = SCRIPT_TAKE, .checks = c, .n_checks = 2};
		struct script_answer answer;

		snprintf(key, sizeof key, "k:x{t}%d", a);
		c[0].key = c[1].key = slice_of(key);
		answer = run(&op);
		cr_assert_eq(answer.status, SCRIPT_ALLOWED);
		cr_assert_eq(answer.remaining, 1, "algorithm %d", a);
		cr_assert_eq(run(&op).status, SCRIPT_REFUSED);
		c[0].cost = c[1].cost = 3;
		answer = run(&op);
		cr_assert_eq(answer.wait_us, -1, "3 + 3 never fits into 5");
	}
}

Test(script, operations_of_a_batch_see_each_other_in_order)
{
	struct limit l = bucket(3, 3600 * SECOND, 3);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 1};
	struct script_op op[6];
	struct script_answer a[6];

	for (int i = 0; i < 6; i++)
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1};
	script_rig_run(&rig, op, 5, a);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(a[i].status, i < 3 ? SCRIPT_ALLOWED : SCRIPT_REFUSED);
	op[0].kind = SCRIPT_GIVE;
	op[0].stamp_us = a[0].now_us;
	script_rig_run(&rig, op, 3, a);
	cr_assert_eq(a[0].amount, 1);
	cr_assert_eq(a[1].status, SCRIPT_ALLOWED);
	cr_assert_eq(a[2].status, SCRIPT_REFUSED);
}

/* ---- Chains, shadow ---- */

Test(script, a_chained_operation_does_not_overtake)
{
	struct limit l = bucket(10, 3600 * SECOND, 10);
	struct script_check big = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 8}, small = big;
	struct script_op op[3] = {
		{.kind = SCRIPT_TAKE, .checks = &big, .n_checks = 1},
		{.kind = SCRIPT_TAKE, .chained = true, .checks = &big, .n_checks = 1},
		{.kind = SCRIPT_TAKE, .chained = true, .checks = &small, .n_checks = 1}};
	struct script_answer a[3];

	small.cost = 1;
	script_rig_run(&rig, op, 3, a);
	cr_assert_eq(a[0].status, SCRIPT_ALLOWED);
	cr_assert_eq(a[1].status, SCRIPT_REFUSED);
	cr_assert_eq(a[2].status, SCRIPT_REFUSED);
	cr_assert_eq(a[2].remaining, 2);
	cr_assert_eq(a[2].wait_us, a[1].wait_us, "as long as the one before it");
	op[2].chained = false;
	script_rig_run(&rig, op + 1, 2, a);
	cr_assert_eq(a[1].status, SCRIPT_ALLOWED);
}

Test(script, a_shadow_check_never_refuses_and_takes_only_what_fits)
{
	struct limit small = bucket(1, 3600 * SECOND, 1), big = bucket(9, 3600 * SECOND, 9);
	struct script_check c[2] = {
		{.limit = &small, .key = SLICE("k:b{t}s"), .cost = 1, .shadow = true},
		{.limit = &big, .key = SLICE("k:b{t}b"), .cost = 1}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = c, .n_checks = 2};
	struct script_answer a;

	cr_assert_eq(run(&op).status, SCRIPT_ALLOWED);
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_SHADOWED);
	cr_assert(a.shadowed);
	cr_assert_eq(a.check, 0);
	cr_assert_eq(peek(&big, "k:b{t}b").remaining, 7);
	cr_assert_eq(peek(&small, "k:b{t}s").remaining, 0);
}

/* ---- Ids ---- */

Test(script, an_id_is_charged_once_and_answered_again)
{
	struct limit l = bucket(10, 3600 * SECOND, 10);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 3};
	struct script_op op = {.kind = SCRIPT_TAKE,
			       .checks = &c,
			       .n_checks = 1,
			       .id_key = SLICE("k:i{t}1:a"),
			       .echo = SLICE("permit\0and receipt")};
	struct script_op both[2] = {op, op};
	struct script_answer a[2];
	int64_t ttl;

	script_rig_run(&rig, both, 2, a);
	cr_assert_eq(a[0].status, SCRIPT_ALLOWED);
	cr_assert_eq(a[1].status, SCRIPT_REPEATED, "even within a batch");
	op.echo = SLICE("another");
	for (int i = 0; i < 3; i++) {
		struct script_answer again = run(&op);

		cr_assert_eq(again.status, SCRIPT_REPEATED);
		cr_assert_eq(again.remaining, a[0].remaining);
		cr_assert_eq(again.wait_us, a[0].wait_us);
		cr_assert(slice_equal(again.echo, SLICE("permit\0and receipt")));
	}
	cr_assert_eq(peek(&l, "k:b{t}x").remaining, 7);
	ttl = redis_client_integer(&rig.client, "PTTL k:i{t}1:a");
	cr_assert(ttl > 55000 && ttl <= 60000);
}

Test(script, a_refused_id_is_not_remembered_and_a_given_back_one_is_forgotten)
{
	struct limit l = bucket(1, 3600 * SECOND, 1);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 1};
	struct script_op op = {
		.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1, .id_key = SLICE("k:i{t}1:b")};
	struct script_op give = op;
	struct script_answer a = take(&l, "k:b{t}x", 1);

	give.kind = SCRIPT_GIVE;
	cr_assert_eq(run(&op).status, SCRIPT_REFUSED);
	cr_assert_eq(script_rig_one(&rig, SCRIPT_GIVE, &l, "k:b{t}x", 1).amount, 1);
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_ALLOWED);
	give.stamp_us = a.now_us;
	cr_assert_eq(run(&give).amount, 1);
	cr_assert_eq(run(&op).status, SCRIPT_ALLOWED);
}

/* ---- Peeking, expiry, storage ---- */

Test(script, a_peek_writes_nothing)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 3, edge);
		char key[32];
		struct redis_answer before, after;

		snprintf(key, sizeof key, "k:x{t}%d", a);
		cr_assert_eq(peek(&l, key).remaining, 3);
		cr_assert_eq(redis_client_integer(&rig.client, "EXISTS %s", key), 0);
		take(&l, key, 3);
		before = redis_client_command(&rig.client, "DUMP %s", key);
		cr_assert_eq(peek(&l, key).status, SCRIPT_REFUSED);
		cr_assert_eq(peek(&l, key).remaining, 0);
		after = redis_client_command(&rig.client, "DUMP %s", key);
		cr_assert(slice_equal(before.text, after.text));
		redis_answer_release(&before);
		redis_answer_release(&after);
	}
}

Test(script, every_key_expires_a_minute_after_it_says_nothing_any_more)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 10, edge);
		char key[32];

		snprintf(key, sizeof key, "k:x{t}%d", a);
		for (int i = 0; i < 5; i++) {
			struct script_answer answer = take(&l, key, 1 + (uint64_t)i % 2);
			int64_t ttl_ms = redis_client_integer(&rig.client, "PTTL %s", key);
			int64_t full_ms = (int64_t)answer.reset_us / 1000;
			int64_t longest_ms = full_ms + 63000;

			if (a == ALGORITHM_TOKEN_BUCKET && longest_ms < 123000)
				longest_ms = 123000;
			cr_assert(ttl_ms >= full_ms + 59990 && ttl_ms <= longest_ms,
				  "algorithm %d: %ld ms, full in %ld", a, (long)ttl_ms,
				  (long)full_ms);
		}
	}
}

/* Whatever is taken under whatever limit, at times from here to there and back: a bucket is not forgotten before it has
 * been full for a minute. */
Test(script, a_bucket_outlives_its_refill_by_a_minute)
{
	struct limit limits[] = {bucket(10, SECOND, 20), bucket(7, 3 * SECOND, 90),
				 bucket(1, 60 * SECOND, 50)};
	struct dice dice = {7};

	rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) * SECOND;
	for (int i = 0; i < 3000; i++) {
		const struct limit *l =
			&limits[dice_below(&dice, 20) < 18 ? 0 : 1 + dice_below(&dice, 2)];
		bool is_plain = dice_below(&dice, 4) > 0; /* by itself, or as one of two levels */
		struct script_check c[2] = {
			{.limit = l, .key = SLICE("k:b{t}x"), .cost = 1 + dice_below(&dice, 9)},
			{.limit = l, .key = SLICE("k:b{t}y"), .cost = 1}};
		struct script_op op = {
			.kind = SCRIPT_TAKE, .checks = c, .n_checks = is_plain ? 1 : 2};
		uint64_t until_us;

		rig.virtual_us +=
			dice_below(&dice, dice_below(&dice, 8) > 0 ? SECOND : 40 * SECOND);
		if (dice_below(&dice, 50) == 0)
			rig.virtual_us -= 50 * SECOND;
		rig.clock_us = rig.virtual_us;
		run(&op);
		until_us = rig.virtual_us + (uint64_t)peek(l, "k:b{t}x").reset_us + 60 * SECOND;
		if (redis_client_integer(&rig.client, "EXISTS k:b{t}x") == 1)
			cr_assert_geq(1000 * (uint64_t)redis_client_integer(&rig.client,
									    "PEXPIRETIME k:b{t}x"),
				      until_us, "after %d steps", i);
	}
}

Test(script, within_a_half_minute_a_buckets_expiry_stays)
{
	struct limit l = bucket(10, SECOND, 20);
	int64_t first;

	rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) / 30 * 30 * SECOND;
	take(&l, "k:b{t}x", 1);
	first = redis_client_integer(&rig.client, "PEXPIRETIME k:b{t}x");
	rig.virtual_us += 30 * SECOND - 100000;
	take(&l, "k:b{t}x", 20);
	cr_assert_eq(redis_client_integer(&rig.client, "PEXPIRETIME k:b{t}x"), first);
	rig.virtual_us += 100000;
	take(&l, "k:b{t}x", 1);
	cr_assert_eq(redis_client_integer(&rig.client, "PEXPIRETIME k:b{t}x"), first + 30000);
}

Test(script, a_bucket_that_refills_in_centuries_still_expires)
{
	struct limit l = bucket(1, LIMIT_PER_MAX_US, LIMIT_MAX);

	cr_assert_eq(take(&l, "k:b{t}x", LIMIT_MAX).status, SCRIPT_ALLOWED);
	cr_assert_gt(redis_client_integer(&rig.client, "PTTL k:b{t}x"), 0);
	cr_assert_eq(take(&l, "k:b{t}x", LIMIT_MAX).wait_us, (int64_t)LIMIT_FOREVER_US);
}

static bool is_kept_as_integer(const struct limit *l, uint64_t cost)
{
	struct redis_answer a;
	bool is;

	take(l, "k:b{t}x", cost);
	a = redis_client_command(&rig.client, "OBJECT ENCODING k:b{t}x");
	is = slice_equal(a.text, SLICE("int"));
	redis_answer_release(&a);
	a = redis_client_command(&rig.client, "DEL k:b{t}x");
	redis_answer_release(&a);
	return is;
}

Test(script, ordinary_buckets_are_kept_as_integers)
{
	const uint64_t limits[][3] = {{10, SECOND, 20},           {1, 60 * SECOND, 1},
				      {3, 7 * SECOND, 3},         {100, 60 * SECOND, 100},
				      {1000, SECOND, 2000},       {1000, 3600 * SECOND, 1000},
				      {1000000, SECOND, 2000000}, {LIMIT_MAX, SECOND, LIMIT_MAX},
				      {7, 86400 * SECOND, 7}};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct limit l = bucket(limits[i][0], limits[i][1], limits[i][2]);

		cr_assert(is_kept_as_integer(&l, 1), "limit %lu", (unsigned long)l.limit);
		cr_assert(is_kept_as_integer(&l, l.burst), "limit %lu", (unsigned long)l.limit);
	}
}

Test(script, a_bucket_stays_an_integer_when_it_is_written_again)
{
	struct limit l = bucket(10, SECOND, 20), huge = bucket(1000000, SECOND, LIMIT_MAX);

	rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) / 30 * 30 * SECOND;
	for (uint64_t i = 1; i <= 20; i++) {
		struct redis_answer a;

		cr_assert_eq(take(&l, "k:b{t}x", 1).remaining, 19);
		a = redis_client_command(&rig.client, "OBJECT ENCODING k:b{t}x");
		cr_assert(slice_equal(a.text, SLICE("int")));
		redis_answer_release(&a);
		cr_assert_eq(take(&huge, "k:b{t}y", 1000000).remaining,
			     LIMIT_MAX - 1000000 * i + 100000 * (i - 1));
		rig.clock_us = rig.virtual_us += 100000;
	}
}

/* Its operations are in the order in which they came, whichever keys are left to the general way. */
Test(script, a_plain_batch_with_a_key_that_is_held)
{
	static const struct {
		const char *key;
		uint64_t cost, remaining;
		enum script_refusal why;
	} cases[] = {
		{"k:b{t}x", 1, 19, SCRIPT_LIMITED}, {"k:b{t}held", 1, 0, SCRIPT_HELD},
		{"k:b{t}y", 2, 18, SCRIPT_LIMITED}, {"k:b{t}leased", 2, 16, SCRIPT_LIMITED},
		{"k:b{t}x", 4, 15, SCRIPT_LIMITED}, {"k:b{t}leased", 3, 13, SCRIPT_LIMITED},
		{"k:b{t}y", 2, 16, SCRIPT_LIMITED}, {"k:b{t}held", 2, 0, SCRIPT_HELD},
	};
	enum { N = sizeof cases / sizeof *cases };
	struct limit l = bucket(1, 3600 * SECOND, 20);
	struct script_check c[N] = {{.limit = &l, .key = SLICE("k:b{t}held"), .cost = 1},
				    {.limit = &l, .key = SLICE("k:b{t}leased"), .cost = 2}};
	struct script_op op[N] = {{.kind = SCRIPT_FEEDBACK,
				   .checks = &c[0],
				   .n_checks = 1,
				   .ok = true,
				   .amount = UINT64_MAX,
				   .hold_us = SECOND * 100},
				  {.kind = SCRIPT_LEASE,
				   .checks = &c[1],
				   .n_checks = 1,
				   .lease = {1},
				   .ttl_us = SECOND * 10,
				   .sharers = 1}};
	struct script_answer a[N];

	script_rig_run(&rig, op, 2, a);
	for (unsigned i = 0; i < N; i++) {
		c[i] = (struct script_check){
			.limit = &l, .key = slice_of(cases[i].key), .cost = cases[i].cost};
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &c[i], .n_checks = 1};
	}
	script_rig_run(&rig, op, N, a);
	for (unsigned i = 0; i < N; i++)
		cr_assert(a[i].remaining == cases[i].remaining && a[i].why == cases[i].why,
			  "%u: %lu left, %d", i, (unsigned long)a[i].remaining, a[i].why);
	cr_assert_eq(peek(&l, "k:b{t}x").remaining, 15);
	cr_assert_eq(peek(&l, "k:b{t}leased").remaining, 13);
}

/* What a foreign hand left under a key of ours must not stop the batch it is asked in. */
Test(script, a_state_that_is_none_counts_as_absent)
{
	struct limit l = bucket(10, SECOND, 20), g = make(ALGORITHM_GCRA, 10, 3600 * SECOND, 10);
	struct redis_answer a;

	a = redis_client_command(&rig.client, "SET k:b{t}x rubbish-rubbish");
	redis_answer_release(&a);
	a = redis_client_command(&rig.client, "SET k:g{t}x rubbish");
	redis_answer_release(&a);
	a = redis_client_command(&rig.client, "MSET k:b{t}y -1 k:b{t}z -1");
	redis_answer_release(&a);
	cr_assert_eq(take(&l, "k:b{t}x", 1).remaining, 19);
	cr_assert_eq(peek(&l, "k:b{t}x").remaining, 19);
	cr_assert_eq(take(&l, "k:b{t}y", 1).remaining, 19);
	cr_assert_eq(peek(&l, "k:b{t}z").remaining, 20);
	cr_assert_eq(take(&g, "k:g{t}x", 1).remaining, 9);
}

static void put(const char *key, const char *bytes, size_t len)
{
	struct buf command = {0};
	struct redis_answer a;

	buf_printf(&command, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key, len);
	buf_add(&command, bytes, len);
	buf_add_text(&command, "\r\n");
	a = redis_client_send(&rig.client, buf_slice(&command));
	redis_answer_release(&a);
	buf_release(&command);
}

/* Holds and turns in front of a state, cut short anywhere, and such as say more than there is. */
Test(script, guards_that_are_cut_short_count_as_absent)
{
	static const char held[] = "H\0\1\2\3\4\5\6", turns[] = "Q\0\12\0\0\0\0\0\0\0\0\0\0",
			  fence[] = "H\x1f\xff\xff\xff\xff\xff\xffH\1";
	struct limit l = bucket(10, SECOND, 20), g = make(ALGORITHM_GCRA, 10, 3600 * SECOND, 10);

	for (size_t len = 1; len < sizeof held; len++) {
		put("k:b{t}x", held, len);
		cr_assert_eq(take(&l, "k:b{t}x", 1).remaining, 19, "%zu bytes", len);
		put("k:g{t}x", held, len);
		cr_assert_eq(take(&g, "k:g{t}x", 1).remaining, 9, "%zu bytes", len);
	}
	for (size_t len = 1; len < sizeof turns; len++) {
		put("k:b{t}x", turns, len);
		cr_assert_eq(take(&l, "k:b{t}x", 1).remaining, 19, "%zu bytes", len);
	}
	put("k:b{t}x", "Q\0\12\0\0\0\0\0\0\0\0\11\0", 13); /* of nine tickets none is there */
	cr_assert_eq(take(&l, "k:b{t}x", 1).remaining, 19);
	put("k:b{t}x", fence, sizeof fence - 1);
	cr_assert_eq(take(&l, "k:b{t}x", 1).why, SCRIPT_HELD);
}

Test(script, a_state_of_a_later_version_is_left_alone)
{
	struct limit l = bucket(10, SECOND, 20), w = make(ALGORITHM_SLIDING_WINDOW, 10, SECOND, 0);
	struct redis_answer a;

	put("k:b{t}x", "V2:417285960365736", 18);
	put("k:hw{t}x", "V12:", 4);
	cr_assert_eq(take(&l, "k:b{t}x", 1).status, SCRIPT_NEWER);
	cr_assert_eq(peek(&l, "k:b{t}x").status, SCRIPT_NEWER);
	cr_assert_eq(take(&w, "k:w{t}x", 1).status, SCRIPT_NEWER);
	cr_assert_eq(take(&l, "k:b{t}y", 1).remaining, 19, "others go on");
	a = redis_client_command(&rig.client, "GET k:b{t}x");
	cr_assert(slice_equal(a.text, SLICE("V2:417285960365736")));
	redis_answer_release(&a);
	put("k:b{t}z", "V", 1);
	cr_assert_eq(take(&l, "k:b{t}z", 1).remaining, 19, "that is none");
}

/* ---- Limits that change, clocks that go back ---- */

Test(script, a_raised_limit_admits_at_once)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit low = of_each((enum algorithm)a, 5, edge),
			     high = of_each((enum algorithm)a, 9, edge);
		char key[32];

		snprintf(key, sizeof key, "k:x{t}%d", a);
		take(&low, key, 5);
		cr_assert_eq(take(&low, key, 1).status, SCRIPT_REFUSED);
		cr_assert_eq(take(&high, key, 4).status, SCRIPT_ALLOWED, "algorithm %d", a);
		cr_assert_eq(take(&high, key, 1).status, SCRIPT_REFUSED, "algorithm %d", a);
	}
}

Test(script, a_lowered_limit_does_not_lock_a_bucket_up)
{
	for (int a = 0; a <= ALGORITHM_GCRA; a++) {
		struct limit high = make((enum algorithm)a, 1000, 3600 * SECOND, 1000);
		struct limit low = make((enum algorithm)a, 100, SECOND, 5);
		char key[32];
		struct script_answer answer;

		snprintf(key, sizeof key, "k:x{t}%d", a);
		take(&high, key, 1000);
		answer = take(&low, key, 1);
		cr_assert_eq(answer.status, SCRIPT_REFUSED);
		cr_assert(answer.wait_us > 0 && answer.wait_us <= 10000);
		sleep_us((uint64_t)answer.wait_us);
		cr_assert_eq(take(&low, key, 1).status, SCRIPT_ALLOWED, "algorithm %d", a);
	}
}

Test(script, a_clock_that_went_back_neither_refills_nor_forgets)
{
	struct limit l = bucket(10, SECOND, 20);
	uint64_t now_us = peek(&l, "k:b{t}x").now_us, ahead;
	struct redis_answer a;
	struct script_answer answer;

	/* 12 of 20 are missing, by a clock that is a minute ahead. */
	ahead = (now_us / 100000 + 600) % 1000000000;
	a = redis_client_command(&rig.client, "SET k:b{t}x %lu%09lu", 12UL * 100000 * 4 + 1,
				 (unsigned long)ahead);
	redis_answer_release(&a);
	answer = take(&l, "k:b{t}x", 3);
	cr_assert_eq(answer.remaining, 5);
	sleep_us(400000);
	answer = take(&l, "k:b{t}x", 3);
	cr_assert_eq(answer.remaining, 2, "nothing is refilled before that minute is over");
	cr_assert_geq(redis_client_integer(&rig.client, "PTTL k:b{t}x"), 119000);
	a = redis_client_command(&rig.client, "GET k:b{t}x");
	cr_assert_eq((uint64_t)atoll(a.text.ptr) % 1000000000, ahead);
	redis_answer_release(&a);
}

Test(script, edges_that_do_not_reach_are_said)
{
	uint64_t edge[4];
	struct limit l = calendar(5, edge), b = bucket(5, 3600 * SECOND, 5);
	struct script_check c[2] = {{.limit = &b, .key = SLICE("k:b{t}x"), .cost = 1},
				    {.limit = &l, .key = SLICE("k:d{t}x"), .cost = 1}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = c, .n_checks = 2};
	uint64_t clock_us = rig.clock_us;
	struct script_answer a;

	l.edges.n = 2; /* ends an hour ago */
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_EDGES);
	cr_assert_eq(a.check, 1);
	l.edges.n = 4;
	rig.clock_us = clock_us - 100000 * SECOND;
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_EDGES, "the agent's clock is days behind");
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_ALLOWED, "with the time that the answer brought");
	cr_assert_eq(a.remaining, 4);
}

Test(script, the_reset_of_a_calendar_stays_where_it_is)
{
	uint64_t edge[4];
	struct limit l = calendar(500, edge);

	for (int i = 0; i < 200; i++) {
		struct script_answer a = take(&l, "k:d{t}x", 1);

		cr_assert_eq(a.now_us + a.reset_us, edge[2]);
	}
}

/* ---- Waiting ---- */

/*
 * All of the limit, and one more, which is refused: by then nothing may have come back. Where the machine was too late for that
 * it is tried with another key.
 */
static struct script_answer refused_after_all(const struct limit *l, uint64_t all,
					      uint64_t comes_back_us, char key[static 32])
{
	struct script_answer first, then;
	int n = 0;

	do {
		snprintf(strrchr(key, '.'), 8, ".%d", n);
		first = take(l, key, all);
		then = take(l, key, 1);
	} while (then.now_us - first.now_us >= comes_back_us && ++n < 100);
	cr_assert_eq(then.status, SCRIPT_REFUSED, "%s", key);
	return then;
}

/* Asked again exactly when it was told, a caller that is alone is admitted. */
Test(script, a_wait_is_long_enough_and_no_longer)
{
	static const uint64_t rate[][2] = {{3, 70000}, {10, 100000}, {1, 60000}, {7, 33000}};

	for (int a = 0; a < ALGORITHM_N; a++) {
		if (a == ALGORITHM_CALENDAR)
			continue;
		for (size_t i = 0; i < 4; i++) {
			struct limit l =
				make((enum algorithm)a, rate[i][0], rate[i][1], rate[i][0]);
			char key[32];
			struct script_answer answer;

			snprintf(key, sizeof key, "k:x{t}%d%zu.", a, i);
			answer = refused_after_all(&l, rate[i][0], rate[i][1] / rate[i][0], key);
			cr_assert(answer.wait_us > 0 && (uint64_t)answer.wait_us <= 2 * rate[i][1]);
			sleep_us((uint64_t)answer.wait_us);
			cr_assert_eq(take(&l, key, 1).status, SCRIPT_ALLOWED, "algorithm %d", a);
		}
	}
}

Test(script, what_can_never_fit_is_said)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 5, edge), none = l;
		struct script_answer answer;

		none.limit = 0;
		cr_assert_eq(limit_init(&none), KOVA_OK);
		answer = take(&l, "k:x{t}1", 6);
		cr_assert(answer.status == SCRIPT_REFUSED && answer.wait_us == -1 &&
			  answer.remaining == 5);
		answer = take(&none, "k:x{t}1", 1);
		cr_assert(answer.status == SCRIPT_REFUSED && answer.wait_us == -1 &&
			  answer.remaining == 0);
		answer = peek(&none, "k:x{t}1");
		cr_assert(answer.status == SCRIPT_REFUSED && answer.wait_us == -1);
		cr_assert_eq(redis_client_integer(&rig.client, "EXISTS k:x{t}1"), 0);
	}
}

/* From here on: SLOWLOG LEN. With room for a machine that does other things meanwhile. */
static void log_what_takes_longer_than(unsigned us)
{
	redis_client_integer(&rig.client, "CONFIG SET slowlog-log-slower-than %u", us);
	redis_client_integer(&rig.client, "SLOWLOG RESET");
}

/* A busy window that was left alone: what is in it is old, and nobody walks through all of it. */
Test(script, a_window_that_is_over_is_forgotten_at_once)
{
	static const char fill[] = /* without a blank: one word of a command */
		"redis.call('ZADD',KEYS[1],-ARGV[1],'n')repeat(redis.call)('ZADD',KEYS[1],ARGV[1],"
		"ARGV[1]..':1')ARGV[1]=ARGV[1]-1;until(ARGV[1]==0)return(1)";
	struct limit window = make(ALGORITHM_SLIDING_WINDOW, 1000000, SECOND, 0),
		     permits = make(ALGORITHM_CONCURRENCY, 1000000, SECOND, 0);
	const struct limit *limit[] = {&window, &permits};

	for (int i = 0; i < 2; i++) {
		take(limit[i], "k:x{t}x", 1); /* the script is there */
		redis_client_integer(&rig.client, "DEL k:x{t}x");
		redis_client_integer(&rig.client, "EVAL %s 1 k:x{t}x 200000", fill);
		log_what_takes_longer_than(50000);
		cr_assert_eq(peek(limit[i], "k:x{t}x").remaining, 1000000);
		cr_assert_eq(take(limit[i], "k:x{t}x", 1000000).remaining, 0);
		cr_assert_eq(redis_client_integer(&rig.client, "SLOWLOG LEN"), 0);
		cr_assert_eq(redis_client_integer(&rig.client, "ZCARD k:x{t}x"), 2);
		cr_assert_gt(redis_client_integer(&rig.client, "PTTL k:x{t}x"), 60000);
		redis_client_integer(&rig.client, "DEL k:x{t}x");
	}
}

/* Whatever the limit, an operation is a moment: Redis does nothing else meanwhile. */
Test(script, the_smallest_interval_costs_no_more_time)
{
	struct limit fast = make(ALGORITHM_GCRA, LIMIT_MAX, 1000, LIMIT_MAX),
		     other = make(ALGORITHM_GCRA, LIMIT_MAX, 3000, LIMIT_MAX);

	take(&fast, "k:g{t}x", 999999);
	log_what_takes_longer_than(50000);
	for (uint64_t i = 0; i < 50; i++) {
		cr_assert_eq(take(&fast, "k:g{t}x", 123456 + i).status, SCRIPT_ALLOWED);
		cr_assert_eq(take(&other, "k:g{t}x", 1000000).status, SCRIPT_ALLOWED);
	}
	cr_assert_eq(redis_client_integer(&rig.client, "SLOWLOG LEN"), 0);
}

/* After a clock that went back by a day the state has more intervals than there are numbers. */
Test(script, the_smallest_interval_and_a_clock_that_went_back)
{
	struct limit l = make(ALGORITHM_GCRA, LIMIT_MAX, 1000, LIMIT_MAX);
	uint64_t now_us = peek(&l, "k:g{t}x").now_us;
	static const char set[] = /* without a blank: one word of a command */
		"redis.call('SET',KEYS[1],struct.pack('>I7I3I7I3I7',ARGV[1],0,0,1,1))return(1)";

	cr_assert_eq(redis_client_integer(&rig.client, "EVAL %s 1 k:g{t}x %lu", set,
					  (unsigned long)(now_us + 86400 * SECOND)),
		     1);
	cr_assert_eq(take(&l, "k:g{t}x", 1).status, SCRIPT_REFUSED);
	l = make(ALGORITHM_GCRA, 10, SECOND, 10);
	cr_assert_eq(take(&l, "k:g{t}x", 1).status, SCRIPT_REFUSED);
}

/* Case 6: many hits in one µs are many. */
Test(script, hits_of_the_same_instant_all_count)
{
	struct limit l = make(ALGORITHM_SLIDING_WINDOW, 500, 3600 * SECOND, 0);
	struct script_check c = {.limit = &l, .key = SLICE("k:w{t}x"), .cost = 5};
	struct script_op op[SCRIPT_OPS_MAX];
	struct script_answer a[SCRIPT_OPS_MAX];
	unsigned admitted = 0;

	for (int i = 0; i < SCRIPT_OPS_MAX; i++)
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1};
	script_rig_run(&rig, op, SCRIPT_OPS_MAX, a);
	for (int i = 0; i < SCRIPT_OPS_MAX; i++)
		admitted += a[i].status == SCRIPT_ALLOWED;
	cr_assert_eq(admitted, 100);
	cr_assert_eq(peek(&l, "k:w{t}x").remaining, 0);
}

/* Case 5: refusals leave no debt. */
Test(script, a_thousand_refusals_cost_nothing)
{
	struct limit l = bucket(100, SECOND, 10);

	take(&l, "k:b{t}x", 10);
	for (int i = 0; i < 1000; i++)
		take(&l, "k:b{t}x", 50);
	sleep_us(110000);
	cr_assert_eq(take(&l, "k:b{t}x", 10).status, SCRIPT_ALLOWED);
}

/* ---- The script itself ---- */

Test(script, a_flushed_script_is_sent_again)
{
	struct limit l = bucket(100, 3600 * SECOND, 100);

	for (int i = 0; i < 10; i++) {
		struct redis_answer a = redis_client_command(&rig.client, "SCRIPT FLUSH");

		redis_answer_release(&a);
		cr_assert_eq(take(&l, "k:b{t}x", 1).remaining, 99 - (uint64_t)i);
	}
}

Test(script, a_large_batch_of_large_operations)
{
	static struct script_check c[SCRIPT_CHECKS_MAX];
	static char name[SCRIPT_CHECKS_MAX][32];
	static struct script_op op[SCRIPT_OPS_MAX];
	static struct script_answer a[SCRIPT_OPS_MAX];
	struct limit l = bucket(1000, 3600 * SECOND, 1000);

	for (int i = 0; i < SCRIPT_CHECKS_MAX; i++) {
		snprintf(name[i], sizeof name[i], "k:b{t}p:%d", i);
		c[i] = (struct script_check){.limit = &l, .key = slice_of(name[i]), .cost = 1};
	}
	for (int i = 0; i < SCRIPT_OPS_MAX; i++)
		op[i] = (struct script_op){
			.kind = SCRIPT_TAKE, .checks = c, .n_checks = SCRIPT_CHECKS_MAX};
	script_rig_run(&rig, op, SCRIPT_OPS_MAX, a);
	cr_assert_eq(a[SCRIPT_OPS_MAX - 1].remaining, 1000 - SCRIPT_OPS_MAX);
}

Test(script, more_keys_than_lua_unpacks_at_once)
{
	static struct script_check c[20][SCRIPT_CHECKS_MAX];
	static char name[20][SCRIPT_CHECKS_MAX][32];
	struct script_op op[20];
	struct script_answer a[20];
	struct limit l = bucket(3, 3600 * SECOND, 3);

	for (int i = 0; i < 20; i++) {
		for (int j = 0; j < SCRIPT_CHECKS_MAX; j++) {
			snprintf(name[i][j], sizeof name[i][j], "k:b{t}p:%d/%d", i, j);
			c[i][j] = (struct script_check){
				.limit = &l, .key = slice_of(name[i][j]), .cost = 1};
		}
		op[i] = (struct script_op){
			.kind = SCRIPT_TAKE, .checks = c[i], .n_checks = SCRIPT_CHECKS_MAX};
	}
	for (int round = 0; round < 2; round++)
		script_rig_run(&rig, op, 20, a);
	cr_assert_eq(a[19].status, SCRIPT_ALLOWED);
	cr_assert_eq(a[19].remaining, 1);
}
