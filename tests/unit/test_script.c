/* The wire format of the decide script: what is written, and that nothing but a whole reply is read. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/buf.h"
#include "core/lua_script.h"
#include "core/script.h"
#include "dice.h"

#define NOW UINT64_C(1796000000123457)
#define STAMP (UINT64_C(1796000000123) << 16 | 7)

static struct limit bucket(uint64_t limit)
{
	struct limit l = {.limit = limit, .per_us = 1000000, .burst = 20};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static void add(struct script_batch *b, const struct script_op *op)
{
	cr_assert_eq(script_batch_add(b, op, NOW), KOVA_OK);
}

static void add_take(struct script_batch *b, const struct limit *l, const char *key, uint64_t cost)
{
	struct script_check c = {.limit = l, .key = slice_of(key), .cost = cost};

	add(b, &(struct script_op){.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1});
}

/* The arguments of a RESP command, read by hand. */
struct arguments {
	unsigned n;
	struct slice at[700];
};

static size_t number(const char **p)
{
	size_t n = strtoul(*p + 1, NULL, 10);

	*p = strstr(*p, "\r\n") + 2;
	return n;
}

static struct arguments parse(struct slice command)
{
	static struct arguments a;
	const char *p = command.ptr;

	cr_assert_eq(*p, '*');
	a.n = (unsigned)number(&p);
	for (unsigned i = 0; i < a.n; i++) {
		cr_assert_eq(*p, '$');
		a.at[i].len = number(&p);
		a.at[i].ptr = p;
		p += a.at[i].len + 2;
		cr_assert_eq(memcmp(p - 2, "\r\n", 2), 0);
	}
	cr_assert_eq(p, command.ptr + command.len);
	return a;
}

static void expect_hex(struct slice got, const char *hex)
{
	char text[4096];

	cr_assert_lt(2 * got.len, sizeof text);
	for (size_t i = 0; i < got.len; i++)
		snprintf(text + 2 * i, 3, "%02x", (unsigned char)got.ptr[i]);
	cr_assert_str_eq(text, hex);
}

static struct slice command_of(struct script_batch *b, bool with_body)
{
	return script_batch_command(
		b, with_body,
		&(struct script_call){.stamp = STAMP, .earliest_us = 1000, .latest_us = 2000});
}

/* The example of lua/README.md. */
Test(script, a_plain_program)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);
	struct arguments a;

	add_take(b, &l, "k:b{acme}api:0", 1);
	add_take(b, &l, "k:b{acme}api:0/x", 3);
	a = parse(command_of(b, false));
	cr_assert_eq(a.n, 6);
	cr_assert(slice_equal(a.at[0], SLICE("EVALSHA")));
	cr_assert(slice_equal(a.at[1], slice_of(lua_decide.sha1)));
	cr_assert(slice_equal(a.at[2], SLICE("2")));
	cr_assert(slice_equal(a.at[3], SLICE("k:b{acme}api:0")));
	cr_assert(slice_equal(a.at[4], SLICE("k:b{acme}api:0/x")));
	expect_hex(a.at[5], "07007b28f129a201"
			    "01"
			    "0100"
			    "0000"
			    "02000000"
			    "0000000000408f40"
			    "0000000000409f40"
			    "00"
			    "00000000d0127341"
			    "0000000000002440"
			    "000000000000f03f"
			    "0000000000002440"
			    "000000000000f03f"
			    "0200"
			    "0100"
			    "0100"
			    "0100"
			    "000000000000f03f"
			    "0100"
			    "0100"
			    "0100"
			    "0000000000000840");
	script_batch_free(b);
}

/* The last bytes of the program. */
static struct slice program_end(struct script_batch *b, size_t len)
{
	struct arguments a = parse(command_of(b, false));
	struct slice program = a.at[a.n - 1];

	return (struct slice){program.ptr + program.len - len, len};
}

Test(script, keys_of_which_the_same_is_asked_are_one_run)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);

	for (int i = 0; i < 2; i++) {
		add_take(b, &l, "x", 3);
		add_take(b, &l, "y", 3);
	}
	expect_hex(program_end(b, 2 + 14), "0100" /* runs */
					   "0200" /* keys */
					   "0100" /* limit */
					   "0200" /* operations on each */
					   "0000000000000840");
	script_batch_free(b);
}

