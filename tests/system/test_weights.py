"""`"weights": "history"`: what the children of a limit consumed makes their weights, on every agent, by the coordinator and gossip."""
# Mostly waits.
import os
import time

import coordinator
import harness

POLICY = {"name": "api", "weights": "history",
          "levels": [{"name": "tenant", "limit": 400, "per": "1s", "burst": 400},
                     {"name": "user", "limit": 100000, "per": "1s", "burst": 100000, "weight": 1}]}


class Weights(coordinator.Case):
    def setUp(self):
        super().setUp()
        self.ports = {}
        self.secrets = os.path.join(self.directory, "gossip-secrets")
        with open(self.secrets, "w", encoding="ascii") as file:
            file.write("a secret that all of these share\n")

    def gossip(self, node, seed=None):
        self.ports.setdefault(node, harness.free_port())
        return {"listen": f"127.0.0.1:{self.ports[node]}", "secret_file": self.secrets,
                "seeds": [f"127.0.0.1:{self.ports[seed]}"] if seed else []}

    def agent(self, node, seed=None, **more):
        return self.start_agent({"node": node, "region": "eu", "policies": [POLICY], "gossip": self.gossip(node, seed),
                                 "redis": {"mode": "standalone", "url": self.redis.url},
                                 "kafka": {"bootstrap": self.broker.bootstrap, "report": "100ms"}, **more},
                                directory=self.subdirectory(node))

    def weigh(self, node="c", **more):
        return self.coordinate(node, gossip=self.gossip(node, "n"), state_dir="state", policies=[POLICY],
                               weights={"half_life": "1h", "every": "300ms"}, **more)

    def consume(self, agent, seconds, **per_turn):
        """So many of each user five times a second, which is all admitted once the burst is back."""
        time.sleep(1.5)
        until = time.monotonic() + seconds
        with agent.resp() as connection:
            while time.monotonic() < until:
                replies = connection.pipeline([("KOVA.TAKE", "api", f"acme/{user}", "COST", str(count))
                                               for user, count in per_turn.items()])
                self.assertEqual({reply[0] for reply in replies}, {1})
                time.sleep(0.2)

    def ratio(self, agent, one="gold", other="iron", seconds=2):
        """What `one` gets beside `other` where both ask for far more than there is, once the burst is gone."""
        admitted, began = {one: 0, other: 0}, time.monotonic()
        with agent.resp() as connection:
            while time.monotonic() < began + 1 + seconds:
                asked = [user for _ in range(25) for user in (one, other)]
                replies = connection.pipeline([("KOVA.TAKE", "api", f"acme/{user}", "COST", "1") for user in asked])
                for user, reply in zip(asked, replies):
                    admitted[user] += reply[0] if time.monotonic() > began + 1 else 0
                time.sleep(0.01)
        return admitted[one] / admitted[other]

    def wait_ratio(self, agent, expected, **how):
        harness.wait_for(lambda: abs(self.ratio(agent, **how) / expected - 1) < 0.15, f"a ratio of {expected}", 60)

    def test_consumption_makes_weights_on_every_agent(self):
        first, second = self.agent("n"), self.agent("m", seed="n")
        self.wait_ratio(first, 1)
        self.consume(first, 6, gold=45, iron=5)
        daemon = self.weigh()
        self.consume(first, 14, gold=45, iron=5)
        ratio = self.ratio(second)
        self.assertGreater(ratio, 2.5)
        self.assertLess(ratio, 10)
        # An operator's word goes before history.
        for user, weight in (("gold", 1), ("iron", 3)):
            answer = first.http("PUT", "/v1/overrides", {"policy": "api", "key": f"acme/{user}", "weight": weight})
            self.assertEqual(answer.status, 200)
        self.wait_ratio(second, 1 / 3)
        self.assertEqual(daemon.stop(), 0)

    def test_another_coordinator_goes_on_with_what_was_kept(self):
        agent, daemon = self.agent("n"), self.weigh()
        self.consume(agent, 14, gold=45, iron=5)
        self.assertGreater(self.ratio(agent), 2.5)
        daemon.kill()
        kept = self.broker.read("kova.history.v1", coordinator.COMMITTED)
        self.assertEqual({record.key for record in kept}, {b"api/acme"})
        self.weigh("d")
        self.consume(agent, 7, gold=20, iron=20)  # far less than what was consumed before
        self.assertGreater(self.ratio(agent), 2)


if __name__ == "__main__":
    harness.main()
