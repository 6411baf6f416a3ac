"""kova-coordinator beside a real Kafka: what it adds up is what the clients counted, whatever happens to it."""
# Mostly waits.
import json
import subprocess
import time

import coordinator
import harness
import usage_topic


class One(coordinator.Case):
    def test_rows_and_ledger_are_what_clients_counted(self):
        agents = [self.start(self.redis, node=f"n{i}", report="100ms") for i in range(2)]
        daemon = self.coordinate()
        for _ in range(3):
            self.use(*agents)
            time.sleep(0.3)
        rows = self.wait_exact()
        last = {row["policy"]: row for row in rows}
        for policy, total in self.expected(self.clients.admitted).items():
            self.assertEqual(last[policy]["regions"]["eu"]["admitted_total"], total)
        self.assertEqual((last["tight"]["limit"], last["tight"]["per"]), (20, "1s"))
        eu = last["tight"]["regions"]["eu"]
        self.assertEqual((eu["share"], eu["grant"], eu["floor"]), (20, 0, 20))
        for policy in last:  # the intervals follow one another
            own = [row for row in rows if row["policy"] == policy]
            for before, after in zip(own, own[1:]):
                self.assertEqual(before["to"], after["from"])
        self.assertEqual(daemon.stop(), 0)

    def test_the_topic_once_more_changes_nothing(self):
        agent, daemon = self.start(self.redis, node="n", report="100ms"), self.coordinate()
        for _ in range(3):
            self.use(agent)
            time.sleep(0.3)
        self.wait_exact()
        records = self.broker.read(usage_topic.TOPIC)
        self.dice.shuffle(records)
        self.broker.produce(usage_topic.TOPIC, [(r.key, r.value, r.headers) for r in records])
        harness.wait_for(lambda: daemon.metric("kova_coordinator_records_total") >= 2 * len(records), "all of it read")
        self.wait_exact()

    def test_killed_again_and_again(self):
        agent = self.start(self.redis, node="n", report="50ms")
        for pause in (0.0, 0.05, 0.3, 0.7, 1.0, 1.5):
            daemon = self.coordinate(ready=pause > 0.5)
            for _ in range(4):
                self.use(agent, count=100)
                time.sleep(pause / 4)
            daemon.kill()
        self.coordinate()
        self.wait_exact()

    def test_a_restart_goes_on_where_it_was(self):
        agent, daemon = self.start(self.redis, node="n", report="100ms"), self.coordinate()
        self.use(agent)
        self.wait_exact()
        self.assertEqual(daemon.stop(), 0)
        self.use(agent)
        daemon = self.coordinate()
        self.wait_exact()
        self.assertLess(daemon.metric("kova_coordinator_records_total"), len(self.broker.read(usage_topic.TOPIC)))

    def test_what_is_no_usage_is_left_out(self):
        daemon = self.coordinate()
        self.broker.produce(usage_topic.TOPIC, [(b"x", b"\xff\xff", {}), (b"y", b"", {})])
        self.use(self.start(self.redis, node="n", report="100ms"))
        self.wait_exact()
        self.assertEqual(daemon.metric("kova_coordinator_malformed_total"), 2)


class Program(harness.Case):
    """What needs no Kafka."""

    def run_it(self, *options, config=None):
        command = [harness.program("kova-coordinator"), *options]
        if config is not None:
            path = f"{self.directory}/c.json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            command += ["--config", path]
        return subprocess.run(command, capture_output=True, text=True, timeout=harness.PATIENCE, check=False)

    def test_help_and_version(self):
        self.assertIn("--check-config", self.run_it("--help").stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^kova-coordinator \d")

    def test_check_config(self):
        good = {"node": "c", "kafka": {"bootstrap": "localhost:9092"}}
        self.assertEqual(self.run_it("--check-config", config=good).returncode, 0)
        for change, said in (({"grant": {"margin": "500ms"}}, "at least 550ms"), ({"rolup": "1s"}, "rollup"),
                             ({"rollup": "1ms"}, "100ms"), ({"kafka": {}}, "bootstrap"),
                             ({"policies": [{"name": "p", "limit": 1, "per": "1s", "scope": "global"}]}, "needs `regions`")):
            done = self.run_it("--check-config", config={**good, **change})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"c\.json:\d+:\d+: .*{said}")

    def test_without_kafka_it_is_alive_and_not_ready(self):
        config = {"node": "c", "kafka": {"bootstrap": f"localhost:{harness.free_port()}"}}
        daemon = self.keep(coordinator.Coordinator(self.directory, config))
        harness.wait_for(lambda: daemon.http("/healthz").status == 200, "an answer")
        answer = daemon.http("/readyz")
        self.assertEqual((answer.status, answer.json()["degraded"]), (503, ["kafka"]))
        self.assertEqual(daemon.http("/nothing").status, 404)
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    harness.main()
