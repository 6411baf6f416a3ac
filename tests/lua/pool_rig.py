"""The pool script in a real Redis, by a clock of the test's: definitions and batches as lib/core/pool_script.c writes them."""
import os
import struct

import harness
from resp import Resp

SECOND = 1000000
OUTCOMES = "ok refused auth tunnel timeout target blocked captcha empty cancelled".split()
PAUSES = ["", "floor", "cooling", "slots", "held", "empty"]
EVENTS = ["", "cooled", "returned", "disabled", "paused", "resumed", "held", "escalated", "capped", "extended"]
# The script is a function of its own: it has the 200 local variables that one may have for itself.
CLOCK = """local redis = setmetatable({call = function(name, ...)
  if name == 'TIME' then return {string.sub(ARGV[3], 1, -7), string.sub(ARGV[3], -6)} end
  return redis.call(name, ...) end}, {__index = redis})
return (function()
%s
end)()
"""


def definition(endpoints, **rule):
    """`endpoints`: ids or dicts; `rule`: times in seconds, by the names of lua/pool_prelude.lua."""
    def get(name, default):
        return rule.pop(name, default)

    def us(name, default):
        return float(round(get(name, default) * SECOND))

    lease = get("lease", 120)
    data = struct.pack("<9B", ["proxy", "key"].index(get("kind", "proxy")),
                       ["round-robin", "weighted", "least-loaded"].index(get("select", "round-robin")), get("window", 10),
                       get("threshold", 5), get("direct", 0), get("health", 0), get("exclusive", 0), get("after", 3), get("of", 10))
    data += struct.pack("<10d", us("base", 30), us("max", 900), us("trial", lease), us("ramp", 0), lease * SECOND,
                        get("floor", 1), us("pause", 30), us("within", 10), get("least", 3), us("hold", 30))
    endpoints = [{"id": e} if isinstance(e, str) else e for e in endpoints]
    tiers = [0 if e.get("off") or e.get("weight", 1) == 0 else e.get("tier", 1) for e in endpoints]
    slots = [e.get("slots", 0) for e in endpoints]
    n, ids, accounts, records = len(endpoints), b"", b"", b""
    data += struct.pack("<7d2IB", us("escalated", 600), us("ttl", 600), us("report", 60), us("every", 10), get("jitter", 0),
                        get("share", 0.5), get("max_out", 0.5), n, sum(not e.get("off") for e in endpoints), any(slots))
    assert not rule, rule
    ids_at = len(data) + 4 + 9 * 2 + n * (1 + 8 + 8 + 12) + 1
    accounts_at = ids_at + sum(1 + len(e["id"]) for e in endpoints)
    for e in endpoints:
        account = e.get("account", "").encode()
        records += struct.pack("<BBIBIB", e.get("tier", 1), e.get("off", 0), ids_at + len(ids) + 1, len(e["id"]),
                               accounts_at + len(accounts), len(account))
        ids += struct.pack("B", len(e["id"])) + e["id"].encode()
        accounts += account
    data += struct.pack("<I9H", accounts_at, *(tiers.count(tier) for tier in range(1, 10))) + bytes(tiers)
    data += struct.pack(f"<{n}d{n}d", *(e.get("weight", 1) for e in endpoints), *slots)
    return data + records + ids + accounts


class Next(dict):
    """What NEXT gave: `endpoint` from 1 on, None when there is none, and then `why`, `retry` and `firm` in seconds."""
    __getattr__ = dict.get