Test(script, costs_that_differ_are_listed)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);

	add_take(b, &l, "x", 3);
	add_take(b, &l, "y", 1);
	add_take(b, &l, "x", 3);
	add_take(b, &l, "x", 1);
	expect_hex(program_end(b, 2 + 2 * 14 + 3 * 10), "0200"
							"0100"
							"0100"
							"0000"
							"0000000000000000"
							"0100"
							"0100"
							"0100"
							"000000000000f03f"
							"0100"
							"0000000000000840"
							"0100"
							"0000000000000840"
							"0100"
							"000000000000f03f");
	script_batch_free(b);
}

/* A batch that was plain until then; the second lease's checks don't take alike. */
Test(script, a_program_with_leases)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);
	struct script_check c[2] = {{.limit = &l, .key = SLICE("k:b{a}"), .cost = 2},
				    {.limit = &l, .key = SLICE("k:b{b}"), .cost = 2}};
	struct script_op op = {.kind = SCRIPT_LEASE,
			       .checks = c,
			       .n_checks = 1,
			       .amount = 16,
			       .lease = "lease-1",
			       .ttl_us = 500000,
			       .sharers = 4};
	struct slice program;

	add_take(b, &l, "k:b{a}", 1);
	add(b, &op);
	op.n_checks = 2;
	c[1].cost = 3;
	add(b, &op);
	op.kind = SCRIPT_UNLEASE;
	op.n_checks = 1;
	add(b, &op);
	program = parse(command_of(b, false)).at[5];
	cr_assert_eq(program.len,
		     33 + 41 + 37 + (20 + 32 + 17) + (20 + 32 + 2 * 17) + (20 + 8 + 17));
	program.ptr += 33 + 41 + 37;
	program.len -= 33 + 41 + 37;
	expect_hex(program, "07"
			    "00"
			    "0100"
			    "0000000000000000"
			    "0000000000003040"
			    "6c656173652d3100"
			    "0000000080841e41"
			    "00000000881b2041"
			    "0000000000001040"
			    "01000000"
			    "0100"
			    "0000"
			    "00"
			    "0000000000000040"
			    "07"
			    "00"
			    "0200"
			    "0000000000000000"
			    "0000000000003040"
			    "6c656173652d3100"
			    "0000000000000000"
			    "0000000000000000"
			    "0000000000000000"
			    "01000000"
			    "0100"
			    "0000"
			    "00"
			    "0000000000000040"
			    "02000000"
			    "0100"
			    "0100"
			    "00"
			    "0000000000000840"
			    "08"
			    "00"
			    "0100"
			    "0000000000000000"
			    "0000000000003040"
			    "6c656173652d3100"
			    "01000000"
			    "0100"
			    "0000"
			    "00"
			    "0000000000000040");
	script_batch_free(b);
}

Test(script, the_body_is_sent_when_asked_for)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);
	struct arguments a;

	add_take(b, &l, "key", 1);
	a = parse(command_of(b, true));
	cr_assert(slice_equal(a.at[0], SLICE("EVAL")));
	cr_assert(slice_equal(a.at[1], (struct slice){lua_decide.body, lua_decide.len}));
	a = parse(command_of(b, false));
	cr_assert(slice_equal(a.at[0], SLICE("EVALSHA")));
	script_batch_free(b);
}

Test(script, equal_keys_and_equal_limits_are_sent_once)
{
	struct script_batch *b = script_batch_new();
	struct limit one = bucket(10), same = bucket(10), other = bucket(11);
	struct arguments a;

	for (int i = 0; i < 40; i++) {
		add_take(b, &one, "x", 1);
		add_take(b, &same, "y", 1);
		add_take(b, &other, "z", 1);
	}
	cr_assert_eq(script_batch_ops(b), 120);
	a = parse(command_of(b, false));
	cr_assert_eq(a.n, 3 + 3 + 1);
	cr_assert_eq(a.at[6].len, 33 + 2 * 41 + 2 + 2 * 14);
	script_batch_free(b);
}

/* Then it is not plain any more. */
Test(script, a_key_under_two_limits)
{
	struct script_batch *b = script_batch_new();
	struct limit one = bucket(10), other = bucket(11);
	struct arguments a;

	add_take(b, &one, "x", 1);
	add_take(b, &other, "x", 1);
	cr_assert_eq(script_batch_ops(b), 2);
	a = parse(command_of(b, false));
	cr_assert_null(script_batch_plain(b));
	cr_assert_eq(a.n, 3 + 1 + 1);
	cr_assert_eq(a.at[4].len, 33 + 2 * 41 + 2 * (20 + 17));
	script_batch_free(b);
}

