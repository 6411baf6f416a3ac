"""Usage in a real Kafka while brokers and agents stop and die: nothing reported is lost or counted twice."""
# Bears others.
import random
import signal
import time

import harness
from usage_topic import Clients, UsageCase, mixed


class OneBroker(UsageCase):
    def test_kafka_stopped_under_load(self):
        dice, clients, redis = random.Random(6), Clients(), self.start_redis()
        agent = self.start(redis, node=self.node(), report="100ms")
        clients.take(agent, mixed(dice, 500))
        self.wait_published(agent)
        self.broker.send_signal(signal.SIGSTOP)
        try:
            begun, slowest = time.monotonic(), 0.0
            while time.monotonic() - begun < 4:
                at = time.monotonic()
                clients.take(agent, mixed(dice, 100))
                slowest = max(slowest, time.monotonic() - at)
            self.assertGreater(self.metric(agent, "kova_usage_unpublished"), 0)
            # A loop that waited for the broker would have waited for all of this time.
            self.assertLess(slowest, 1)
        finally:
            self.broker.send_signal(signal.SIGCONT)
        self.wait_published(agent)
        self.compare(clients, self.ledger())
        clients.take(agent, mixed(dice, 500))
        self.assertEqual(agent.stop(), 0)
        self.compare(clients, self.ledger())

    def test_kafka_killed_under_load(self):
        dice, clients, redis = random.Random(7), Clients(), self.start_redis()
        agent = self.start(redis, node=self.node(), report="100ms")
        clients.take(agent, mixed(dice, 500))
        self.wait_published(agent)
        self.broker.kill()
        try:
            for _ in range(20):
                clients.take(agent, mixed(dice, 100))
                time.sleep(0.1)
            harness.wait_for(lambda: 'kova_outage{part="kafka"} 1' in agent.http("GET", "/metrics").body.decode(),
                             "an outage of Kafka")
            self.assertIn("kafka", agent.http("GET", "/readyz").json()["degraded"])
            self.assertEqual(agent.http("GET", "/readyz").status, 200)
        finally:
            self.broker.restart()
        self.wait_published(agent)
        self.assertIn('kova_outage{part="kafka"} 0', agent.http("GET", "/metrics").body.decode())
        self.compare(clients, self.ledger())

    def test_more_roots_than_there_is_room_for(self):
        """While Kafka is away: those beyond are counted together, and memory stays where it is."""
        clients, redis = Clients(), self.start_redis()
        agent = self.start(redis, node=self.node(), report="100ms")
        self.broker.send_signal(signal.SIGSTOP)
        try:
            clients.take(agent, [("open", f"root-{i}", 1) for i in range(66000)])
            time.sleep(0.5)
            full = self.metric(agent, "process_resident_memory_bytes")
            clients.take(agent, [("open", f"root-{i}", 1) for i in range(66000, 76000)])
            time.sleep(0.5)
            self.assertLess(self.metric(agent, "process_resident_memory_bytes") - full, 10e6)
            self.assertGreater(self.metric(agent, "kova_usage_overflows_total"), 0)
        finally:
            self.broker.send_signal(signal.SIGCONT)
        self.wait_published(agent)
        ledger = self.ledger()
        by_root = ledger.by_root("open")
        self.assertEqual(ledger.total("open"), clients.admitted["open"].total())
        self.assertGreater(by_root.pop(None), 0)
        self.assertEqual(set(by_root.values()), {1})
        clients.take(agent, [("open", f"again-{i}", 1) for i in range(2000)])  # there is room once more
        self.assertEqual(agent.stop(), 0)
        by_root = self.ledger().by_root("open")
        self.assertEqual(by_root.total(), clients.admitted["open"].total())
        self.assertEqual({by_root[f"again-{i}"] for i in range(2000)}, {1})

    def test_a_killed_agent_leaves_out_its_last_interval_at_most(self):
        redis, answered = self.start_redis(), []
        agent = self.start(redis, node=self.node(), report="1s")
        with agent.resp() as connection:
            self.assertEqual(connection.call("KOVA.TAKE", "leased", "a")[0], 1)
            harness.wait_for(lambda: self.ledger().most, "a first record: the topic is there, the producer has its number")
            begun = time.monotonic()
            while time.monotonic() - begun < 3.3:
                replies = connection.pipeline([("KOVA.TAKE", policy, "a") for policy in ("leased", "open")] * 10)
                answered.append((time.monotonic(), sum(reply[0] for reply in replies)))
        killed = time.monotonic()
        agent.kill()
        ledger = self.ledger()
        counted = ledger.total("leased") + ledger.total("open")
        all_of_them = 1 + sum(n for _, n in answered)
        before = 1 + sum(n for at, n in answered if at < killed - 1.25)  # a quarter to arrive
        self.assertGreaterEqual(counted, before)
        self.assertLessEqual(counted, all_of_them)

    def test_the_redis_ledger_says_what_a_killed_agent_left_out(self):
        redis, clients = self.start_redis(), Clients()
        agents = [self.start(redis, node=self.node(i), report="10s") for i in range(2)]
        for agent in agents:
            clients.take(agent, [("home", f"r{i % 3}/k", 2) for i in range(60)])
        self.assertEqual(agents[0].stop(), 0)
        agents[1].kill()
        self.assertEqual(self.ledger().by_root("home"), {f"r{i}": 40 for i in range(3)})
        self.assertEqual({root: int(redis.call("GET", f"k:u{{{root}}}home")) for root in ("r0", "r1", "r2")},
                         clients.admitted["home"])


class ThreeBrokers(UsageCase):
    brokers = 3

    def test_one_of_three_is_killed(self):
        dice, clients, redis = random.Random(9), Clients(), self.start_redis()
        agents = [self.start(redis, node=self.node(i), report="100ms") for i in range(2)]
        for step in range(30):
            if step == 10:
                self.broker.kill(2)
            if step == 20:
                self.broker.restart(2)
            for agent in agents:
                clients.take(agent, mixed(dice, 50))
            time.sleep(0.05)
        for agent in agents:
            self.assertEqual(agent.stop(), 0)
        self.compare(clients, self.ledger())


if __name__ == "__main__":
    harness.main()
