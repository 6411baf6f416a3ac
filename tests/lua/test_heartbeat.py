"""The heartbeat script: which agents count, and the least version of the regions by which one of them goes."""
import os
import pathlib

import harness

SOURCE = pathlib.Path(os.environ["KOVA_SOURCE_DIR"])
SILENT_MS = 10000
CLOCK = "local now = redis.call('TIME')\nnow = now[1] * 1000000 + now[2]\n"

# What the script of the release before did: it knows of no versions.
BEFORE = CLOCK + """
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2] * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return {redis.call('ZCARD', KEYS[1])}
"""


class Heartbeats(harness.Case):
    def setUp(self):
        super().setUp()
        self.redis = self.start_redis()
        self.script = (SOURCE / "lua/heartbeat.lua").read_text()
        self.now = 1_800_000_000.0

    def eval(self, script, keys, *arguments):
        self.assertIn(CLOCK, script)
        script = script.replace(CLOCK, f"local now = {int(self.now * 1e6)}\n")
        return self.redis.call("EVAL", script, str(len(keys)), *keys, *map(str, arguments))

    def beat(self, agent, version, *policies):
        """What it hears: agents, the least version, policies."""
        keys = "k:agents", "k:{k:agents}feedback", "k:{k:agents}said", "k:{k:agents}versions"
        return self.eval(self.script, keys, agent, SILENT_MS, version, *policies)

    def beats(self, seconds, **versions):
        """Each agent each 2 s; what the last heard."""
        for _ in range(seconds // 2):
            self.now += 2
            heard = [self.beat(agent, version) for agent, version in versions.items()]
        return heard[-1]

    def test_the_least_version_of_those_that_count(self):
        self.beats(12, a=2, b=3)
        self.assertEqual(self.beat("a", 2), [2, 2])
        self.assertEqual(self.beats(8, b=3), [2, 2])
        self.assertEqual(self.beats(2, b=3), [1, 3])

    def test_many_digits_are_numbers(self):
        self.assertEqual(self.beats(12, a=10, b=9), [2, 9])

    def test_who_begins_does_not_know_of_the_others(self):
        self.assertEqual(self.beat("a", 2), [1, 1])
        self.assertEqual(self.beats(8, a=2), [1, 1])
        self.assertEqual(self.beats(2, a=2), [1, 2])

    def test_an_emptied_redis_has_not_heard_all(self):
        self.beats(12, old=1, new=2)
        self.redis.call("FLUSHALL")
        self.assertEqual(self.beat("new", 2), [1, 1])
        self.assertEqual(self.beats(8, new=2), [1, 1])
        self.assertEqual(self.beats(2, new=2), [1, 2])

    def test_a_clock_that_is_set_ahead_has_not_heard_all(self):
        self.beats(12, old=1, new=2)
        for ahead in (9, 100):
            self.now += ahead
            self.assertEqual(self.beat("new", 2)[1], 1)
            self.assertEqual(self.beats(8, new=2)[1], 1)
        self.assertEqual(self.beats(2, new=2), [1, 2])

    def test_one_that_says_no_version_is_of_the_first(self):
        self.beats(12, new=2)
        self.eval(BEFORE, ["k:agents"], "old", SILENT_MS)
        self.assertEqual(self.beats(8, new=2), [2, 1])
        self.assertEqual(self.beats(2, new=2), [1, 2])

    def test_one_that_says_none_is_not_taken_for_one_that_is_gone(self):
        self.beats(12, new=2, gone=2)
        self.now += 9
        self.beat("new", 2)
        self.now += 2
        self.eval(BEFORE, ["k:agents"], "old", SILENT_MS)  # drops the other one
        self.assertEqual(self.beat("new", 2), [2, 1])

    def test_who_has_no_regions_is_in_nobodys_way(self):
        self.assertEqual(self.beats(12, a=0), [1, 0])
        self.assertEqual(self.beats(12, a=0, b=2), [2, 2])

    def test_others_are_only_counted(self):
        for agent in "abc":
            heard = self.eval(self.script, ["k:agents:home", "k:{k:agents:home}feedback"], agent, SILENT_MS, 0)
        self.assertEqual(heard, [3, 0])
        self.assertEqual(self.redis.call("KEYS", "*"), ["k:agents:home"])

    def test_policies_with_feedback(self):
        self.assertEqual(self.beat("a", 1, "p", "q")[2:], ["p", "q"])
        self.assertEqual(self.beat("b", 1)[2:], ["p", "q"])
        self.now += 86401
        self.assertEqual(self.beat("b", 1)[2:], [])

    def test_nothing_stays(self):
        self.beat("a", 1)
        for key in self.redis.call("KEYS", "*"):
            self.assertGreater(self.redis.call("PTTL", key), 0)


if __name__ == "__main__":
    harness.main()
