"""A change of the regions: keys move to another home, while agents of both versions ask, and never get more than their limits."""
# Bears others.
import time

import checker
import harness
import load
from test_home import home

REGIONS = ("ap", "eu", "us")
FIRST = {"ap": 0, "eu": 1, "us": 1}
SECOND = {"ap": 1, "eu": 1, "us": 1}
VERSIONS = (FIRST, SECOND, FIRST)

POLICIES = [
    {"name": "hour", "limit": 10, "per": "1h", "burst": 20, "scope": "home"},
    {"name": "gcra", "algorithm": "gcra", "limit": 10, "per": "1h", "burst": 20, "scope": "home"},
    {"name": "day", "algorithm": "calendar", "limit": 20, "per": "month", "scope": "home"},
    {"name": "log", "algorithm": "sliding-window", "limit": 20, "per": "1h", "scope": "home"},
    {"name": "counter", "algorithm": "sliding-counter", "limit": 20, "per": "1h", "scope": "home"},
    {"name": "large", "limit": 300, "per": "1s", "burst": 600, "scope": "home", "lease": {"ttl": "1s"}},
    {"name": "window", "algorithm": "sliding-window", "limit": 400, "per": "2s", "scope": "home", "lease": {"ttl": "1s"}},
    {"name": "slots", "algorithm": "concurrency", "limit": 3, "hold": "1m", "scope": "home"},
    {"name": "tree", "scope": "home", "levels": [{"name": "tenant", "limit": 10, "per": "1h", "burst": 20},
                                                {"name": "user", "limit": 10, "per": "1h", "burst": 15}]},
    {"name": "shut", "limit": 100, "per": "1s", "scope": "home", "on_outage": "deny"},
    {"name": "fragile", "limit": 10, "per": "1s", "scope": "home", "breaker": {"failures": 1, "of": 1, "open": "10m"}},
    {"name": "here", "limit": 10, "per": "1h", "burst": 20},
]


def key_that(was, comes, prefix="k"):
    """A key that is at home in `was` by the first version and in `comes` by the second."""
    return next(key for key in (f"{prefix}{i}" for i in range(1000))
                if home(key.encode(), FIRST) == was and home(key.encode(), SECOND) == comes)


class Moving(harness.Case):
    def setUp(self):
        super().setUp()
        self.redis = {r: self.start_redis() for r in REGIONS}

    def reach(self, region):
        return {"mode": "standalone", "url": self.redis[region].url, "timeout": "2s"}

    def agent(self, version, region="us", weights=None, **changed):
        weights = weights or VERSIONS[version - 1]
        regions = {r: {"redis": self.reach(r), "weight": weights[r]} for r in REGIONS}
        before = [VERSIONS[i] for i in range(version - 1)][::-1]
        return self.start_agent({"region": region, "regions": regions, "redis": regions[region]["redis"],
                                 "regions_version": version, "regions_before": before, "policies": POLICIES, **changed})

    def take(self, agent, policy, key, n):
        """Takes n times, waiting while the key is on its way; how many were admitted."""
        with agent.resp() as connection:
            return sum(connection.call("KOVA.TAKE", policy, key, "WAIT", "500")[0] for _ in range(n))

    def arrive(self, agent, policy, key):
        harness.wait_for(lambda: agent.call("KOVA.TAKE", policy, key)[0] == 1, "a key that has arrived")


