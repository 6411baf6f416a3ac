"""Judges what was admitted in test_chaos.py, by what is promised: docs/leases.md, docs/global.md, docs/clocks.md, docs/kafka.md.

Time is what passed on Redis's clock, as in test_storm.py: an interval in which that clock was set ahead is so much longer, one in
which it was set back no shorter; across regions the fastest of the clocks counts. What was decided around a step is left out, and
what is leased is judged between the leaps ahead, for leases rest on there being none.
"""
import bisect
import collections
import itertools

import checker
import chaos_callers as callers
import usage_topic

STEP_BLUR = 0.05  # s: around a step of Redis's clock nothing is known
LEAP = 0.01  # s ahead: more than the margin of a lease
LEASED = 1.0  # s: what was leased before has ended
REPORT = 0.5  # s: an agent's report interval
ARRIVES = 1.5  # s: until a report has arrived, on a machine that does other things
SERVES_WITHIN = 10.0  # s
USED = 0.9  # of the global limit, or of what is wanted of it should that be less


def steps_of(rate, regions):
    """Refill comes in steps, and each region may be one ahead (docs/global.md)."""
    return regions * max(rate * 100e-6, 0.001)


class Judge:
    def __init__(self, book, regions):
        self.book, self.regions = book, regions
        self.steps = []  # (region, when, seconds) of Redis's clock
        self.emptied = []  # (region, when): its Redis
        self.ended = []  # (agent, when): killed, or drained without Kafka
        self.stopped = []  # (agent, from, to)
        self.no_kafka = []  # (region, from, to)
        self.healed = []  # when all was well again
        self.uses = []  # (region, from, to): of the global limit

    # ---- time ----

    def _steps(self, regions):
        return sorted((when, seconds) for region, when, seconds in self.steps if region in regions)

    def _taken(self, policy, regions):
        """Admissions by time as it passed, with those left out that were decided around a step."""
        ahead = [(when, seconds) for when, seconds in self._steps(regions) if seconds > 0]
        whens, passed, taken = [when for when, _ in ahead], [0, *itertools.accumulate(seconds for _, seconds in ahead)], []
        for region in regions:
            own = [when for when, _ in self._steps([region])]
            for a in self.book.of(policy, region):
                if bisect.bisect(own, a.sent - STEP_BLUR) == bisect.bisect(own, a.received + STEP_BLUR):
                    begin, end = (at + passed[bisect.bisect(whens, at)] for at in (a.sent, a.received))
                    taken.append(checker.Admission(begin, end, a.cost))
        return taken

    def _between_leaps(self, policy, regions):
        leaps = sorted(when for when, seconds in self._steps(regions) if seconds > LEAP)
        taken = [a for region in regions for a in self.book.of(policy, region)]
        for begin, end in zip([0, *leaps], [*leaps, float("inf")]):
            yield [a for a in taken if begin + LEASED < a.sent and a.received < end]

    # ---- limits ----

    def _leased(self, policy, regions, rate, burst):
        found = (checker.bucket_violation(part, rate, burst) for part in self._between_leaps(policy, regions))
        return next(filter(None, found), None)

    def _limit(self, policy, regions):
        limit = callers.LIMITS[policy]
        most, seconds = limit["limit"], float(limit["per"].rstrip("s"))
        if limit.get("algorithm") == "sliding-window":
            return checker.window_violation(self._taken(policy, regions), most, seconds)
        burst = limit["burst"] + (steps_of(most, len(regions)) if len(regions) > 1 else 0)
        if limit.get("lease") == {}:
            return self._leased(policy, regions, most, burst)
        return checker.bucket_violation(self._taken(policy, regions), most, burst)

    def _held(self, region, things, seconds, limit):
        """Permits and tickets: what was certainly held, until it was given back or the clock may have ended it."""
        ends = [when for r, when, _ in self.steps if r == region] + [when for r, when in self.emptied if r == region]
        held = []
        for sent, received, released in things:
            end = min([released, sent + seconds - 0.1, *(when - STEP_BLUR for when in ends if when > sent - STEP_BLUR)])
            held.append((received, end))
        return checker.held_violation(held, limit)

    def limits(self):
        """What is exceeded: {policy at region: what}."""
        every, found = self.regions, {}
        for policy in ("strict", "plain", "span"):
            found[policy] = self._limit(policy, every)
        for region in every:
            for policy in ("own", "window", "keyed", "account", "leased"):
                found[f"{policy} at {region}"] = self._limit(policy, [region])
            found[f"moving at {region}"] = self._leased("moving", [region], callers.MOVING_MOST, callers.MOVING["burst"])
            permits = [(p.sent, p.received, p.released) for p in self.book.permits if p.region == region]
            found[f"slots at {region}"] = self._held(region, permits, callers.HOLD, callers.SLOTS)
            for endpoint in callers.ENDPOINTS:
                tickets = [(t.sent, t.received, t.reported) for t in self.book.tickets
                           if (t.region, t.endpoint) == (region, endpoint)]
                found[f"{endpoint} at {region}"] = self._held(region, tickets, callers.LEASE, callers.POOL_SLOTS)
        return {name: what for name, what in found.items() if what}

    # ---- nothing lost, nothing doubled ----

    def lost(self):
        """Permits and tickets that were forgotten though Redis was not emptied, tickets that came twice, callers who waited too long."""
        found = []
        for region, what, sent, at in self.book.wrong:
            clock = [when for r, when, _ in self.steps if r == region and "permit" in what]
            if not any(sent - 1 < when < at for when in clock + [when for r, when in self.emptied if r == region]):
                found.append(f"{what} at {region}, had from {sent:.3f} on, until {at:.3f}")
        times = collections.Counter(t.ticket for t in self.book.tickets)
        found += [f"ticket {ticket} came {n} times" for ticket, n in times.items() if n > 1]
        for agent, policy, sent, received in self.book.late:
            if not any(one == agent and begin < received and sent < end + 3 for one, begin, end in self.stopped):
                found.append(f"{agent} took from {sent:.3f} to {received:.3f} to answer of {policy}")
        return found

    def not_serving(self):
        """Regions that admitted nobody soon after all was well."""
        return [f"{region} admits nothing of {policy} from {begin:.3f} to {begin + SERVES_WITHIN:.3f}"
                for begin in self.healed for region in self.regions for policy in ("strict", "own")
                if not any(begin <= a.received < begin + SERVES_WITHIN for a in self.book.of(policy, region))]

    def unused(self):
        """When all was well, and less of the global limit was used than was wanted of it: (region, part used, part wanted)."""
        found = []
        for region, begin, end in self.uses:
            whole = (end - begin) * callers.LIMIT
            used = sum(a.cost for a in self.book.of("strict") if begin <= a.received < end) / whole
            wanted = sum(cost for sent, cost in self.book.wanted if begin <= sent < end) / whole
            if used < USED * min(1, wanted):
                found.append((region, round(used, 3), round(wanted, 3)))
        return found

    # ---- usage ----

    def kafka_away(self, agent, begin, end):
        return any(region == agent[0] and b < end and e > begin - ARRIVES for region, b, e in self.no_kafka)

    def kafka_is_back(self, regions, begun, end):
        for region in regions:
            self.no_kafka[self.no_kafka.index((region, begun, float("inf")))] = region, begun, end

    def _reported_until(self, agent, when):
        """What was counted before this had been reported, and had arrived, when the agent ended."""
        safe = when - REPORT - ARRIVES
        spans = [(b, e) for region, b, e in self.no_kafka if region == agent[0]]
        spans += [(b, e + ARRIVES) for one, b, e in self.stopped if one == agent]
        for begin, end in sorted(spans, key=lambda span: -span[1]):
            if begin < when and end + REPORT > safe:
                safe = min(safe, begin - REPORT - ARRIVES)
        return safe

    @staticmethod
    def count(records):
        """Kafka's sums of what each agent has admitted, by policy."""
        counted = collections.Counter()
        for (region, node, _, policy, *_), (admitted, _, _) in usage_topic.Ledger().add(records).most.items():
            counted[(region, int(node[-1])), policy] += admitted
        return counted

    def usage(self, records):
        """Where Kafka's sums are not what clients were answered: {(agent, policy): (counted, least, most)}."""
        counted, wrong = self.count(records), {}
        for key in {*counted, *self.book.admitted}:
            taken, unknown = self.book.admitted.get(key, []), self.book.unknown.get(key, [])
            known = sum(a.cost for a in taken)
            gaps = [(self._reported_until(key[0], when), when) for agent, when in self.ended if agent == key[0]]
            missing = sum(a.cost for a in taken if any(begin <= a.received <= end + 1 for begin, end in gaps))
            most = known + sum(a.cost for a in unknown)
            if not known - missing <= counted.get(key, 0) <= most:
                wrong[key] = counted.get(key, 0), known - missing, most
        return wrong
