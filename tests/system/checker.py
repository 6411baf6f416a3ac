"""Finds violations of a limit among admissions, and only such as are certain.

An admission is known by the interval in which it was decided: it was at some instant from `sent` to `received`. An
interval [a, b] certainly holds every admission with a <= sent and received <= b, whatever those instants were; so when
these are more than the limit allows in b - a, no assignment of instants saves it. A checker's answer is None or a text.

The intervals are measured by a clock that counts the same seconds as the store's (see load.Swarm).
"""

import bisect

TICK = 2e-6  # Redis's clock has microseconds: an instant is cut by up to one at each end


class Admission:
    """`cost` units admitted at one instant from `sent` to `received`."""

    __slots__ = ("sent", "received", "cost")

    def __init__(self, sent, received, cost=1):
        assert sent <= received
        self.sent = sent
        self.received = received
        self.cost = cost


def admissions(hits, cost=1):
    """Of the hits that were admitted. `cost` of each, or a function of the hit."""
    return [Admission(hit.sent, hit.received, cost(hit) if callable(cost) else cost) for hit in hits if hit.admitted]


class _PrefixTree:
    """Values at sorted places; adds to all places up to one, and asks for the largest up to one, in O(log n)."""

    def __init__(self, values):
        self.size = 1
        while self.size < max(1, len(values)):
            self.size *= 2
        low = float("-inf")
        self.most = [low] * self.size + list(values) + [low] * (self.size - len(values))
        self.added = [0.0] * (2 * self.size)
        for node in range(self.size - 1, 0, -1):
            self.most[node] = max(self.most[2 * node], self.most[2 * node + 1])

    def add(self, end, amount):
        """Adds to the places [0, end)."""
        if end <= 0:
            return
        if end >= self.size:
            self._add_whole(1, amount)
            return
        node = self.size + end  # the first place that gets nothing
        while node > 1:
            if node & 1:
                self._add_whole(node - 1, amount)
            node //= 2
            self.most[node] = max(self.most[2 * node], self.most[2 * node + 1]) + self.added[node]

    def _add_whole(self, node, amount):
        self.most[node] += amount
        self.added[node] += amount

    def largest(self, end):
        """The largest value of the places [0, end)."""
        if end <= 0:
            return float("-inf")
        if end >= self.size:
            return self.most[1]
        best, node = float("-inf"), self.size + end
        while node > 1:
            if node & 1:
                best = max(best, self.most[node - 1])
            node //= 2
            best += self.added[node]
        return best


def bucket_violation(taken, rate, burst):
    """A token bucket: in every interval of length T at most burst + rate * T. `rate` a second."""
    starts = sorted({a.sent for a in taken})
    if not starts:
        return None
    origin = starts[0]
    # At start s: rate * s + cost of the admissions from s on that have ended by now.
    tree = _PrefixTree([rate * (s - origin) for s in starts])
    for a in sorted(taken, key=lambda a: a.received):
        tree.add(bisect.bisect_right(starts, a.sent), a.cost)
        excess = tree.largest(bisect.bisect_right(starts, a.sent)) - rate * (a.received - origin + TICK) - burst
        if excess > 1e-6:
            return f"{excess:.3f} more than {burst} + {rate} * T in an interval that ends at {a.received:.6f}"
    return None


def window_violation(taken, limit, window):
    """A sliding window: in every half-open interval of length `window` (s) at most `limit`."""
    ordered = sorted(taken, key=lambda a: a.sent)
    starts = [a.sent for a in ordered]
    for i, first in enumerate(ordered):
        end = first.sent + window - TICK
        inside = sum(a.cost for a in ordered[i : bisect.bisect_left(starts, end)] if a.received < end)
        if inside > limit:
            return f"{inside} admitted within {window} s of {first.sent:.6f}, {limit} allowed"
    return None


def fixed_violation(taken, limit, edges):
    """Fixed windows: between two edges that follow each other at most `limit`."""
    for begin, end in zip(edges, edges[1:]):
        inside = sum(a.cost for a in taken if a.sent >= begin + TICK and a.received < end - TICK)
        if inside > limit:
            return f"{inside} admitted from {begin:.6f} to {end:.6f}, {limit} allowed"
    return None


def held_violation(held, limit):
    """Concurrency: `held` are (from, to) in which a permit certainly was held; never more than `limit` at once."""
    changes = sorted(
        [(begin, 1) for begin, end in held if end > begin] + [(end, -1) for begin, end in held if end > begin]
    )
    now = 0
    for at, change in changes:
        now += change
        if now > limit:
            return f"{now} held at {at:.6f}, {limit} allowed"
    return None


def needless_refusal(hits, rate, burst, cost=1):
    """A token bucket that was full before the first hit: a refusal though `cost` tokens were certainly there."""
    maybe = [hit for hit in hits if hit.admitted or hit.lost]
    refused = sorted((hit for hit in hits if hit.refused), key=lambda hit: hit.received)
    if not refused:
        return None
    origin = min(hit.sent for hit in hits)
    places = sorted({hit.received for hit in maybe} | {hit.sent for hit in refused})
    # At place p: rate * p + cost of the admissions that may lie behind p and before now.
    tree = _PrefixTree([rate * (p - origin) for p in places])
    maybe.sort(key=lambda hit: hit.sent)
    n = 0
    for hit in refused:
        while n < len(maybe) and maybe[n].sent <= hit.received:
            tree.add(len(places) if maybe[n].lost else bisect.bisect_right(places, maybe[n].received), cost)
            n += 1
        least = burst + rate * (hit.sent - origin) - tree.largest(bisect.bisect_right(places, hit.sent))
        if least >= cost + rate * TICK + 1e-3:
            return f"refused at {hit.sent:.6f} with at least {least:.3f} tokens there: {hit}"
    return None
