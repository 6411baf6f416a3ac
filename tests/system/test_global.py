"""Global quotas at the agents: a region decides within its floor and what it is granted, and nothing else moves its share."""
# Mostly waits.
import json
import signal
import time

import checker
import globe
import harness
import load
import usage_topic

# Floors of 0.1: 100 a second, and 100 at once, for each region by itself.
RATE = {"name": "rate", "limit": 1000, "per": "1s", "burst": 1000, "scope": "global", "lease": "off"}
WINDOW = {"name": "window", "algorithm": "sliding-window", "limit": 100, "per": "10s", "scope": "global", "lease": "off"}
DAY = {"name": "day", "algorithm": "calendar", "limit": 1000, "per": "day", "scope": "global", "lease": "off"}
LOOSE = {**RATE, "name": "loose", "global": "loose"}


def policies(suffix):
    """Of one test's: the broker is that of all, and what others grant of a policy is followed."""
    return [{**policy, "name": policy["name"] + suffix} for policy in (RATE, WINDOW, DAY, LOOSE)]


class Regions(globe.Case):
    root, key = "r", b"r"

    def setUp(self):
        super().setUp()
        self.policies = policies(f"-{time.monotonic_ns()}")
        self.rate, self.window, self.day, self.loose = (policy["name"] for policy in self.policies)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker.create_topic(usage_topic.TOPIC, 3)
        cls.broker.create_topic(globe.GRANTS, 3, cleanup_policy="compact")

    def once_a_minute(self):
        return {"bootstrap": self.broker.bootstrap, "report": "60s"}

    def newest(self, coordinator, region, condition):
        def come():
            coordinator.read()
            report = coordinator.newest.get((region, self.rate, self.key))
            return report if report is not None and condition(report) else None
        return harness.wait_for(come, f"a report of {region}")

    def ask(self, agent, policy, times=1):
        for _ in range(times):
            agent.call("KOVA.TAKE", policy, self.root)

    def roots(self, agent, policy):
        labels = f'policy="{policy}",region="{agent.config["region"]}"'
        return {state: self.metric(agent, f'kova_quota_roots{{{labels},state="{state}"}}')
                for state in ("granted", "floor", "lent", "clipped")}

    def degraded(self, agent):
        return json.loads(agent.http("GET", "/readyz").body)["degraded"]

    def test_a_floor_is_all_without_a_coordinator(self):
        agent = self.start("eu", self.policies)
        self.assertLessEqual(self.admit(agent, self.rate, self.root, 2.0), 100 + 2.1 * 100)
        self.assertGreaterEqual(self.admit(agent, self.rate, self.root, 2.0), 150)
        self.assertEqual(self.admit(agent, self.window, self.root, 1.0), 10)
        self.assertEqual(self.admit(agent, self.day, self.root, 1.0), 100)
        self.assertEqual(self.share(agent, self.rate), 0.1)
        harness.wait_for(lambda: "share@eu" in (self.ask(agent, self.rate), self.degraded(agent))[1], "a degraded share")
        self.ask(agent, self.rate)
        self.assertEqual(json.loads(agent.http("GET", "/readyz").body)["clipped"], [self.rate])
        self.assertEqual(self.roots(agent, self.rate), {"granted": 0, "floor": 0, "lent": 0, "clipped": 1})

    def test_a_grant_raises_the_share_until_it_ends(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        for policy, parts in ((self.rate, 800), (self.window, 80), (self.day, 800)):
            self.ask(agent, policy)
            coordinator.grant("eu", policy, self.key, parts, 12)
            self.wait_share(agent, policy, 0.8)
            self.assertNotIn("share@eu", self.degraded(agent))
            self.assertEqual(self.roots(agent, policy), {"granted": 1, "floor": 0, "lent": 0, "clipped": 0})
        self.assertGreaterEqual(self.admit(agent, self.rate, self.root, 1.0), 500)
        self.assertEqual(1 + self.admit(agent, self.window, self.root, 0.5), 80)
        self.assertEqual(1 + self.admit(agent, self.day, self.root, 0.5, cost=47), 800)
        for policy in (self.rate, self.window, self.day):
            harness.wait_for(lambda p=policy: self.ask(agent, p) or self.share(agent, p) == 0.1, f"the floor of {policy}")
        self.assertLessEqual(self.admit(agent, self.rate, self.root, 2.0), 100 + 2.1 * 100)
        self.assertEqual(self.admit(agent, self.day, self.root, 0.5), 0)

    def test_a_report_says_what_is_asked_for_and_what_is_in_force(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        self.assertEqual(agent.call("KOVA.TAKE", self.day, self.root, "COST", "100")[0], 1)
        report = coordinator.report("eu", self.day, self.key, lambda r: r.used == 100)
        self.assertEqual((report.whole, report.seq, report.live, report.floor), (1000, 0, False, 100001))
        self.assertGreaterEqual(report.demand, report.used)
        self.assertGreater(report.window, 0)
        with load.Swarm([agent.resp_address], 4) as swarm:
            asked = load.Background(swarm.run, 4.0, ("KOVA.TAKE", self.rate, self.root), rate=400)
            report = coordinator.report("eu", self.rate, self.key, lambda r: r.demand > 200)
            asked = len(asked.result()) / 4.0
        self.assertLess(report.demand, asked * 2)
        self.assertGreater(self.metric(agent, f'kova_quota_demand_ratio{{policy="{self.rate}",region="eu"}}'), 0.01)
        coordinator.grant("eu", self.rate, self.key, 500, 10)
        report = coordinator.report("eu", self.rate, self.key, lambda r: r.live)
        self.assertGreater(report.seq, 0)

    def test_what_is_not_committed_is_no_grant(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        self.ask(agent, self.rate)
        coordinator.transactions.begin()
        coordinator.produce([coordinator.record("eu", self.rate, self.key, 900, 30)])
        coordinator.transactions.flush()
        time.sleep(1.5)
        self.assertEqual(self.share(agent, self.rate), 0.1)
        coordinator.transactions.abort()
        self.ask(agent, self.rate)
        time.sleep(1.0)
        self.assertEqual(self.share(agent, self.rate), 0.1)
        coordinator.grant("eu", self.rate, self.key, 300, 5)  # what comes behind it
        self.wait_share(agent, self.rate, 0.3)

    def test_records_that_are_no_grants_are_counted(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        self.ask(agent, self.rate)
        key, good = coordinator.record("eu", self.rate, self.key, 700, 60)
        coordinator.commit([(key, b"\xff\xff"), (key, good[:-1]), (b"no-key", good), (key, None),
                            coordinator.record("eu", self.rate, self.key, 2000)])
        harness.wait_for(lambda: self.metric(agent, 'kova_grants_total{outcome="malformed"}') == 4, "four that are none")
        self.assertEqual(self.share(agent, self.rate), 0.1)
        coordinator.commit([(key, good)])
        self.wait_share(agent, self.rate, 0.7)

    def test_an_old_grant_changes_nothing(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        self.ask(agent, self.rate)
        report = coordinator.report("eu", self.rate, self.key)
        coordinator.grant("eu", self.rate, self.key, 300, 20, report=report, seq=7)
        self.wait_share(agent, self.rate, 0.3)
        coordinator.grant("eu", self.rate, self.key, 900, 20, report=report, seq=7)
        coordinator.grant("eu", self.rate, self.key, 900, 20, report=report, seq=6)
        coordinator.grant("us", self.rate, self.key, 900, 20, report=report, seq=8)
        time.sleep(1.0)
        self.assertEqual(self.share(agent, self.rate), 0.3)

    def test_idle_regions_answer_and_lend(self):
        coordinator = self.start_coordinator()
        eu, us = self.start("eu", self.policies), self.start("us", self.policies)
        self.ask(eu, self.rate)
        self.assertIsNone(self.share(us, self.rate))
        coordinator.grant("eu", self.rate, self.key, 900, 5)
        report = coordinator.report("us", self.rate, self.key)
        self.assertEqual((report.demand, report.lent), (0, 0))
        coordinator.grant("us", self.rate, self.key, 100, 5, report=report)
        report = coordinator.report("us", self.rate, self.key, lambda r: r.lent > 0)
        self.assertEqual((report.lent, report.lent_epoch), (100, coordinator.epoch))
        self.assertEqual(self.share(us, self.rate), 0.1)  # by the grant
        self.wait_share(us, self.rate, 0)
        self.assertEqual(self.roots(us, self.rate), {"granted": 0, "floor": 0, "lent": 1, "clipped": 0})
        self.assertNotIn("share@us", self.degraded(us))
        refused = us.call("KOVA.TAKE", self.rate, self.root)
        self.assertEqual(refused[0], 0)
        self.assertLessEqual(refused[3], 400)  # a report and a round, not the end of the promise

    def test_a_lender_that_is_asked_tells_at_once(self):
        coordinator = self.start_coordinator()
        eu, us = self.start("eu", self.policies), self.start("us", self.policies)
        self.ask(eu, self.rate)
        coordinator.grant("eu", self.rate, self.key, 900, 20)
        coordinator.grant("us", self.rate, self.key, 100, 1)
        coordinator.report("us", self.rate, self.key, lambda r: r.lent > 0)
        self.wait_share(us, self.rate, 0)
        self.assertEqual(us.stop(), 0)
        slow = self.start("us", self.policies, kafka=self.once_a_minute(), node="2")
        report = coordinator.report("us", self.rate, self.key)
        self.assertEqual((report.demand, report.lent), (0, 100))
        caller = load.Background(slow.call, "KOVA.TAKE", self.rate, self.root, "WAIT", "20000")
        report = self.newest(coordinator, "us", lambda r: r.demand > 0)
        self.assertEqual((report.demand, report.lent), (100, 100))  # its floor
        coordinator.grant("us", self.rate, self.key, 100, 60, report=report)
        self.assertEqual(caller.result()[0], 1)

    def test_a_region_that_has_less_tells_at_once(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies, kafka=self.once_a_minute())
        for _ in range(3):
            agent.call("KOVA.TAKE", self.rate, self.root, "COST", "50")
        report = coordinator.report("eu", self.rate, self.key)
        coordinator.grant("eu", self.rate, self.key, 800, 60, report=report)
        self.wait_share(agent, self.rate, 0.8)
        coordinator.grant("eu", self.rate, self.key, 300, 60, report=report, seq=1000)
        self.assertTrue(self.newest(coordinator, "eu", lambda r: r.seq == 1000).live)

    def test_one_of_several_agents_reports(self):
        coordinator = self.start_coordinator()
        agents = [self.start("eu", self.policies, node=str(i)) for i in range(3)]
        with load.Swarm([agent.resp_address for agent in agents], 3) as swarm:
            swarm.run(1.5, ("KOVA.TAKE", self.rate, self.root), rate=300)
            coordinator.read()
            before = coordinator.count["eu", self.rate, self.key]
            asked = len(swarm.run(3.0, ("KOVA.TAKE", self.rate, self.root), rate=300)) / 3.0
            coordinator.read()
        self.assertLessEqual(coordinator.count["eu", self.rate, self.key] - before, 3.0 / 0.2 * 1.4)
        self.assertGreater(coordinator.newest["eu", self.rate, self.key].demand, asked / 2)  # of all of them
        reporter = max(agents, key=lambda agent: self.metric(agent, "kova_share_reports_total"))
        others = sum(self.metric(agent, "kova_share_reports_total") for agent in agents if agent != reporter)
        self.assertLess(others, self.metric(reporter, "kova_share_reports_total") / 3)
        reporter.kill()
        coordinator.grant("eu", self.rate, self.key, 600, 10)  # another one does from now on
        self.assertTrue(all(self.wait_share(agent, self.rate, 0.6) is None for agent in agents if agent.running()))

    def test_a_loose_region_goes_on_and_says_so(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        excess = f'kova_global_excess_bound_ratio{{policy="{self.loose}"}}'
        self.ask(agent, self.loose)
        coordinator.grant("eu", self.loose, self.key, 800, 1)
        self.wait_share(agent, self.loose, 0.8)
        self.assertEqual(self.metric(agent, excess), 0)
        harness.wait_for(lambda: abs(self.metric(agent, excess) - 0.7) < 1e-9, "an excess")
        self.assertEqual(self.share(agent, self.loose), 0.8)
        coordinator.grant("eu", self.loose, self.key, 200, 5)
        self.wait_share(agent, self.loose, 0.2)
        self.assertEqual(self.metric(agent, excess), 0)

    def test_a_loose_region_without_its_redis_has_its_part(self):
        agent = self.start("eu", self.policies)
        self.ask(agent, self.loose)
        self.redis["eu"].send_signal(signal.SIGSTOP)
        harness.wait_for(lambda: agent.call("KOVA.TAKE", self.loose, self.root)[5] == "outage", "an outage")
        self.assertEqual(agent.call("KOVA.TAKE", self.rate, self.root)[0], 0)  # strict
        admitted = self.admit(agent, self.loose, self.root, 1.0)
        self.assertGreater(admitted, 50)
        self.assertLessEqual(admitted, 100 * 1.2)  # its floor, by one agent, who began with nothing
        self.redis["eu"].send_signal(signal.SIGCONT)
        harness.wait_for(lambda: agent.call("KOVA.TAKE", self.loose, self.root)[5] != "outage", "no outage")
        self.assertLessEqual(self.admit(agent, self.loose, self.root, 1.0), 100 * 1.2)  # what was admitted is charged
        self.assertNotIn("redis_refused", agent.log())

    def test_agents_are_started_again(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        self.ask(agent, self.rate)
        coordinator.grant("eu", self.rate, self.key, 800, 8)
        self.wait_share(agent, self.rate, 0.8)
        self.assertEqual(agent.stop(), 0)
        again = self.start("eu", self.policies, node="1")
        self.ask(again, self.rate)
        self.wait_share(again, self.rate, 0.8)
        self.redis["eu"].send_signal(signal.SIGSTOP)  # its grant ends meanwhile
        time.sleep(8)
        self.redis["eu"].send_signal(signal.SIGCONT)
        harness.wait_for(lambda: self.ask(again, self.rate) or self.share(again, self.rate) == 0.1, "the floor")
        coordinator.grant("eu", self.rate, self.key, 400, 8)
        self.wait_share(again, self.rate, 0.4)

    def test_a_redis_that_forgets_begins_with_the_floor(self):
        coordinator, agent = self.start_coordinator(), self.start("eu", self.policies)
        self.ask(agent, self.rate)
        coordinator.grant("eu", self.rate, self.key, 800, 60, seq=1000)
        self.wait_share(agent, self.rate, 0.8)
        self.redis["eu"].call("FLUSHALL")
        self.wait_share(agent, self.rate, 0.1)
        coordinator.grant("eu", self.rate, self.key, 500, 10, seq=1)  # numbers begin again with another clock
        self.wait_share(agent, self.rate, 0.5)


class Versions(globe.Case):
    """Floors change while agents of both versions run: a region says the later one when the last of the earlier is gone."""

    FLOORS = {"eu": 0.8, "us": 0.2}
    LATER = {"eu": {"floor": 0.2}, "us": {"floor": 0.8}}

    def setUp(self):
        super().setUp()
        self.policies = policies(f"-{time.monotonic_ns()}")[:1]
        self.rate = self.policies[0]["name"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker.create_topic(usage_topic.TOPIC, 3)
        cls.broker.create_topic(globe.GRANTS, 3, cleanup_policy="compact")

    def start_later(self, region, node):
        return self.start(region, self.policies, node=node, regions=self.LATER, regions_version=2)

    def ask(self, *agents):
        for agent in agents:
            agent.call("KOVA.TAKE", self.rate, "r")

    def said(self, coordinator, region):
        """The version of the floors, by the region's newest report."""
        coordinator.read()
        report = coordinator.newest.get((region, self.rate, b"r"))
        return report and report.floors

    def test_an_agent_of_the_version_before_is_waited_for(self):
        coordinator = self.start_coordinator()
        earlier = self.start("eu", self.policies)
        later, alone = self.start_later("eu", "2"), self.start_later("us", "1")

        def both_say():
            self.ask(earlier, later, alone)
            self.assertIn(self.said(coordinator, "eu"), (None, 1))
            return self.said(coordinator, "us") == 2
        harness.wait_for(both_say, "the later version of the region that has none of the earlier", 30)
        self.assertEqual(self.share(later, self.rate), 0.2)  # the cut does not wait
        self.assertEqual(later.stop(), 0)
        self.redis["eu"].call("FLUSHALL")
        self.ask(earlier)  # begins with its own floor, for which no other region's has risen
        self.wait_share(earlier, self.rate, 0.8)
        self.assertEqual(self.said(coordinator, "eu"), 1)

    def test_when_the_last_is_gone_the_later_is_said(self):
        coordinator = self.start_coordinator()
        earlier = self.start("eu", self.policies)
        self.ask(earlier)
        self.assertEqual(coordinator.report("eu", self.rate, b"r").floors, 1)
        later = self.start_later("eu", "2")
        self.assertEqual(earlier.stop(), 0)
        self.ask(later)
        coordinator.report("eu", self.rate, b"r", lambda report: report.floors == 1)
        report = coordinator.report("eu", self.rate, b"r", lambda report: report.floors == 2, 30)
        self.assertEqual(report.floor, 200001)


class Away(globe.Case):
    """A broker of its own for each test: it is killed."""

    def setUp(self):
        super().setUp()
        self.broker = globe.kafka.Broker()
        self.addCleanup(self.broker.stop)

    @classmethod
    def setUpClass(cls):
        harness.Case.setUpClass()

    def test_without_kafka_the_floor_and_with_it_again_more(self):
        agent = self.start("eu", [RATE])
        self.assertGreater(agent.call("KOVA.TAKE", "rate", "k")[0], 0)
        harness.wait_for(lambda: self.share(agent, "rate") == 0.1, "a share")  # there are no topics yet
        self.broker.create_topic(globe.GRANTS, 2, cleanup_policy="compact")
        coordinator = self.start_coordinator()
        coordinator.grant("eu", "rate", b"k", 800, 15)
        self.wait_share(agent, "rate", 0.8)
        self.broker.kill()
        self.assertGreaterEqual(self.admit(agent, "rate", "k", 1.0), 400)
        # Who asks for nothing lends its floor.
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "rate", "k") and self.share(agent, "rate") == 0.1, "the floor")
        self.assertLessEqual(self.admit(agent, "rate", "k", 2.0), 100 + 2.1 * 100)
        self.broker.restart()
        agent.call("KOVA.TAKE", "rate", "k")
        coordinator.grant("eu", "rate", b"k", 600, 30)
        self.wait_share(agent, "rate", 0.6, 40)
        self.assertEqual(agent.stop(), 0)


class Together(globe.Case):
    """Two regions: what both admit is never above the limit, while a share goes to and fro as safely as it can."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker.create_topic(usage_topic.TOPIC, 3)
        cls.broker.create_topic(globe.GRANTS, 3, cleanup_policy="compact")

    def test_a_share_goes_to_and_fro(self):
        coordinator = self.start_coordinator()
        agents = [self.start("eu", [RATE]), self.start("us", [RATE])]
        with load.Swarm([agent.resp_address for agent in agents], 8) as swarm:
            background = load.Background(swarm.run, 20.0, ("KOVA.TAKE", "rate", "k"), rate=3000)
            for turn in range(6):
                region = ("eu", "us")[turn % 2]
                coordinator.grant(region, "rate", b"k", 900, 2)
                # It counts until t0 + 2 s by the region's clock, and t0 is before now.
                time.sleep(2.5)
            hits = background.result()
        self.assertEqual(load.errors(hits), [])
        admitted = checker.admissions(hits)
        self.assertIsNone(checker.bucket_violation(admitted, 1000, 1000))
        self.assertGreater(len(admitted), 9000)  # 1000 a second but for the gaps


if __name__ == "__main__":
    harness.main()
