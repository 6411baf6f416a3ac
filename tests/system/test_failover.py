"""Redis changes under the agent: a failover by Sentinel, a primary that becomes a replica, scripts that are flushed."""
# Mostly waits.

import signal
import threading
import time

import harness
import load
import shapes

POLICIES = [
    {"name": "w", "algorithm": "sliding-window", "limit": 1000000, "per": "1h", "on_outage": "deny"},
    {"name": "c", "algorithm": "concurrency", "limit": 1000, "hold": "1h", "on_outage": "deny"},
]
WITHIN = 5.0


class Failover(harness.Case):
    def watch(self, agents, during):
        """Load while `during` happens; (hits, the time that it returned)."""
        stop = threading.Event()
        with load.Swarm(shapes.addresses(agents), 10) as swarm:
            running = load.Background(swarm.run, 90, ("KOVA.TAKE", "w", "k"), rate=200, stop=stop)
            try:
                time.sleep(0.5)
                at = during()
                deadline = time.monotonic() + WITHIN + 1
                while time.monotonic() < deadline and not self.by_redis(agents):
                    time.sleep(0.02)
                time.sleep(0.5)
            finally:
                stop.set()
            return running.result(), at

    @staticmethod
    def by_redis(agents):
        return all(agent.call("KOVA.TAKE", "w", "probe")[5] == "ok" for agent in agents)

    def judge(self, hits, at):
        self.assertEqual(set(load.replies(hits)) - {"ok", "outage"}, set(), "no errors")
        bad = [hit for hit in hits if hit.reason == "outage"]
        if bad:
            last = max(hit.received for hit in bad)
            self.assertLess(last - at, WITHIN, "s after the change until the last verdict without Redis")
        self.assertEqual(hits[-1].reason, "ok")

    def start(self, config):
        return [self.start_agent({"redis": config, "policies": POLICIES}) for _ in range(2)]


class Sentinel(Failover):
    def setUp(self):
        super().setUp()
        self.sentinel = self.start_sentinel()
        self.agents = self.start({**self.sentinel.config(), "timeout": "200ms"})

    def master_port(self):
        with harness.Resp(("127.0.0.1", self.sentinel.sentinels[0].port)) as resp:
            return int(resp.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "kova")[1])

    def switched(self):
        replica = self.sentinel.replicas[0]
        harness.wait_for(
            lambda: self.master_port() == replica.port and "role:master" in replica.call("INFO", "replication"),
            "the switch",
            30,
        )
        return time.time()

    def test_primary_and_replica_swapped(self):
        def during():
            with harness.Resp(("127.0.0.1", self.sentinel.sentinels[0].port)) as resp:
                harness.wait_for(lambda: resp.call("SENTINEL", "FAILOVER", "kova") == "OK", "the failover's begin")
            return self.switched()

        self.judge(*self.watch(self.agents, during))
        self.assertTrue(all(agent.running() for agent in self.agents))

    def test_the_primary_dies(self):
        def during():
            self.sentinel.primary.kill()
            return self.switched()

        self.judge(*self.watch(self.agents, during))

    def test_the_primary_stands_still(self):
        """Stopped in the middle of its connections: they stay open, and nothing comes."""

        self.addCleanup(self.sentinel.primary.send_signal, signal.SIGCONT)

        def during():
            self.sentinel.primary.send_signal(signal.SIGSTOP)
            return self.switched()

        self.judge(*self.watch(self.agents, during))


class Standalone(Failover):
    def test_a_primary_that_becomes_a_replica_and_primary_again(self):
        redis, other = self.start_redis(), self.start_redis()
        agents = self.start({**shapes.standalone(redis), "timeout": "200ms"})

        def during():
            redis.call("REPLICAOF", "127.0.0.1", other.port)
            harness.wait_for(lambda: agents[0].call("KOVA.TAKE", "w", "k")[5] == "outage", "READONLY seen")
            redis.call("REPLICAOF", "NO", "ONE")
            return time.time()

        self.judge(*self.watch(agents, during))

    def test_redis_restarts(self):
        redis = self.start_redis()
        agents = self.start({**shapes.standalone(redis), "timeout": "200ms"})

        def during():
            redis.stop()
            time.sleep(1)
            self.start_redis(port=redis.port)
            return time.time()

        self.judge(*self.watch(agents, during))

    def test_script_flush_every_100_ms(self):
        redis = self.start_redis()
        agents = self.start(shapes.standalone(redis))

        def during():
            for _ in range(25):
                redis.call("SCRIPT", "FLUSH")
                time.sleep(0.1)
            return time.time()

        hits, _ = self.watch(agents, during)
        self.assertEqual(load.replies(hits), {"ok": len(hits)}, "no errors")
        self.assertEqual(1000000 - agents[0].call("KOVA.PEEK", "w", "k")[1], len(hits), "no double charge")


if __name__ == "__main__":
    harness.main()
