"""Committed grants come by gossip where a region can't read them in Kafka; and where none come, each region has its floor."""
# Mostly waits.
import time

import coordinator
import globe
import harness
import kafka
import load
import mesh
import proxy
import usage_topic

POLICY = {"name": "rate", "limit": 1000, "per": "1s", "burst": 1000, "scope": "global", "lease": "off"}
GRANT = {"duration": "4s", "margin": "600ms"}
FLOOR = 0.1


class GossipGrants(globe.Case):
    @classmethod
    def setUpClass(cls):
        harness.Case.setUpClass()

    def setUp(self):
        super().setUp()
        self.proxy = self.keep(proxy.KafkaProxy())
        self.broker = kafka.Broker(proxy=self.proxy)
        self.addCleanup(self.broker.stop)
        self.broker.create_topic(usage_topic.TOPIC, 3)
        self.broker.create_topic(coordinator.ROLLUP, 1)
        self.secrets = mesh.write_secrets(self.directory, mesh.SECRET)
        self.ports = {node: harness.free_port() for node in ("eu-1", "us-1", "c")}
        self.hot = "eu"
        self.over = False

    def gossip(self, node):
        return {"listen": f"127.0.0.1:{self.ports[node]}", "secret_file": self.secrets,
                "seeds": [f"127.0.0.1:{port}" for other, port in self.ports.items() if other != node]}

    def coordinate(self, **more):
        config = {"node": "c", "kafka": {"bootstrap": self.broker.bootstrap}, "policies": [POLICY], "grant": GRANT,
                  "regions": {region: {"floor": FLOOR} for region in self.FLOORS}, "state_dir": self.subdirectory("c-state"),
                  **more}
        return self.keep(coordinator.Coordinator(self.subdirectory("c"), config)).wait_ready()

    def ask(self):
        """All the time, in one region for all of the limit, in the other one for a little."""
        while not self.over:
            for region, (agent,) in self.agents.items():
                agent.call("KOVA.TAKE", "rate", "k", "COST", "100" if region == self.hot else "1")
            time.sleep(0.02)

    def move(self, region):
        self.hot = region
        self.wait_most(region)

    def wait_most(self, region):
        harness.wait_for(lambda: (self.share(self.agents[region][0], "rate") or 0) >= 0.7, f"most for {region}", 60)

    def applied(self, region):
        return self.metric(self.agents[region][0], "kova_grants_applied_total")

    def taken(self, region):
        return mesh.metric(self.agents[region][0], "kova_gossip_grants_total", fate="taken")

    def test_regions_go_on_by_gossip_and_without_any_grants_by_their_floors(self):
        daemon = self.coordinate(gossip=self.gossip("c"))
        for region in self.FLOORS:
            self.start(region, [POLICY], gossip=self.gossip(f"{region}-1"),
                       kafka={"bootstrap": self.proxy.bootstrap, "report": self.REPORT})
        callers = load.Background(self.ask)
        self.addCleanup(lambda: setattr(self, "over", True))
        self.wait_most("eu")
        self.assertGreater(self.proxy.passed[self.proxy.FETCH], 0)

        self.proxy.refused = {self.proxy.FETCH}  # they report, and read nothing
        harness.wait_for(lambda: self.taken("us") > 0, "grants by gossip")
        fetches = self.proxy.passed[self.proxy.FETCH]
        self.move("us")
        before = self.applied("us")
        harness.wait_for(lambda: self.applied("us") >= before + 4, "grants that go on", 60)
        self.assertGreaterEqual(self.share(self.agents["us"][0], "rate"), 0.7)
        self.assertEqual(self.proxy.passed[self.proxy.FETCH], fetches)

        self.proxy.is_away = True  # now there is nothing to grant upon
        for (agent,) in self.agents.values():
            harness.wait_for(lambda a=agent: self.share(a, "rate") == FLOOR, "its floor", 60)
            self.assertGreater(self.admit(agent, "rate", "k", 1.0, cost=10), 0)

        self.proxy.is_away, self.proxy.refused = False, set()
        daemon.stop()
        self.coordinate()  # without gossip: by Kafka
        taken = [self.taken(region) for region in self.FLOORS]
        self.move("eu")
        self.assertEqual([self.taken(region) for region in self.FLOORS], taken)
        self.over = True
        callers.result()


if __name__ == "__main__":
    harness.main()
