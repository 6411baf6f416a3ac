"""Three regions a long way from each other: in each a Redis and two agents, elsewhere a broker and two coordinators.

Everything of a region is in a network namespace of its own, and all that leaves it takes its way by tests/support/wire.c.
"""
import contextlib
import sys

import clock
import coordinator
import harness
import kafka
import mesh
import usage_topic
import wire

REGIONS = ("ap", "eu", "us")
HUB = "hub"
ONE_WAY = 0.0375  # 75 ms there and back
# What it acknowledged is written when it is killed: only `everysec` holds writes back, and the machine stays up.
KEEPS = ("--appendonly", "yes", "--appendfsync", "no", "--protected-mode", "no")
GOSSIP, RESP, HTTP, REDIS = 7414, 7411, 7412, 6379  # the same in every place: each has its own


class Case(harness.Case):
    """Start what is needed: start_redises(), start_hub(), start_agents()."""

    agents_each = 2
    floor = 0.05
    policies = ()

    def setUp(self):
        super().setUp()
        self.wire = self.keep(wire.Wire([*REGIONS, HUB], ONE_WAY))
        self.secrets = mesh.write_secrets(self.directory, mesh.SECRET)
        self.redis, self.agents, self.coordinators, self.clocks, self.broker = {}, {}, {}, {}, None

    def tearDown(self):
        with contextlib.ExitStack() as stack:
            if self.broker is not None:
                stack.callback(self.broker.stop)
            if self._failed():
                for node, daemon in self.coordinators.items():
                    sys.stderr.write(f"---- log of {node}, its end ----\n{daemon.log()[-6000:]}\n")
            self.wire.join_all()
            super().tearDown()

    # ---- the parts: each can be started again with what it left ----

    def start_redis_of(self, region):
        with self.wire.inside(region) as address:
            redis = self.keep(harness.Redis(self.subdirectory(region), REDIS, ("--bind", f"127.0.0.1 {address}", *KEEPS)))
            self.redis[region] = redis.wait_ready()

    def start_redises(self):
        for region in REGIONS:
            self.start_redis_of(region)

    def config(self, region, number):
        address, seed = self.wire.address[region], self.wire.address
        return {
            "node": f"{region}-{number}", "region": region, "policies": list(self.policies),
            "listen": {"resp": f"127.0.0.1:{RESP + 10 * number}", "http": f"127.0.0.1:{HTTP + 10 * number}"},
            "redis": {"mode": "standalone", "url": f"redis://127.0.0.1:{REDIS}", "timeout": "500ms"},
            "regions": {r: {"floor": self.floor, **({} if r == region else {"redis": {
                "mode": "standalone", "url": f"redis://{self.wire.address[r]}:{REDIS}", "timeout": "1s"}})}
                for r in REGIONS},
            **({"kafka": {"bootstrap": self.broker.bootstrap}} if self.broker else {}),
            "gossip": {"listen": f"{address}:{GOSSIP + number}", "secret_file": self.secrets,
                       "seeds": [f"{seed[place]}:{GOSSIP}" for place in seed]}}

    def start_agent_of(self, region, number, ready=True):
        name = f"{region}-{number}"
        shown = self.clocks.setdefault(name, clock.Clock(self.directory, f"clock-{name}"))
        with self.wire.inside(region):
            self.agents[region, number] = self.start_agent(self.config(region, number), ready=ready, env=shown.env(),
                                                           directory=self.subdirectory(name))

    def start_agents(self):
        for region in REGIONS:
            for number in range(self.agents_each):
                self.start_agent_of(region, number, ready=False)
        for (region, _), agent in self.agents.items():
            with self.wire.inside(region):
                agent.wait_ready()

    def start_coordinator(self, node):
        with self.wire.inside(HUB) as address:
            number = int(node[-1])
            config = {"node": node, "http": f"127.0.0.1:{HTTP + number}", "policies": list(self.policies),
                      "kafka": {"bootstrap": self.broker.bootstrap}, "state_dir": self.subdirectory(f"{node}-state"),
                      "regions": {region: {"floor": self.floor} for region in REGIONS},
                      "gossip": {"listen": f"{address}:{GOSSIP + number}", "secret_file": self.secrets,
                                 "seeds": [f"{self.wire.address[region]}:{GOSSIP}" for region in REGIONS]}}
            self.coordinators[node] = self.keep(coordinator.Coordinator(self.subdirectory(node), config))

    def start_hub(self):
        with self.wire.inside(HUB) as address:
            self.broker = kafka.Broker(host=address)
            self.broker.create_topic(usage_topic.TOPIC, 4)
            self.broker.create_topic(coordinator.ROLLUP, 1)
        for node in ("c0", "c1"):
            self.start_coordinator(node)
        with self.wire.inside(HUB):
            for daemon in self.coordinators.values():
                daemon.wait_ready()
            for daemon in self.coordinators.values():
                daemon.wait_partitions(2)

    # ---- what they say ----

    def metric(self, region, number, name, **labels):
        """The sum of the samples of `name`; None while the agent does not answer."""
        agent = self.agents[region, number]
        try:
            with self.wire.inside(region):
                return mesh.metric(agent, name, **labels) if agent.running() else None
        except OSError:
            return None

    def addresses(self, region):
        return [agent.resp_address for (r, _), agent in self.agents.items() if r == region]
