"""retry_after is exact: asked again after it, nobody else asking, a caller is admitted; a millisecond before, not."""
# Mostly waits.

import random
import time

import harness
import shapes

# (limit, per in ms)
RATES = ((3, 7000), (10, 1000), (1, 60000), (7, 3 * 3600_000), (1000, 1000))
ALGORITHMS = ("token-bucket", "gcra", "sliding-window", "sliding-counter")


def policy(algorithm, limit, per_ms):
    burst = {"burst": limit} if algorithm in ("token-bucket", "gcra") else {}
    return {
        "name": f"{algorithm}.{limit}.{per_ms}",
        "algorithm": algorithm,
        "limit": limit,
        "per": f"{per_ms}ms",
        **burst,
    }


POLICIES = [policy(algorithm, *rate) for algorithm in ALGORITHMS for rate in RATES]


def wait_of(reply):
    return reply[3]


class Exact(shapes.Frozen):
    def assert_exact(self, agent, words, reply, what):
        """`reply` refused `words`; leaves the clock where they were admitted."""
        wait_ms = wait_of(reply)
        self.assertGreaterEqual(wait_ms, 1, f"{what}: {reply}")
        if wait_ms > 1:
            self.clock.advance((wait_ms - 1) / 1000)
            early = agent.call(*words)
            self.assertEqual((early[0], wait_of(early)), (0, 1), f"{what}: a millisecond before its time")
            self.clock.advance(0.001)
        else:
            self.clock.advance(0.001)
        self.assertEqual(agent.call(*words)[0], 1, f"{what}: after exactly {wait_ms} ms")

    def test_of_a_drained_key(self):
        agent = self.start(POLICIES)
        for p in POLICIES:
            with self.subTest(policy=p["name"]):
                for turn in range(3):
                    while agent.call("KOVA.TAKE", p["name"], "k")[0] == 1:
                        pass
                    refused = agent.call("KOVA.TAKE", p["name"], "k")
                    self.assertEqual(refused[0], 0)
                    self.assert_exact(agent, ("KOVA.TAKE", p["name"], "k"), refused, f"turn {turn}")

    def test_values(self):
        agent = self.start(POLICIES)
        for algorithm in ("token-bucket", "gcra"):
            for (limit, per_ms), expected in zip(RATES, (2334, 100, 60000, 1542858, 1)):
                name = f"{algorithm}.{limit}.{per_ms}"
                agent.call("KOVA.TAKE", name, "k", "COST", limit)
                wait_ms = wait_of(agent.call("KOVA.TAKE", name, "k"))
                # Refill comes in whole millionths of a token: hours may end some ms later.
                self.assertLessEqual(wait_ms, expected + expected // 100_000, name)
                self.assertGreaterEqual(wait_ms, expected, name)
        for limit, per_ms in RATES:
            agent.call("KOVA.TAKE", f"sliding-window.{limit}.{per_ms}", "k", "COST", limit)
            self.assertEqual(wait_of(agent.call("KOVA.TAKE", f"sliding-window.{limit}.{per_ms}", "k")), per_ms)

    def test_in_random_sequences(self):
        """Costs of every size at random instants; every refusal is checked from both sides."""
        agent = self.start(POLICIES)
        rng = random.Random(20261130)
        for p in POLICIES:
            if p["limit"] == 1:
                continue
            refusals = 0
            for step in range(60):
                self.clock.advance(
                    rng.choice((0, 1e-6, 0.001, float(p["per"][:-2]) / 1000 / p["limit"] * rng.random() * 3))
                )
                words = ("KOVA.TAKE", p["name"], "r", "COST", rng.randint(1, p["limit"]))
                reply = agent.call(*words)
                if reply[0] == 0:
                    refusals += 1
                    self.assert_exact(agent, words, reply, f"{p['name']} step {step}: {words}")
            self.assertGreater(refusals, 5, p["name"])

    def test_what_can_never_fit(self):
        agent = self.start(POLICIES + [{"name": "none", "limit": 0, "per": "1s"}])
        for p in POLICIES:
            self.assertEqual(wait_of(agent.call("KOVA.TAKE", p["name"], "n", "COST", p["limit"] + 1)), -1, p["name"])
            self.assertEqual(agent.call("KOVA.PEEK", p["name"], "n")[1], p["limit"], "and nothing was taken")
        self.assertEqual(agent.call("KOVA.TAKE", "none", "n")[:4], [0, 0, 0, -1])

    def test_whole_seconds_are_the_ceiling(self):
        self.start(
            [
                {"name": "one", "limit": 1, "per": "1s", "burst": 1},
                {"name": "slow", "limit": 3, "per": "7s", "burst": 3},
            ]
        )

        def retry(name):
            answer = self.agent.http("POST", "/v1/take", {"policy": name, "key": "k"})
            self.assertEqual(answer.status, 429)
            return int(answer.headers["Retry-After"]), answer.json()["retry_after_ms"]

        for name, count in (("one", 1), ("slow", 3)):
            self.assertEqual(
                self.agent.http("POST", "/v1/take", {"policy": name, "key": "k", "cost": count}).status, 200
            )
        self.assertEqual(retry("one"), (1, 1000), "one second, not one more")
        self.assertEqual(retry("slow"), (3, 2334))
        self.clock.advance(1e-6)
        self.assertEqual(retry("one"), (1, 1000), "rounded up")
        self.clock.advance(0.5)
        self.assertEqual(retry("one"), (1, 500))
        self.clock.advance(0.5)
        self.assertEqual(self.agent.http("POST", "/v1/take", {"policy": "one", "key": "k"}).status, 200)

    def test_reset_is_exact(self):
        """Full, or the window empty, after reset_after_ms; not a millisecond before."""
        agent = self.start(POLICIES)
        for p in POLICIES:
            with self.subTest(policy=p["name"]):
                agent.call("KOVA.TAKE", p["name"], "z", "COST", max(1, p["limit"] // 2))
                agent.call("KOVA.TAKE", p["name"], "z", "COST", 1)
                peek = agent.call("KOVA.PEEK", p["name"], "z")
                self.clock.advance((peek[4] - 1) / 1000)
                self.assertGreaterEqual(agent.call("KOVA.PEEK", p["name"], "z")[4], 1)
                self.clock.advance(0.001)
                full = agent.call("KOVA.PEEK", p["name"], "z")
                self.assertEqual((full[1], full[4]), (p["limit"], 0))


class RealTime(harness.Case):
    def test_sleeping_the_retry_after_is_enough(self):
        policies = [policy(algorithm, 3, 700) for algorithm in ALGORITHMS]
        agent = shapes.start_agents(self, "standalone", policies, count=1)[0]
        with agent.resp() as connection:
            for p in policies:
                for _ in range(4):
                    connection.call("KOVA.TAKE", p["name"], "k", "COST", 2)
                    reply = connection.call("KOVA.TAKE", p["name"], "k", "COST", 2)
                    received = time.monotonic()
                    if reply[0] == 1:
                        continue
                    while time.monotonic() < received + wait_of(reply) / 1000:
                        time.sleep(0.0002)
                    self.assertEqual(connection.call("KOVA.TAKE", p["name"], "k", "COST", 2)[0], 1, (p["name"], reply))


if __name__ == "__main__":
    harness.main()
