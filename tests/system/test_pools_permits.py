"""An endpoint and its permits in one step: which calls are one, that agents killed under load leave neither without the other, and all else as apart."""
import json
import random
import signal
import socket
import struct
import threading
import time
from collections import Counter

import harness
from harness import Resp, RespError

ENDPOINTS = [{"id": f"k{i}", "key": f"secret-{i}", "group": f"g{i % 4}"} for i in range(8)] + [{"id": f"own{i}", "key": f"s-{i}"} for i in range(4)]
HOLDERS = [f"g{i}" for i in range(4)] + [f"own{i}" for i in range(4)]
MANY = 1_000_000
POLICIES = [{"name": "account", "limit": MANY, "per": "400d", "burst": MANY},
            {"name": "target", "algorithm": "sliding-window", "limit": MANY, "per": "1d"},
            {"name": "worker", "algorithm": "calendar", "limit": MANY, "per": "month", "tz": "UTC"},
            {"name": "small", "limit": 2, "per": "1h", "burst": 2}, {"name": "paths", "limit": 5, "per": "1h", "burst": 5}]


class Permits(harness.Case):
    def start(self, *pools, policies=(), **more):
        self.redis = getattr(self, "redis", None) or self.start_redis()
        return self.start_agent({"redis": {"mode": "standalone", "url": self.redis.url}, "pools": list(pools),
                                 "policies": [*POLICIES, *policies], **more})

    def connect(self, agent):
        client = Resp(agent.resp_address)
        self.addCleanup(client.close)
        return client

    def next(self, client, *options, pool="x"):
        reply = client.call("KOVA.POOL.NEXT", pool, *options)
        return dict(zip(reply[::2], reply[1::2]))

    def calls(self):
        """Of scripts, so far."""
        text = self.redis.call("INFO", "commandstats")
        text = text.decode() if isinstance(text, bytes) else text
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in text.splitlines() if line.startswith("cmdstat_evalsha:"))

    def scripts_of(self, client, *options, pool="x"):
        self.next(client, *options, pool=pool)  # Redis knows the scripts
        counts = []
        for _ in range(5):  # beside those that the agent makes for itself now and then
            before = self.calls()
            given = self.next(client, *options, pool=pool)
            counts.append(self.calls() - before)
            self.assertIsNone(given["paused"], given)
        return min(counts)


class Gone(Permits):
    def test_who_leaves_before_redis_is_asked_takes_nothing(self):
        """More calls than may be under way at once wait in the agent; their callers leave before these are sent."""
        agent = self.start({"name": "x", "kind": "key", "permit": "account", "endpoints": ENDPOINTS})
        clients = [self.connect(agent) for _ in range(12)]
        with agent.resp() as client:
            self.assertEqual(client.call("KOVA.POOL.REPORT", "x", self.next(client)["ticket"], "ok"), "OK")
        self.redis.send_signal(signal.SIGSTOP)
        for client in clients:
            client.send("KOVA.POOL.NEXT", "x")
            time.sleep(0.05)
        for client in clients:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset: nobody reads
            client.close()
        time.sleep(0.3)
        self.redis.send_signal(signal.SIGCONT)
        with agent.resp() as client:
            harness.wait_for(lambda: not any(endpoint["in_flight"] for endpoint in self.endpoints(agent)), "nothing in flight", 30)
            self.assertIsNotNone(self.next(client)["ticket"])

    def endpoints(self, agent):
        return json.loads(agent.http("GET", "/v1/pools/x").body)["endpoints"]


class WhichWay(Permits):
    def test_one_step_where_redis_alone_has_a_say(self):
        paths = {"name": "hier", "levels": [{"name": "a", "limit": MANY, "per": "1h", "burst": MANY},
                                            {"name": "b", "limit": MANY, "per": "1h", "burst": MANY, "weight": 1}]}
        plan = {"name": "plan", "plan": {"slots": 100, "hold": "1m"}}
        agent = self.start({"name": "x", "kind": "key", "permit": "account", "target_policy": "target", "endpoints": ENDPOINTS},
                           {"name": "planned", "kind": "key", "permit": "plan", "endpoints": ENDPOINTS},
                           {"name": "weighed", "kind": "key", "permit": "hier", "endpoints": ENDPOINTS},
                           {"name": "durable", "kind": "key", "permit": "safe", "endpoints": ENDPOINTS},
                           policies=[paths, plan, {"name": "safe", "limit": MANY, "per": "1h", "burst": MANY, "durability": "aof"}],
                           overrides=[{"policy": "small", "key": "other", "limit": 9, "per": "1h", "burst": 9}])
        client = self.connect(agent)
        for n, options in ((1, ()), (1, ("TARGET", "t")), (1, ("TARGET", "t", "TAKE", "worker", "w", "COST", "2")),
                           (1, ("TAKE", "hier", "a/b", "TAKE", "worker", "v", "SESSION", "s")),
                           (2, ("TAKE", "account", "somebody"))):  # of one policy: it may be the same bucket
            with self.subTest(options=options):
                self.assertEqual(self.scripts_of(client, *options), n)
        self.assertEqual(self.scripts_of(client, pool="planned"), 1)
        self.assertEqual(self.scripts_of(client, pool="weighed"), 2)  # it is one of the children of a level
        agent.http("PUT", "/v1/overrides", {"policy": "account", "key": "g1", "limit": MANY, "per": "1h", "burst": MANY})
        self.assertEqual(self.scripts_of(client), 2)

    def test_a_cluster(self):
        cluster = self.start_cluster()
        pools = [{"name": name, "kind": "key", "permit": "account", "endpoints": [{"id": "a", "key": "k", "group": group}]}
                 for name, group in (("acct", "acct"), ("other", "acct"))]
        agent = self.start_agent({"redis": cluster.config(), "pools": pools, "policies": POLICIES})
        client = self.connect(agent)
        for pool in ("acct", "other", "acct", "other"):  # the slot of the account is the pool's, or another
            self.assertEqual(self.next(client, "TAKE", "worker", pool, pool=pool)["endpoint"], "a")
        self.assertEqual(client.call("KOVA.PEEK", "account", "acct")[1], MANY - 4)
        self.assertEqual([client.call("KOVA.PEEK", "worker", key)[1] for key in ("acct", "other")], [MANY - 2] * 2)


