"""Usage in a real Kafka: sums equal what the clients counted, after restarts and redelivery."""
# Mostly waits.
import random
import signal
import socket
import struct
import time

import harness
import usage_topic
from usage_topic import Clients, UsageCase, mixed


class OneBroker(UsageCase):
    def test_records_say_who_and_what(self):
        clients, redis = Clients(), self.start_redis()
        agent = self.start(redis, node=self.node())
        clients.take(agent, [("open", "tenant/user", 3), ("open", "tenant/other", 4), ("plain", "x", 1)])
        self.wait_published(agent)
        records = {record.key: record for record in self.broker.read(usage_topic.TOPIC) if self.is_ours(record)}
        self.assertEqual(set(records), {b"open/tenant", b"plain/x"})
        usage = usage_topic.decode(records[b"open/tenant"].value)
        self.assertEqual((usage.region, usage.agent, usage.policy, usage.root), ("eu", self.node(), "open", b"tenant"))
        self.assertEqual((usage.admitted, usage.refused, usage.waited, usage.other), (7, 0, 0, False))
        headers = records[b"open/tenant"].headers
        self.assertEqual((headers["schema"], headers["region"], headers["agent"]),
                         (b"kova.usage.v1", b"eu", self.node().encode()))
        self.assertEqual(int(headers["hlc"]), usage.hlc)
        self.assertGreater(usage.hlc, usage.window)
        self.assertLess(abs(time.time() * 1000 - (usage.hlc >> 11)), 60000)

    def test_what_does_not_change_is_not_published_again(self):
        clients, redis = Clients(), self.start_redis()
        agent = self.start(redis, node=self.node(), report="100ms")
        clients.take(agent, [("open", "a", 1)])
        self.wait_published(agent)
        before = self.metric(agent, "kova_kafka_records_total")
        time.sleep(1)
        self.assertEqual(self.metric(agent, "kova_kafka_records_total"), before)

    def test_twenty_drained_restarts_and_redelivery(self):
        dice, clients, redis = random.Random(5), Clients(), self.start_redis()
        for _ in range(20):
            agent = self.start(redis, node=self.node())
            clients.take(agent, mixed(dice, 400))
            self.assertEqual(agent.stop(), 0)
        self.compare(clients, self.ledger())
        again = [record for record in self.broker.read(usage_topic.TOPIC) if self.is_ours(record)]
        dice.shuffle(again)
        self.broker.produce(usage_topic.TOPIC, [(r.key, r.value, r.headers) for r in again])
        self.compare(clients, self.ledger(times=2))

    def test_a_repeat_is_counted_once(self):
        redis = self.start_redis()
        agents = [self.start(redis, node=self.node(i)) for i in range(2)]
        for agent in agents * 3:
            self.assertEqual(agent.call("KOVA.TAKE", "open", "a/b", "COST", "5", "ID", "once")[0], 1)
        for agent in agents:
            self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.ledger().by_root("open"), {"a": 5})

    def test_an_id_whose_first_answer_nobody_waited_for_is_counted_once(self):
        redis = self.start_redis()
        agent = self.start(redis, node=self.node())
        words = ("KOVA.TAKE", "home", "a/b", "COST", "5", "AND", "open", "c", "ID", "once")
        with agent.resp() as connection:
            connection.call("KOVA.TAKE", "home", "a/b", "COST", "1")
            redis.send_signal(signal.SIGSTOP)
            connection.send(*words)
            time.sleep(0.2)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.2)
        redis.send_signal(signal.SIGCONT)
        harness.wait_for(lambda: b'kova_abandoned_total{policy="home"} 1' in agent.http("GET", "/metrics").body,
                         "a request that was abandoned")
        for _ in range(3):
            self.assertEqual(agent.call(*words)[0], 1)
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.ledger().by_root("home"), {"a": 6})
        self.assertEqual(int(redis.call("GET", "k:u{a}home")), 6)

    def test_a_clock_that_went_back_gives_a_later_epoch_all_the_same(self):
        redis = self.start_redis()
        agent = self.start(redis, node=self.node())
        self.assertEqual(agent.stop(), 0)
        path = f"{agent.directory}/state/epoch"
        with open(path, encoding="ascii") as file:
            first = int(file.read())
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{first + 10**12}\n")
        agent = self.start(redis, node=self.node())
        clients = Clients()
        clients.take(agent, [("open", "a", 1)])
        agent.stop()
        (key,) = self.ledger().most
        self.assertEqual(key[2], first + 10**12 + 1)


class SeveralLoops(UsageCase):
    threads = 4

    def test_loops_add_up(self):
        dice, clients, redis = random.Random(8), Clients(), self.start_redis()
        for _ in range(3):
            agent = self.start(redis, node=self.node(), report="100ms")
            for _ in range(12):
                clients.take(agent, mixed(dice, 100))
            self.assertEqual(agent.stop(), 0)
        self.compare(clients, self.ledger())


if __name__ == "__main__":
    harness.main()
