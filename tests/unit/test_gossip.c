/* Gossip without a network: what bytes mean, which write wins, who is alive, what is refused. The rest: tests/sim/test_gossip.c. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/gossip_bulk.h"
#include "core/gossip_replay.h"
#include "core/hlc.h"
#include "dice.h"
#include "gossip_fixture.h"

#define WALL_MS UINT64_C(1700000000000)

static uint64_t stamp_at(uint64_t ms)
{
	return ms << HLC_COUNTER_BITS;
}

static const struct gossip_item an_item = {.id = {"papi", 4},
					   .value = {"{\"limit\":1}", 11},
					   .who = {"token:ops", 9},
					   .writer = {"node-1", 6},
					   .stamp = UINT64_C(1700000000000) << HLC_COUNTER_BITS};

static const struct gossip_record a_record = {
	.name = {"node-1", 6},
	.region = {"eu", 2},
	.role = GOSSIP_COORDINATOR,
	.state = GOSSIP_SUSPECT,
	.incarnation = 7,
	.accuser = 99,
	.address = {.family = 6, .port = 7414, .host = {0x20, 1, 0xd, 0xb8, [15] = 1}},
};

/* ---- Bytes ---- */

Test(gossip_wire, what_is_written_is_read)
{
	uint8_t bytes[512];
	struct wire_writer w = {.ptr = bytes, .cap = sizeof bytes};
	struct gossip_head head = {.type = GOSSIP_ACK,
				   .seq = 5,
				   .wall_ms = WALL_MS,
				   .items = 1,
				   .members = UINT64_MAX,
				   .sender = a_record},
			   head_read;
	struct gossip_item item;

	wire_put_head(&w, &head);
	wire_put_item(&w, &an_item);
	cr_assert_not(w.full);
	struct wire_reader r = wire_reader((struct slice){(char *)bytes, w.len});

	wire_get_head(&r, &head_read);
	wire_get_item(&r, &item);
	cr_assert(wire_at_end(&r));
	cr_assert_not(r.failed);
	cr_expect_eq(head_read.type, GOSSIP_ACK);
	cr_expect_eq(head_read.wall_ms, WALL_MS);
	cr_expect_eq(head_read.members, UINT64_MAX);
	cr_expect(slice_equal(head_read.sender.name, a_record.name));
	cr_expect_eq(head_read.sender.incarnation, 7);
	cr_expect_eq(head_read.sender.accuser, 99);
	cr_expect(gossip_address_equal(&head_read.sender.address, &a_record.address));
	cr_expect_eq(gossip_item_compare(&item, &an_item), 0);
	cr_expect(slice_equal(item.id, an_item.id));
}

Test(gossip_wire, every_proper_prefix_is_an_error)
{
	uint8_t bytes[512];
	struct wire_writer w = {.ptr = bytes, .cap = sizeof bytes};

	wire_put_record(&w, &a_record);
	wire_put_item(&w, &an_item);
	for (size_t len = 0; len < w.len; len++) {
		struct wire_reader r = wire_reader((struct slice){(char *)bytes, len});
		struct gossip_record record;
		struct gossip_item item;

		wire_get_record(&r, &record);
		wire_get_item(&r, &item);
		cr_expect(r.failed, "%zu bytes", len);
	}
}

Test(gossip_wire, what_does_not_fit_is_said_and_undone)
{
	uint8_t bytes[40];
	struct wire_writer w = {.ptr = bytes, .cap = sizeof bytes};

	wire_put(&w, 1, 8);
	wire_put_item(&w, &an_item);
	cr_expect(w.full);
	wire_undo(&w, 8);
	wire_put(&w, 2, 4);
	cr_expect_not(w.full);
	cr_expect_eq(w.len, 12);
}

/* ---- Items ---- */

static struct gossip_item with(uint64_t stamp, const char *writer, const char *value)
{
	struct gossip_item item = an_item;

	item.stamp = stamp;
	item.writer = slice_of(writer);
	item.value = slice_of(value);
	return item;
}

