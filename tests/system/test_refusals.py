"""Refusals by reason in /metrics: each counts once, and together they are the outcome `refused`."""
# Mostly waits.
import re
import threading

import harness

REASONS = ("limited", "banned", "held", "breaker_open", "queue_full", "wait_timeout")
POLICY = {"name": "p", "limit": 1, "per": "1m", "burst": 1, "wait": {"max_queue": 1, "max_wait": "30s"},
          "breaker": {"failures": 2, "of": 4, "open": "1m"}}
LEASED = {"name": "leased", "limit": 1000, "per": "1m", "burst": 100, "lease": {"max": 50, "ttl": "1s"}}


class Refusals(harness.Case):
    def counts(self, policy="p"):
        metrics = self.agent.http("GET", "/metrics").body.decode()
        found = re.findall(rf'^kova_refusals_total{{policy="{policy}",reason="(\w+)"}} (\d+)$', metrics, flags=re.M)
        refused = re.search(rf'^kova_decisions_total{{policy="{policy}",outcome="refused"}} (\d+)$', metrics, flags=re.M)
        counts = {reason: int(number) for reason, number in found}
        self.assertEqual(tuple(counts), REASONS)
        self.assertEqual(sum(counts.values()), int(refused.group(1)))
        return counts

    def take(self, key, *options, reason):
        self.assertEqual(self.agent.call("KOVA.TAKE", "p", key, *options)[5], reason)

    def test_each_reason(self):
        self.agent = self.start_agent({"policies": [POLICY],
                                       "overrides": [{"policy": "p", "key": "bad", "banned": True}]})
        for _ in range(2):
            self.take("bad", reason="banned")
        self.take("k", reason="ok")
        for _ in range(3):
            self.take("k", reason="limited:p")
        waiter = threading.Thread(target=self.take, args=("k", "WAIT", "1500"), kwargs={"reason": "wait_timeout"})
        waiter.start()
        harness.wait_for(lambda: b'kova_waiters{policy="p"} 1' in self.agent.http("GET", "/metrics").body, "a waiter")
        self.take("k", "WAIT", "1500", reason="queue_full")
        waiter.join()
        self.agent.call("KOVA.FEEDBACK", "p", "later", "ERROR", "STATUS", "429", "RETRYAFTER", "60")
        self.take("later", reason="held")
        for _ in range(2):
            self.agent.call("KOVA.FEEDBACK", "p", "broken", "ERROR", "STATUS", "500")
        self.take("broken", reason="breaker_open")
        self.assertEqual(self.counts(), {"limited": 3, "banned": 2, "held": 1, "breaker_open": 1, "queue_full": 1,
                                         "wait_timeout": 1})

    def test_those_decided_in_memory(self):
        self.agent = self.start_agent({"policies": [LEASED]})
        with self.agent.resp() as connection:
            replies = connection.pipeline([("KOVA.TAKE", "leased", "hot") for _ in range(300)])
            connection.call("KOVA.FEEDBACK", "leased", "hot", "ERROR", "RETRYAFTER", "60")
            replies += connection.pipeline([("KOVA.TAKE", "leased", "hot") for _ in range(40)])
        said = [reply[5] for reply in replies]
        counts = self.counts("leased")
        self.assertGreater(counts["held"], 0)
        self.assertEqual((counts["limited"], counts["held"]), (said.count("limited:leased"), said.count("held")))


if __name__ == "__main__":
    harness.main()
