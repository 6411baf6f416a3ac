"""Pools under faults: a storm with killed workers and a Redis that restarts, a Cluster, an empty pool that is asked all the time."""
import os
import random
import re
import threading
import time
from collections import Counter

import harness
from harness import Resp, RespError

SECRET = "pw-S3cret"


class Worker(threading.Thread):
    """Asks and reports until `stop`; now and then it dies with its ticket. What it can't have, it asks for again."""

    OUTCOMES = ["ok"] * 6 + ["refused", "timeout", "blocked", "target", "captcha", "cancelled"]

    def __init__(self, address, seed, stop):
        super().__init__()
        self.address, self.random, self.stop = address, random.Random(seed), stop
        self.client, self.answers, self.hung = None, Counter(), []

    def step(self):
        self.client = self.client or Resp(self.address, timeout=10)
        target = ("TARGET", self.random.choice("abc")) if self.random.random() < 0.5 else ()
        given = self.client.call("KOVA.POOL.NEXT", "x", "WAIT", "500", *target)
        self.answers[given[17]] += 1
        if given[1] is None:
            time.sleep(0.02)
        elif self.random.random() < 0.05:
            self.client.close()
            self.client = None
        else:
            self.client.call("KOVA.POOL.REPORT", "x", given[1], self.random.choice(self.OUTCOMES))

    def run(self):
        while time.monotonic() < self.stop:
            try:
                self.step()
            except RespError as error:
                self.answers[str(error)] += 1
            except TimeoutError as error:
                self.hung.append(error)
                return
        if self.client:
            self.client.close()


def agent_commands(agent):
    return int(re.search(rb"^kova_redis_commands_total (\d+)", agent.http("GET", "/metrics").body, re.M).group(1))


class Faults(harness.Case):
    def test_a_storm(self):
        redis = self.start_redis(options=("--appendonly", "yes", "--appendfsync", "always"))
        pool = {"name": "x", "lease": "3s", "report": "1s", "cooldown": {"base": "200ms", "max": "1s"},
                "blame": {"hold": "100ms", "min": 50},
                "endpoints": [{"id": f"e{i}", "url": f"http://u{i}:{SECRET}@192.0.2.{i}:1"} for i in range(1, 201)]}
        agents = [self.start_agent({"redis": {"mode": "standalone", "url": redis.url}, "pools": [pool]}) for _ in range(4)]
        stop = time.monotonic() + 12
        workers = [Worker(agents[i % 4].resp_address, i, stop) for i in range(40)]
        for worker in workers:
            worker.start()
        time.sleep(4)
        redis.kill()
        time.sleep(1)
        self.keep(harness.Redis(self.directory, port=redis.port, options=("--appendonly", "yes"))).wait_ready()
        for worker in workers:
            worker.join(30)
            self.assertFalse(worker.is_alive() or worker.hung, "a call hangs")
        answers = sum((worker.answers for worker in workers), Counter())
        self.assertGreater(answers[None], 500, answers)
        time.sleep(3.5)
        shown = agents[0].http("GET", "/v1/pools/x").json()
        self.assertEqual(sorted(e["id"] for e in shown["endpoints"]), sorted(f"e{i}" for i in range(1, 201)))
        self.assertEqual(sum(e["in_flight"] for e in shown["endpoints"]), 0)
        self.assertEqual(shown["active"] + shown["cooling"], 200)
        for agent in agents:
            self.assertNotIn(SECRET, agent.log() + agent.http("GET", "/metrics").body.decode())

    def test_a_cluster(self):
        cluster = self.start_cluster()
        pools = [{"name": f"x{i}", "endpoints": [f"http://192.0.{i}.{j}:1" for j in range(1, 4)], "permit": "p"} for i in range(12)]
        policy = {"name": "p", "limit": 5, "per": "60s", "burst": 5, "lease": "off"}
        agent = self.start_agent({"redis": cluster.config(), "pools": pools, "policies": [policy]})
        client = Resp(agent.resp_address)
        self.addCleanup(client.close)
        for pool in pools:
            given = client.call("KOVA.POOL.NEXT", pool["name"], "TARGET", "t", "TAKE", "p", pool["name"])
            self.assertEqual((given[17], client.call("KOVA.PEEK", "p", pool["name"])[1]), (None, 4))
            self.assertEqual(client.call("KOVA.POOL.REPORT", pool["name"], given[1], "ok"), "OK")
        refused = [client.call("KOVA.POOL.NEXT", "x0", "TAKE", "p", "x0") for _ in range(5)][-1]
        self.assertEqual(refused[17], "limited:p")
        self.assertEqual(sum(e["in_flight"] for e in agent.http("GET", "/v1/pools/x0").json()["endpoints"]), 4)

    def test_an_empty_pool_asks_redis_in_its_own_time(self):
        redis = self.start_redis()
        agent = self.start_agent({"redis": {"mode": "standalone", "url": redis.url}, "pools": [
            {"name": "none"}, {"name": "cools", "floor": {"active": 0}, "endpoints": ["http://192.0.2.1:1"]}]})
        client = Resp(agent.resp_address)
        self.addCleanup(client.close)
        for _ in range(5):
            client.call("KOVA.POOL.REPORT", "cools", client.call("KOVA.POOL.NEXT", "cools")[1], "refused")
        for pool, paused in (("none", "empty"), ("cools", "cooling")):
            asked, begun = agent_commands(agent), time.monotonic()
            answers = [client.call("KOVA.POOL.NEXT", pool) for _ in range(5000)]
            self.assertEqual({answer[17] for answer in answers}, {paused})
            self.assertLessEqual(agent_commands(agent) - asked, max(100, 20 * (time.monotonic() - begun)), "of Redis, for 5000 calls")


if __name__ == "__main__":
    harness.main()