Test(gossip_items, the_order_of_writes_is_total)
{
	struct gossip_item old = with(1, "z", "x"), newer = with(2, "a", "a");
	struct gossip_item by_b = with(2, "b", "a"), deleted = with(2, "b", "");
	struct gossip_item other = with(2, "b", "c");

	cr_expect_lt(gossip_item_compare(&old, &newer), 0);
	cr_expect_gt(gossip_item_compare(&by_b, &newer), 0, "the node decides a tie");
	cr_expect_gt(gossip_item_compare(&deleted, &by_b), 0, "then the deletion");
	cr_expect_gt(gossip_item_compare(&other, &by_b), 0, "then the value");
	cr_expect_eq(gossip_item_compare(&other, &other), 0);
}

/* Digests depend on what is there, not on how it came. */
Test(gossip_items, the_same_items_have_the_same_digest)
{
	static struct gossip_items a, b;
	struct gossip_item items[200];
	char ids[200][8];
	struct dice dice = {1};
	const void *was;

	gossip_items_init(&a, fixture_read);
	gossip_items_init(&b, fixture_read);
	for (int i = 0; i < 200; i++) {
		items[i] = with(1 + dice_below(&dice, 50), "n", i % 3 ? "v" : "");
		items[i].id = (struct slice){ids[i], (size_t)snprintf(ids[i], 8, "p%d", i)};
		cr_assert_eq(gossip_items_put(&a, &items[i], 0, &was), KOVA_OK);
		cr_assert_null(was);
	}
	for (int i = 199; i >= 0; i--)
		cr_assert_eq(gossip_items_put(&b, &items[i], 3, &was), KOVA_OK);
	cr_expect_eq(a.digest, b.digest);
	cr_expect_neq(a.digest, 0);
	struct gossip_item changed = items[7];

	changed.stamp++;
	cr_assert_eq(gossip_items_put(&b, &changed, 0, &was), KOVA_OK);
	cr_expect_eq(was, &items[7]);
	cr_expect_neq(a.digest, b.digest);
	cr_assert_eq(gossip_items_put(&b, &items[7], 0, &was), KOVA_OK);
	cr_expect_eq(a.digest, b.digest);
	for (int i = 0; i < 200; i++)
		cr_expect_eq(gossip_items_forget(&a, items[i].id), &items[i]);
	cr_expect_eq(a.digest, 0);
	cr_expect_eq(a.n, 0);
	cr_expect_null(gossip_items_forget(&a, items[0].id));
	gossip_items_release(&a);
	gossip_items_release(&b);
}

Test(gossip_items, a_stamp_from_the_future_is_refused_now_and_later)
{
	static struct gossip_items t;
	struct gossip_item ahead = with(stamp_at(WALL_MS + 10000), "bad", "x");
	struct gossip_item next = with(stamp_at(WALL_MS + 20000), "bad", "x");
	struct gossip_item other = with(stamp_at(WALL_MS + 10000), "good", "x");
	struct gossip_item edge = with(stamp_at(WALL_MS + 250), "bad", "x");

	gossip_items_init(&t, fixture_read);
	cr_expect(gossip_items_admit(&t, &edge, WALL_MS, 250));
	cr_expect_not(gossip_items_admit(&t, &ahead, WALL_MS, 250));
	cr_expect_not(gossip_items_admit(&t, &ahead, WALL_MS + 60000, 250));
	cr_expect(gossip_items_admit(&t, &next, WALL_MS + 60000, 250), "a later write of it");
	cr_expect(gossip_items_admit(&t, &other, WALL_MS + 60000, 250), "a write of another");
	gossip_items_release(&t);
}

/* ---- Members ---- */

static struct gossip_change apply(struct gossip_members *t, enum gossip_state state,
				  uint32_t incarnation, uint32_t accuser)
{
	struct gossip_record record = a_record;
	struct gossip_change change;

	record.state = state;
	record.incarnation = incarnation;
	record.accuser = accuser;
	cr_assert_eq(gossip_members_apply(t, &record, 0, t->n, &change), KOVA_OK);
	return change;
}

