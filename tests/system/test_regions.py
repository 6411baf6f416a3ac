"""Three regions, a Redis and agents in each, and a long way between them: limits that are kept at each key's home."""
# Mostly waits.
import time

import checker
import harness
import load
import proxy
from test_home import home

REGIONS = ("ap", "eu", "us")
WEIGHTS = dict.fromkeys(REGIONS, 1)
ONE_WAY = 0.0375  # 75 ms there and back

POLICIES = [
    {"name": "small", "limit": 10, "per": "1s", "burst": 20, "scope": "home"},
    {"name": "large", "limit": 500, "per": "1s", "burst": 1000, "scope": "home"},
    {"name": "window", "algorithm": "sliding-window", "limit": 50, "per": "1s", "scope": "home"},
    {"name": "slots", "algorithm": "concurrency", "limit": 3, "hold": "30s", "scope": "home"},
    {"name": "shut", "limit": 100, "per": "1s", "burst": 100, "scope": "home", "on_outage": "deny"},
    {"name": "local", "limit": 90, "per": "1s", "burst": 90, "scope": "home"},
    {"name": "broken", "limit": 100, "per": "1s", "scope": "home", "breaker": {"failures": 2, "of": 4, "open": "30s"}},
    {"name": "safe", "limit": 100, "per": "1s", "scope": "home", "durability": "aof"},
    {"name": "here", "limit": 5, "per": "1h", "burst": 5},
]


def key_at(region, prefix="k"):
    """A key that is at home in `region`."""
    return next(f"{prefix}{i}" for i in range(1000) if home(f"{prefix}{i}".encode(), WEIGHTS) == region)