class Case(harness.Case):
    """A test with a Redis and one pool; `self.now` in µs is the script's clock."""

    def setUp(self):
        super().setUp()
        path = os.path.join(harness.BUILD, "generated", "lua_pool.c.lua")
        with open(path, encoding="utf-8") as source:
            self.source = source.read()
        self.redis = self.start_redis()
        self.client = self.connect(self.redis)
        self.now = 1800000000 * SECOND
        self.sha = self.client.call("SCRIPT", "LOAD", CLOCK % self.source)
        self.use([])
        self.events = []

    def connect(self, redis):
        client = Resp(redis.address)
        self.addCleanup(client.close)
        return client

    def use(self, endpoints, **rule):
        self.definition = definition(endpoints, **rule)

    def later(self, seconds):
        self.now += round(seconds * SECOND)

    def call(self, ops, definition=None, pool="k:p{x}"):
        program = b"STAMP678" + struct.pack("<dH", 0.5, len(ops)) + b"".join(ops) + b"0123456789abcdef"
        self.client.send("EVALSHA", self.sha, 1, pool, definition or self.definition, program, str(self.now))
        line = self.client.input.readline()
        self.assertEqual(line[:1], b"$", line)
        self.reply = self.client.input.read(int(line[1:]) + 2)[:-2]
        self.assertEqual(self.reply[:8], b"STAMP678")
        self.at = 16
        for _ in range(self.take("H")[0]):
            kind, endpoint, amount, why, length = self.take("BHdBH")
            target = self.text(length)
            self.events.append((EVENTS[kind], endpoint, amount / SECOND if EVENTS[kind] != "escalated" else amount, target))

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.reply, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def text(self, length):
        self.at += length
        return self.reply[self.at - length:self.at].decode()

    def told(self):
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def read_next(self):
        self.assertEqual(self.take("B"), (0,), "nobody's permits were asked for")
        if self.take("B")[0]:
            endpoint, tier, flags, moves, serial, length = self.take("HBBHdB")
            return Next(endpoint=endpoint, tier=tier, moved=flags & 1, trial=flags >> 1, moves=moves, serial=serial,
                        ticket=self.text(length))
        why, retry, firm = self.take("Bdd")
        return Next(why=PAUSES[why], retry=retry / SECOND if retry >= 0 else -1, firm=firm / SECOND)

    def nexts(self, n, target="", session="", tier=0, skip=(), definition=None, pool="k:p{x}", waiter="", arrival=0):
        op = b"\1" + struct.pack("<B8sdH", tier, waiter.encode(), arrival, len(target)) + target.encode() + struct.pack("<H", len(session)) + session.encode()
        op += struct.pack(f"<HH{len(skip)}H", 0, len(skip), *skip)
        self.call([op] * n, definition, pool)
        return [self.read_next() for _ in range(n)]

    def next(self, **options):
        return self.nexts(1, **options)[0]

    def report(self, ticket, outcome="ok", status=0, hint=0, quotas=(), definition=None, pool="k:p{x}"):
        """True: it counted, False: it did not, None: no such ticket."""
        ticket = ticket["ticket"] if isinstance(ticket, dict) else ticket
        op = b"\2" + struct.pack("<H", len(ticket)) + ticket.encode()
        op += struct.pack("<BHdB", OUTCOMES.index(outcome), status, hint * SECOND, len(quotas))
        for name, limit, left, reset in quotas:
            op += struct.pack("B", len(name)) + name.encode() + struct.pack("<ddBd", limit, left, 0, reset * SECOND)
        self.call([op], definition, pool)
        return {0: None, 1: True, 2: False}[self.take("B")[0]]

    def leave(self, waiter):
        self.call([b"\11" + struct.pack("<8s", waiter.encode())])

    def undo(self, given):
        self.call([b"\3" + struct.pack("<d", given.serial)])

    def enable(self, endpoint):
        self.call([b"\6" + struct.pack("<H", endpoint)])

    def probe(self, endpoint, began, result=1):
        self.call([b"\7" + struct.pack("<HdB", endpoint, began, result)])
        return bool(self.take("B")[0])

    def prober(self, agent, ttl=10, room=64):
        self.call([b"\10" + agent.encode().ljust(16) + struct.pack("<dH", ttl * SECOND, room)])
        is_us, n = self.take("BH")
        self.more = is_us == 2
        return bool(is_us), [self.take("Hd") for _ in range(n)]

    def show(self):
        self.call([b"\4"])
        names = "start end cooldowns cooled active_min tickets above good back n".split()
        shown = dict(zip(names, self.take("10d")))
        self.take("ddBd")
        shown["endpoints"] = []
        for _ in range(self.take("H")[0]):
            keys = "disabled cooling returns level outcomes failures in_flight tickets held quotas".split()
            e = Next(zip(keys, self.take("BBdBBBdddB")))
            e["quota"] = {}
            for _ in range(e.quotas):
                name = self.text(self.take("B")[0])
                e["quota"][name] = self.take("ddd")
            shown["endpoints"].append(e)
        shown["targets"] = {}
        for _ in range(self.take("H")[0]):
            name = self.text(self.take("H")[0])
            tier, held, n = self.take("BdH")
            shown["targets"][name] = (tier, held / SECOND, [self.take("Hd") for _ in range(n)])
        shown["probes"] = [self.take("HBd") for _ in range(self.take("H")[0])] if self.at < len(self.reply) else None
        return Next(shown)

    def in_flight(self):
        return [e.in_flight for e in self.show().endpoints]

    def fails(self, endpoint, times=5, outcome="refused", **options):
        """`times` failures of one endpoint, good answers of all others meanwhile."""
        target = options.pop("target", "")
        while times > 0:
            given = self.next(target=target)
            self.assertIsNotNone(given.endpoint, given)
            if given.endpoint == endpoint:
                self.report(given, outcome, **options)
                times -= 1
            else:
                self.report(given)