/* SWIM, 4.2: the table of what overrides what. */
Test(gossip_members, later_incarnations_count_more)
{
	static const struct {
		enum gossip_state known;
		uint32_t known_incarnation;
		enum gossip_state said;
		uint32_t said_incarnation;
		bool overrides;
	} cases[] = {
		{GOSSIP_ALIVE, 3, GOSSIP_ALIVE, 3, false},
		{GOSSIP_ALIVE, 3, GOSSIP_ALIVE, 4, true},
		{GOSSIP_ALIVE, 3, GOSSIP_SUSPECT, 2, false},
		{GOSSIP_ALIVE, 3, GOSSIP_SUSPECT, 3, true},
		{GOSSIP_ALIVE, 3, GOSSIP_DEAD, 2, false},
		{GOSSIP_ALIVE, 3, GOSSIP_DEAD, 3, true},
		{GOSSIP_SUSPECT, 3, GOSSIP_ALIVE, 3, false},
		{GOSSIP_SUSPECT, 3, GOSSIP_ALIVE, 4, true},
		{GOSSIP_SUSPECT, 3, GOSSIP_DEAD, 3, true},
		{GOSSIP_DEAD, 3, GOSSIP_ALIVE, 3, false},
		{GOSSIP_DEAD, 3, GOSSIP_SUSPECT, 3, false},
		{GOSSIP_DEAD, 3, GOSSIP_ALIVE, 4, true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gossip_members t = {0};

		apply(&t, GOSSIP_ALIVE, cases[i].known_incarnation, 0);
		if (cases[i].known != GOSSIP_ALIVE)
			apply(&t, cases[i].known, cases[i].known_incarnation, 1);
		bool changed = apply(&t, cases[i].said, cases[i].said_incarnation, 1).changed;

		cr_expect_eq(changed, cases[i].overrides, "case %zu", i);
		cr_expect_eq(t.n_alive, t.list[0]->state != GOSSIP_DEAD, "case %zu", i);
		gossip_members_release(&t);
	}
}

Test(gossip_members, each_accuser_counts_once)
{
	struct gossip_members t = {0};

	apply(&t, GOSSIP_ALIVE, 0, 0);
	cr_expect(apply(&t, GOSSIP_SUSPECT, 0, 1).changed);
	cr_expect_not(apply(&t, GOSSIP_SUSPECT, 0, 1).changed);
	cr_expect(apply(&t, GOSSIP_SUSPECT, 0, 2).changed);
	cr_expect_eq(t.list[0]->n_accusers, 2);
	gossip_members_release(&t);
}

Test(gossip_members, the_median_of_their_clocks_is_ours)
{
	struct gossip_members t = {0};
	int64_t skew_ms;
	static const int64_t ahead_ms[] = {10000, 3, -2};

	cr_expect_not(gossip_members_skew(&t, 0, &skew_ms));
	for (int i = 0; i < 3; i++) {
		struct gossip_record record = a_record;
		struct gossip_change change;
		char name[4] = {'n', (char)('0' + i), 0};

		record.name = slice_of(name);
		cr_assert_eq(gossip_members_apply(&t, &record, 0, 0, &change), KOVA_OK);
		change.member->has_clock = true;
		change.member->clock_ms = 5000 + ahead_ms[i];
		cr_expect(gossip_members_skew(&t, 5000, &skew_ms));
		cr_expect_eq(skew_ms, i == 0 ? 10000 : 3, "%d: %lld", i, (long long)skew_ms);
	}
	gossip_members_release(&t);
}

/* ---- A node ---- */

/* Everything is delivered at once; items that come are kept. */
static void deliver(struct gossip *to, struct gossip_time now, uint8_t from_number,
		    struct gossip_out *from, struct gossip_out *ret_out)
{
	for (size_t i = 0; i < from->n; i++) {
		struct gossip_input input = {
			fixture_address(from_number),
			{from->bytes.ptr + from->list[i].at, from->list[i].len}};

		if (from->list[i].kind == GOSSIP_SEND)
			gossip_step(to, now, &input, ret_out);
	}
}

static size_t count(const struct gossip_out *out, enum gossip_output_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < out->n; i++)
		n += out->list[i].kind == kind;
	return n;
}