Test(script, a_limit_that_was_replaced_in_its_place_is_another)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);
	struct arguments a;

	add_take(b, &l, "x", 1);
	l = bucket(11);
	add_take(b, &l, "y", 1);
	a = parse(command_of(b, false));
	cr_assert_eq(a.at[5].len, 33 + 2 * 41 + 2 + 2 * 14);
	script_batch_free(b);
}

Test(script, a_batch_holds_so_many_operations)
{
	struct script_batch *b = script_batch_new();
	struct limit l = bucket(10);
	struct script_check c = {.limit = &l, .cost = 1};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1};
	char key[32];
	struct slice first;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < SCRIPT_OPS_MAX; i++) {
			snprintf(key, sizeof key, "k%d", i);
			c.key = slice_of(key);
			add(b, &op);
		}
		cr_assert_eq(script_batch_add(b, &op, NOW), KOVA_ETOOBIG);
		first = command_of(b, false);
		cr_assert_eq(parse(first).n, 3 + SCRIPT_OPS_MAX + 1);
		script_batch_clear(b);
		cr_assert_eq(script_batch_ops(b), 0);
	}
	script_batch_free(b);
}

Test(script, many_keys_are_all_found_again)
{
	static struct script_check c[SCRIPT_CHECKS_MAX];
	static char key[SCRIPT_CHECKS_MAX][16];
	struct limit l = bucket(10),
		     log = {.algorithm = ALGORITHM_SLIDING_WINDOW, .limit = 3, .per_us = 1000};
	struct script_batch *b = script_batch_new();
	struct arguments a;

	cr_assert_eq(limit_init(&log), KOVA_OK);
	for (int i = 0; i < SCRIPT_CHECKS_MAX; i++) {
		snprintf(key[i], sizeof key[i], "%s%d", i % 2 ? "k:b" : "k:w", i);
		c[i] = (struct script_check){
			.limit = i % 2 ? &l : &log, .key = slice_of(key[i]), .cost = 1};
	}
	for (int i = 0; i < 3; i++)
		add(b, &(struct script_op){.kind = SCRIPT_TAKE,
					   .checks = c,
					   .n_checks = SCRIPT_CHECKS_MAX,
					   .receipt_key = SLICE("r")});
	a = parse(command_of(b, false));
	/* A log's hold is a string of its own. */
	cr_assert_eq(a.n, 3 + SCRIPT_CHECKS_MAX * 3 / 2 + 1 + 1);
	for (unsigned i = 0; i < SCRIPT_CHECKS_MAX; i++)
		cr_assert(memcmp(a.at[3 + i].ptr, i % 2 ? "k:b" : "k:hw", i % 2 ? 3 : 4) == 0,
			  "strings come first");
	script_batch_free(b);
}

/* ---- Replies ---- */

static void put(struct buf *b, double v)
{
	buf_add(b, &v, sizeof v); /* these tests run on little-endian machines */
}

static void put_head(struct buf *b, char refill_refused)
{
	uint64_t stamp = STAMP;

	buf_add(b, &stamp, sizeof stamp);
	put(b, (double)NOW);
	buf_add(b, &refill_refused, 1);
}

static void put_record(struct buf *b, unsigned char status, uint16_t check, double left,
		       double wait, double reset)
{
	buf_add(b, &status, 1);
	buf_add(b, &check, 2);
	put(b, left);
	put(b, wait);
	put(b, reset);
}

static void put_tail(struct buf *b, double amount, unsigned char first, struct slice echo)
{
	uint32_t len = (uint32_t)echo.len;

	put(b, amount);
	buf_add(b, &first, 1);
	buf_add(b, &len, 4);
	buf_add_slice(b, echo);
}

static void put_reply(struct buf *b)
{
	put_head(b, 1);
	put_record(b, SCRIPT_REFUSED, 3, 0, -1, 5);
	put_record(b, SCRIPT_REPEATED | 64, 0, 7, 8, 9);
	put_tail(b, 0, SCRIPT_SHADOWED, SLICE("echo"));
	put_record(b, SCRIPT_ALLOWED | 64 | 128, 65535, 1e9, 0, 0);
	put_tail(b, 17, 0, SLICE(""));
	put(b, 500000);
}

static kova_status read_all(struct slice reply, uint32_t n, struct script_answer *ret_answer)
{
	struct script_reader r;
	kova_status status = script_reader_init(&r, reply, STAMP, n, NULL);

	for (uint32_t i = 0; i < n && status == KOVA_OK; i++)
		status = script_reader_next(&r, &ret_answer[i]);
	return status;
}

