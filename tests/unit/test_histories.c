/* What children consumed, the weights that it makes, and that both go on from what was kept. */
#include <criterion/criterion.h>
#include <kova_children.pb-c.h>
#include <stdio.h>

#include "history_record.h"

#define HOUR UINT64_C(3600000)
#define NOW (1000 * HOUR)

static void use_at(struct histories *h, const char *parent, const char *child, uint64_t tokens,
		   uint64_t at_ms)
{
	const struct child_usage u = {SLICE("p"), slice_of(parent), slice_of(child), tokens, at_ms};

	cr_assert_eq(histories_read(h, &u, HOUR), KOVA_OK);
}

static void use(struct histories *h, const char *parent, const char *child, uint64_t tokens)
{
	use_at(h, parent, child, tokens, NOW);
}

static uint32_t average(const struct history_parent *p, void *data)
{
	(void)p, (void)data;
	return 1000;
}

static void told(const struct history_parent *p, void *data)
{
	struct buf *out = data;

	cr_assert(history_weights_write(p, out));
	buf_add_text(out, "\n");
}

static void expect_told(struct histories *h, uint64_t now_ms, const char *expected)
{
	struct buf out = {0};

	histories_weigh(h, now_ms, HOUR, average, told, &out);
	buf_add(&out, "", 1);
	cr_expect_str_eq(out.ptr, expected);
	buf_release(&out);
}

Test(histories, weights_are_told_when_they_differ)
{
	struct histories h = {0};

	use(&h, "acme", "gold", 3000);
	use(&h, "acme", "iron", 1000);
	use(&h, "other", "one", 500);
	expect_told(&h, NOW,
		    "{\"parent\":\"acme\",\"policy\":\"p\",\"weights\":{\"gold\":1500,\"iron\":500}"
		    "}\n");
	expect_told(&h, NOW + HOUR, "");
	use(&h, "acme", "gold", 300);
	expect_told(&h, NOW, ""); /* not by a quarter */
	use(&h, "acme", "iron", 3000);
	expect_told(&h, NOW,
		    "{\"parent\":\"acme\",\"policy\":\"p\",\"weights\":{\"gold\":904,\"iron\":1095}"
		    "}\n");
	histories_release(&h);
}

Test(histories, what_has_faded_is_forgotten)
{
	struct histories h = {0};

	use(&h, "acme", "gold", 3000);
	use(&h, "acme", "iron", 1000);
	expect_told(&h, NOW,
		    "{\"parent\":\"acme\",\"policy\":\"p\",\"weights\":{\"gold\":1500,\"iron\":500}"
		    "}\n");
	histories_settle(&h);
	expect_told(&h, NOW + 100 * HOUR,
		    "{\"parent\":\"acme\",\"policy\":\"p\",\"weights\":{}}\n");
	cr_expect_eq(h.n, 1, "that is to be kept");
	histories_settle(&h);
	cr_expect_eq(h.n, 0);
	histories_release(&h);
}

static struct history_parent *only(const struct histories *h)
{
	for (size_t i = 0; i < h->n_chains; i++)
		if (h->table[i] != NULL)
			return h->table[i];
	return NULL;
}

Test(histories, who_comes_often_gets_ahead_of_who_is_many)
{
	struct histories h = {0};
	char child[16];
	const struct history_parent *p;
	bool found = false;

	for (unsigned i = 0; i < 2000; i++) {
		snprintf(child, sizeof child, "c%u", i % 500);
		use(&h, "acme", child, 1);
		use(&h, "acme", "often", 2);
	}
	p = only(&h);
	cr_assert_eq(p->n, HISTORY_CHILDREN_MAX);
	for (unsigned i = 0; i < p->n; i++)
		if (slice_equal((struct slice){p->child[i]->name, p->child[i]->len},
				SLICE("often"))) {
			found = true;
			cr_expect_geq(p->child[i]->history.amount, 4000 * HISTORY_UNIT);
		}
	cr_expect(found);
	histories_release(&h);
}