static void two_nodes(struct gossip **ret_a, struct gossip **ret_b, struct gossip_out *a_out,
		      struct gossip_out *b_out)
{
	struct gossip_address seed = fixture_address(1);
	struct gossip_time now = {0, WALL_MS};

	*ret_a = fixture_node(1, "a");
	*ret_b = fixture_node(2, "b");
	gossip_set_seeds(*ret_b, &seed, 1);
	gossip_step(*ret_b, now, NULL, b_out);
	deliver(*ret_a, now, 2, b_out, a_out);
	gossip_out_clear(b_out);
	deliver(*ret_b, now, 1, a_out, b_out);
	cr_assert_eq(gossip_members(*ret_a)->n_alive, 1);
	cr_assert_eq(gossip_members(*ret_b)->n_alive, 1);
}

Test(gossip, one_who_joins_asks_the_seed_for_everything)
{
	struct gossip_out a_out = {0}, b_out = {0};
	struct gossip *a, *b;

	two_nodes(&a, &b, &a_out, &b_out);
	cr_expect_eq(count(&b_out, GOSSIP_PULL), 1);
	cr_expect_eq(count(&b_out, GOSSIP_MEMBER), 1);

	/* 5 000 items, by the stream. */
	enum { MANY = 5000 };
	struct gossip_item **items = calloc(MANY, sizeof *items);
	struct buf question = {0}, part = {0};
	uint32_t at = 0;
	size_t n = 0;
	bool more = true;
	const void *was;

	for (int i = 0; i < MANY; i++) {
		struct gossip_item item = an_item;
		char id[16];

		item.id = (struct slice){id, (size_t)snprintf(id, sizeof id, "k%d", i)};
		items[i] = fixture_keep(&item);
		cr_assert_eq(gossip_put(a, items[i], false, &was), KOVA_OK);
		if (i % 2 == 0)
			cr_assert_eq(gossip_put(b, items[i], false, &was), KOVA_OK);
	}
	gossip_out_clear(&b_out);
	gossip_pull_write(b, &question);
	cr_assert_eq(question.len, GOSSIP_PULL_BYTES);
	while (more) {
		buf_clear(&part);
		more = gossip_bulk_write(a, buf_slice(&question), &at, &part);
		cr_expect_lt(part.len, GOSSIP_CHUNK_MAX);
		cr_assert_eq(gossip_bulk_read(b, (struct gossip_time){0, WALL_MS}, buf_slice(&part),
					      &b_out),
			     KOVA_OK);
		for (size_t i = 0; i < b_out.n; i++)
			n += b_out.list[i].kind == GOSSIP_CAME;
		gossip_out_clear(&b_out);
	}
	cr_expect_eq(n, MANY / 2);
	for (int i = 0; i < MANY; i++)
		free(items[i]);
	free(items);
	buf_release(&question);
	buf_release(&part);
	gossip_out_release(&a_out);
	gossip_out_release(&b_out);
	gossip_free(a);
	gossip_free(b);
}