Test(script, a_reply_is_read)
{
	struct buf b = {0};
	struct script_answer a[3];

	put_reply(&b);
	cr_assert_eq(read_all(buf_slice(&b), 3, a), KOVA_OK);
	cr_assert(a[0].status == SCRIPT_REFUSED && a[0].check == 3 && a[0].wait_us == -1 &&
		  a[0].reset_us == 5);
	cr_assert(a[0].now_us == NOW);
	cr_assert(a[1].status == SCRIPT_REPEATED && a[1].shadowed && a[1].remaining == 7);
	cr_assert(slice_equal(a[1].echo, SLICE("echo")));
	cr_assert(a[2].status == SCRIPT_ALLOWED && a[2].check == 65535 &&
		  a[2].remaining == 1000000000);
	cr_assert(a[2].echo.len == 0 && !a[2].shadowed && a[2].amount == 17 &&
		  a[2].lease_us == 500000);
	cr_assert(a[1].lease_us == 0);
	buf_release(&b);
}

Test(script, no_prefix_and_no_longer_reply_is_one)
{
	struct buf b = {0};
	struct script_answer a[3];

	put_reply(&b);
	for (size_t n = 0; n < b.len; n++) {
		char *exact = malloc(n + 1); /* so that ASan sees a read beyond it */

		memcpy(exact, b.ptr, n);
		cr_assert_eq(read_all((struct slice){exact, n}, 3, a), KOVA_EPROTO, "prefix of %zu",
			     n);
		free(exact);
	}
	buf_add_text(&b, "x");
	cr_assert_eq(read_all(buf_slice(&b), 3, a), KOVA_EPROTO);
	buf_release(&b);
}

Test(script, another_stamp_or_number_of_operations_is_out_of_step)
{
	struct buf b = {0};
	struct script_reader r;
	struct script_answer a[4];

	put_reply(&b);
	cr_assert_eq(script_reader_init(&r, buf_slice(&b), STAMP - 1, 3, NULL), KOVA_EPROTO);
	cr_assert_eq(read_all(buf_slice(&b), 2, a), KOVA_EPROTO);
	cr_assert_eq(read_all(buf_slice(&b), 4, a), KOVA_EPROTO);
	cr_assert_eq(script_reader_init(&r, buf_slice(&b), STAMP, 0, NULL), KOVA_EPROTO);
	buf_release(&b);
}

Test(script, a_reply_says_whether_refill_was_refused)
{
	for (int refused = 0; refused <= 3; refused++) {
		struct buf b = {0};
		struct script_reader r;

		put_head(&b, (char)refused);
		cr_assert_eq(script_reader_init(&r, buf_slice(&b), STAMP, 0, NULL),
			     refused <= 1 ? KOVA_OK : KOVA_EPROTO);
		cr_assert(refused > 1 || r.refill_refused == (refused == 1));
		buf_release(&b);
	}
}

Test(script, numbers_that_are_none_are_refused)
{
	const double bad[] = {0.5,      -2,        -0.5, 9007199254740994.0, 1e300, -1e300,
			      INFINITY, -INFINITY, NAN};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		for (int place = 0; place < 3; place++) {
			struct buf b = {0};
			struct script_answer a;

			put_head(&b, 0);
			put_record(&b, 1, 0, place == 0 ? bad[i] : 0, place == 1 ? bad[i] : 0,
				   place == 2 ? bad[i] : 0);
			cr_assert_eq(read_all(buf_slice(&b), 1, &a), KOVA_EPROTO, "%g at %d",
				     bad[i], place);
			buf_release(&b);
		}
	}
}

/* What any bytes may do: be refused, or be read within their bounds. */
Test(script, random_replies_are_refused_or_read)
{
	struct dice d = {11};
	struct buf good = {0};

	put_reply(&good);
	for (int i = 0; i < 200000; i++) {
		size_t n = 1 + dice_below(&d, good.len);
		char *bytes = malloc(n);
		struct script_answer a[3];

		memcpy(bytes, good.ptr, n);
		for (uint64_t k = dice_below(&d, 4); k > 0; k--)
			bytes[dice_below(&d, n)] = (char)dice_next(&d);
		if (read_all((struct slice){bytes, n}, 3, a) == KOVA_OK)
			cr_assert(a[1].echo.ptr >= bytes &&
				  a[1].echo.ptr + a[1].echo.len <= bytes + n);
		free(bytes);
	}
	buf_release(&good);
}

/* ---- Short replies ---- */

/* Takes of 1, 15 and 5 from x, whose debt is 3 tokens; between them of 2 from y, which has leases, and of 1 from z. */
static struct script_batch *short_batch(struct limit *ret_limit)
{
	struct script_batch *b = script_batch_new();

