"""Those who ask in the world of test_chaos.py, and the book of what they were answered."""
import collections
import random
import threading
import time

import load
from checker import Admission
from resp import Resp, RespError

LIMIT, BURST = 1000, 2000
HOLD, LEASE = 4.0, 4.0  # of a permit, of a ticket
SLOTS, POOL_SLOTS = 2, 1
ENDPOINTS = [f"e{i}" for i in range(3)]
# All are wanted more than they give, and take seconds to be full again: so what is given twice shows.
POLICIES = [
    {"name": "strict", "limit": LIMIT, "per": "1s", "burst": BURST, "scope": "global", "global": "strict", "lease": {}},
    {"name": "plain", "limit": 60, "per": "1s", "burst": 240, "scope": "global", "global": "strict", "lease": "off"},
    {"name": "span", "algorithm": "sliding-window", "limit": 120, "per": "4s", "scope": "global", "global": "strict", "lease": "off"},
    {"name": "own", "limit": 10, "per": "1s", "burst": 40, "on_outage": "deny"},
    {"name": "window", "algorithm": "sliding-window", "limit": 40, "per": "5s", "on_outage": "deny"},
    {"name": "leased", "limit": 200, "per": "1s", "burst": 800, "on_outage": "deny", "lease": {}},
    {"name": "keyed", "limit": 20, "per": "1s", "burst": 80, "on_outage": "deny"},
    {"name": "slots", "algorithm": "concurrency", "limit": SLOTS, "hold": f"{HOLD:.0f}s", "on_outage": "deny"},
    {"name": "account", "limit": 4, "per": "1s", "burst": 16, "on_outage": "deny"},
]
LIMITS = {policy["name"]: policy for policy in POLICIES}
MOVING = {"name": "moving", "per": "1s", "burst": 400, "on_outage": "deny", "lease": {}}  # its limit is what is loaded again
MOVING_MOST = 100
POOL = {"name": "exits", "lease": f"{LEASE:.0f}s", "permit": "account", "select": "round-robin",
        "cooldown": {"base": "200ms", "max": "1s"}, "blame": {"hold": "100ms", "min": 50},
        "endpoints": [{"id": name, "url": f"http://192.0.2.{i + 1}:1", "slots": POOL_SLOTS, "group": "all"}
                      for i, name in enumerate(ENDPOINTS)]}
PATIENCE = 10.0  # seconds: who waits longer was not answered "at once", whatever is away
QUIET, BUSY, PEAK = 40, 1500, 5000  # of `strict`, what a region's callers ask for, a second: always some
RATE = 60  # requests a second of an agent's callers, who ask by turns
TURNS = ("strict", "plain", "strict", "own", "strict", "span", "strict", "leased", "strict", "window", "strict", "changing")
STRICT_RATE = RATE * TURNS.count("strict") / len(TURNS)
COST = {"plain": 3, "span": 2, "own": 2, "window": 2, "leased": 60, "moving": 60, "keyed": 10}
WORKERS = 4  # of each kind in a region

Permit = collections.namedtuple("Permit", "region name sent received released")
Ticket = collections.namedtuple("Ticket", "region ticket endpoint sent received reported")


class Book:
    """Of each (agent, policy): what was admitted, and what nobody knows of, as Admissions. An agent is (region, number)."""

    def __init__(self):
        self.admitted, self.unknown = collections.defaultdict(list), collections.defaultdict(list)
        self.permits, self.tickets, self.late, self.wrong = [], [], [], []
        self.wanted = []  # (sent, cost) of `strict`, whatever was answered
        self.requests = 0

    def answered(self, agent, policy, cost, sent, received, yes):
        """`yes` None: the answer was lost."""
        self.requests += 1
        if policy == "strict":
            self.wanted.append((sent, cost))
        if received - sent > PATIENCE:
            self.late.append((agent, policy, sent, received))
        if yes is None:
            self.unknown[agent, policy].append(Admission(sent, received, cost))
        elif yes:
            self.admitted[agent, policy].append(Admission(sent, received, cost))

    def of(self, policy, region=None):
        return [a for (agent, name), taken in list(self.admitted.items()) for a in taken
                if name == policy and region in (None, agent[0])]


