"""Shares of global quotas as regions and coordinators tell each other (proto/kova_share.proto): regions that report, and an audit of what
was granted.

    audit = share_topic.Audit(whole=1000, floors={"eu": 100, "us": 100})
    for grant in share_topic.grants_of(broker.read(share_topic.GRANTS, COMMITTED)): audit.grant(grant)
    audit.check()
"""
import collections
import threading
import time

import usage_topic

GRANTS, REPORT_SCHEMA = "kova.grants.v1", "kova.share.v1"

Grant = collections.namedtuple(
    "Grant", "region policy root seq clock t0 duration whole parts before window floor floors epoch c0 partition")
Report = collections.namedtuple(
    "Report", "region policy root clock t0 seq live whole demand used window floors lent lent_epoch lent_c0 floor",
    defaults=[0])


def now_us():
    """The clock of all coordinators and regions of this machine, which is one."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


# ---- Protobuf --------------------------------------------------------------------------------------------------------

def _varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def encode(message):
    """A Report (or a Grant) by its fields' numbers, which are those of their order."""
    out = b""
    for number, value in enumerate(message[:16 if isinstance(message, Report) else 15], 1):
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            out += _varint(number << 3 | 2) + _varint(len(value)) + value
        elif value:
            out += _varint(number << 3) + _varint(int(value))
    return out


def decode_grant(value, partition=0):
    found, at = {}, 0
    while at < len(value):
        tag, at = usage_topic.varint(value, at)
        if tag & 7 == 0:
            found[tag >> 3], at = usage_topic.varint(value, at)
        else:
            size, at = usage_topic.varint(value, at)
            found[tag >> 3], at = value[at:at + size].decode(), at + size
    fields = [found.get(number, "" if number <= 3 else 0) for number in range(1, len(Grant._fields))]
    return Grant(*fields, partition)


def grants_of(records):
    """In the order of each partition; tombstones are none."""
    grants = []
    for record in records:
        if not record.value:
            continue
        grant = decode_grant(record.value, record.partition)
        assert record.key.decode() == f"{grant.policy}/{grant.root}/{grant.region}", record
        assert record.headers["schema"] == GRANTS.encode(), record.headers
        grants.append(grant)
    return grants


# ---- Regions ---------------------------------------------------------------------------------------------------------

class Share:
    """A region's share of one quota, as docs/global.md tells regions to keep it; of a rate."""

    def __init__(self, region, policy, root, whole=1000):
        self.region, self.policy, self.root, self.whole = region, policy, root, whole
        self.clock, self.seq, self.granted, self.until = 1, 0, 0, 0
        self.demand, self.lends = 0, 0
        self.epoch, self.c0, self.read, self.lent = 0, 0, 0, (0, 0, 0)
        self.floor = 0  # as its configuration has it: 1 + millionths

    def take(self, grant):
        if grant.seq <= self.seq:
            return
        until = grant.t0 + grant.duration
        in_force = grant.clock == self.clock and now_us() < until
        self.seq, self.granted, self.until = grant.seq, grant.parts * in_force, until * in_force
        self.epoch, self.c0, self.read = grant.epoch, grant.c0, now_us()

    def now(self):
        return self.granted if now_us() < self.until else 0

    def report(self):
        t0 = now_us()
        return Report(self.region, self.policy, self.root, self.clock, t0, self.seq, t0 < self.until, self.whole,
                      self.demand, 0, 0, 1, *self.lent, self.floor)


class Regions:
    """Regions that report and read in a thread of their own: self.shares[region, policy, root]."""

    def __init__(self, broker, names, quotas, interval=0.3):
        self.broker, self.interval = broker, interval
        self.shares = {(name, policy, root): Share(name, policy, root) for name in names for policy, root in quotas}
        self.silent = set()  # regions that neither report nor read
        self.reports, self.least, self.error = [], {}, None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _turn(self, reader):
        until, records = time.monotonic() + self.interval, []
        while time.monotonic() < until:
            record = reader.poll(0.05)
            if record is not None and record.value:
                records.append(record)
        for grant in grants_of(records):
            share = self.shares.get((grant.region, grant.policy, grant.root))
            if share is not None and grant.region not in self.silent:
                share.take(grant)
        reports = [share.report() for share in self.shares.values() if share.region not in self.silent]
        self.reports += reports
        self.broker.produce(usage_topic.TOPIC, [
            (f"{r.policy}/{r.root}".encode(), encode(r),
             {"schema": REPORT_SCHEMA.encode(), "region": r.region.encode(), "agent": b"a", "hlc": b"1"})
            for r in reports])

    def _run(self):
        try:
            with self.broker.reader(GRANTS, **{"isolation.level": "read_committed"}) as reader:
                while not self.stopped.is_set():
                    self._turn(reader)
        except Exception as error:  # for the test's thread
            self.error = error

    def stop(self):
        self.stopped.set()
        self.thread.join()
        if self.error is not None:
            raise self.error


# ---- The audit -------------------------------------------------------------------------------------------------------

class Audit:
    """
    Whether what was granted of each quota adds up to the whole at most, at every instant: a grant counts from when it was decided until
    its duration and margin are over, or until its region has said that it is out of force. By one clock for all. Floors count always.
    """

    def __init__(self, whole, floors, margin=600000):
        self.whole, self.floors, self.margin = whole, floors, margin
        self.grants = collections.defaultdict(list)  # by quota, as they are in the log
        self.reports = collections.defaultdict(list)

    def add(self, grants, reports=()):
        for grant in grants:
            self.grants[grant.policy, grant.root].append(grant)
        for report in reports:
            self.reports[report.policy, report.root].append(report)
        return self

    def count(self):
        return sum(map(len, self.grants.values()))

    def owners(self):
        return len({grant.epoch for grants in self.grants.values() for grant in grants})

    def _end(self, grant, reports):
        """When it counts no more: a later report of its region speaks of every grant up to its seq."""
        end = grant.c0 + grant.duration + self.margin
        for report in reports:
            if report.region == grant.region and report.t0 >= grant.c0 and report.seq >= grant.seq and not (
                    report.live and report.seq == grant.seq):
                end = min(end, report.t0)
        return end

    def check_order(self):
        """Owners follow one another, and numbers grow: nobody who was followed has committed again."""
        for quota, grants in self.grants.items():
            owners, seqs = [], {}
            for grant in grants:
                assert grant.partition == grants[0].partition, (quota, grant)
                if not owners or owners[-1] != grant.epoch:
                    assert grant.epoch not in owners, f"an owner came back: {quota} {grant}"
                    owners.append(grant.epoch)
                assert grant.seq > seqs.get(grant.region, 0), f"a number came again: {quota} {grant}"
                seqs[grant.region] = grant.seq

    def most(self):
        """The most that counted of any quota at any instant, and where."""
        worst = (0, None)
        for quota, grants in self.grants.items():
            spans = [(grant.c0, self._end(grant, self.reports[quota]), grant) for grant in grants]
            for instant, _, at in spans:
                held = dict(self.floors)
                for begin, end, grant in spans:
                    if begin <= instant < end:
                        held[grant.region] = max(held[grant.region], grant.parts)
                worst = max(worst, (sum(held.values()), (quota, at, held)), key=lambda entry: entry[0])
        return worst

    def check(self):
        self.check_order()
        most, where = self.most()
        assert most <= self.whole, f"{most} of {self.whole}: {where}"
