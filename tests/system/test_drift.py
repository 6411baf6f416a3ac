"""The coordinator compares Kafka's sums with the ledgers in Redis: equal after any load, and short by what a killed agent left out."""
# Mostly waits.
import json
import os
import signal
import time

import jsonschema

import coordinator
import harness

EVENTS = "kova.events.v1"


class Drift(coordinator.Case):
    def setUp(self):
        super().setUp()
        self.broker.create_topic(EVENTS, 1)

    def compare(self, **more):
        return self.coordinate(regions={"eu": {"redis": {"mode": "standalone", "url": self.redis.url}}},
                               drift={"every": "200ms", "rest": "2s", "threshold": 50}, **more)

    def drift(self, daemon, name="kova_drift_tokens"):
        """None: no ledger was found yet."""
        label = '{policy="home",region="eu"}'
        if name + label not in daemon.http("/metrics").body.decode():
            return None
        return daemon.metric(name + label)

    def take(self, agent, count, roots=5):
        """So many of one each; all are admitted."""
        self.clients.take(agent, [("home", f"r{i % roots}/k", 1) for i in range(count)])

    def wait_compared(self, daemon, drift):
        """All roots rest, and what was found stays what it is."""
        def compared():
            return (self.drift(daemon, "kova_drift_roots_moving"), self.drift(daemon)) == (0, drift)
        harness.wait_for(compared, f"a drift of {drift}", 30)
        rounds = daemon.metric("kova_drift_rounds_total")
        harness.wait_for(lambda: daemon.metric("kova_drift_rounds_total") > rounds + 5, "more rounds", 30)
        self.assertEqual(self.drift(daemon), drift)

    def told(self):
        """What events said, each checked by the schema: (kafka, ledger)."""
        with open(os.path.join(harness.SOURCE, "proto", "events.schema.json"), encoding="utf-8") as file:
            validator = jsonschema.Draft202012Validator(json.load(file), format_checker=jsonschema.FormatChecker())
        events = [json.loads(record.value) for record in self.broker.read(EVENTS, coordinator.COMMITTED)]
        for event in events:
            validator.validate(event)
        drifts = [event for event in events if event["event"] == "drift"]
        for event in drifts:
            self.assertEqual((event["policy"], event["region"], event["node"]), ("home", "eu", "c"))
        return [(event["kafka"], event["ledger"]) for event in drifts]

    def test_none_under_load_and_what_a_killed_agent_left_out(self):
        agent, daemon = self.start(self.redis, node="n", report="100ms"), self.compare()
        harness.wait_for(lambda: daemon.metric("kova_drift_rounds_total") > 0, "a round")
        until, seen = time.monotonic() + 8, set()
        while time.monotonic() < until:
            self.take(agent, 100)
            moving = self.drift(daemon, "kova_drift_roots_moving")
            if moving is not None:  # both are there from the same round on
                seen.add((self.drift(daemon), moving))
        self.assertEqual(seen, {(0, 5)})
        self.wait_compared(daemon, 0)
        self.assertEqual(self.drift(daemon, "kova_drift_roots"), 5)
        self.assertEqual(self.told(), [])

        counted = self.clients.admitted["home"].total()
        slow = self.start(self.redis, node="m", report="10s")
        self.take(slow, 130, roots=13)
        slow.kill()
        self.wait_compared(daemon, 130)
        self.assertEqual(self.told(), [(counted, counted + 130)])
        self.take(agent, 100)
        self.wait_compared(daemon, 130)
        self.assertEqual(len(self.told()), 1)

    def test_a_redis_that_can_not_be_asked_is_no_drift(self):
        agent, daemon = self.start(self.redis, node="n", report="100ms"), self.compare()
        self.take(agent, 200)
        self.wait_compared(daemon, 0)
        self.redis.send_signal(signal.SIGSTOP)
        try:
            harness.wait_for(lambda: "redis@eu" in daemon.http("/readyz").json()["degraded"], "what is degraded", 30)
            self.assertEqual(daemon.http("/readyz").status, 200)
            self.assertEqual(daemon.metric('kova_drift_ledgers_seen{region="eu"}'), 0)
            self.assertEqual(self.drift(daemon), 0)
            self.assertEqual(self.drift(daemon, "kova_drift_roots"), 5)
        finally:
            self.redis.send_signal(signal.SIGCONT)
        harness.wait_for(lambda: daemon.http("/readyz").json()["degraded"] == [], "what is whole again", 30)
        self.wait_compared(daemon, 0)
        self.assertEqual(self.told(), [])

    def test_roots_of_several_coordinators_are_compared_once(self):
        agent = self.start(self.redis, node="n", report="100ms")
        first = self.compare().wait_partitions(4)
        second = self.compare(node="d").wait_partitions(2)
        first.wait_partitions(2)
        self.take(agent, 400, roots=40)
        for daemon in (first, second):
            self.wait_compared(daemon, 0)
        self.assertEqual(self.drift(first, "kova_drift_roots") + self.drift(second, "kova_drift_roots"), 40)


if __name__ == "__main__":
    harness.main()