class Carried(Moving):
    def test_what_was_used_is_used(self):
        old, new = self.agent(1), self.agent(2)
        for policy in ("hour", "gcra", "day", "log", "counter"):
            with self.subTest(policy):
                key = key_that("eu", "ap", policy)
                self.assertEqual(13, self.take(old, policy, key, 13))
                self.assertEqual(7, self.take(new, policy, key, 12))
                self.assertEqual((0, "held"), tuple(old.call("KOVA.TAKE", policy, key)[i] for i in (0, 5)))
                self.assertEqual(0, self.take(self.agent(2, "eu"), policy, key, 2), "an agent that knows nothing yet")

    def test_an_untouched_key_begins_full(self):
        new = self.agent(2)
        self.assertEqual(20, self.take(new, "hour", key_that("us", "ap"), 25))

    def test_others_stay(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "eu")
        self.assertEqual(13, self.take(old, "hour", key, 13))
        self.assertEqual(1, new.call("KOVA.TAKE", "hour", key)[0])
        self.assertEqual(1, old.call("KOVA.TAKE", "hour", key)[0])
        self.assertEqual(20, self.take(new, "here", key_that("eu", "ap"), 25))

    def test_each_level(self):
        old, new, tenant = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual(12, self.take(old, "tree", tenant + "/a", 12))
        self.assertEqual(3, self.take(new, "tree", tenant + "/a", 6))
        self.assertEqual(0, self.take(old, "tree", tenant + "/b", 1), "the tenant has left")
        self.assertEqual(5, self.take(new, "tree", tenant + "/b", 8))

    def test_permits(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual([1, 1], [old.call("KOVA.ACQUIRE", "slots", key)[0] for _ in range(2)])
        with new.resp() as connection:
            taken = [connection.call("KOVA.ACQUIRE", "slots", key, "WAIT", "500")[0] for _ in range(2)]
        self.assertEqual([1, 0], taken)
        self.assertEqual(0, old.call("KOVA.ACQUIRE", "slots", key)[0])

    def test_and_back_again(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual(5, self.take(old, "hour", key, 5))
        self.assertEqual(5, self.take(new, "hour", key, 5))
        latest = self.agent(3)
        self.assertEqual(10, self.take(latest, "hour", key, 15))
        for agent in (new, self.agent(2), latest):
            self.assertEqual(0, self.take(agent, "hour", key, 3))

    def test_those_who_know_less_do_not_disturb(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual(2, self.take(new, "hour", key, 2))
        latest = self.agent(3, threads=1)  # each loop learns for itself that a key has arrived
        self.assertEqual(2, self.take(latest, "hour", key, 2))
        late = self.agent(2)
        for _ in range(8):
            for agent in (new, late):
                self.assertEqual(0, self.take(agent, "hour", key, 1))
            self.assertEqual(1, latest.call("KOVA.TAKE", "hour", key)[0])
            self.assertEqual(1, old.call("KOVA.TAKE", "hour", key)[0])

    def test_an_id_is_charged_once(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual(1, old.call("KOVA.TAKE", "hour", key, "ID", "once")[0])
        self.arrive(new, "hour", key)
        repeated = new.call("KOVA.TAKE", "hour", key, "ID", "once")
        self.assertEqual((0, "limited:hour"), (repeated[0], repeated[5]))
        self.assertGreater(repeated[3], 30000)
        self.assertLessEqual(repeated[3], 60000)
        self.assertEqual(1, new.call("KOVA.TAKE", "hour", key)[0])

    def test_a_hold_is_kept(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual("OK", old.call("KOVA.FEEDBACK", "hour", key, "ERROR", "STATUS", "429", "RETRYAFTER", "600"))
        self.assertEqual(0, self.take(new, "hour", key, 3))
        harness.wait_for(lambda: new.call("KOVA.TAKE", "hour", key)[3] > 500000, "a wait for the end of the hold")

    def test_an_open_breaker_is_waited_for(self):
        old, new, key = self.agent(1), self.agent(2), key_that("eu", "ap")
        self.assertEqual("OK", old.call("KOVA.FEEDBACK", "fragile", key, "ERROR"))
        self.assertEqual(0, self.take(new, "fragile", key, 3))
        harness.wait_for(lambda: new.call("KOVA.TAKE", "fragile", key)[3] > 500000, "a wait for the end of the breaker's time")

    def test_a_hold_at_the_home_is_no_move(self):
        new, key = self.agent(2), key_that("eu", "ap")
        self.arrive(new, "hour", key)
        self.assertEqual("OK", new.call("KOVA.FEEDBACK", "hour", key, "ERROR", "STATUS", "429", "RETRYAFTER", "600"))
        for _ in range(4):
            self.assertEqual((0, "held"), tuple(new.call("KOVA.TAKE", "hour", key)[i] for i in (0, 5)))

    def test_permits_back_again(self):
        agents, key = [self.agent(version) for version in (1, 2, 3)], key_that("eu", "ap")
        taken = []
        for agent, tries in zip(agents, (1, 1, 3)):
            with agent.resp() as connection:
                taken.append(sum(connection.call("KOVA.ACQUIRE", "slots", key, "WAIT", "500")[0] for _ in range(tries)))
        self.assertEqual([1, 1, 1], taken)


class Contradicted(Moving):
    def decides(self, agent):
        return agent.call("KOVA.TAKE", "shut", key_that("eu", "eu"))[5] != "outage"

    def is_refused(self, agent):
        self.assertFalse(self.decides(agent))
        self.assertIn("regions", agent.http("GET", "/readyz").json()["degraded"])
        self.assertEqual([1], [line["regions_version"] for line in agent.log_lines() if line["event"] == "regions_contradicted"][:1])
        self.assertEqual(1, agent.call("KOVA.TAKE", "here", "k")[0], "limits of the region itself")

    def test_a_version_before_that_was_forgotten(self):
        old = self.agent(1)
        self.is_refused(self.agent(2, regions_before=[]))
        self.assertTrue(self.decides(old))

    def test_a_version_before_with_other_weights(self):
        self.agent(1)
        self.is_refused(self.agent(2, regions_before=[{"eu": 2, "us": 1}]))

    def test_other_weights_by_the_same_version(self):
        self.agent(1)
        self.is_refused(self.agent(1, weights=SECOND))

    def test_versions_that_agree(self):
        for version in (2, 3, 1, 2):
            agent = self.agent(version)
            harness.wait_for(lambda: self.decides(agent), "a decision")
            self.assertEqual([], agent.http("GET", "/readyz").json()["degraded"])


class Storm(Moving):
    def storm(self, policy):
        key = key_that("eu", "ap", policy)
        agents = [self.agent(1, "eu"), self.agent(1, "us")]
        with load.Swarm([a.resp_address for a in agents], 4) as before:
            running = load.Background(before.run, 9, ("KOVA.TAKE", policy, key))
            time.sleep(2)
            agents += [self.agent(2, "ap"), self.agent(2, "eu")]
            with load.Swarm([a.resp_address for a in agents[2:]], 4) as after:
                hits = after.run(6, ("KOVA.TAKE", policy, key))
            stale = running.result()
        admitted = sum(hit.admitted for hit in hits)
        self.assertGreaterEqual(admitted, 400, "the new home decides")
        self.assertIn("held", {hit.reason for hit in stale}, "the old one does not")
        return checker.admissions(hits + stale)

    def test_a_bucket_with_leases(self):
        self.assertIsNone(checker.bucket_violation(self.storm("large"), 300, 600))

    def test_a_window_with_leases(self):
        self.assertIsNone(checker.window_violation(self.storm("window"), 400, 2.0))


class Unreachable(Moving):
    def test_an_earlier_home_that_is_away(self):
        key, other = key_that("eu", "ap"), key_that("us", "ap")
        self.redis["eu"].kill()
        new = self.agent(2)
        self.assertEqual(0, self.take(new, "shut", key, 3))
        self.assertEqual("outage", new.call("KOVA.TAKE", "shut", key)[5])
        self.arrive(new, "shut", other)

    def test_one_that_is_dead(self):
        key = next(k for k in (f"k{i}" for i in range(1000)) if home(k.encode(), FIRST) == "eu")
        self.redis["eu"].kill()
        weights = {"ap": 1, "eu": 0, "us": 1}
        regions = {r: {"redis": self.reach(r), "weight": w} for r, w in weights.items()}
        regions["eu"]["dead"] = True
        agent = self.start_agent({"region": "us", "regions": regions, "regions_version": 2, "regions_before": [FIRST],
                                  "redis": regions["us"]["redis"], "policies": POLICIES})
        self.assertEqual(20, self.take(agent, "hour", key, 22))


if __name__ == "__main__":
    harness.main()
