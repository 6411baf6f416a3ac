"""Random requests against a model of the contract in exact arithmetic, independent of the product's own: all agree."""
# Bears others.

import fractions
import math
import random

import harness
import shapes

MS, SECOND, DAY = 1000, 1_000_000, 86_400_000_000  # in µs


class Bucket:
    """Also GCRA: the same limit in another representation."""

    def __init__(self, limit, per_us, burst):
        self.rate, self.full = fractions.Fraction(limit, per_us), burst
        self.level, self.at = fractions.Fraction(burst), None

    def refill(self, now):
        if self.at is not None:
            self.level = min(self.full, self.level + (now - self.at) * self.rate)
        self.at = now

    def wait(self, now, cost):
        self.refill(now)
        if cost > self.full:
            return -1
        return max(0, math.ceil((cost - self.level) / self.rate))

    def left(self, now):
        self.refill(now)
        return math.floor(self.level)

    def reset(self, now):
        self.refill(now)
        return math.ceil((self.full - self.level) / self.rate)

    def take(self, now, cost):
        self.refill(now)
        self.level -= cost


class Window:
    def __init__(self, limit, per_us):
        self.full, self.per, self.entries = limit, per_us, []

    def live(self, now):
        self.entries = [(at, cost) for at, cost in self.entries if now - at < self.per]
        return sum(cost for _, cost in self.entries)

    def wait(self, now, cost):
        used = self.live(now)
        if cost > self.full:
            return -1
        for at, weight in [(now, 0), *self.entries]:
            used -= weight
            if used + cost <= self.full:
                return 0 if weight == 0 and at == now else at + self.per - now
        raise AssertionError("an empty window has room")

    def left(self, now):
        return self.full - self.live(now)

    def reset(self, now):
        self.live(now)
        return max((at + self.per - now for at, _ in self.entries), default=0)

    def take(self, now, cost):
        self.entries.append((now, cost))


class Counter:
    def __init__(self, limit, per_us):
        self.full, self.per = limit, per_us
        self.start = self.before = self.current = 0

    def turn(self, now):
        start = now - now % self.per
        if start == self.start + self.per:
            self.before, self.current = self.current, 0
        elif start > self.start:
            self.before = self.current = 0
        self.start = start
        return fractions.Fraction(self.before * (start + self.per - now), self.per) + self.current

    def wait(self, now, cost):
        if cost > self.full:
            return -1
        if self.turn(now) + cost <= self.full:
            return 0
        end = self.start + self.per
        if self.current + cost <= self.full and self.before:
            # before * (end - t) / per + current + cost <= full
            at = math.ceil(end - fractions.Fraction((self.full - self.current - cost) * self.per, self.before))
            return at - now
        at = math.ceil(end + self.per - fractions.Fraction((self.full - cost) * self.per, self.current))
        return max(at, end) - now

    def left(self, now):
        return max(0, math.floor(self.full - self.turn(now)))

    def reset(self, now):
        self.turn(now)
        return self.start + (2 * self.per if self.current else self.per if self.before else now - self.start) - now

    def take(self, now, cost):
        self.turn(now)
        self.current += cost


class Day:
    def __init__(self, limit):
        self.full, self.start, self.used = limit, 0, 0

    def turn(self, now):
        start = now - now % DAY
        if start > self.start:
            self.start, self.used = start, 0

    def wait(self, now, cost):
        self.turn(now)
        if cost > self.full:
            return -1
        return 0 if self.used + cost <= self.full else self.start + DAY - now

    def left(self, now):
        self.turn(now)
        return self.full - self.used

    def reset(self, now):
        self.turn(now)
        return self.start + DAY - now

    def take(self, now, cost):
        self.turn(now)
        self.used += cost


class Permits:
    def __init__(self, limit, hold_us):
        self.full, self.hold, self.held = limit, hold_us, {}

    def live(self, now):
        self.held = {name: end for name, end in self.held.items() if end > now}

    def wait(self, now, _):
        self.live(now)
        return 0 if len(self.held) < self.full else min(self.held.values()) - now

    def left(self, now):
        self.live(now)
        return self.full - len(self.held)

    def reset(self, now):
        self.live(now)
        return max((end - now for end in self.held.values()), default=0)