	*ret_limit = bucket(10);
	add_take(b, ret_limit, "x", 1);
	add_take(b, ret_limit, "y", 2);
	add_take(b, ret_limit, "x", 15);
	add_take(b, ret_limit, "z", 1);
	add_take(b, ret_limit, "y", 2);
	add_take(b, ret_limit, "x", 5);
	command_of(b, false);
	return b;
}

static void put_short(struct buf *b, double x)
{
	put_head(b, 2);
	put(b, x);
	put(b, -1);
	put(b, 0);
	put_record(b, SCRIPT_ALLOWED, 0, 7, 8, 9);
	put_record(b, SCRIPT_REFUSED | 8, 0, 0, 10, 11);
}

static kova_status read_short(struct script_batch *batch, struct slice reply,
			      struct script_answer *ret_answer)
{
	struct script_reader r;
	kova_status status = script_reader_init(&r, reply, STAMP, 6, script_batch_plain(batch));

	for (uint32_t i = 0; i < 6 && status == KOVA_OK; i++)
		status = script_reader_next(&r, &ret_answer[i]);
	return status;
}

Test(script, a_short_reply_is_read)
{
	struct limit l;
	struct script_batch *batch = short_batch(&l);
	struct script_answer a[6];
	struct buf b = {0};

	put_short(&b, 3e6);
	cr_assert_eq(read_short(batch, buf_slice(&b), a), KOVA_OK);
	cr_assert(a[0].status == SCRIPT_ALLOWED && a[0].remaining == 16 && a[0].now_us == NOW);
	cr_assert(a[0].wait_us == 100000 && a[0].reset_us == 400000);
	cr_assert(a[1].status == SCRIPT_ALLOWED && a[1].remaining == 7);
	cr_assert(a[2].status == SCRIPT_ALLOWED && a[2].remaining == 1);
	cr_assert(a[3].status == SCRIPT_ALLOWED && a[3].remaining == 19);
	cr_assert(a[4].status == SCRIPT_REFUSED && a[4].why == SCRIPT_HELD && a[4].wait_us == 10);
	cr_assert(a[5].status == SCRIPT_REFUSED && a[5].remaining == 1 && a[5].wait_us == 400000);
	script_batch_free(batch);
	buf_release(&b);
}

Test(script, no_prefix_and_no_longer_short_reply_is_one)
{
	struct limit l;
	struct script_batch *batch = short_batch(&l);
	struct script_answer a[6];
	struct buf b = {0};

	put_short(&b, 0);
	for (size_t n = 0; n < b.len; n++) {
		char *exact = malloc(n + 1); /* so that ASan sees a read beyond it */

		memcpy(exact, b.ptr, n);
		cr_assert_eq(read_short(batch, (struct slice){exact, n}, a), KOVA_EPROTO,
			     "prefix of %zu", n);
		free(exact);
	}
	buf_add_text(&b, "x");
	cr_assert_eq(read_short(batch, buf_slice(&b), a), KOVA_EPROTO);
	script_batch_free(batch);
	buf_release(&b);
}

Test(script, debts_that_are_none_are_refused)
{
	const double bad[] = {0.5, -2, 9007199254740994.0, 1e300, INFINITY, NAN};
	struct limit l;
	struct script_batch *batch = short_batch(&l);
	struct script_answer a[6];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct buf b = {0};

		put_short(&b, bad[i]);
		cr_assert_eq(read_short(batch, buf_slice(&b), a), KOVA_EPROTO, "%g", bad[i]);
		buf_release(&b);
	}
	script_batch_free(batch);
}

/* Nothing can be missing of a limit that has nothing. */
Test(script, a_debt_under_a_limit_of_0_is_refused)
{
	struct limit l = bucket(0);
	struct script_batch *batch = script_batch_new();
	struct script_reader r;
	struct script_answer a;

	add_take(batch, &l, "x", 1);
	command_of(batch, false);
	for (int debt = 0; debt < 2; debt++) {
		struct buf b = {0};

		put_head(&b, 2);
		put(&b, debt);
		cr_assert_eq(
			script_reader_init(&r, buf_slice(&b), STAMP, 1, script_batch_plain(batch)),
			KOVA_OK);
		cr_assert_eq(script_reader_next(&r, &a), debt > 0 ? KOVA_EPROTO : KOVA_OK);
		buf_release(&b);
	}
	cr_assert(a.status == SCRIPT_REFUSED && a.wait_us == -1);
	script_batch_free(batch);
}
