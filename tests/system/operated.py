"""What an operator looks at: an agent of each of two regions and a coordinator, with every part that has metrics, under a little load."""
import contextlib
import itertools
import threading

import coordinator
import harness
import kafka
import load
import mesh
import usage_topic

POLICIES = [
    {"name": "own", "limit": 10, "per": "1s", "burst": 10, "wait": {"max_queue": 10, "max_wait": "30s"}},
    {"name": "leased", "limit": 100000, "per": "1s", "lease": {"max": 1000, "ttl": "500ms"}},
    {"name": "far", "limit": 1000, "per": "1s", "scope": "home"},
    {"name": "strict", "limit": 1000, "per": "1s", "scope": "global", "global": "strict"},
    {"name": "loose", "limit": 1000, "per": "1s", "scope": "global", "global": "loose"},
]
POOL = {"threshold": 2, "cooldown": {"base": "200ms", "jitter": 0},
        "endpoints": [{"id": "dc-1", "url": "http://127.0.0.1:9"}, {"id": "dc-2", "url": "http://127.0.0.2:9"},
                      {"id": "up", "url": "http://127.0.0.3:9", "tier": 2}]}
# Endpoints of the one come back, those of the other stay away: their probes fail.
POOLS = [{"name": "exits", **POOL},
         {"name": "probed", **POOL, "health": {"url": "http://127.0.0.1:9/", "every": "100ms", "timeout": "100ms"}}]
REGIONS = ("eu", "us")


class Case(harness.Case):
    report = "1s"  # of pools' numbers

    def setUp(self):
        super().setUp()
        self.broker = kafka.Broker()
        self.addCleanup(self.broker.stop)
        self.broker.create_topic(usage_topic.TOPIC, 2)
        self.redis = {region: self.start_redis() for region in REGIONS}
        self.gossip = {node: f"127.0.0.1:{harness.free_port()}" for node in (*REGIONS, "c")}
        self.secrets = mesh.write_secrets(self.directory, mesh.SECRET)
        self.agents = {region: self.start_agent(self.config(region), ready=False) for region in REGIONS}
        self.coordinator = self.keep(coordinator.Coordinator(self.subdirectory("c"), self.coordinator_config()))
        for agent in self.agents.values():
            agent.wait_ready()
        self.coordinator.wait_ready()

    def shared(self, node):
        regions = {region: {"redis": {"mode": "standalone", "url": redis.url}}
                   for region, redis in self.redis.items()}
        return {"node": node, "regions": regions, "policies": POLICIES,
                "kafka": {"bootstrap": self.broker.bootstrap},
                "gossip": {"listen": self.gossip[node], "secret_file": self.secrets, "seeds": list(self.gossip.values())}}

    def config(self, region):
        config = self.shared(region)
        pools = [{**pool, "report": self.report} for pool in POOLS]
        return {**config, "region": region, "pools": pools, "redis": config["regions"][region]["redis"],
                "kafka": {**config["kafka"], "report": "200ms"}}

    def coordinator_config(self):
        return {**self.shared("c"), "rollup": "200ms", "drift": {"every": "200ms"},
                "state_dir": self.subdirectory("c-state")}

    def use(self, agent):
        """Something of each that is counted, refusals and a failing endpoint among it."""
        with agent.resp() as connection:
            connection.pipeline([("KOVA.TAKE", "own", f"k{i % 2}") for i in range(30)])
            connection.pipeline([("KOVA.TAKE", "leased", "hot") for _ in range(200)])
            connection.pipeline([("KOVA.TAKE", policy, f"r{i}", "COST", "5") for i in range(10)
                                 for policy in ("far", "strict", "loose")])
            connection.call("KOVA.FEEDBACK", "own", "k0", "OK")
            for pool, tier in itertools.product((pool["name"] for pool in POOLS), (1, 1, 1, 1, 2)):
                reply = connection.call("KOVA.POOL.NEXT", pool, "TIER", str(tier))
                given = dict(zip(reply[::2], reply[1::2]))
                if given["ticket"]:
                    outcome = "refused" if given["endpoint"] == "dc-1" and not given["trial"] else "ok"
                    connection.call("KOVA.POOL.REPORT", pool, given["ticket"], outcome)

    @contextlib.contextmanager
    def in_use(self):
        ended = threading.Event()

        def use():
            while not ended.wait(0.1):
                for agent in self.agents.values():
                    self.use(agent)

        user = load.Background(use)
        try:
            yield
        finally:
            ended.set()
        user.result()
