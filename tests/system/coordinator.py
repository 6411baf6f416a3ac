"""A kova-coordinator for system tests, and what it writes: the ledger and the rollup, as their readers see them."""
import collections
import json
import os
import random
import time

import jsonschema

import harness
import kafka
import usage_topic

LEDGER, ROLLUP = "kova.ledger.v1", "kova.rollup.v1"


class Coordinator(harness.Process):
    """With `config` (a dict) on a free port."""

    def __init__(self, directory, config, options=(), env=None):
        self.directory = directory
        self.config_path = os.path.join(directory, "coordinator.json")
        config = dict(config)
        config.setdefault("http", f"127.0.0.1:{harness.free_port()}")
        host, port = config["http"].rsplit(":", 1)
        self.http_address = (host, int(port))
        self.write_config(config)
        super().__init__([harness.program("kova-coordinator"), "--config", self.config_path, *options],
                         os.path.join(directory, "coordinator.log"), env=env)

    def write_config(self, config):
        with open(self.config_path + ".new", "w", encoding="utf-8") as file:
            json.dump(config, file)
        os.replace(self.config_path + ".new", self.config_path)

    def http(self, path):
        return harness.http_request(self.http_address, "GET", path)

    def metric(self, name):
        for line in self.http("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def wait_ready(self, timeout=60):
        def ready():
            assert self.running(), self.log()
            return self.http("/readyz").status == 200
        harness.wait_for(ready, "a coordinator that is ready", timeout)
        return self

    def wait_partitions(self, count, timeout=60):
        harness.wait_for(lambda: self.metric("kova_coordinator_partitions") == count, f"{count} partitions", timeout)
        return self


# ---- Protobuf, as proto/kova_ledger.proto has it ---------------------------------------------------------------------

def _fields(data):
    at = 0
    while at < len(data):
        tag, at = usage_topic.varint(data, at)
        if tag & 7 == 0:
            value, at = usage_topic.varint(data, at)
        else:
            size, at = usage_topic.varint(data, at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def _counts(data):
    found = dict(_fields(data))
    return tuple(found.get(number, 0) for number in (1, 2, 3))


def ledger_of(records):
    """Of each (policy, root, region) what its last record adds up to; `root` None: of others."""
    sums = {}
    for record in records:
        found = collections.defaultdict(list)
        for number, value in _fields(record.value):
            found[number].append(value)
        parts = [_counts(value) for value in found[5]]
        parts += [_counts(dict(_fields(value)).get(5, b"")) for value in found[6]]
        root = None if found[4] else (found[3] or [b""])[0].decode()
        key = (found[2][0].decode(), root, found[1][0].decode())
        expected = "/".join(part for part in key if part is not None)
        assert record.key == expected.encode(), (record.key, expected)
        sums[key] = tuple(map(sum, zip(*parts)))
    return sums


# ---- The rollup ------------------------------------------------------------------------------------------------------

def _validator():
    with open(os.path.join(harness.SOURCE, "proto", "rollup.schema.json"), encoding="utf-8") as file:
        return jsonschema.Draft202012Validator(json.load(file), format_checker=jsonschema.FormatChecker())


def rows_of(records):
    """The rows, each checked: by the schema, and that its regions add up."""
    validator, rows = _validator(), []
    for record in records:
        row = json.loads(record.value)
        validator.validate(row)
        assert record.key.decode() == row["policy"], record
        assert record.headers["schema"] == ROLLUP.encode(), record.headers
        for count in ("admitted", "refused", "waited"):
            assert row[count] == sum(region[count] for region in row["regions"].values()), row
        rows.append(row)
    return rows


def used(rows, count="admitted"):
    """By policy, over all intervals."""
    sums = collections.Counter()
    for row in rows:
        sums[row["policy"]] += row[count]
    return +sums


# ---- Tests ----------------------------------------------------------------------------------------------------------

COMMITTED = {"isolation.level": "read_committed"}


class Case(usage_topic.UsageCase):
    """Each test has a cluster of its own: a coordinator counts all that is in the topic."""

    def setUp(self):
        super().setUp()
        self.broker = type(self).broker = kafka.Broker()
        self.broker.create_topic(usage_topic.TOPIC, 4)
        self.dice, self.clients, self.redis = random.Random(self.id()), usage_topic.Clients(), self.start_redis()

        self.broker.create_topic(ROLLUP, 2)
        self.rollup, self.read_rows = self.broker.reader(ROLLUP, **COMMITTED), []

    def tearDown(self):
        super().tearDown()
        self.rollup.close()
        self.broker.stop()

    @classmethod
    def setUpClass(cls):
        pass

    def is_ours(self, record):
        return True

    def coordinate(self, node="c", ready=True, **more):
        config = {"node": node, "kafka": {"bootstrap": self.broker.bootstrap}, "policies": usage_topic.POLICIES,
                  "rollup": "200ms", **more}
        process = self.keep(Coordinator(self.subdirectory(node), config))
        return process.wait_ready() if ready else process

    def use(self, *agents, count=500):
        for agent in agents:
            self.clients.take(agent, usage_topic.mixed(self.dice, count))

    def rows(self, seconds=0.5):
        """All that have come so far; there are always more."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            record = self.rollup.poll(0.05)
            if record is not None:
                self.read_rows += rows_of([record])
        return self.read_rows

    def kept(self):
        return ledger_of(self.broker.read(LEDGER, COMMITTED))

    def expected(self, counted):
        return {policy: roots.total() for policy, roots in counted.items() if roots.total() > 0}

    def wait_exact(self, timeout=60):
        """What is published and what is kept come to what the clients counted, and stay there."""
        admitted, refused = self.expected(self.clients.admitted), self.expected(self.clients.refused)
        harness.wait_for(lambda: used(self.rows()) == admitted, "rows that add up", timeout)
        rows = self.rows(seconds=1.5)
        self.assertEqual(used(rows), admitted)
        self.assertEqual(used(rows, "refused"), refused)
        by_root = {(policy, root, "eu"): (n, self.clients.refused[policy][root])
                   for policy, roots in self.clients.admitted.items() for root, n in roots.items()}
        for policy, roots in self.clients.refused.items():
            for root, n in roots.items():
                by_root.setdefault((policy, root, "eu"), (0, n))
        self.assertEqual({key: sums[:2] for key, sums in self.kept().items()}, by_root)
        return rows