Test(histories, there_is_room_for_so_many_parents)
{
	struct histories h = {0};
	char parent[16];

	for (unsigned i = 0; i < HISTORY_PARENTS_MAX + 10; i++) {
		snprintf(parent, sizeof parent, "a%u", i);
		use(&h, parent, "x", 1);
		use(&h, parent, "x", 1);
	}
	cr_expect_eq(h.n, HISTORY_PARENTS_MAX);
	cr_expect_eq(h.overflows, 20);
	use(&h, "a0", "x", 1);
	cr_expect_eq(h.overflows, 20);
	histories_release(&h);
}

Test(histories, what_was_kept_goes_on_and_is_told_again)
{
	struct histories h = {0}, next = {0};
	struct buf key = {0}, value = {0};

	use(&h, "acme", "gold", 3000);
	use_at(&h, "acme", "iron", 2000, NOW - HOUR);
	use(&h, "acme", "\xff\xfe", 2000);
	expect_told(&h, NOW,
		    "{\"parent\":\"acme\",\"policy\":\"p\",\"weights\":{\"gold\":1500,\"iron\":500}"
		    "}\n");
	cr_assert_eq(history_record_write(only(&h), &key, &value), KOVA_OK);
	cr_expect(slice_equal(buf_slice(&key), SLICE("p/acme")));
	use(&next, "acme", "older", 7); /* an earlier record of it */
	cr_assert_eq(history_record_read(buf_slice(&value), &next), KOVA_OK);
	cr_expect_eq(next.n, 1);
	expect_told(&next, NOW,
		    "{\"parent\":\"acme\",\"policy\":\"p\",\"weights\":{\"gold\":1500,\"iron\":500}"
		    "}\n");
	expect_told(&next, NOW, "");
	for (size_t n = 0; n < value.len; n++) {
		struct histories part = {0};

		(void)!history_record_read((struct slice){value.ptr, n}, &part);
		histories_release(&part);
	}
	cr_expect_eq(history_record_read(SLICE("\xff"), &next), KOVA_EPROTO);
	cr_expect_eq(history_record_read(SLICE("\x0a\x01/"), &next), KOVA_EPROTO, "no policy");
	cr_expect_eq(history_record_read(SLICE("\x0a\x01p\x1a\x00\x1a\x00"), &next), KOVA_EPROTO,
		     "two children of one name");
	histories_release(&h);
	histories_release(&next);
	buf_release(&key);
	buf_release(&value);
}

Test(histories, records_of_agents)
{
	Kova__V1__ChildUsage u = KOVA__V1__CHILD_USAGE__INIT;
	char name[] = "p";
	uint8_t bytes[256];
	struct child_message m;

	u.region = u.agent = u.policy = name;
	u.parent = (ProtobufCBinaryData){1, (uint8_t *)"a"};
	u.child = (ProtobufCBinaryData){3, (uint8_t *)"b/c"};
	u.hlc = 5000 << 11;
	u.admitted = 7;
	size_t len = kova__v1__child_usage__pack(&u, bytes);

	cr_assert_eq(child_message_parse((struct slice){(char *)bytes, len}, &m), KOVA_OK);
	cr_expect(slice_equal(m.usage.parent, SLICE("a")));
	cr_expect(slice_equal(m.usage.child, SLICE("b/c")));
	cr_expect_eq(m.usage.admitted, 7);
	cr_expect_eq(m.usage.at_ms, 5000);
	child_message_release(&m);
	name[0] = '/';
	len = kova__v1__child_usage__pack(&u, bytes);
	cr_expect_eq(child_message_parse((struct slice){(char *)bytes, len}, &m), KOVA_EPROTO);
	cr_expect_eq(child_message_parse(SLICE("\xff"), &m), KOVA_EPROTO);
}
