"""Receipts: a refund twice is a refund once, on whichever agent; refunds keep the rate bounded."""
# Mostly waits.

import harness
import load
import shapes

HOURLY = {"limit": 100, "per": "1h"}
POLICIES = [
    {"name": "token-bucket", **HOURLY, "burst": 100},
    {"name": "gcra", "algorithm": "gcra", **HOURLY, "burst": 100},
    {"name": "sliding-window", "algorithm": "sliding-window", **HOURLY},
    {"name": "sliding-counter", "algorithm": "sliding-counter", **HOURLY},
    {"name": "calendar", "algorithm": "calendar", "limit": 100, "per": "month"},
]
NAMES = [policy["name"] for policy in POLICIES]
LEVELS = {
    "name": "levels",
    "levels": [{"name": "tenant", **HOURLY, "burst": 100}, {"name": "user", "limit": 50, "per": "1h", "burst": 50}],
}


class Receipts(shapes.Frozen):
    def take(self, policy, key, *words):
        reply = self.resp.call("KOVA.TAKE", policy, key, *words, "RECEIPT")
        self.assertEqual((reply[0], len(reply)), (1, 7))
        return reply[6]

    def remaining(self, policy, key):
        return self.resp.call("KOVA.PEEK", policy, key)[1]

    def refund(self, *words):
        return self.resp.call("KOVA.REFUND", *words)

    def test_twice_is_once(self):
        self.resp = self.start(POLICIES)
        for name in NAMES:
            with self.subTest(policy=name):
                self.resp.call("KOVA.TAKE", name, "k", "COST", 50)
                receipt = self.take(name, "k", "COST", 10)
                self.assertEqual(self.remaining(name, "k"), 40)
                self.assertEqual(self.refund(receipt), 10)
                self.assertEqual([self.refund(receipt), self.refund(receipt, 10), self.refund(receipt, 5)], [0, 0, 0])
                self.assertEqual(self.remaining(name, "k"), 50)

    def test_n_is_the_total(self):
        self.resp = self.start(POLICIES)
        for name in NAMES:
            with self.subTest(policy=name):
                self.resp.call("KOVA.TAKE", name, "k", "COST", 50)
                receipt = self.take(name, "k", "COST", 10)
                self.assertEqual([self.refund(receipt, n) for n in (3, 3, 0, 7, 5, 10, 11)], [3, 0, 0, 4, 0, 3, 0])
                self.assertEqual(self.remaining(name, "k"), 50)

    def test_never_above_what_a_bucket_can_hold(self):
        self.resp = self.start(POLICIES)
        for name in ("token-bucket", "gcra"):
            receipt = self.take(name, "k", "COST", 10)
            self.clock.advance(3600)
            self.assertEqual(self.remaining(name, "k"), 100)
            self.assertEqual(self.refund(receipt), 0, name)
            self.assertEqual(self.remaining(name, "k"), 100)

    def test_of_all_levels_and_pairs(self):
        self.resp = self.start([LEVELS, *POLICIES])
        reply = self.resp.call(
            "KOVA.TAKE", "levels", "t/u", "COST", 10, "AND", "token-bucket", "k", "COST", 5, "RECEIPT"
        )
        self.refund(reply[6])
        self.assertEqual(
            [self.remaining("levels", "t"), self.remaining("levels", "t/u"), self.remaining("token-bucket", "k")],
            [100, 50, 100],
        )
        self.refund(reply[6])
        self.assertEqual(
            [self.remaining("levels", "t"), self.remaining("levels", "t/u"), self.remaining("token-bucket", "k")],
            [100, 50, 100],
        )

    def test_a_refusal_has_no_receipt(self):
        self.resp = self.start(POLICIES)
        for name in NAMES:
            reply = self.resp.call("KOVA.TAKE", name, "k", "COST", 101, "RECEIPT")
            self.assertEqual((reply[0], reply[6]), (0, None))

    def test_what_is_no_receipt(self):
        self.resp = self.start(POLICIES)
        receipt = self.take("token-bucket", "k", "COST", 10)
        for wrong in (
            "",
            "x",
            "nonsense",
            receipt[:-4],
            receipt + "AAAA",
            receipt[:10] + ("A" if receipt[10] != "A" else "B") + receipt[11:],
            "A" * 200,
            "\u00e9",
            receipt[::-1],
        ):
            reply = self.resp.pipeline([("KOVA.REFUND", wrong)])[0]
            self.assertTrue(reply == 0 or isinstance(reply, harness.RespError), (wrong, reply))
        self.assertEqual(self.remaining("token-bucket", "k"), 90)
        for wrong in ("-1", "1e3", "", "9223372036854775807"):
            self.assertIsInstance(self.resp.pipeline([("KOVA.REFUND", receipt, wrong)])[0], harness.RespError)
        self.assertEqual(self.refund(receipt), 10)

    def test_a_window_gets_back_what_it_counts(self):
        """A refund of an admission that has left its window by itself gives nothing beyond."""
        self.resp = self.start(POLICIES)
        receipt = self.take("sliding-window", "k", "COST", 60)
        self.clock.advance(1800)
        self.resp.call("KOVA.TAKE", "sliding-window", "k", "COST", 40)
        self.clock.advance(1800)
        self.assertEqual(self.remaining("sliding-window", "k"), 60)
        self.refund(receipt)
        self.assertEqual(self.remaining("sliding-window", "k"), 60)

    def test_every_request_failing_and_refunded_keeps_the_rate_bounded(self):
        """At most `limit` comes back in any `per`, and so much more is admitted in one.

        That is 100 beside a bucket's burst and refill, beside a window's 100, and beside what a sliding counter admits
        across an edge: up to twice its limit.
        """
        self.resp = self.start(POLICIES)
        for name in NAMES:
            with self.subTest(policy=name):
                self.clock.freeze(self.BEGIN_US)
                admitted, given = [], []
                for _ in range(1200):
                    reply = self.resp.call("KOVA.TAKE", name, "loop", "RECEIPT")
                    if reply[0] == 1:
                        admitted.append(self.clock.now_us())
                        given += [self.clock.now_us()] * self.refund(reply[6])
                    self.clock.advance(6)
                hour = 3_600_000_000
                for times, most in ((given, 100), (admitted, 200 if name in ("sliding-window", "calendar") else 301)):
                    for first in times[::50]:
                        self.assertLessEqual(sum(first <= t < first + hour for t in times), most)
                self.assertGreaterEqual(len(given), 100)

    def test_an_id_and_a_receipt(self):
        self.resp = self.start(POLICIES)
        first = self.resp.call("KOVA.TAKE", "token-bucket", "k", "COST", 10, "ID", "x", "RECEIPT")
        again = self.resp.call("KOVA.TAKE", "token-bucket", "k", "COST", 10, "ID", "x", "RECEIPT")
        self.assertEqual(first, again)
        self.assertEqual([self.refund(first[6]), self.refund(again[6])], [10, 0])


