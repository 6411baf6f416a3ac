"""Overrides and what a policy can be beside a limit: shadow, banned, unlimited, until a time."""
# Mostly waits.

import datetime
import time

import harness
import shapes

PLAIN = {"name": "p", "limit": 2, "per": "1h", "burst": 2}
LEVELS = {
    "name": "l",
    "levels": [
        {"name": "tenant", "limit": 10, "per": "1h", "burst": 10},
        {"name": "user", "limit": 4, "per": "1h", "burst": 4},
    ],
}
SHADOW = {"name": "s", "limit": 2, "per": "1h", "burst": 2, "shadow": True}
PERMITS = {"name": "c", "algorithm": "concurrency", "limit": 2, "hold": "30s"}
UNLIMITED = 10**9


def in_seconds(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Base(harness.Case):
    def start(self, overrides=(), shape="standalone"):
        self.agents = shapes.start_agents(self, shape, [PLAIN, LEVELS, SHADOW, PERMITS], overrides=list(overrides))
        self.resp = self.agents[0].resp()
        self.addCleanup(self.resp.close)
        return self.resp

    def put(self, **override):
        for agent in self.agents:
            answer = agent.http("PUT", "/v1/overrides", override)
            self.assertEqual(answer.status // 100, 2, answer.body)

    def take(self, *words):
        return self.resp.call("KOVA.TAKE", *words)


class Overrides(Base):
    def test_another_limit_for_a_key(self):
        self.start([{"policy": "p", "key": "big", "limit": 100, "per": "1h", "burst": 100}])
        self.assertEqual(self.take("p", "big")[:3], [1, 99, 100])
        self.assertEqual(self.take("p", "bigger")[:3], [1, 1, 2])
        self.put(policy="p", key="bigger", limit=50, per="1h", burst=50)
        self.assertEqual(self.take("p", "bigger")[2], 50)
        self.put(policy="p", key="bigger", limit=0)
        self.assertEqual(self.take("p", "bigger")[:4], [0, 0, 0, -1])

    def test_the_exact_key_wins_over_the_longest_prefix(self):
        self.start(
            [
                {"policy": "p", "prefix": "a", "limit": 10, "per": "1h", "burst": 10},
                {"policy": "p", "prefix": "abc", "limit": 30, "per": "1h", "burst": 30},
                {"policy": "p", "prefix": "ab", "limit": 20, "per": "1h", "burst": 20},
                {"policy": "p", "key": "abc", "limit": 40, "per": "1h", "burst": 40},
            ]
        )
        for key, limit in (
            ("a", 10),
            ("ax", 10),
            ("ab", 20),
            ("abx", 20),
            ("abcd", 30),
            ("abc", 40),
            ("b", 2),
            ("xabc", 2),
        ):
            self.assertEqual(self.resp.call("KOVA.PEEK", "p", key)[2], limit, key)

    def test_banned(self):
        self.start(
            [
                {"policy": "p", "key": "bad", "banned": True},
                {"policy": "l", "key": "evil", "banned": True},
                {"policy": "p", "prefix": "spam/", "banned": True},
            ]
        )
        for policy, key in (("p", "bad"), ("l", "evil"), ("l", "evil/u"), ("p", "spam/x")):
            self.assertEqual(self.take(policy, key), [0, 0, 0, -1, 0, "banned"], key)
            self.assertEqual(self.resp.call("KOVA.PEEK", policy, key)[5], "banned")
        self.assertEqual(self.take("p", "good")[0], 1)
        begun = time.monotonic()
        self.assertEqual(self.take("p", "bad", "WAIT", 20000)[5], "banned")
        self.assertLess(time.monotonic() - begun, 10, "nobody waits for a ban")
        self.assertEqual(self.take("p", "good", "AND", "p", "bad")[5], "banned")
        self.assertEqual(self.resp.call("KOVA.PEEK", "p", "good")[1], 1, "and then nothing was taken")
        answer = self.agents[0].http("POST", "/v1/take", {"policy": "p", "key": "bad"})
        self.assertEqual((answer.status, answer.json()["reason"]), (429, "banned"))

    def test_unlimited(self):
        self.start(
            [{"policy": "p", "key": "vip", "unlimited": True}, {"policy": "l", "key": "t/vip", "unlimited": True}]
        )
        for _ in range(20):
            self.assertEqual(self.take("p", "vip", "COST", 1000), [1, UNLIMITED, UNLIMITED, 0, 0, "ok"])
        # A level without a limit: the others still count.
        self.assertEqual(self.take("l", "t/vip", "COST", 8)[:3], [1, 2, 10])
        self.assertEqual(self.take("l", "t/vip", "COST", 8)[5], "limited:tenant")
        self.assertEqual(self.take("p", "vip", "AND", "p", "other")[:3], [1, 1, 2])

    def test_unlimited_gives_a_receipt_and_a_permit_as_any_admission_does(self):
        self.start([{"policy": "p", "key": "vip", "unlimited": True}, {"policy": "c", "key": "vip", "unlimited": True}])
        receipt = self.take("p", "vip", "COST", 3, "RECEIPT")[6]
        self.assertIsInstance(receipt, str)
        self.assertEqual(self.resp.call("KOVA.REFUND", receipt), 0, "nothing was taken")
        answer = self.agents[0].http("POST", "/v1/take", {"policy": "p", "key": "vip", "receipt": True}).json()
        self.assertIsInstance(answer["receipt"], str)
        reply = self.resp.call("KOVA.ACQUIRE", "c", "vip")
        self.assertIsInstance(reply[6], str)
        self.assertEqual(reply[7], 30000, "or who renews in time would never stop to renew")
        self.assertEqual(self.resp.call("KOVA.RELEASE", "c", "vip", reply[6]), 1)

    def test_of_a_level(self):
        self.start(
            [
                {"policy": "l", "key": "acme", "limit": 100, "per": "1h", "burst": 100},
                {"policy": "l", "key": "acme/alice", "limit": 50, "per": "1h", "burst": 50},
                {"policy": "l", "prefix": "acme/", "limit": 20, "per": "1h", "burst": 20},
            ]
        )
        self.assertEqual(self.take("l", "acme/alice", "COST", 40)[:3], [1, 10, 50])
        self.assertEqual(self.take("l", "acme/bob", "COST", 20)[:3], [1, 0, 20])
        self.assertEqual(self.take("l", "other/alice")[:3], [1, 3, 4])
        self.assertEqual(self.resp.call("KOVA.PEEK", "l", "acme")[1:3], [40, 100])

    def test_until(self):
        self.start()
        for what in ({"banned": True}, {"unlimited": True}, {"limit": 100, "per": "1h", "burst": 100}):
            key = f"k-{next(iter(what))}"
            self.put(policy="p", key=key, until=in_seconds(2), **what)
            reply = self.take("p", key)
            if "banned" in what:
                self.assertEqual((reply[0], reply[5]), (0, "banned"))
                self.assertTrue(0 < reply[3] <= 2010, f"by Redis's clock, as the agent knows it: {reply}")
                retry = time.monotonic() + reply[3] / 1000
            else:
                self.assertGreaterEqual(reply[2], 100)
        while time.monotonic() < retry:
            time.sleep(0.005)
        self.assertEqual(self.take("p", "k-banned")[:3], [1, 1, 2], "the ban is over when its retry_after says")
        harness.wait_for(lambda: self.resp.call("KOVA.PEEK", "p", "k-unlimited")[2] == 2, "the end of unlimited", 5)
        harness.wait_for(lambda: self.resp.call("KOVA.PEEK", "p", "k-limit")[2] == 2, "the end of the limit", 5)

    def test_until_in_the_past_is_no_override(self):
        self.start([{"policy": "p", "key": "k", "banned": True, "until": in_seconds(-10)}])
        self.assertEqual(self.take("p", "k")[:3], [1, 1, 2])

    def test_deleted(self):
        self.start([{"policy": "p", "key": "k", "banned": True}, {"policy": "p", "prefix": "x/", "banned": True}])
        agent = self.agents[0]
        self.assertEqual(agent.http("DELETE", "/v1/overrides?policy=p&key=k").status // 100, 2)
        self.assertEqual(self.take("p", "k")[0], 1)
        self.assertEqual(agent.http("DELETE", "/v1/overrides?policy=p&key=k").status, 404)
        self.assertEqual(agent.http("DELETE", "/v1/overrides?policy=p&prefix=x/").status // 100, 2)
        self.assertEqual(self.take("p", "x/y")[0], 1)

    def test_an_override_out_of_range_is_an_error(self):
        self.start()
        for wrong in (
            {"policy": "p", "key": "k", "limit": -1},
            {"policy": "p", "key": "k", "limit": 10**9 + 1, "per": "1s"},
            {"policy": "p", "key": "k", "limit": 1, "per": "500d"},
            {"policy": "p", "key": "k", "limit": 1, "burst": 0},
            {"policy": "p", "limit": 1},
            {"policy": "p", "key": "k"},
            {"policy": "p", "key": "k", "prefix": "x", "limit": 1},
            {"policy": "p", "key": "", "limit": 1},
            {"policy": "p", "key": "x" * 1025, "limit": 1},
            {"policy": "p", "key": "k", "banned": True, "unlimited": True},
            {"policy": "p", "key": "k", "banned": True, "until": "soon"},
            {"policy": "p", "key": "k", "limitt": 1},
        ):
            with self.subTest(override=wrong):
                self.assertEqual(self.agents[0].http("PUT", "/v1/overrides", wrong).status, 400)
        self.assertEqual(self.agents[0].http("GET", "/v1/overrides").json()["overrides"], [])
        self.assertEqual(self.take("p", "k")[:3], [1, 1, 2])

    def test_survive_a_restart(self):
        directory = self.subdirectory("kept")
        redis = shapes.standalone(self.start_redis())
        agent = self.start_agent({"redis": redis, "policies": [PLAIN]}, directory=directory)
        agent.http("PUT", "/v1/overrides", {"policy": "p", "key": "k", "banned": True})
        agent.http("PUT", "/v1/policies/q", {"name": "q", "limit": 5, "per": "1h", "burst": 5})
        agent.kill()
        agent = self.start_agent({"redis": redis, "policies": [PLAIN]}, directory=directory)
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k")[5], "banned", "a change that was answered is on disk")
        self.assertEqual(agent.call("KOVA.TAKE", "q", "k")[:3], [1, 4, 5])


class Shadow(Base):
    def test_it_never_refuses(self):
        self.start()
        self.assertEqual([self.take("s", "k")[5] for _ in range(2)], ["ok", "ok"])
        for _ in range(10):
            reply = self.take("s", "k")
            self.assertEqual((reply[0], reply[5]), (1, "shadow"))
        self.assertEqual(self.take("s", "n", "COST", 3)[5], "shadow")
        self.assertEqual(self.resp.call("KOVA.PEEK", "s", "n")[1], 2, "what would have been refused is not charged")

    def test_beside_a_real_limit(self):
        self.start()
        self.take("s", "k", "COST", 2)
        self.assertEqual(self.take("s", "k", "AND", "p", "k")[5], "shadow")
        self.assertEqual(self.take("s", "k", "AND", "p", "k")[0], 1)
        refused = self.take("s", "k", "AND", "p", "k")
        self.assertEqual((refused[0], refused[5]), (0, "limited:p"))

    def test_it_is_counted(self):
        self.start()
        for _ in range(5):
            self.take("s", "k")
        metrics = self.agents[0].http("GET", "/metrics").body.decode()
        self.assertIn('kova_decisions_total{policy="s",outcome="shadow"} 3', metrics)
        self.assertIn('kova_decisions_total{policy="s",outcome="allowed"} 2', metrics)

    def test_over_http(self):
        self.start()
        for reason in ("ok", "ok", "shadow"):
            answer = self.agents[0].http("POST", "/v1/take", {"policy": "s", "key": "h"})
            self.assertEqual((answer.status, answer.json()["reason"]), (200, reason))


if __name__ == "__main__":
    harness.main()
