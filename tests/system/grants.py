"""Coordinators that grant shares of a global quota to three regions, which a test plays."""
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
        self.addCleanup(self.broker.stop)  # also where the rest can't be set up
        self.broker.create_topic(usage_topic.TOPIC, 4)
        self.broker.create_topic(coordinator.ROLLUP, 2)

    @classmethod
    def setUpClass(cls):
        pass

    def tearDown(self):
        super().tearDown()
        if self.regions is not None:
            self.regions.stop()

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


class Phase(Case):
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
