"""The skew guard: where an agent's clock and Redis's differ, nothing is refilled, nothing extra is admitted, and it is said.

Real time is the judge: what was admitted is checked by a clock that nobody set.
"""
# Mostly waits.

import signal
import threading
import time

import checker
import clock
import harness
import load
import proxy
import shapes

RATE = 50
POLICIES = [
    {"name": "b", "limit": RATE, "per": "1s", "burst": RATE, "on_outage": "deny"},
    {"name": "w", "algorithm": "sliding-window", "limit": RATE, "per": "1s", "on_outage": "deny"},
]
SLOW = {"timeout": "1s", "connect_timeout": "5s"}  # a machine that is busy is no outage


def metric(agent, name):
    for line in agent.http("GET", "/metrics").body.decode().splitlines():
        if line.startswith(name + " ") or line.startswith(name + "{"):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def degraded(agent):
    return agent.http("GET", "/readyz").json()["degraded"]


class Skew(harness.Case):
    def redis_of(self, name):
        """(a redis-server, its clock)"""
        own = clock.Clock(self.directory, name)
        with own.around():
            return self.start_redis(), own

    def agents_on(self, url, offsets=(None,)):
        """An agent each; an offset that is not None is its clock, kept in self.clocks."""
        self.clocks = [clock.Clock(self.directory, f"agent{i}") for i in range(len(offsets))]
        agents = []
        for own, offset in zip(self.clocks, offsets):
            own.shift(offset or 0)
            config = {"redis": {"mode": "standalone", "url": url, **SLOW}, "policies": POLICIES}
            agents.append(self.start_agent(config, env=own.env()))
        for agent in agents:
            shapes.wait_for_redis(agent)
        return agents

    def under_load(self, agents, during, rate=600):
        """Hits at `rate` a second on both policies while `during` happens."""
        stop = threading.Event()
        with load.Swarm(shapes.addresses(agents), 12) as swarm:
            running = load.Background(swarm.run, 60, lambda n: ("KOVA.TAKE", "bw"[n // 12 % 2], "k"), rate=rate, stop=stop)
            try:
                during()
            finally:
                stop.set()
            return running.result()

    def judge(self, hits):
        """Nothing extra, by real time. Returns what the bucket admitted."""
        taken = {name: checker.admissions([hit for hit in hits if hit.words[1] == name]) for name in "bw"}
        # In doubt a bucket has the rest of the tenth of a second in which it was written (docs/clocks.md).
        self.assertIsNone(checker.bucket_violation(taken["b"], RATE, RATE + RATE * 0.1))
        self.assertIsNone(checker.window_violation(taken["w"], RATE, 1.0))
        return taken["b"]

    @staticmethod
    def after(taken, begun, ended):
        return sum(begun <= a.sent and a.received <= ended for a in taken)


class RedisLeaps(Skew):
    def leaps(self, seconds):
        redis, own = self.redis_of("redis")
        agents = self.agents_on(redis.url, (None, None))
        at = []

        def during():
            time.sleep(1)
            own.shift(seconds)
            time.sleep(0.5)
            self.assertEqual([degraded(agent) for agent in agents], [["clock"], ["clock"]])
            skew = metric(agents[0], "kova_clock_skew_seconds")
            self.assertAlmostEqual(skew, seconds, delta=1)
            time.sleep(1)
            own.shift(0)
            at.append(time.time())
            time.sleep(2.5)

        hits = self.under_load(agents, during)
        self.assertEqual(load.errors(hits), [], "service goes on")
        taken = self.judge(hits)
        self.assertGreaterEqual(self.after(taken, at[0] + 0.3, at[0] + 2.3), 0.9 * 2 * RATE, "and is itself again")
        for agent in agents:
            self.assertEqual(degraded(agent), [])
            self.assertGreater(metric(agent, "kova_clock_skew_refusals_total"), 0)
            said = [line for line in agent.log_lines() if line.get("event") == "clock_skew"]
            self.assertEqual([line["peer"] for line in said], ["redis"], "said, and not again and again")
            self.assertAlmostEqual(said[0]["skew_ms"] / 1000, seconds, delta=1)

    def test_ten_seconds_ahead(self):
        self.leaps(10)

    def test_ten_seconds_back(self):
        self.leaps(-10)


class AgentsOff(Skew):
    """One agent that is right keeps the region going."""

    def utilised(self, hits):
        taken = self.judge(hits)
        seconds = taken[-1].received - taken[0].sent
        self.assertGreaterEqual(len(taken), 0.98 * RATE * seconds, f"in {seconds:.2f} s")

    def test_one_slow_one_fast(self):
        redis = self.start_redis()
        agents = self.agents_on(redis.url, (-10, None, 10))
        self.utilised(self.under_load(agents, lambda: time.sleep(4)))
        self.assertEqual([degraded(agent) for agent in agents], [["clock"], [], ["clock"]])
        self.assertEqual(metric(agents[1], "kova_clock_skew_refusals_total"), 0)

    def test_their_clocks_are_set_under_load(self):
        redis = self.start_redis()
        agents = self.agents_on(redis.url, (None, None, None))

        def during():
            for seconds in (10, 0, -10, 0, 3600):
                self.clocks[0].shift(seconds)
                self.clocks[1].shift(-seconds)
                time.sleep(0.8)

        self.utilised(self.under_load(agents, during))
        self.assertEqual(metric(agents[2], "kova_clock_skew_refusals_total"), 0)

    def test_the_only_one_spends_what_is_there(self):
        redis = self.start_redis()
        agent = self.agents_on(redis.url, (10,))[0]
        with agent.resp() as connection:
            admitted = sum(reply[0] for _ in range(20) for reply in connection.pipeline([("KOVA.TAKE", "b", "k")] * 10))
            self.assertEqual(admitted, RATE, "the burst, and nothing that was refilled")
            time.sleep(0.5)
            self.assertEqual(connection.call("KOVA.TAKE", "b", "k")[0], 0)
            self.assertEqual(degraded(agent), ["clock"])
            self.clocks[0].shift(0)
            harness.wait_for(lambda: connection.call("KOVA.TAKE", "b", "k")[0] == 1, "refill, once the clock is right", 2)
            self.assertEqual(degraded(agent), [])


class Failover(Skew):
    """To a replica with another clock."""

    def fails_over(self, seconds):
        primary = self.start_redis()
        replica, own = self.redis_of("replica")
        own.shift(seconds)
        replica.call("REPLICAOF", "127.0.0.1", primary.port)
        harness.wait_for(lambda: "master_link_status:up" in replica.call("INFO", "replication"), "replica in step")
        link = self.keep(proxy.LossyProxy(primary.address))
        agents = self.agents_on(link.url, (None, None))
        at = []

        def during():
            time.sleep(1)
            primary.call("CLIENT", "PAUSE", "2000", "WRITE")  # what it acknowledged has reached the replica
            time.sleep(0.2)
            replica.call("REPLICAOF", "NO", "ONE")
            link.target = replica.address
            link.cut()
            time.sleep(1.5)
            at.append(time.time())
            own.shift(0)
            time.sleep(2.5)

        hits = self.under_load(agents, during)
        taken = self.judge(hits)
        last = max((hit.received for hit in hits if load.errors([hit])), default=0)
        self.assertLess(last, at[0], "s: decisions are Redis's again before its clock is right")
        self.assertGreaterEqual(self.after(taken, at[0] + 0.3, at[0] + 2.3), 0.9 * 2 * RATE)
        self.assertGreater(metric(agents[0], "kova_clock_skew_refusals_total"), 0)

    def test_ten_seconds_ahead(self):
        self.fails_over(10)

    def test_ten_seconds_behind(self):
        self.fails_over(-10)


class LongLink(Skew):
    def test_a_delay_is_no_skew(self):
        redis = self.start_redis()
        link = self.keep(proxy.SlowProxy(redis.address, 0.3))
        config = {
            "redis": {"mode": "standalone", "url": link.url, "timeout": "3s", "connect_timeout": "5s"},
            "policies": POLICIES,
            "clock": {"max_skew": "100ms"},
        }
        agent = self.start_agent(config)
        shapes.wait_for_redis(agent)
        hits = self.under_load([agent], lambda: time.sleep(4), rate=200)
        taken = self.judge(hits)
        self.assertGreaterEqual(len(taken), 0.9 * RATE * 3)
        self.assertEqual(metric(agent, "kova_clock_skew_refusals_total"), 0)
        self.assertEqual(degraded(agent), [])


class Again(Skew):
    """Clocks that agree again are said to, whichever loop hears of it, or, where the agent's own was set, without any call."""

    def several_loops(self, url, own):
        agent = self.start_agent(
            {"threads": 3, "redis": {"mode": "standalone", "url": url, **SLOW}, "policies": POLICIES}, env=own.env()
        )
        shapes.wait_for_redis(agent)
        connections = [agent.resp() for _ in range(6)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.call("KOVA.TAKE", "b", "k")
        self.assertEqual(degraded(agent), ["clock"])
        return agent, connections[0]

    def test_by_one_of_several_loops(self):
        redis, clock_of_redis = self.redis_of("redis")
        clock_of_redis.shift(10)
        agent, connection = self.several_loops(redis.url, clock.Clock(self.directory, "agent"))
        clock_of_redis.shift(0)
        for _ in range(3):
            connection.call("KOVA.TAKE", "b", "k")
        self.assertEqual(degraded(agent), [])
        self.assertAlmostEqual(metric(agent, "kova_clock_skew_seconds"), 0, delta=1)

    def test_without_a_call(self):
        own = clock.Clock(self.directory, "agent")
        own.shift(-10)
        agent, _ = self.several_loops(self.start_redis().url, own)
        own.shift(0)
        self.assertEqual(degraded(agent), [])


class HeldUp(Skew):
    def test_a_call_that_was_held_up_is_no_skew(self):
        """The agent stands still while its question is on its way: it comes too late to be refilled, and then the clocks agree."""
        redis = self.start_redis()
        link = self.keep(proxy.SlowProxy(redis.address, 0.0))
        config = {
            "redis": {"mode": "standalone", "url": link.url, "timeout": "200ms", "connect_timeout": "5s"},
            "policies": POLICIES,
        }
        agent = self.start_agent(config)
        shapes.wait_for_redis(agent)
        with agent.resp() as connection:
            for _ in range(3):
                connection.call("KOVA.TAKE", "b", "k")
                link.delay = 0.45
                connection.send("KOVA.TAKE", "b", "k")
                time.sleep(0.02)
                agent.send_signal(signal.SIGSTOP)
                time.sleep(1.2)
                link.delay = 0.0
                agent.send_signal(signal.SIGCONT)
                self.assertEqual(connection.read()[5], "ok", "the answer was there")
        self.assertEqual(metric(agent, "kova_clock_skew_refusals_total"), 0)
        self.assertEqual(degraded(agent), [])
        self.assertNotIn("clock_skew", agent.log())


if __name__ == "__main__":
    harness.main()