# Rates whose refill is a whole number of millionths in each ms, so that the product's answer is exact to the ms.
LEVELS = [("tenant", Bucket, 10, SECOND, 20), ("user", Bucket, 5, SECOND, 8), ("rest", Bucket, 6, 60 * SECOND, 5)]
POLICIES = [
    {"name": "bucket", "limit": 10, "per": "1s", "burst": 20},
    {"name": "slow", "limit": 1, "per": "10s", "burst": 3},
    {"name": "gcra", "algorithm": "gcra", "limit": 10, "per": "1s", "burst": 15},
    {"name": "window", "algorithm": "sliding-window", "limit": 12, "per": "3s"},
    {"name": "counter", "algorithm": "sliding-counter", "limit": 12, "per": "4s"},
    {"name": "day", "algorithm": "calendar", "limit": 200, "per": "day"},
    {"name": "permits", "algorithm": "concurrency", "limit": 3, "hold": "5s"},
    {
        "name": "levels",
        "levels": [
            {"name": name, "limit": limit, "per": f"{per // SECOND}s", "burst": burst}
            for name, _, limit, per, burst in LEVELS
        ],
    },
]


def model_of(policy, level):
    return {
        "bucket": lambda: Bucket(10, SECOND, 20),
        "slow": lambda: Bucket(1, 10 * SECOND, 3),
        "gcra": lambda: Bucket(10, SECOND, 15),
        "window": lambda: Window(12, 3 * SECOND),
        "counter": lambda: Counter(12, 4 * SECOND),
        "day": lambda: Day(200),
        "permits": lambda: Permits(3, 5 * SECOND),
        "levels": lambda: LEVELS[level][1](*LEVELS[level][2:]),
    }[policy]()