Test(gossip, a_change_is_in_the_next_message_unless_it_is_from_the_future)
{
	struct gossip_out a_out = {0}, b_out = {0};
	struct gossip_time now = {1000, WALL_MS + 1000};
	struct gossip_item good = an_item, bad = an_item;
	struct gossip *a, *b;
	const void *was;

	two_nodes(&a, &b, &a_out, &b_out);
	bad.id = SLICE("pbad");
	bad.stamp = stamp_at(WALL_MS + 11000);
	gossip_out_clear(&a_out);
	gossip_out_clear(&b_out);
	cr_assert_eq(gossip_put(a, &good, true, &was), KOVA_OK);
	cr_assert_eq(gossip_put(a, &bad, true, &was), KOVA_OK);
	gossip_step(a, now, NULL, &a_out);
	deliver(b, now, 1, &a_out, &b_out);
	cr_expect_geq(count(&b_out, GOSSIP_CAME), 1);
	for (size_t i = 0; i < b_out.n; i++)
		if (b_out.list[i].kind == GOSSIP_CAME)
			cr_expect(slice_equal(b_out.list[i].item.id, good.id));
	cr_expect_geq(gossip_counts(b)->skew, 1);
	gossip_out_release(&a_out);
	gossip_out_release(&b_out);
	gossip_free(a);
	gossip_free(b);
}

/* What is too large for a datagram is announced, and fetched by a stream. */
Test(gossip, a_large_item_is_announced)
{
	static char text[4000];
	struct gossip_out a_out = {0}, b_out = {0};
	struct gossip_item big = an_item;
	struct gossip_time now = {2000, WALL_MS + 2000};
	struct gossip *a, *b;
	const void *was;

	two_nodes(&a, &b, &a_out, &b_out);
	gossip_out_clear(&a_out);
	gossip_out_clear(&b_out);
	memset(text, 'x', sizeof text);
	big.value = (struct slice){text, sizeof text};
	cr_assert_eq(gossip_put(a, &big, true, &was), KOVA_OK);
	gossip_step(a, now, NULL, &a_out);
	deliver(b, now, 1, &a_out, &b_out);
	cr_expect_eq(count(&b_out, GOSSIP_CAME), 0);
	cr_expect_eq(count(&b_out, GOSSIP_PULL), 1);
	gossip_out_release(&a_out);
	gossip_out_release(&b_out);
	gossip_free(a);
	gossip_free(b);
}

/* A message that is wrong at its very end changes nothing. */
Test(gossip, a_message_counts_whole_or_not_at_all)
{
	struct gossip_out a_out = {0}, b_out = {0};
	struct gossip_time now = {1000, WALL_MS + 1000};
	struct gossip *a, *b;
	const void *was;
	unsigned wrong = 0;

	two_nodes(&a, &b, &a_out, &b_out);
	gossip_out_clear(&a_out);
	cr_assert_eq(gossip_put(a, &an_item, true, &was), KOVA_OK);
	gossip_step(a, now, NULL, &a_out);
	for (size_t i = 0; i < a_out.n; i++) {
		struct gossip_output o = a_out.list[i];

		for (size_t len = 0; o.kind == GOSSIP_SEND && len < o.len; len++) {
			struct gossip_input input = {fixture_address(1),
						     {a_out.bytes.ptr + o.at, len}};
			uint64_t before = gossip_counts(b)->malformed;

			gossip_out_clear(&b_out);
			gossip_step(b, now, &input, &b_out);
			wrong += gossip_counts(b)->malformed > before;
			cr_expect_eq(count(&b_out, GOSSIP_CAME), 0, "%zu bytes", len);
		}
	}
	cr_expect_gt(wrong, 50);
	gossip_out_release(&a_out);
	gossip_out_release(&b_out);
	gossip_free(a);
	gossip_free(b);
}

/* ---- Replays ---- */

Test(gossip_replay, each_number_is_taken_once)
{
	struct gossip_window w = {0};

	cr_expect(gossip_window_admit(&w, 5, 10));
	cr_expect_not(gossip_window_admit(&w, 5, 10));
	cr_expect(gossip_window_admit(&w, 5, 9), "late, but new");
	cr_expect_not(gossip_window_admit(&w, 5, 9));
	cr_expect(gossip_window_admit(&w, 5, 10 + GOSSIP_WINDOW));
	cr_expect_not(gossip_window_admit(&w, 5, 10), "too old to tell");
	cr_expect(gossip_window_admit(&w, 5, 11), "the last of the window");
	cr_expect_not(gossip_window_admit(&w, 4, 99999), "an earlier life");
	cr_expect(gossip_window_admit(&w, 6, 1), "a later one");
	cr_expect_not(gossip_window_admit(&w, 5, 12));
}

