"""CL.THROTTLE: redis-cell's form and numbers, without its known faults."""
# Mostly waits.

import harness
import load
import shapes


class Throttle(shapes.Frozen):
    def setUp(self):
        super().setUp()
        self.resp = self.start([{"name": "p", "limit": 1, "per": "1s"}])

    def throttle(self, *words):
        return self.resp.call("CL.THROTTLE", *words)

    def test_the_documented_example(self):
        """redis-cell's README: 15 burst, 30 in 60 s."""
        self.assertEqual(self.throttle("user123", 15, 30, 60), [0, 16, 15, -1, 2])
        self.assertEqual(self.throttle("user123", 15, 30, 60, 1), [0, 16, 14, -1, 4])

    def test_drained_and_refilled(self):
        for left in range(2, -1, -1):
            self.assertEqual(self.throttle("k", 2, 1, 10), [0, 3, left, -1, (3 - left) * 10])
        self.assertEqual(self.throttle("k", 2, 1, 10), [1, 3, 0, 10, 30])
        self.clock.advance(9.999999)
        self.assertEqual(self.throttle("k", 2, 1, 10), [1, 3, 0, 1, 21], "whole seconds, rounded up")
        self.clock.advance(0.000001)
        self.assertEqual(self.throttle("k", 2, 1, 10), [0, 3, 0, -1, 30])

    def test_waiting_exactly_retry_after_is_enough(self):
        for burst, count, period in (
            (0, 3, 7),
            (2, 3, 7),
            (0, 10, 1),
            (9, 10, 1),
            (0, 1, 60),
            (4, 7, 3600),
            (0, 1000000, 1),
            (99, 3, 86400),
        ):
            key = f"{burst}/{count}/{period}"
            while (reply := self.throttle(key, burst, count, period))[0] == 0:
                self.assertEqual(reply[3], -1)
            for _ in range(5):
                self.clock.advance(reply[3])
                self.assertEqual(self.throttle(key, burst, count, period)[0], 0, key)
                while (reply := self.throttle(key, burst, count, period))[0] == 0:
                    pass

    def test_whole_seconds_are_not_one_too_many(self):
        self.throttle("k", 0, 1, 1)
        self.assertEqual(self.throttle("k", 0, 1, 1)[3], 1)
        self.throttle("l", 0, 1, 60)
        self.assertEqual(self.throttle("l", 0, 1, 60)[3], 60)

    def test_quantities(self):
        self.assertEqual(self.throttle("k", 9, 1, 10, 4), [0, 10, 6, -1, 40])
        self.assertEqual(self.throttle("k", 9, 1, 10, 7), [1, 10, 6, 10, 40])
        self.assertEqual(self.throttle("k", 9, 1, 10, 11), [1, 10, 6, -1, 40], "more than it can ever hold")
        self.assertEqual(self.throttle("k", 9, 1, 10, 6), [0, 10, 0, -1, 100])

    def test_quantity_zero_asks_and_leaves_nothing_behind(self):
        self.assertEqual(self.throttle("k", 9, 1, 10, 0), [0, 10, 10, -1, 0])
        self.assertEqual(self.store_keys(), [])
        self.throttle("k", 9, 1, 10, 10)
        self.assertEqual(self.throttle("k", 9, 1, 10, 0)[2], 0)

    def store_keys(self):
        url = self.agent.config["redis"]["url"]
        with harness.Resp(("127.0.0.1", int(url.rpartition(":")[2]))) as redis:
            return redis.call("KEYS", "*t{*")

    def test_bad_numbers_are_errors_and_change_nothing(self):
        self.throttle("k", 9, 1, 10)
        for words in (
            (9, 0, 10),
            (9, 1, 0),
            (-1, 1, 10),
            (9, -1, 10),
            (9, 1, -10),
            (9, 1, 10, -1),
            (9, 1, 10, -9223372036854775808),
            (9223372036854775807, 1, 10),
            (9, 9223372036854775807, 10),
            (9, 1, 9223372036854775807),
            (9, 1, 10, 9223372036854775807),
            ("x", 1, 10),
            (9, "1.5", 10),
            (9, 1, ""),
            (9, 1, 10, "1e3"),
            (9, 1),
            (9,),
            (),
            (9, 1, 10, 1, 1),
        ):
            with self.subTest(words=words):
                self.assertIsInstance(self.resp.pipeline([("CL.THROTTLE", "k", *words)])[0], harness.RespError)
        self.assertEqual(self.throttle("k", 9, 1, 10, 0)[2], 9)

    def test_keys_of_any_bytes(self):
        for key in (b"\xff\xfe", b"\x00", "é", "{", "}", "{}", "a b", "x" * 1024):
            self.assertEqual(self.throttle(key, 1, 1, 10)[:3], [0, 2, 1], key)
        for key in ("", "x" * 1025):
            self.assertIsInstance(self.resp.pipeline([("CL.THROTTLE", key, 1, 1, 10)])[0], harness.RespError)

    def test_other_parameters_for_the_same_key(self):
        """What was taken stays taken; no remaining above the burst, nothing negative."""
        self.throttle("k", 9, 10, 10, 10)
        for words in ((0, 1, 1), (99, 100, 1), (4, 1, 100), (9, 10, 10)):
            reply = self.throttle("k", *words, 0)
            self.assertTrue(0 <= reply[2] <= words[0] + 1, (words, reply))
            self.assertGreaterEqual(reply[4], 0)

    def test_every_key_expires(self):
        self.throttle("k", 9, 10, 10)
        self.clock.advance(3600)
        self.assertEqual(self.store_keys(), [])


class ManyCallers(harness.Case):
    def test_200_at_once(self):
        for shape in ("standalone", "cluster"):
            agents = shapes.start_agents(self, shape, [])
            with load.Swarm(shapes.addresses(agents), 200) as swarm:
                for number in range(5):
                    hits = swarm.burst(("CL.THROTTLE", f"k{number}", 99, 1, 3600))
                    self.assertEqual(sum(hit.reply[0] == 0 for hit in hits), 100)
                    self.assertEqual(sorted(hit.reply[2] for hit in hits if hit.reply[0] == 0), list(range(100)))

    def test_case_and_inline(self):
        agent = shapes.start_agents(self, "standalone", [], count=1)[0]
        with agent.resp() as resp:
            self.assertEqual(resp.call("cl.throttle", "k", 1, 1, 10)[0], 0)
            resp.send_raw(b"CL.THROTTLE k 1 1 10\r\n")
            self.assertEqual(resp.read()[:3], [0, 2, 0])


if __name__ == "__main__":
    harness.main()