def ms_up(us):
    return -1 if us < 0 else -(-us // MS)


class Model:
    def __init__(self):
        self.states = {}
        self.ids = {}

    def checks(self, pairs):
        """(name of the level, state, cost) of each."""
        found = []
        for policy, key, cost in pairs:
            parts = key.split("/")
            depth = min(len(parts), 3) if policy == "levels" else 1
            for level in range(depth):
                path = key if level == 2 or policy != "levels" else "/".join(parts[: level + 1])
                state = self.states.setdefault((policy, level, path), None) or model_of(policy, level)
                self.states[policy, level, path] = state
                found.append((LEVELS[level][0] if policy == "levels" else policy, state, cost))
        return found

    def total_costs(self, checks):
        """The same state several times in one request counts with the sum."""
        total = {}
        for name, state, cost in checks:
            total[id(state)] = (name, state, total.get(id(state), (0, 0, 0))[2] + cost)
        return list(total.values())


class Random(shapes.Frozen):
    STEPS = 10000 if not harness.SANITIZED else 600
    SEED = 20261130

    def judge(self, reply, now, model, pairs, takes):
        merged = model.total_costs(model.checks(pairs))
        waits = [(state.wait(now, cost), name, state) for name, state, cost in merged]
        refusing = [(wait, name, state) for wait, name, state in waits if wait != 0]
        if refusing:
            self.assertEqual(reply[0], 0)
            longest = -1 if any(wait < 0 for wait, _, _ in refusing) else ms_up(max(wait for wait, _, _ in refusing))
            self.assertIn(reply[5], {f"limited:{name}" for _, name, _ in refusing})
            named = [state for _, name, state in refusing if reply[5] == f"limited:{name}"]
            self.assertIn(tuple(reply[1:3] + reply[4:5]), {(s.left(now), s.full, ms_up(s.reset(now))) for s in named})
            if len(merged) == len(model.checks(pairs)) or longest >= 0:
                self.assertEqual(reply[3], longest)
            return False
        self.assertEqual((reply[0], reply[3], reply[5]), (1, 0, "ok"))
        if takes:
            for _, state, cost in merged:
                state.take(now, cost)
        left = min(state.left(now) for _, state, _ in merged)
        self.assertIn(
            tuple(reply[1:3] + reply[4:5]),
            {(left, s.full, ms_up(s.reset(now))) for _, s, _ in merged if s.left(now) == left},
        )
        return True

    def pairs(self, rng):
        def one():
            policy = rng.choice(("bucket", "bucket", "slow", "gcra", "window", "counter", "day", "levels", "levels"))
            if policy == "levels":
                return (
                    policy,
                    rng.choice(("t", "t/u", "t/u/a", "t/u/b", "t/v/a/b", "t/v", "w/u/a")),
                    rng.choice((1, 1, 1, 2, 4)),
                )
            return (
                policy,
                rng.choice("xyz"),
                rng.choice((1, 1, 1, 2, 3, 7, 30) if policy == "day" else (1, 1, 1, 2, 3, 5, 16)),
            )

        return [one() for _ in range(rng.choice((1, 1, 1, 2, 3)))]

    @staticmethod
    def words(command, pairs, *more):
        words = [command]
        for n, (policy, key, cost) in enumerate(pairs):
            words += (["AND"] if n else []) + [policy, key] + (["COST", cost] if cost > 1 else [])
        return (*words, *more)

    def permit_step(self, resp, rng, now, model):
        key = rng.choice("xy")
        ((_, state, _),) = model.checks([("permits", key, 1)])
        state.live(now)
        what = rng.random()
        if what < 0.6:
            reply = resp.call("KOVA.ACQUIRE", "permits", key)
            wait = state.wait(now, 1)
            self.assertEqual((reply[0], reply[3]), (int(wait == 0), ms_up(wait)))
            if wait == 0:
                state.held[reply[6]] = now + state.hold
                self.ended.append((key, reply[6]))
            self.assertEqual((reply[1], reply[2], reply[4]), (state.left(now), 3, ms_up(state.reset(now))))
            return
        if not self.ended:
            return
        key, permit = rng.choice(self.ended[-8:])
        ((_, state, _),) = model.checks([("permits", key, 1)])
        state.live(now)
        if what < 0.8:
            self.assertEqual(
                resp.call("KOVA.RELEASE", "permits", key, permit), int(state.held.pop(permit, None) is not None)
            )
        else:
            self.assertEqual(resp.call("KOVA.RENEW", "permits", key, permit), int(permit in state.held))
            if permit in state.held:
                state.held[permit] = now + state.hold

    def test_every_verdict(self):
        resp = self.start(POLICIES)
        self.clock.freeze(self.BEGIN_US - self.BEGIN_US % MS)
        rng, model, admitted = random.Random(self.SEED), Model(), 0
        self.ended = []
        for step in range(self.STEPS):
            self.clock.advance(rng.choice((0, 0, 0, 0.001, 0.05, 0.3, 2, rng.randrange(9000) / 1000)))
            if rng.random() < 0.005:
                self.clock.advance(rng.choice((3600, 86400, 200000)))
            now, pairs, what = self.clock.now_us(), self.pairs(rng), rng.random()
            with self.subTest(step=step, pairs=pairs):
                if what < 0.2:
                    self.permit_step(resp, rng, now, model)
                elif what < 0.3:
                    policy, key, _ = pairs[0]
                    self.judge(resp.call("KOVA.PEEK", policy, key), now, model, [(policy, key, 1)], takes=False)
                elif what < 0.4:
                    words = self.words("KOVA.TAKE", pairs, "ID", f"id-{step}")
                    reply = resp.call(*words)
                    if self.judge(reply, now, model, pairs, takes=True):
                        self.assertEqual(resp.call(*words), reply, "repeated")
                else:
                    admitted += self.judge(resp.call(*self.words("KOVA.TAKE", pairs)), now, model, pairs, takes=True)
            if getattr(self, "_outcome", None) and not self._outcome.success:
                return  # after a first difference the rest says nothing
        self.assertGreater(admitted, self.STEPS // 10)


if __name__ == "__main__":
    harness.main()