/* Names of containers come and go: who is there is heard, however many were. */
Test(gossip_replay, senders_of_old_make_room)
{
	enum { HOUR = GOSSIP_SENDER_KEPT_MS, HALF = GOSSIP_SENDERS_MAX / 2 };
	struct gossip_senders t = {0};

	for (uint64_t i = 1; i <= GOSSIP_SENDERS_MAX; i++)
		cr_assert_not_null(gossip_senders_window(&t, 2 * i, i <= HALF ? 0 : HOUR / 2));
	cr_expect_null(gossip_senders_window(&t, 1u << 20, HOUR - 1), "all are there still");
	struct gossip_window *known = gossip_senders_window(&t, 2, HOUR - 1);

	cr_assert_not_null(known, "one who is known needs no room");
	cr_expect(gossip_window_admit(known, 5, 10));
	cr_expect_not_null(gossip_senders_window(&t, 1u << 20, HOUR), "the old ones make room");
	cr_expect_eq(t.n, HALF + 2);
	cr_expect_not(gossip_window_admit(gossip_senders_window(&t, 2, HOUR), 5, 10),
		      "what it had seen is known still");
	gossip_senders_release(&t);
}

Test(gossip_replay, in_any_order_each_is_taken_once)
{
	struct gossip_window w = {0};
	static unsigned taken[4000];
	struct dice dice = {9};

	for (unsigned i = 0; i < 200000; i++) {
		uint64_t at = i / 50, n = at > 500 ? at - dice_below(&dice, 500) : at;

		taken[n % 4000] += gossip_window_admit(&w, 1, n);
	}
	for (unsigned n = 0; n < 4000; n++)
		cr_expect_leq(taken[n], 1, "%u", n);
	cr_expect_eq(taken[3000], 1);
}

Test(gossip_items, refusals_that_are_far_apart_leave_alone_what_is_between)
{
	struct gossip_items t;
	struct gossip_item item = with(stamp_at(WALL_MS + 10000), "w", "a");

	gossip_items_init(&t, fixture_read);
	cr_expect_not(gossip_items_admit(&t, &item, WALL_MS, 250));
	item.stamp = stamp_at(WALL_MS + 12000);
	cr_expect_not(gossip_items_admit(&t, &item, WALL_MS + 2000, 250));
	cr_expect_eq(t.n_refusals, 1);
	item.stamp = stamp_at(WALL_MS + 11000);
	cr_expect_not(gossip_items_admit(&t, &item, WALL_MS + 20000, 250), "in between");
	item.stamp = stamp_at(WALL_MS + 86400000 + 10000);
	cr_expect_not(gossip_items_admit(&t, &item, WALL_MS + 86400000, 250), "ahead the next day");
	cr_expect_eq(t.n_refusals, 2);
	item.stamp = stamp_at(WALL_MS + 3600000);
	cr_expect(gossip_items_admit(&t, &item, WALL_MS + 86400000, 250), "of an hour between");
	item.stamp = stamp_at(WALL_MS + 12000);
	cr_expect_not(gossip_items_admit(&t, &item, WALL_MS + 86400000, 250), "remembered");
	gossip_items_release(&t);
}

Test(gossip, no_stamps_are_made_that_were_refused)
{
	struct gossip *g = fixture_node(1, "a");
	const struct gossip_refusal own = {gossip_hash(SLICE("a")), stamp_at(WALL_MS + 10000),
					   stamp_at(WALL_MS + 12000), 9000};
	int64_t ahead_ms = 0;

	gossip_set_refusals(g, &own, 1);
	cr_expect_not(gossip_stamps_refused(g, (struct gossip_time){0, WALL_MS + 9999}, &ahead_ms));
	cr_expect(gossip_stamps_refused(g, (struct gossip_time){0, WALL_MS + 10000}, &ahead_ms));
	cr_expect(gossip_stamps_refused(g, (struct gossip_time){0, WALL_MS + 12000}, &ahead_ms));
	cr_expect_eq(ahead_ms, 9000);
	cr_expect_not(
		gossip_stamps_refused(g, (struct gossip_time){0, WALL_MS + 12001}, &ahead_ms));
	gossip_free(g);
}

