"""kova.usage.v1 as a reader that knows only docs/kafka.md and proto/kova_usage.proto would read it, and tests of what it says."""
import collections
import time

import harness
import kafka

TOPIC = "kova.usage.v1"

Usage = collections.namedtuple("Usage", "region agent epoch policy root other window hlc admitted refused waited")

_FIELDS = {1: ("region", str), 2: ("agent", str), 3: ("epoch", int), 4: ("policy", str), 5: ("root", bytes),
           6: ("other", bool), 7: ("window", int), 8: ("hlc", int), 9: ("admitted", int), 10: ("refused", int),
           11: ("waited", int)}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def decode_fields(data, fields):
    """The values of a message from its protobuf bytes, by name; those that are not there have their defaults."""
    values = {name: kind() for name, kind in fields.values()}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        name, kind = fields[tag >> 3]
        if tag & 7 == 0:
            value, at = varint(data, at)
            values[name] = kind(value)
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size, at = varint(data, at)
            piece = data[at:at + size]
            values[name] = piece.decode() if kind is str else piece
            at += size
    return values


def decode(data):
    return Usage(**decode_fields(data, _FIELDS))


def is_usage(record):
    """Other records of the topic say so."""
    return record.headers.get("schema") == TOPIC.encode()


class Ledger:
    """Keeps the maxima, as docs/kafka.md tells readers to."""

    def __init__(self):
        self.most = {}

    def add(self, records):
        for record in filter(is_usage, records):
            usage = decode(record.value)
            key = (usage.region, usage.agent, usage.epoch, usage.policy, usage.root, usage.other, usage.window)
            most = self.most.get(key, (0, 0, 0))
            self.most[key] = tuple(map(max, most, (usage.admitted, usage.refused, usage.waited)))
        return self

    def by_root(self, policy, counter=0):
        """The sums of `counter` (0 admitted, 1 refused, 2 waited) by root; those of others are None's."""
        sums = collections.Counter()
        for (_, _, _, name, root, other, _), counts in self.most.items():
            if name == policy:
                sums[None if other else root.decode()] += counts[counter]
        return +sums

    def total(self, policy, counter=0):
        return sum(self.by_root(policy, counter).values())


# ---- Tests ---------------------------------------------------------------------------------------------------------

POLICIES = [{"name": "open", "limit": 1000000, "per": "1s", "burst": 1000000},
            {"name": "tight", "limit": 20, "per": "1s", "burst": 20},
            {"name": "leased", "limit": 100000, "per": "1s", "burst": 100000, "lease": {"max": 1000, "ttl": "1s"}},
            {"name": "plain", "algorithm": "sliding-window", "limit": 1000, "per": "10s"},
            {"name": "home", "limit": 1000000, "per": "1s", "burst": 1000000, "scope": "home", "lease": "off"}]


class Clients:
    """Asks, and keeps count by policy and root."""

    def __init__(self):
        self.admitted = collections.defaultdict(collections.Counter)
        self.refused = collections.defaultdict(collections.Counter)

    def take(self, agent, requests):
        """(policy, key, cost) each, on one connection, 500 at a time."""
        with agent.resp() as connection:
            for at in range(0, len(requests), 500):
                part = requests[at:at + 500]
                replies = connection.pipeline([("KOVA.TAKE", policy, key, "COST", str(cost))
                                               for policy, key, cost in part])
                for (policy, key, cost), reply in zip(part, replies):
                    counts = self.admitted if reply[0] == 1 else self.refused
                    counts[policy][key.split("/")[0]] += cost


def mixed(dice, count, roots=40):
    return [(dice.choice(POLICIES)["name"], f"r{dice.randrange(roots)}/k{dice.randrange(3)}", dice.randrange(1, 4))
            for _ in range(count)]


class UsageCase(kafka.Case):
    threads = 1

    def start(self, redis, directory=None, node="n", **more):
        return self.start_agent({"node": node, "region": "eu", "regions": {"eu": {}}, "threads": self.threads,
                                 "redis": {"mode": "standalone", "url": redis.url}, "policies": POLICIES,
                                 "kafka": {"bootstrap": self.broker.bootstrap, **more}},
                                directory=directory or self.subdirectory(node))

    def ledger(self, times=1):
        """Of this test's agents; `times`: how often each record is read."""
        ledger = Ledger()
        for _ in range(times):
            ledger.add(record for record in self.broker.read(TOPIC) if self.is_ours(record))
        return ledger

    def is_ours(self, record):
        return record.headers["agent"].decode().startswith(self.id().rsplit(".", 1)[-1][:40])

    def node(self, number=0):
        return f"{self.id().rsplit('.', 1)[-1][:40]}-{number}"

    def compare(self, clients, ledger):
        for policy in (policy["name"] for policy in POLICIES):
            self.assertEqual(ledger.by_root(policy), clients.admitted[policy], policy)
            self.assertEqual(ledger.by_root(policy, 1), clients.refused[policy], policy)

    def metric(self, agent, name):
        for line in agent.http("GET", "/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def wait_published(self, agent):
        """What was counted has been handed over and has arrived."""
        time.sleep(0.6)
        harness.wait_for(lambda: self.metric(agent, "kova_usage_unpublished") == 0, "usage that has arrived")
