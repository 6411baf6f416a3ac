"""Agents whose clocks are wrong, and a Redis whose clock steps: nothing extra is admitted."""
# Mostly waits.

import checker
import clock
import harness
import load
import shapes

POLICIES = [
    {"name": "b", "limit": 20, "per": "1s", "burst": 10, "on_outage": "deny"},
    {"name": "w", "algorithm": "sliding-window", "limit": 20, "per": "1s", "on_outage": "deny"},
    {"name": "c", "algorithm": "sliding-counter", "limit": 20, "per": "1s", "on_outage": "deny"},
    {"name": "d", "algorithm": "calendar", "limit": 30, "per": "day", "on_outage": "deny"},
    {"name": "p", "algorithm": "concurrency", "limit": 5, "hold": "20s", "on_outage": "deny"},
]


class AgentsOff(harness.Case):
    """Three agents on one Redis: one 10 s slow, one right, one 10 s fast."""

    def setUp(self):
        super().setUp()
        redis = self.start_redis()
        self.agents = []
        for offset in (-10, 0, 10):
            own = clock.Clock(self.directory, f"clock{offset}")
            own.shift(offset)
            self.agents.append(
                self.start_agent({"redis": shapes.standalone(redis), "policies": POLICIES}, env=own.env())
            )

    def test_nothing_extra_is_admitted(self):
        with load.Swarm(shapes.addresses(self.agents), 30) as swarm:
            hits = swarm.run(5, lambda n: ("KOVA.TAKE", "bwcd"[n % 4], "k"), rate=1000)
            permits = swarm.burst(("KOVA.ACQUIRE", "p", "k"))
        self.assertEqual(load.errors(hits + permits), [])
        taken = {name: checker.admissions([hit for hit in hits if hit.words[1] == name]) for name in "bwcd"}
        self.assertIsNone(checker.bucket_violation(taken["b"], 20, 10))
        self.assertIsNone(checker.window_violation(taken["w"], 20, 1.0))
        first = int(hits[0].sent)
        self.assertIsNone(checker.fixed_violation(taken["c"], 20, range(first, first + 20)))
        self.assertLessEqual(len(taken["d"]), 60, "an edge may have passed")
        self.assertGreaterEqual(len(taken["d"]), 30)
        self.assertEqual(sum(hit.admitted for hit in permits), 5)
        # And what the limit allows is there, whoever asks.
        self.assertGreaterEqual(len(taken["b"]), 10 + 20 * 4 * 0.9)
        self.assertGreaterEqual(len(taken["w"]), 20 * 4 * 0.9)

    def test_each_agent_tells_the_same(self):
        for name in "bwcd":
            self.agents[0].call("KOVA.TAKE", name, "same", "COST", 10)
        for name, tolerance in (("d", 1000),):
            told = [agent.call("KOVA.PEEK", name, "same") for agent in self.agents]
            self.assertEqual({reply[1] for reply in told}, {20})
            resets = [reply[4] for reply in told]
            self.assertLessEqual(max(resets) - min(resets), tolerance, "ms until the day's end, by Redis's clock")

    def test_a_bucket_drained_by_one_is_empty_for_all(self):
        self.agents[0].http("PUT", "/v1/policies/hour", {"name": "hour", "limit": 10, "per": "1h", "burst": 10})
        for agent in self.agents[1:]:
            agent.http("PUT", "/v1/policies/hour", {"name": "hour", "limit": 10, "per": "1h", "burst": 10})
        for turn in range(3):
            key = f"k{turn}"
            self.assertEqual(self.agents[turn].call("KOVA.TAKE", "hour", key, "COST", 10)[0], 1)
            for agent in self.agents:
                self.assertEqual(agent.call("KOVA.TAKE", "hour", key)[0], 0)


class RedisSteps(shapes.Frozen):
    """Redis's own clock goes back and forward."""

    def test_back_refills_nothing(self):
        resp = self.start([{**policy, "on_outage": "deny"} for policy in POLICIES[:3]])
        for name in "bwc":
            self.clock.freeze(self.BEGIN_US)
            self.assertEqual(resp.call("KOVA.TAKE", name, "k", "COST", 5)[0], 1)
            left = resp.call("KOVA.PEEK", name, "k")[1]
            for back in (1, 1000, 10_000_000, 3600_000_000):
                self.clock.freeze(self.BEGIN_US - back)
                self.assertLessEqual(resp.call("KOVA.PEEK", name, "k")[1], left, f"{name} {back} µs back")
            admitted = [resp.call("KOVA.TAKE", name, "k")[0] for _ in range(30)]
            self.assertLessEqual(sum(admitted), left, name)
            # Forward to where it was: a bucket gets nothing for going there twice. (A window counts by Redis's clock,
            # for which those admissions were an hour ago.)
            self.clock.freeze(self.BEGIN_US)
            if name == "b":
                self.assertEqual(sum(resp.call("KOVA.TAKE", name, "k")[0] for _ in range(30)), left - sum(admitted))

    def test_back_and_forth_under_load(self):
        resp = self.start([{"name": "b", "limit": 10, "per": "1s", "burst": 10}])
        admitted, begin = 0, self.BEGIN_US
        for step in range(200):
            self.clock.freeze(begin + step * 50_000 - (3_000_000 if step % 3 == 1 else 0))
            admitted += sum(reply[0] for reply in resp.pipeline([("KOVA.TAKE", "b", "k")] * 5))
        # 200 steps of 50 ms are 10 s.
        self.assertLessEqual(admitted, 10 + 10 * 10)
        self.assertGreaterEqual(admitted, 100)


if __name__ == "__main__":
    harness.main()