class AllOrNothing(Permits):
    def test_what_lacks_is_said(self):
        pool = {"name": "x", "kind": "key", "permit": "small", "target_policy": "target", "endpoints": ENDPOINTS[:4] + ENDPOINTS[-2:]}
        client = self.connect(self.start(pool))
        given = [self.next(client) for _ in range(12)]  # 2 of each holder
        self.assertEqual(Counter(n["endpoint"] for n in given), Counter({e["id"]: 2 for e in pool["endpoints"]}))
        refused = self.next(client, "TARGET", "t")
        self.assertEqual((refused["paused"], refused["ticket"]), ("limited:small", None))
        self.assertAlmostEqual(refused["retry_in_ms"], 1_800_000, delta=60_000)
        self.assertEqual(client.call("KOVA.PEEK", "target", "t")[1], MANY)
        self.assertEqual(self.next(client, "TAKE", "paths", "p", "COST", "6")["paused"], "limited:paths")  # it can never fit: the longest wait
        self.assertEqual(client.call("KOVA.PEEK", "paths", "p")[1], 5)

    def test_a_session_keeps_its_endpoint(self):
        for way, takes in (("together", ()), ("apart", ("TAKE", "small", "x"))):
            with self.subTest(way):
                pool = {"name": way, "kind": "key", "permit": "small", "endpoints": [{"id": f"{way}{i}", "key": f"{way}{i}"} for i in range(3)]}
                client = self.connect(self.start(pool))
                first = self.next(client, "SESSION", "s", pool=way)
                self.next(client, "SESSION", "s", pool=way)
                self.assertIsNotNone(first["endpoint"])
                before = self.calls()
                refused = self.next(client, "SESSION", "s", *takes, pool=way)
                self.assertEqual((refused["paused"], refused["endpoint"]), ("limited:small", None))
                self.assertLess(self.calls() - before, 12)

    def test_decisions_are_counted(self):
        agent = self.start({"name": "x", "kind": "key", "permit": "small", "endpoints": ENDPOINTS[-2:]})
        client = self.connect(agent)
        for _ in range(5):
            self.next(client, "TAKE", "worker", "w")
        for policy, outcome, n in (("small", "allowed", 4), ("worker", "allowed", 4), ("small", "refused", 2)):
            self.assertIn(f'kova_decisions_total{{policy="{policy}",outcome="{outcome}"}} {n}\n', agent.http("GET", "/metrics").body.decode())

    def test_waiting_for_a_permit(self):
        fast = {"name": "fast", "limit": 5, "per": "1s", "burst": 1}
        client = self.connect(self.start({"name": "x", "kind": "key", "permit": "fast", "endpoints": ENDPOINTS[-1:]}, policies=[fast]))
        begun = time.monotonic()
        given = [self.next(client, "WAIT", "10000") for _ in range(4)]
        self.assertEqual([n["paused"] for n in given], [None] * 4)
        self.assertGreaterEqual(time.monotonic() - begun, 0.55)


class Worker(threading.Thread):
    """Asks, a pipeline at a time, until its agent is gone; never reports."""

    def __init__(self, agent, seed):
        super().__init__()
        self.client, self.random = Resp(agent.resp_address, timeout=20), random.Random(seed)

    def run(self):
        try:
            while True:
                self.client.pipeline([["KOVA.POOL.NEXT", "x", "TARGET", self.random.choice("ab"), "TAKE", "worker", "w"] for _ in range(8)])
        except (OSError, RespError, EOFError, IndexError, ValueError):
            self.client.close()


class Killed(Permits):
    def test_agents_killed_under_load(self):
        pool = {"name": "x", "kind": "key", "lease": "1h", "permit": "account", "target_policy": "target", "select": "least-loaded",
                "endpoints": ENDPOINTS}
        watcher = self.start(pool)
        client = self.connect(watcher)
        given = 0
        for seed in range(6):
            victim = self.start(pool)
            workers = [Worker(victim, 10 * seed + i) for i in range(6)]
            for worker in workers:
                worker.start()
            time.sleep(0.1 + random.Random(seed).random() / 4)
            victim.kill()
            for worker in workers:
                worker.join(20)
            in_flight = {e["id"]: e["in_flight"] for e in watcher.http("GET", "/v1/pools/x").json()["endpoints"]}
            by_holder = Counter()
            for e in ENDPOINTS:
                by_holder[e.get("group", e["id"])] += in_flight[e["id"]]
            taken = {h: MANY - client.call("KOVA.PEEK", "account", h)[1] for h in HOLDERS}
            self.assertEqual(taken, dict(by_holder))
            self.assertEqual(MANY - client.call("KOVA.PEEK", "worker", "w")[1], sum(in_flight.values()))
            self.assertEqual(sum(MANY - client.call("KOVA.PEEK", "target", t)[1] for t in "ab"), sum(in_flight.values()))
            self.assertGreater(sum(in_flight.values()), given)
            given = sum(in_flight.values())


if __name__ == "__main__":
    harness.main()
