"""Coordinators beside a real Kafka grant shares of global quotas: never more than the whole, whatever becomes of them."""
# Mostly waits.
import signal
import time

import coordinator
import harness
import kafka
import phases
import share_topic
import usage_topic

FLOORS = {"eu": 100, "us": 100, "ap": 100}
REGIONS = {name: {"floor": parts / 1000} for name, parts in FLOORS.items()}
POLICY = {"name": "world", "limit": 1000, "per": "1s", "scope": "global"}
LONG = {"duration": "30s", "margin": "900ms"}  # grants outlive a coordinator that is killed and missed after some seconds


class Case(kafka.Case):
    """A cluster and its regions for each test."""

    regions = None
    quotas = [("world", f"r{i}") for i in range(6)]

    def setUp(self):
        super().setUp()
        self.broker = type(self).broker = kafka.Broker()
        self.broker.create_topic(usage_topic.TOPIC, 4)
        self.broker.create_topic(coordinator.ROLLUP, 2)

    @classmethod
    def setUpClass(cls):
        pass

    def tearDown(self):
        super().tearDown()
        if self.regions is not None:
            self.regions.stop()
        self.broker.stop()

    def coordinate(self, node="c", ready=True, env=None, **more):
        config = {"node": node, "kafka": {"bootstrap": self.broker.bootstrap}, "policies": [POLICY], "regions": REGIONS,
                  "rollup": "500ms", **more}
        process = self.keep(coordinator.Coordinator(self.subdirectory(node), config, env=env))
        return process.wait_ready() if ready else process

    def report(self, interval=0.3, **demand):
        self.regions = share_topic.Regions(self.broker, FLOORS, self.quotas, interval)
        self.want(**demand)
        return self.regions

    def want(self, **demand):
        for share in self.regions.shares.values():
            share.demand = demand.get(share.region, 0)

    def has(self, region, parts):
        """Waits until the region has so many parts of every quota, about."""
        harness.wait_for(lambda: all(abs(share.now() - parts) <= 20 for share in self.regions.shares.values()
                                     if share.region == region), f"{region} has {parts}", 60)

    def audit(self, margin=600000):
        grants = share_topic.grants_of(self.broker.read(share_topic.GRANTS, coordinator.COMMITTED))
        audit = share_topic.Audit(1000, FLOORS, margin).add(grants, list(self.regions.reports))
        audit.check()
        return audit


class One(Case):
    def test_shares_follow_demand(self):
        daemon = self.coordinate()
        self.report(eu=2000)
        self.has("eu", 800)
        self.want(us=2000)
        self.has("us", 800)
        self.want(us=300, ap=300)
        self.has("us", 425)  # 300, a quarter more, and a third of what nobody wants
        self.has("ap", 425)
        self.assertGreater(self.audit().count(), 3 * len(self.quotas))

        def metric(region):
            return daemon.metric(f'kova_global_share{{policy="world",region="{region}"}}')
        harness.wait_for(lambda: abs(metric("us") - 425) <= 20 and abs(metric("eu") - 150) <= 20, "shares as metrics")
        self.assertEqual(daemon.metric('kova_global_excess_bound_ratio{policy="world"}'), 0)
        self.assertGreater(daemon.metric("kova_coordinator_grants_total"), 0)
        self.assertGreater(daemon.metric("kova_coordinator_take_over_seconds"), 0)
        self.assertEqual(daemon.http("/readyz").json()["taking_over"], 0)
        self.assertEqual(daemon.metric("kova_coordinator_quotas"), len(self.quotas))
        row = coordinator.rows_of(self.broker.read(coordinator.ROLLUP, coordinator.COMMITTED))[-1]
        for region, at in row["regions"].items():
            self.assertAlmostEqual(at["share"], metric(region), delta=30)
            self.assertEqual(at["floor"], 100)
            self.assertAlmostEqual(at["share"], at["floor"] + at["grant"], delta=0.001)
        self.assertLessEqual(sum(at["share"] for at in row["regions"].values()), 1000)

    def test_a_successor_counts_what_was_granted_before(self):
        daemon = self.coordinate(grant=LONG)
        self.report(interval=0.1, eu=2000)
        self.has("eu", 800)
        for silent, wants in (("eu", "us"), ("us", "ap"), ("ap", "eu")):
            self.regions.silent = {silent}  # it may go on with what it has
            self.want(**{wants: 2000})
            daemon.kill()
            daemon = self.coordinate(grant=LONG)
            time.sleep(5)
            self.regions.silent = set()
            self.has(wants, 800)
        self.assertGreaterEqual(self.audit(margin=900000).owners(), 4)


class Several(Case):
    def test_two_share_the_quotas_and_one_takes_over_from_the_other(self):
        self.report(interval=0.1, eu=2000)
        first = self.coordinate("a", grant=LONG).wait_partitions(4)
        second = self.coordinate("b", grant=LONG).wait_partitions(2)
        first.wait_partitions(2)
        self.has("eu", 800)
        first.kill()
        self.want(us=2000)
        begun = time.monotonic()
        second.wait_partitions(4)
        self.has("us", 800)
        self.assertLess(time.monotonic() - begun, 30)
        self.coordinate("a", grant=LONG).wait_partitions(2)
        self.want(ap=2000)
        self.has("ap", 800)
        self.audit(margin=900000)

    def test_others_come_and_go_and_nobody_begins_anew(self):
        self.report(interval=0.1, eu=2000)
        first = self.coordinate("a").wait_partitions(4)
        self.has("eu", 800)
        for _ in range(3):
            second = self.coordinate("b").wait_partitions(2)
            first.wait_partitions(2)
            time.sleep(1)
            self.assertEqual(second.stop(), 0)
            first.wait_partitions(4)
        self.assertNotRegex(first.log(), "session_failed.*")
        self.assertEqual(first.metric("kova_coordinator_failures_total"), 0)
        self.has("eu", 800)
        self.audit()


class Phases(Case):
    """Two coordinators; one is killed, or sleeps until it has been replaced, at each point of a transaction with grants."""

    def setUp(self):
        super().setUp()
        self.point = phases.Point(self.directory)
        self.report(interval=0.1, eu=2000)
        self.first = self.coordinate("a", env=self.point.env(), grant=LONG).wait_partitions(4)
        self.second = self.coordinate("b", grant=LONG).wait_partitions(2)
        self.first.wait_partitions(2)
        self.has("eu", 800)

    def hit(self, name, number):
        self.regions.silent = {"eu"}  # it goes on with what it has
        self.point.arm(name, number)
        self.want(us=2000)
        self.point.wait()
        self.second.wait_partitions(4)
        time.sleep(2)
        self.regions.silent = set()

    def killed(self, name):
        self.hit(name, signal.SIGKILL)
        self.has("us", 800)
        self.audit(margin=900000)

    def slept(self, name):
        self.hit(name, signal.SIGSTOP)
        self.first.send_signal(signal.SIGCONT)
        self.first.wait_partitions(2)
        self.has("us", 800)
        self.assertRegex(self.first.log(), "session_failed|partitions_lost")
        self.audit(margin=900000)


for _name in phases.NAMES:
    for _kind in ("killed", "slept"):
        setattr(Phases, f"test_{_kind}_{_name.replace(' ', '_')}",
                lambda self, name=_name, kind=_kind: getattr(self, kind)(name))


if __name__ == "__main__":
    harness.main()
