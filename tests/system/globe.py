"""Regions with global quotas for the system tests, and a coordinator that grants what a test tells it to."""
import collections
import itertools
import time

import harness
import kafka
import usage_topic

GRANTS = "kova.grants.v1"
REPORT_SCHEMA = b"kova.share.v1"

_REPORT = {1: ("region", str), 2: ("policy", str), 3: ("root", bytes), 4: ("clock", int), 5: ("t0", int), 6: ("seq", int),
           7: ("live", bool), 8: ("whole", int), 9: ("demand", int), 10: ("used", int), 11: ("window", int),
           12: ("floors", int), 13: ("lent", int), 14: ("lent_epoch", int), 15: ("lent_c0", int), 16: ("floor", int)}
_GRANT = {1: ("region", str), 2: ("policy", str), 3: ("root", bytes), 4: ("seq", int), 5: ("clock", int), 6: ("t0", int),
          7: ("duration", int), 8: ("whole", int), 9: ("parts", int), 10: ("before", int), 11: ("window", int),
          12: ("floor", int), 13: ("floors", int), 14: ("epoch", int), 15: ("c0", int)}

Report = collections.namedtuple("Report", [name for name, _ in _REPORT.values()])


def decode_report(data):
    return Report(**usage_topic.decode_fields(data, _REPORT))


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_grant(**fields):
    out = b""
    for number, (name, _) in _GRANT.items():
        value = fields[name]
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(value)) + value
    return out


class Coordinator:
    """Reads the regions' reports, and grants only what it is told to. Nothing of it is safe by itself."""

    _numbers = itertools.count(1)

    def __init__(self, broker):
        self.broker = broker
        self.reader = kafka.Reader(broker.bootstrap, usage_topic.TOPIC)
        self.transactions = broker.transactions(f"fake-{next(self._numbers)}")
        self.epoch = time.time_ns() // 1000
        self.newest = {}
        self.count = collections.Counter()
        self.seq = itertools.count(1)

    def close(self):
        self.reader.close()
        self.transactions.close()

    def read(self):
        """Takes in the reports that have come."""
        record = None if self.reader.partitions > 0 else self.reader.poll(0.5)
        misses = 0  # the end of a partition is one
        while record is not None or misses <= self.reader.partitions:
            if record is not None and record.headers.get("schema") == REPORT_SCHEMA:
                self._take(record)
            record = self.reader.poll(0.02)
            misses += record is None

    def _take(self, record):
        report = decode_report(record.value)
        assert record.key == report.policy.encode() + b"/" + report.root, record
        assert record.headers["region"].decode() == report.region, record
        quota = (report.region, report.policy, report.root)
        was = self.newest.get(quota)
        self.count[quota] += 1
        if was is None or (was.clock, was.t0) < (report.clock, report.t0):
            self.newest[quota] = report

    def report(self, region, policy, root, condition=lambda report: True, timeout=None):
        """The newest of a quota that comes from now on and fulfils the condition."""
        self.read()
        last = self.newest.get((region, policy, root))

        def come():
            self.read()
            report = self.newest.get((region, policy, root))
            return report if report != last and report is not None and condition(report) else None
        return harness.wait_for(come, f"a report of {region} on {policy}/{root}", timeout)

    def record(self, region, policy, root, parts, seconds=2.0, report=None, **other):
        """Key and value of a grant that answers `report`, or the next one."""
        r = report or self.report(region, policy, root)
        fields = {"region": region, "policy": policy, "root": root, "seq": next(self.seq), "clock": r.clock, "t0": r.t0,
                  "duration": int(seconds * 1e6), "whole": r.whole, "parts": parts, "before": 0, "window": r.window,
                  "floor": 0, "floors": 1, "epoch": self.epoch, "c0": time.monotonic_ns() // 1000, **other}
        return policy.encode() + b"/" + root + b"/" + region.encode(), encode_grant(**fields)

    def produce(self, records):
        for key, value in records:
            self.transactions.produce(GRANTS, key, value, {"schema": GRANTS.encode()})

    def grant(self, region, policy, root, parts, seconds=2.0, **other):
        self.commit([self.record(region, policy, root, parts, seconds, **other)])

    def commit(self, records):
        self.transactions.begin()
        self.produce(records)
        self.transactions.commit()


class Case(kafka.Case):
    """Regions by name, each with a Redis of its own and an agent; reports come each 200 ms."""

    FLOORS = {"eu": 0.1, "us": 0.1}
    REPORT = "200ms"

    def setUp(self):
        super().setUp()
        self.redis, self.agents = {}, {}

    def config(self, region, policies, node="1", **more):
        if region not in self.redis:
            self.redis[region] = self.start_redis()
        return {"node": f"{region}-{node}", "region": region, "regions": {name: {"floor": floor} for name, floor
                                                                          in self.FLOORS.items()},
                "redis": {"mode": "standalone", "url": self.redis[region].url}, "policies": policies,
                "kafka": {"bootstrap": self.broker.bootstrap, "report": self.REPORT}, **more}

    def start(self, region, policies, node="1", **more):
        agent = self.start_agent(self.config(region, policies, node, **more),
                                 directory=self.subdirectory(f"{region}-{node}"))
        self.agents.setdefault(region, []).append(agent)
        return agent

    def start_coordinator(self):
        coordinator = Coordinator(self.broker)
        self.addCleanup(coordinator.close)
        return coordinator

    def metric(self, agent, name):
        for line in agent.http("GET", "/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None

    def share(self, agent, policy):
        return self.metric(agent, f'kova_global_share{{policy="{policy}",region="{agent.config["region"]}"}}')

    def wait_share(self, agent, policy, share, timeout=None):
        harness.wait_for(lambda: self.share(agent, policy) == share, f"a share of {share}", timeout)

    @staticmethod
    def admit(agent, policy, key, seconds, cost=1):
        """What is admitted of someone who asks all the time."""
        admitted, end = 0, time.monotonic() + seconds
        with agent.resp() as connection:
            while time.monotonic() < end:
                replies = connection.pipeline([("KOVA.TAKE", policy, key, "COST", str(cost))] * 20)
                admitted += cost * sum(reply[0] for reply in replies)
        return admitted
