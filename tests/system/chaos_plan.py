"""What fails when, of the world of world.py: made from a seed alone, before any of it begins, and written down line by line.

A round has faults, several at a time, that are all over at its end; a quiet phase follows. What the documentation says nothing
of is not in it:

- Redis's clock and an agent's clock of the same region are not wrong at the same time, nor is Redis's set while an agent
  starts: whether a clock was set is found out by comparing the two, and an agent that has just started knows no other
  (docs/clocks.md, docs/global.md).
- Redis is emptied only when its region was not asked for anything for so long that all of it was full, no permit, ticket or
  lease was out, and no clock wrong: what it acknowledged it keeps is the first assumption of every limit (docs/leases.md,
  docs/global.md). And for less time than after which a region lends its floor, for the promise would be forgotten as well.
- Redis's clock leaps beneath leases (docs/leases.md, "Two clocks"): that is in it, and whoever judges leaves what is leased out
  of account around a leap (chaos_judge.py).
- Limits change, bursts don't: what is missing beyond a lowered burst is forgotten, and there when it is raised again (docs/leases.md,
  "When the limit changes").
- The broker keeps its files, and a machine stays up: who is killed has written what it acknowledged.
"""
import collections
import itertools
import json
import random

from world import HUB, REGIONS

AGENTS = 2  # in each region
ROUND = 30.0  # seconds of faults
QUIET_TAKES = 30.0  # about
PAUSE = 7.0  # of a region, before its Redis is emptied: longer than all that it has given out counts
AFTER = 3.0  # in which a part that was away is given no other fault that bears on the same promise
BROKER_STARTS = 8.0  # seconds, about

Fault = collections.namedtuple("Fault", "round at kind where seconds value")

PLACES = (*REGIONS, HUB)
WAYS = list(itertools.permutations(PLACES, 2))


def _agent(dice):
    return [dice.choice(REGIONS), dice.randrange(AGENTS)]


def _region(dice):
    return [dice.choice(REGIONS)]


def _coordinator(dice):
    return [dice.choice(("c0", "c1"))]


def _way(dice):
    return list(dice.choice(WAYS))


def _nowhere(_):
    return []


def _nothing(_):
    return None


def _leap(dice):
    """Small ones go unnoticed, larger ones don't."""
    return round(dice.choice((-1, 1)) * 10 ** dice.uniform(-1.5, 0.6), 3)


# kind: (how often, where, seconds from and to, value)
KINDS = {
    "kill_agent": (3, _agent, (0.5, 6), _nothing),
    "stop_agent": (2, _agent, (0.5, 6), _nothing),
    "drain_agent": (2, _agent, (2, 6), _nothing),
    "agent_clock": (2, _agent, (2, 8), lambda dice: round(dice.uniform(-10, 10), 3)),
    "kill_redis": (2, _region, (0.2, 3), _nothing),
    "stop_redis": (2, _region, (0.5, 5), _nothing),
    "empty_redis": (1, _region, (PAUSE, PAUSE), _nothing),
    "redis_clock": (2, _region, (0.5, 5), _leap),
    "cut_connections": (1, _region, (0.1, 0.1), _nothing),
    "forget_scripts": (1, _region, (0.1, 0.1), _nothing),
    "kill_coordinator": (2, _coordinator, (0.5, 6), _nothing),
    "stop_coordinator": (2, _coordinator, (2, 14), _nothing),
    "kill_broker": (1, _nowhere, (1, 4), _nothing),
    "stop_broker": (1, _nowhere, (1, 7), _nothing),
    "cut_way": (3, _way, (1, 8), _nothing),
    "cut_both_ways": (2, _way, (1, 8), _nothing),
    "delay": (2, _way, (2, 10), lambda dice: round(dice.uniform(0.1, 0.6), 3)),
    "lose": (2, _way, (2, 10), lambda dice: round(dice.uniform(0.02, 0.3), 3)),
    "double": (2, _way, (2, 10), lambda dice: round(dice.uniform(0.1, 0.5), 3)),
    "reload": (2, _agent, (0.1, 0.1), lambda dice: dice.choice((60, 80, 100))),
    "override": (2, _agent, (0.1, 0.1), lambda dice: dice.choice((5, 10, 20))),
    "move": (3, _region, (0.1, 0.1), _nothing),
}
OF_AGENT = {"kill_agent", "stop_agent", "drain_agent", "reload", "override"}