/* ---- Grants ---- */

static struct gossip_grants grants;

static bool put_grant(uint64_t quota, uint64_t seq, const char *region, uint8_t sends,
		      uint64_t now_ms)
{
	const struct gossip_grant g = {.quota = quota,
				       .seq = seq,
				       .keep_ms = 5000,
				       .region = slice_of(region),
				       .bytes = SLICE("some bytes")};

	return gossip_grants_put(&grants, &g, sends, now_ms);
}

Test(gossip_grants, the_newest_of_a_quota_is_known_until_it_ends)
{
	struct slice region;

	cr_expect(put_grant(1, 5, "eu", 1, 1000));
	cr_expect_not(put_grant(1, 5, "eu", 1, 1000));
	cr_expect_not(put_grant(1, 4, "eu", 1, 1000));
	cr_expect(put_grant(2, 4, "us", 1, 1000));
	cr_expect(put_grant(1, 6, "eu", 1, 2000));
	cr_expect_eq(grants.n, 2);
	gossip_grants_expire(&grants, 6000);
	cr_expect_eq(grants.n, 1, "one has ended");
	cr_assert(gossip_grants_next(&grants, &region));
	cr_expect(slice_equal(region, SLICE("eu")));
	gossip_grants_expire(&grants, 7000);
	cr_expect_eq(grants.n, 0);
	cr_expect_eq(grants.n_sends, 0);
	cr_expect_not(gossip_grants_next(&grants, &region));
	cr_expect(put_grant(1, 1, "eu", 1, 8000), "what is forgotten may come again");
	gossip_grants_release(&grants);
}

Test(gossip_grants, a_message_has_those_of_one_region_each_once)
{
	uint8_t bytes[200];
	struct wire_writer w = {.ptr = bytes, .cap = sizeof bytes};
	struct gossip_grant read;

	for (uint64_t q = 1; q <= 12; q++)
		cr_assert(put_grant(q, q, q % 2 ? "eu" : "us", 2, 1000));
	gossip_grants_write(&grants, SLICE("us"), 1500, &w);
	struct wire_reader r = wire_reader((struct slice){(char *)bytes, w.len});
	uint64_t n = wire_get(&r, 1), seen = 0;

	cr_assert_eq(n, 5, "as many as fit: %llu", (unsigned long long)n);
	for (uint64_t i = 0; i < n; i++) {
		wire_get_grant(&r, &read);
		cr_expect_eq(read.keep_ms, 4500, "what is left of its time");
		cr_expect_eq(read.quota % 2, 0);
		cr_expect(slice_equal(read.bytes, SLICE("some bytes")));
		seen |= UINT64_C(1) << read.quota;
	}
	cr_expect(wire_at_end(&r) && !r.failed);
	cr_expect_eq(__builtin_popcountll(seen), 5);
	for (size_t len = 1; len < w.len; len++) {
		r = wire_reader((struct slice){(char *)bytes, len});
		wire_get(&r, 1);
		for (uint64_t i = 0; i < n; i++)
			wire_get_grant(&r, &read);
		cr_expect(r.failed, "%zu bytes", len);
	}
	w.len = 0;
	gossip_grants_write(&grants, SLICE("us"), 1500, &w);
	r = wire_reader((struct slice){(char *)bytes, w.len});
	wire_get(&r, 1);
	wire_get_grant(&r, &read);
	cr_expect((seen >> read.quota & 1) == 0, "the one that was not in the first comes first");
	gossip_grants_release(&grants);
}