class World(harness.Case):
    delay = ONE_WAY
    reach = {region: REGIONS for region in REGIONS}

    def setUp(self):
        super().setUp()
        self.redis = {r: self.start_redis(options=["--appendonly", "yes", "--appendfsync", "always"]) for r in REGIONS}
        self.links, self.agents = {}, {}
        for region in REGIONS:
            self.agents[region] = self.start_agent(self.config(region), ready=False)
        for agent in self.agents.values():
            agent.wait_ready()

    def config(self, region):
        regions = {}
        for other in REGIONS:
            redis = {"mode": "standalone", "url": self.redis[other].url, "timeout": "2s"}
            if other != region:
                link = self.links.setdefault((region, other),
                                             self.keep(proxy.SlowProxy(self.redis[other].address, self.delay)))
                redis["url"] = link.url
            regions[other] = {"redis": redis} if other in self.reach[region] else {}
        return {"region": region, "regions": regions, "redis": regions[region]["redis"], "policies": POLICIES}

    def metric(self, agent, name):
        for line in agent.http("GET", "/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"no {name}")

    def degraded(self, agent):
        return agent.http("GET", "/readyz").json()["degraded"]


class Limits(World):
    def test_one_bucket_for_all(self):
        key = key_at("eu")
        taken = sum(self.agents[r].call("KOVA.TAKE", "small", key)[0] for r in REGIONS for _ in range(12))
        self.assertGreaterEqual(taken, 20)
        self.assertLessEqual(taken, 20 + 10 * 3)
        self.assertEqual(0, int(self.redis["us"].call("EXISTS", "k:b{%s}small:0" % key)))
        self.assertEqual(1, int(self.redis["eu"].call("EXISTS", "k:b{%s}small:0" % key)))

    def test_in_each_region_by_itself(self):
        key = key_at("eu")
        for region in REGIONS:
            self.assertEqual([1] * 5 + [0], [self.agents[region].call("KOVA.TAKE", "here", key)[0] for _ in range(6)])

    def storm(self, policy, key, seconds=6):
        addresses = [self.agents[r].resp_address for r in REGIONS]
        with load.Swarm(addresses, 12) as swarm:
            return swarm.run(seconds, ("KOVA.TAKE", policy, key))

    def test_no_bucket_is_exceeded(self):
        key = key_at("us")
        hits = self.storm("large", key)
        taken = checker.admissions(hits)
        self.assertIsNone(checker.bucket_violation(taken, 500, 1000))
        self.assertGreater(len(taken), 1000 + 0.5 * 500 * 6)

    def test_no_window_is_exceeded(self):
        hits = self.storm("window", key_at("ap"))
        taken = checker.admissions(hits)
        self.assertIsNone(checker.window_violation(taken, 50, 1.0))
        self.assertGreater(len(taken), 50 * 2)

    def test_only_the_first_pays_the_distance(self):
        agent, key = self.agents["ap"], key_at("us", "busy")
        begun = time.monotonic()
        self.assertEqual(1, agent.call("KOVA.TAKE", "large", key)[0])
        self.assertGreaterEqual(time.monotonic() - begun, 2 * ONE_WAY, "the way is long")
        self.assertEqual(1, self.metric(agent, "kova_home_far_decisions_total"))
        with load.Swarm([agent.resp_address], 4) as swarm:
            hits = swarm.run(4, ("KOVA.TAKE", "large", key), rate=60)
        self.assertTrue(all(hit.admitted for hit in hits), [h for h in hits if not h.admitted][:3])
        far, decisions = self.metric(agent, "kova_home_far_decisions_total"), len(hits) + 1
        self.assertLess(far, 0.05 * decisions, f"{far} of {decisions}")
        self.assertAlmostEqual(1 - far / decisions, self.metric(agent, "kova_home_local_ratio"))

    def test_keys_at_home_need_no_other_region(self):
        agent, key = self.agents["eu"], key_at("eu")
        with load.Swarm([agent.resp_address], 2) as swarm:
            hits = swarm.run(1, ("KOVA.TAKE", "small", key), rate=50)
        self.assertGreater(len(hits), 0)
        self.assertEqual(1, self.metric(agent, "kova_home_local_ratio"))
        self.assertEqual(0, self.metric(agent, "kova_home_far_decisions_total"))


class Commands(World):
    def test_ids_receipts_and_refunds(self):
        us, eu, key = self.agents["us"], self.agents["eu"], key_at("ap", "r")
        us.call("KOVA.TAKE", "small", key, "COST", "15")
        first = us.call("KOVA.TAKE", "small", key, "COST", "5", "ID", "a", "RECEIPT")
        again = eu.call("KOVA.TAKE", "small", key, "COST", "5", "ID", "a", "RECEIPT")
        self.assertEqual((1, 1), (first[0], again[0]))
        self.assertEqual(first[6], again[6])
        self.assertEqual(5, eu.call("KOVA.REFUND", first[6]))
        self.assertEqual(0, us.call("KOVA.REFUND", first[6]))

    def test_permits(self):
        us, eu, key = self.agents["us"], self.agents["eu"], key_at("ap", "p")
        permits = [agent.call("KOVA.ACQUIRE", "slots", key)[6] for agent in (us, eu, us)]
        self.assertEqual(0, eu.call("KOVA.ACQUIRE", "slots", key)[0])
        self.assertEqual(1, us.call("KOVA.RENEW", "slots", key, permits[1]))
        self.assertEqual(1, us.call("KOVA.RELEASE", "slots", key, permits[1]))
        self.assertEqual(1, eu.call("KOVA.ACQUIRE", "slots", key, "WAIT", "5000")[0])

    def test_waiting(self):
        us, key = self.agents["us"], key_at("ap", "w")
        for _ in range(4):
            us.call("KOVA.TAKE", "small", key, "COST", "5")
        self.assertEqual(1, us.call("KOVA.TAKE", "small", key, "COST", "5", "WAIT", "3000")[0])

    def test_peek_and_feedback(self):
        us, eu, key = self.agents["us"], self.agents["eu"], key_at("ap", "f")
        self.assertEqual(1, us.call("KOVA.PEEK", "broken", key)[0])
        for agent in (us, eu):
            agent.call("KOVA.FEEDBACK", "broken", key, "ERROR")
        self.assertEqual("breaker_open", self.agents["ap"].call("KOVA.TAKE", "broken", key)[5])

    def test_durability(self):
        self.assertEqual(1, self.agents["us"].call("KOVA.TAKE", "safe", key_at("ap"))[0])

    def test_two_homes_in_one_request(self):
        us = self.agents["us"]
        with self.assertRaisesRegex(harness.RespError, "limits kept in two regions"):
            us.call("KOVA.TAKE", "small", key_at("ap"), "AND", "small", key_at("eu"))
        with self.assertRaisesRegex(harness.RespError, "two regions"):
            us.call("KOVA.TAKE", "small", key_at("ap"), "AND", "here", "x")
        body = {"takes": [{"policy": "small", "key": key_at("ap")}, {"policy": "small", "key": key_at("eu")}]}
        self.assertEqual(400, us.http("POST", "/v1/take", body).status)
        same = (key_at("ap"), key_at("ap", "other"))
        self.assertEqual(1, us.call("KOVA.TAKE", "small", same[0], "AND", "small", same[1])[0])
        self.assertEqual(1, us.call("KOVA.TAKE", "small", key_at("us"), "AND", "here", "x")[0])


class Cut(World):
    def test_one_region_away(self):
        us, there, other = self.agents["us"], key_at("ap"), key_at("eu")
        self.assertEqual(1, us.call("KOVA.TAKE", "shut", there)[0])
        self.links["us", "ap"].kill()
        harness.wait_for(lambda: "redis@ap" in self.degraded(us), "the outage in /readyz")
        self.assertNotIn("redis", self.degraded(us))
        self.assertIn('kova_outage{part="redis@ap"} 1', us.http("GET", "/metrics").body.decode())
        self.assertIn('kova_outage{part="redis@eu"} 0', us.http("GET", "/metrics").body.decode())
        self.assertIn('kova_outage{part="redis"} 0', us.http("GET", "/metrics").body.decode())
        begun = [line for line in us.log_lines() if line["event"] == "outage_begun"]
        self.assertEqual(["ap"], sorted({line["region"] for line in begun}))
        denied = us.call("KOVA.TAKE", "shut", key_at("ap", "new"))  # `there` has a lease
        self.assertEqual((0, "outage"), (denied[0], denied[5]))
        self.assertEqual("ok", us.call("KOVA.TAKE", "shut", other)[5])
        self.assertEqual("ok", us.call("KOVA.TAKE", "shut", key_at("us"))[5])
        self.assertEqual("ok", self.agents["eu"].call("KOVA.TAKE", "shut", there)[5])

    def test_a_part_of_the_worlds_agents(self):
        us, there = self.agents["us"], key_at("ap")
        time.sleep(2.5)  # each agent was counted
        self.links["us", "ap"].kill()
        harness.wait_for(lambda: "redis@ap" in self.degraded(us), "the outage")
        with load.Swarm([us.resp_address], 4) as swarm:
            hits = swarm.run(3, ("KOVA.TAKE", "local", there))
        admitted = sum(hit.admitted for hit in hits)
        self.assertLessEqual(admitted, 30 * 3.5)
        self.assertGreater(admitted, 30 * 2)


class Unreachable(World):
    reach = {"ap": ("ap", "eu"), "eu": REGIONS, "us": ("us", "eu")}

    def test_a_region_without_redis(self):
        us, there = self.agents["us"], key_at("ap")
        denied = us.call("KOVA.TAKE", "shut", there)
        self.assertEqual((0, "outage"), (denied[0], denied[5]))
        self.assertEqual([], self.degraded(us))
        self.assertEqual("ok", us.call("KOVA.TAKE", "shut", key_at("eu"))[5])
        self.assertEqual("outage", us.call("KOVA.TAKE", "local", there)[5])
        with self.assertRaises(harness.RespError):
            us.call("KOVA.FEEDBACK", "broken", there, "ERROR")


if __name__ == "__main__":
    harness.main()