def claims(fault):
    """(thing, whether alone) of what the fault bears on: two faults may have one at the same time if neither is alone."""
    kind, where = fault.kind, tuple(fault.where)
    if kind in OF_AGENT:
        starts = [(("starts", where[0]), False)] if kind in ("kill_agent", "drain_agent") else []
        return [(("agent", *where), True), (("asked", where[0]), False), *starts]
    if kind == "agent_clock":
        return [(("clock", *where), True), (("clocks", where[0]), False), (("asked", where[0]), False)]
    if kind == "redis_clock":
        return [(("redis", *where), True), (("clocks", *where), True), (("starts", *where), True), (("asked", *where), False)]
    if kind == "empty_redis":
        return [(("redis", *where), True), (("asked", *where), True)]
    if kind.endswith("_redis") or kind in ("cut_connections", "forget_scripts"):
        return [(("redis", *where), True), (("asked", *where), False)]
    if kind.endswith("_coordinator"):
        return [(("coordinator", *where), True)]
    if kind.endswith("_broker"):
        return [(("broker",), True)]
    if kind == "cut_both_ways":
        return [(("cut_way", *where), True), (("cut_way", *reversed(where)), True)]
    return [] if kind == "move" else [((kind, *where), True)]


def over(fault):
    """Seconds from the round's begin after which what the fault claims is free."""
    after = {"redis_clock": AFTER + abs(fault.value or 0), "kill_broker": BROKER_STARTS}.get(fault.kind, AFTER)
    return fault.at + fault.seconds + after


def compatible(fault, other):
    if fault.at >= over(other) or other.at >= over(fault):
        return True
    mine = dict(claims(fault))
    return not any(thing in mine and (alone or mine[thing]) for thing, alone in claims(other))


def make_round(dice, number, kinds=None):
    kinds = kinds or list(KINDS)
    weights = [KINDS[kind][0] for kind in kinds]
    chosen, at = [], 0.5
    while True:
        at += dice.expovariate(1 / 0.9)
        (kind,) = dice.choices(kinds, weights)
        _, where, span, value = KINDS[kind]
        fault = Fault(number, round(at, 3), kind, where(dice), round(dice.uniform(*span), 3), value(dice))
        if at > ROUND - 1:
            return chosen
        if fault.at + fault.seconds <= ROUND and all(compatible(fault, other) for other in chosen):
            chosen.append(fault)


def make(seed, seconds):
    """The faults of as many rounds as there is time for; a longer plan begins as a shorter one of the same seed."""
    dice = random.Random(seed)
    rounds = max(1, int(seconds // (ROUND + QUIET_TAKES)))
    return [fault for number in range(rounds) for fault in make_round(dice, number)]


# ---- the log: a plan, and what became of it ---------------------------------------------------------------------------

def write(path, seed, faults):
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"seed": seed}) + "\n")
        for fault in faults:
            file.write(json.dumps({"plan": fault._asdict()}) + "\n")


def read(path):
    """(seed, faults) of a log; what was said beside the plan is passed over. A bad line is a ValueError that names it."""
    seed, faults = None, []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                if "seed" in line:
                    seed = line["seed"]
                elif "plan" in line:
                    faults.append(_checked(Fault(**line["plan"])))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}:{number}: {error}; a line is JSON, of a fault {{\"plan\": {{"
                                 f"{', '.join(Fault._fields)}}}}}") from None
    if seed is None or not faults:
        raise ValueError(f"{path}: no plan; a log begins with {{\"seed\": N}} and has a line for each fault")
    return seed, faults


def _checked(fault):
    if fault.kind not in KINDS:
        raise ValueError(f"no such fault: {fault.kind}; there are {', '.join(KINDS)}")
    return fault
