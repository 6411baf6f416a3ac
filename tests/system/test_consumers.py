"""Who reads the topics: the command lines, the picture and the ClickHouse tables of docs/consumers.md, with real records."""

# Mostly waits.
import json
import os
import re
import subprocess
import unittest

import coordinator
import harness
import operated

CLIENTS = os.path.join(harness.SOURCE, "build", "clients")
TOPICS = ("kova.rollup.v1", "kova.events.v1", "kova.pool.v1")
PNG = b"\x89PNG\r\n\x1a\n"


def read(*path):
    with open(os.path.join(harness.SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def client(name):
    python = os.path.join(CLIENTS, name, "bin", "python")
    if not os.path.exists(python):
        raise unittest.SkipTest(f"scripts/clients could not install {name}")
    return python


def statements():
    text = re.sub(r"^--.*$", "", read("deploy", "clickhouse", "kova.sql"), flags=re.M)
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


class Consumers(operated.Case):
    def setUp(self):
        harness.require("kcat")
        super().setUp()
        self.agents["eu"].http("PUT", "/v1/overrides", {"policy": "own", "key": "vip", "limit": 100, "per": "1s"})
        self.readers = {topic: self.broker.reader(topic, **coordinator.COMMITTED) for topic in TOPICS}
        self.read = {topic: [] for topic in TOPICS}
        with self.in_use():
            harness.wait_for(self.all_told, "rows, pools' numbers and events of all that was done")
        # Where a record comes each 200 ms, kcat -e hardly ever finds the end.
        for process in (self.coordinator, *self.agents.values()):
            process.stop()
        for reader in self.readers.values():
            reader.close()

    def records(self, topic):
        return [record.value.decode() for record in self.broker.read(topic, coordinator.COMMITTED)]

    def all_told(self):
        """What was used is in a row, a pool had a cooldown, and what was changed is an event."""
        for topic, reader in self.readers.items():
            while (record := reader.poll(0.05)) is not None:
                self.read[topic].append(json.loads(record.value))
        rows, events, numbers = (self.read[topic] for topic in TOPICS)
        return (
            {row["policy"] for row in rows if row["admitted"]} == {policy["name"] for policy in operated.POLICIES}
            and any(one["cooldowns"] for one in numbers)
            and any(event["event"] == "config_changed" for event in events)
        )

    def test_all(self):
        """In one test: a cluster takes longer to start than all of it."""
        for check in (self.check_command_lines, self.check_the_picture, self.check_clickhouse):
            with self.subTest(check.__name__):
                check()

    def shell(self, line, **more):
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=harness.SOURCE,
            env={**os.environ, "KAFKA": self.broker.bootstrap, **more},
        )

    def check_command_lines(self):
        harness.require("jq")
        lines = [
            line for line in re.findall(r"^kcat .*$", read("docs", "consumers.md"), flags=re.M) if "plot.py" not in line
        ]
        self.assertGreaterEqual(len(lines), 5)
        for line in lines:
            done = self.shell(line)
            self.assertEqual(done.returncode, 0, line + done.stderr)
            self.assertGreater(len(done.stdout.splitlines()), 0, line)

    def check_the_picture(self):
        (line,) = re.findall(r"^kcat .*plot\.py.*$", read("docs", "consumers.md"), flags=re.M)
        picture = os.path.join(self.directory, "strict.png")
        line = line.replace("python3", client("plot")).replace("api.png", picture + " --policy strict")
        done = self.shell(line, MPLCONFIGDIR=self.subdirectory("matplotlib"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("strict", done.stdout)
        with open(picture, "rb") as file:
            data = file.read()
        self.assertEqual(data[:8], PNG)
        self.assertGreater(len(data), 20000, "a picture with something in it")
        for given, said in (("", "no rows"), ("{}\n", "line 1"), (json.dumps({"policy": "p"}) + "\n", "line 1")):
            done = subprocess.run(
                [client("plot"), "examples/consumers/plot.py"],
                input=given,
                capture_output=True,
                text=True,
                check=False,
                cwd=harness.SOURCE,
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)

    def check_clickhouse(self):
        """The tables as they are, but that each reader is filled by INSERT, as Kafka Connect does it."""
        python, made = client("clickhouse"), statements()
        readers = [statement for statement in made if "ENGINE = Kafka" in statement]
        self.assertEqual(sorted(re.findall(r"kafka_topic_list = '([^']+)'", " ".join(readers))), sorted(TOPICS))
        script = [re.sub(r"ENGINE = Kafka.*", "ENGINE = Null", statement, flags=re.S) for statement in made]
        script += ["SET input_format_skip_unknown_fields = 1", "SET date_time_input_format = 'best_effort'"]
        sent = {topic: self.records(topic) for topic in TOPICS}
        sent["kova.events.v1"] += [
            '{"event":"new","at":"2026-01-01T00:00:00.000Z","node":"n","hlc":1,"later":{"a":[1]}}'
        ]
        for topic in TOPICS:
            script.append(
                f"INSERT INTO kova.{topic.split('.')[1]}_in FORMAT JSONEachRow\n" + "\n".join(sent[topic] * 2)
            )
        asked = [
            "SELECT policy, toString(sum(admitted)) AS admitted FROM kova.rollup FINAL GROUP BY policy",
            "SELECT toString(count()) AS n FROM kova.events FINAL",
            "SELECT toString(count()) AS n FROM kova.pool FINAL",
            "SELECT event, name, key, who, before, after FROM kova.events FINAL WHERE key = 'vip'",
            "SELECT DISTINCT arraySort(mapKeys(share)) AS ids FROM kova.pool",
        ]
        asked += [
            query.strip()
            for query in re.search(r"```sql\n(.*?)```", read("docs", "consumers.md"), flags=re.S).group(1).split(";\n")
            if query.strip()
        ]
        done = subprocess.run(
            [python, os.path.join(harness.SOURCE, "tests", "system", "clickhouse.py"), self.subdirectory("ch")],
            input=json.dumps([made[0], *readers] + script + asked),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = json.loads(done.stdout)
        # It has not this engine, which it looks for after it has read the statement to its end.
        self.assertTrue(all("UNKNOWN_STORAGE" in answer for answer in answers[1:4]), answers[1:4])
        self.assertEqual([answer for answer in answers[4:] if answer.startswith("error")], [])
        found = [[json.loads(line) for line in answer.splitlines()] for answer in answers[-len(asked) :]]
        rows = [json.loads(value) for value in sent["kova.rollup.v1"]]
        self.assertEqual(
            {row["policy"]: int(row["admitted"]) for row in found[0]},
            {
                policy: sum(row["admitted"] for row in rows if row["policy"] == policy)
                for policy in {row["policy"] for row in rows}
            },
        )
        self.assertEqual(
            [int(answer[0]["n"]) for answer in found[1:3]], [len(sent["kova.events.v1"]), len(sent["kova.pool.v1"])]
        )
        (change,) = found[3]
        self.assertEqual(
            (change["event"], change["name"], change["who"], change["before"]), ("config_changed", "own", "local", "")
        )
        self.assertEqual(json.loads(change["after"])["limit"], 100)
        self.assertEqual(found[4], [{"ids": ["dc-1", "dc-2", "up"]}])
        for answer in (found[5], found[7]):
            self.assertGreater(len(answer), 0)


class Connect(unittest.TestCase):
    def test_the_connector_fills_the_tables_that_there_are(self):
        config = json.loads(read("deploy", "connect", "clickhouse-sink.json"))["config"]
        tables = dict(pair.split("=") for pair in config["topic2TableMap"].split(","))
        self.assertEqual(sorted(tables), sorted(TOPICS))
        self.assertEqual(sorted(config["topics"].split(",")), sorted(TOPICS))
        made = " ".join(statements())
        for table in tables.values():
            self.assertIn(f"CREATE TABLE {config['database']}.{table}\n", made)
        self.assertEqual(config["consumer.override.isolation.level"], "read_committed")
        self.assertTrue(config["password"].startswith("${file:"), "no secret in it")


if __name__ == "__main__":
    harness.main()