class Callers:
    """Those of one agent. `demand` is its region's, shared with the callers of the others there."""

    def __init__(self, case, agent, book):
        self.case, self.agent, self.book = case, agent, book
        self.dice = random.Random(repr(agent))
        self.over = False
        self.load = load.Background(self._run)

    def is_set(self):
        return self.over or self.case.paused(self.agent[0])

    def _words(self, n):
        policy = TURNS[n % len(TURNS)]
        if policy == "changing":
            policy = self.dice.choice(("moving", "keyed"))
        cost = COST.get(policy)
        if policy == "strict":
            cost = self.case.demand[self.agent[0]] / (self.case.agents_each * STRICT_RATE)
            if cost < 1 and self.dice.random() >= cost:
                policy, cost = "own", COST["own"]
        wait = ("WAIT", "300") if policy == "own" and n % 5 == 0 else ()
        return ("KOVA.TAKE", policy, "all", "COST", str(max(1, int(cost))), *wait)

    def _note(self, hits):
        for hit in hits:
            yes = None if hit.lost else hit.admitted
            self.book.answered(self.agent, hit.words[1], int(hit.words[4]), hit.sent, hit.received, yes)

    def _run(self):
        region, number = self.agent
        with self.case.wire.inside(region), load.Swarm([self.case.resp_address(number)], 4) as swarm:
            while not self.over:
                if self.is_set():
                    time.sleep(0.05)
                else:
                    self._note(swarm.run(5, self._words, rate=RATE, stop=self))

    def result(self):
        self.over = True
        return self.load.result()


class Worker:
    """Asks any agent of its region for something that has to be given back, keeps it for a while, and gives it back to any."""

    def __init__(self, case, region, number, book):
        self.case, self.region, self.book = case, region, book
        self.dice = random.Random(f"{region} {number} {type(self).__name__}")
        self.over = False
        self.clients = {}
        self.load = load.Background(self._run)

    def _run(self):
        with self.case.wire.inside(self.region):
            while not self.over:
                if self.case.paused(self.region) or self.case.workers_pause:
                    time.sleep(0.05)
                else:
                    self.step()
            for client in self.clients.values():
                client.close()

    def result(self):
        self.over = True
        return self.load.result()

    def ask(self, *words):
        """(agent, sent, reply or None, received); an error is a reply."""
        number = self.dice.randrange(self.case.agents_each)
        sent = time.time()
        try:
            client = self.clients.get(number) or Resp(self.case.resp_address(number), timeout=60)
            self.clients[number] = client
            reply = client.call(*words)
        except RespError as error:
            reply = error
        except OSError:
            client = self.clients.pop(number, None)
            if client is not None:
                client.close()
            reply = None
            time.sleep(0.05)
        return (self.region, number), sent, reply, time.time()

    def wrong(self, what, sent, at):
        self.book.wrong.append((self.region, what, sent, at))


class Permits(Worker):
    def step(self):
        agent, sent, reply, received = self.ask("KOVA.ACQUIRE", "slots", "all", "WAIT", "200")
        yes = isinstance(reply, list) and reply[0] == 1
        self.book.answered(agent, "slots", 1, sent, received, None if reply is None else yes)
        if not yes:
            time.sleep(0.05)
            return
        name = reply[6]
        time.sleep(self.dice.uniform(0.02, 0.8))
        released = time.time()
        if self.dice.random() < 0.05:  # it dies with it
            released = received + HOLD
        else:
            _, _, reply, at = self.ask("KOVA.RELEASE", "slots", "all", name)
            if reply == 0 and at < sent + HOLD - 1:
                self.wrong("a permit that is not known any more", sent, at)
        self.book.permits.append(Permit(self.region, name, sent, received, released))


class Exits(Worker):
    OUTCOMES = ["ok"] * 8 + ["refused", "timeout", "target", "captcha", "cancelled"]

    def step(self):
        target = ("TARGET", self.dice.choice("abc")) if self.dice.random() < 0.5 else ()
        agent, sent, reply, received = self.ask("KOVA.POOL.NEXT", "exits", "WAIT", "300", *target)
        given = dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else {}
        yes = given.get("ticket") is not None
        self.book.answered(agent, "account", 1, sent, received, None if reply is None else yes)
        if not yes:
            time.sleep(0.05)
            return
        time.sleep(self.dice.uniform(0.02, 0.6))
        reported, ticket = time.time(), given["ticket"]
        if self.dice.random() < 0.05:
            reported = received + LEASE
        else:
            _, _, reply, at = self.ask("KOVA.POOL.REPORT", "exits", ticket, self.dice.choice(self.OUTCOMES))
            if isinstance(reply, RespError) and str(reply).startswith("NOTICKET"):
                self.wrong("a ticket that is not known any more", sent, at)
        self.book.tickets.append(Ticket(self.region, ticket, given["endpoint"], sent, received, reported))


def start(case, book):
    """All of them, running."""
    regions = case.wire.places[:-1]
    callers = [Callers(case, (region, n), book) for region in regions for n in range(case.agents_each)]
    return [*callers, *(kind(case, region, n, book) for region in regions for kind in (Permits, Exits) for n in range(WORKERS))]


def stop(people):
    for one in people:
        one.over = True
    for one in people:
        one.result()