class Anywhere(harness.Case):
    def check(self, shape):
        one, other = shapes.start_agents(self, shape, [LEVELS, *POLICIES])
        for number in range(5):
            keys = [f"{name}-{number}" for name in "abc"]
            reply = one.call(
                "KOVA.TAKE",
                "token-bucket",
                keys[0],
                "COST",
                10,
                "AND",
                "sliding-window",
                keys[1],
                "COST",
                10,
                "AND",
                "levels",
                f"{keys[2]}/u",
                "COST",
                10,
                "RECEIPT",
            )
            self.assertEqual(reply[0], 1)
            amount = other.http("POST", "/v1/refund", {"receipt": reply[6], "amount": 4}).json()["refunded"]
            self.assertEqual((amount, one.call("KOVA.REFUND", reply[6], 4)), (4, 0))
            self.assertEqual((other.call("KOVA.REFUND", reply[6]), one.call("KOVA.REFUND", reply[6])), (6, 0))
            for policy, key, full in (
                ("token-bucket", keys[0], 100),
                ("sliding-window", keys[1], 100),
                ("levels", f"{keys[2]}/u", 50),
                ("levels", keys[2], 100),
            ):
                self.assertEqual(other.call("KOVA.PEEK", policy, key)[1], full, (policy, key))

    def test_on_another_agent(self):
        self.check("standalone")

    def test_across_slots(self):
        self.check("cluster")

    def test_200_refunds_of_one_receipt_at_once(self):
        agents = shapes.start_agents(self, "standalone", POLICIES)
        with load.Swarm(shapes.addresses(agents), 200) as swarm:
            for name in NAMES:
                agents[0].call("KOVA.TAKE", name, "k", "COST", 50)
                receipt = agents[0].call("KOVA.TAKE", name, "k", "COST", 10, "RECEIPT")[6]
                self.assertEqual(sum(hit.reply for hit in swarm.burst(("KOVA.REFUND", receipt))), 10, name)
                self.assertEqual(agents[0].call("KOVA.PEEK", name, "k")[1], 50, name)


if __name__ == "__main__":
    harness.main()