Test(gossip_grants, there_are_so_many_and_no_more)
{
	for (uint64_t q = 0; q < GOSSIP_GRANTS_MAX; q++)
		cr_assert(put_grant(q, 1, "eu", q == 77 ? 1 : 3, 1000));
	cr_assert(put_grant(5000, 1, "eu", 3, 1000));
	cr_expect_eq(grants.n, GOSSIP_GRANTS_MAX);
	cr_expect_eq(grants.dropped, 1);
	cr_expect(put_grant(77, 1, "eu", 0, 1000), "the one that was carried the most made room");
	cr_expect_eq(grants.dropped, 2);
	gossip_grants_release(&grants);
}

Test(gossip_grants, what_is_none_is_refused)
{
	struct gossip *g = fixture_node(1, "a");
	struct gossip_time now = {0, WALL_MS};
	static char large[GOSSIP_GRANT_BYTES_MAX + 1];
	struct gossip_grant said = {.quota = 1,
				    .seq = 1,
				    .keep_ms = 1000,
				    .region = SLICE("eu"),
				    .bytes = {large, sizeof large}};

	cr_expect_eq(gossip_grant(g, now, &said), KOVA_ETOOBIG);
	said.bytes.len--;
	said.keep_ms = 0;
	cr_expect_eq(gossip_grant(g, now, &said), KOVA_ERANGE);
	said.keep_ms = GOSSIP_GRANT_KEEP_MS_MAX + 1;
	cr_expect_eq(gossip_grant(g, now, &said), KOVA_ERANGE);
	said.keep_ms--;
	cr_expect_eq(gossip_grant(g, now, &said), KOVA_OK);
	gossip_free(g);
}

/* The largest there is fits into a datagram, by the node with the longest names. */
Test(gossip_grants, the_largest_is_carried)
{
	char name[NAME_BYTES_MAX + 1];
	static char large[GOSSIP_GRANT_BYTES_MAX];
	struct gossip_time now = {0, WALL_MS};
	struct gossip_out out = {0};

	memset(name, 'n', NAME_BYTES_MAX);
	name[NAME_BYTES_MAX] = '\0';
	struct gossip_conf conf = {.name = slice_of(name),
				   .region = slice_of(name),
				   .role = GOSSIP_COORDINATOR,
				   .address = a_record.address,
				   .max_skew_ms = 250,
				   .read = fixture_read};
	struct gossip *source = gossip_new(&conf, now), *other = fixture_node(2, "b");
	struct gossip_grant said = {.quota = 1,
				    .seq = 1,
				    .keep_ms = 1000,
				    .region = slice_of("here"),
				    .bytes = {large, sizeof large}};
	struct gossip_address address = fixture_address(2);

	gossip_set_seeds(other, &a_record.address, 1);
	gossip_step(other, now, NULL, &out);
	cr_assert_gt(out.n, 0);
	struct buf first = {0};

	buf_add(&first, out.bytes.ptr + out.list[0].at, out.list[0].len);
	gossip_out_clear(&out);
	gossip_step(source, now, &(struct gossip_input){address, buf_slice(&first)}, &out);
	gossip_out_clear(&out);
	cr_assert_eq(gossip_grant(source, now, &said), KOVA_OK);
	now.mono_ms += GOSSIP_INTERVAL_MS;
	gossip_step(source, now, NULL, &out);
	struct gossip_out taken = {0};
	unsigned came = 0;

	for (size_t i = 0; i < out.n; i++) {
		const struct gossip_input input = {
			a_record.address, {out.bytes.ptr + out.list[i].at, out.list[i].len}};

		if (out.list[i].kind == GOSSIP_SEND)
			gossip_step(other, now, &input, &taken);
	}
	for (size_t i = 0; i < taken.n; i++)
		came += taken.list[i].kind == GOSSIP_GRANTED &&
			taken.list[i].grant.bytes.len == sizeof large;
	cr_expect_eq(came, 1, "%u", came);
	gossip_out_release(&out);
	gossip_out_release(&taken);
	buf_release(&first);
	gossip_free(source);
	gossip_free(other);
}
