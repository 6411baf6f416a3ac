"""Three regions a long way from each other: in each a Redis and two agents, elsewhere a broker and two coordinators.

Everything of a region is in a network namespace of its own, and all that leaves it takes its way by tests/support/wire.c.
"""
import contextlib
import sys
import time

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
KEEPS = ("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-min-size", "4mb", "--protected-mode", "no")
GRANT = 5.0  # how long a grant lasts, in seconds
GOSSIP, RESP, HTTP, REDIS = 7414, 7411, 7412, 6379  # the same in every place: each has its own


class Case(harness.Case):
    """Start what is needed: start_redises(), start_hub(), start_agents()."""

    agents_each = 2
    floor = 0.05
    policies = pools = ()

    def setUp(self):
        super().setUp()
        self.wire = self.keep(wire.Wire([*REGIONS, HUB], ONE_WAY))
        self.secrets = mesh.write_secrets(self.directory, mesh.SECRET)
        self.redis, self.agents, self.coordinators, self.clocks, self.broker = {}, {}, {}, {}, None
        self.stopped = set()  # agents that don't answer

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
            "node": f"{region}-{number}", "region": region, "policies": list(self.policies), "pools": list(self.pools),
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

    def of_region(self, region, name, **labels):
        """The most that one of its agents says: one of them reports."""
        said = [self.metric(region, n, name, **labels) for n in range(self.agents_each) if (region, n) not in self.stopped]
        return max((value for value in said if value is not None), default=None)

    def sample(self):
        """The shares of the policy `strict`."""
        return {region: self.of_region(region, "kova_global_share", policy="strict") for region in REGIONS}

    def in_touch(self):
        """The coordinators have a half each, and nearly all of the limit is shared out."""
        with self.wire.inside(HUB):
            halves = [daemon.metric("kova_coordinator_partitions") for daemon in self.coordinators.values()]
        return halves == [2, 2] and sum(share or 0 for share in self.sample().values()) >= 0.95

    def settle(self, seconds=GRANT):
        """Until all are in touch, and were for so long that what is granted was granted since."""
        since = None

        def settled():
            nonlocal since
            since = (since or time.monotonic()) if self.in_touch() else None
            time.sleep(0.2)
            return since and time.monotonic() - since >= seconds
        harness.wait_for(settled, "regions and coordinators that are in touch", 90)

    def addresses(self, region):
        return [agent.resp_address for (r, _), agent in self.agents.items() if r == region]
