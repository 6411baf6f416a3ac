"""What test_chaos.py stands on: a plan comes from its seed alone, nothing in it is outside of the promises, and each kind of breach
is found."""
# Runs no program of ours.
import os
import random

import chaos_callers as callers
import chaos_plan
import harness
from chaos_judge import Judge
from chaos_plan import Fault
from world import REGIONS


class Plan(harness.Case):
    def test_it_comes_from_the_seed_alone(self):
        plan = chaos_plan.make(4711, 3600)
        self.assertEqual(plan, chaos_plan.make(4711, 3600))
        self.assertEqual(plan[:50], chaos_plan.make(4711, 240)[:50])
        self.assertNotEqual(plan[:50], chaos_plan.make(4712, 240)[:50])
        self.assertEqual({fault.kind for fault in plan}, set(chaos_plan.KINDS))

    def test_a_log_is_the_plan_again(self):
        plan, path = chaos_plan.make(5, 120), os.path.join(self.directory, "log")
        chaos_plan.write(path, 5, plan)
        with open(path, "a", encoding="utf-8") as file:
            file.write('{"at": 1.5, "did": "begins", "kind": "move"}\n')
        self.assertEqual(chaos_plan.read(path), (5, plan))

    def test_a_bad_log_is_an_error_that_says_where(self):
        path = os.path.join(self.directory, "log")
        for text, said in (("", "no plan"), ('{"seed": 1}\nx\n', ":2:"), ('{"seed": 1}\n{"plan": {"kind": "move"}}\n', ":2:"),
                           ('{"plan": {"round": 0, "at": 1, "kind": "sing", "where": [], "seconds": 1, "value": 0}}', "kill_agent")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(ValueError, said):
                chaos_plan.read(path)

    def overlapping(self, faults):
        for n, one in enumerate(faults):
            for other in faults[n + 1:]:
                if one.at < other.at + other.seconds and other.at < one.at + one.seconds:
                    yield one, other

    def test_nothing_in_it_is_outside_of_the_promises(self):
        together = set()
        for seed in range(300):
            faults = chaos_plan.make_round(random.Random(seed), 0)
            self.assertTrue(all(fault.at + fault.seconds <= chaos_plan.ROUND for fault in faults))
            for pair in self.overlapping(faults):
                one, other = sorted(pair, key=lambda fault: fault.kind)
                same_region = one.where[:1] == other.where[:1]
                together.add((one.kind, other.kind, same_region))
                self.assertFalse(one.kind == other.kind != "move" and one.where == other.where, pair)
        for kind in ("agent_clock", "kill_agent", "drain_agent", "empty_redis"):
            self.assertNotIn((*sorted((kind, "redis_clock")), True), together)
        for kind in ("kill_agent", "stop_agent", "agent_clock", "kill_redis", "stop_redis"):
            self.assertNotIn((*sorted((kind, "empty_redis")), True), together)
        for pair in (("kill_agent", "kill_redis", True), ("kill_agent", "kill_agent", True), ("redis_clock", "stop_agent", True),
                     ("kill_broker", "kill_coordinator", False), ("cut_way", "lose", True)):
            self.assertIn(pair, together)


class Verdict(harness.Case):
    """Each kind of breach in a book that is else in order."""

    AGENT = ("eu", 0)

    def setUp(self):
        super().setUp()
        self.book = callers.Book()
        self.judge = Judge(self.book, REGIONS)

    def take(self, policy, at, cost=1, agent=AGENT, yes=True):
        self.book.answered(agent, policy, cost, at, at + 0.001, yes)

    def limits(self):
        return list(self.judge.limits())

    def test_a_limit_of_each_kind(self):
        for policy, most in (("own", 40), ("window", 40), ("keyed", 80), ("account", 16), ("leased", 800), ("moving", 400)):
            self.take(policy, 100, most)
            self.assertEqual(self.limits(), [])
            self.take(policy, 100.01, most // 10 + 2)
            self.assertEqual(self.limits(), [f"{policy} at eu"])
            self.book.admitted.clear()

    def test_a_limit_of_all_regions(self):
        for policy, most in (("strict", 2000), ("plain", 240), ("span", 120)):
            for region in REGIONS:
                self.take(policy, 100, most // 3, (region, 1))
            self.assertEqual(self.limits(), [])
            self.take(policy, 100.01, most // 10, ("us", 0))
            self.assertEqual(self.limits(), [policy])
            self.book.admitted.clear()

    def test_a_clock_that_is_set_explains_what_it_lets_through_and_no_more(self):
        self.take("own", 100, 40)
        self.take("own", 100.5, 10)
        self.assertEqual(self.limits(), ["own at eu"])
        for region, seconds in (("us", 1.0), ("eu", -1.0), ("eu", 0.4)):
            self.judge.steps = [(region, 100.2, seconds)]
            self.assertEqual(self.limits(), ["own at eu"])
        self.judge.steps = [("eu", 100.2, 1.0)]
        self.assertEqual(self.limits(), [])

    def test_permits_and_tickets(self):
        for n in range(callers.SLOTS + 1):
            self.book.permits.append(callers.Permit("eu", f"p{n}", 100, 100.1, 101))
        for n in range(callers.POOL_SLOTS + 1):
            self.book.tickets.append(callers.Ticket("us", f"t{n}", "e1", 100, 100.1, 101))
        self.assertEqual(self.limits(), ["slots at eu", "e1 at us"])
        self.assertEqual(self.judge.lost(), [])
        self.judge.emptied = [("eu", 100.05)]
        self.assertEqual(self.limits(), ["e1 at us"])

    def test_what_is_forgotten_doubled_or_late(self):
        self.book.wrong = [("eu", "a permit that is not known any more", 100, 101)]
        self.book.tickets = [callers.Ticket("us", "t", "e1", at, at + 0.1, at + 0.2) for at in (100, 200)]
        self.book.answered(self.AGENT, "own", 1, 100, 100 + callers.PATIENCE + 1, True)
        self.assertEqual(len(self.judge.lost()), 3)
        self.judge.emptied, self.judge.stopped = [("eu", 100.5)], [(self.AGENT, 99, 109)]
        self.assertEqual(len(self.judge.lost()), 1)

    def test_a_region_that_does_not_serve(self):
        self.judge.healed = [100]
        for region in REGIONS:
            self.take("strict", 109, agent=(region, 0))
            self.take("own", 109 if region != "us" else 111, agent=(region, 0))
        (found,) = self.judge.not_serving()
        self.assertIn("us admits nothing of own", found)

    def test_a_limit_that_is_not_used(self):
        self.judge.uses = [("eu", 100, 103)]
        self.take("strict", 101, 2690)
        self.assertEqual(self.judge.unused(), [])  # nobody wanted more
        self.take("strict", 102, 1000, yes=False)
        self.assertEqual(self.judge.unused(), [("eu", 0.897, 1.23)])
        self.take("strict", 102.5, 20)
        self.assertEqual(self.judge.unused(), [])

    def usage(self, counted):
        self.judge.count = lambda records: {(self.AGENT, "own"): counted}
        return list(self.judge.usage([]))

    def test_usage(self):
        for at in (100, 110, 119.9):
            self.take("own", at)
        self.take("own", 120, yes=None)
        self.assertEqual([n for n in range(7) if not self.usage(n)], [3, 4])
        self.judge.ended = [(self.AGENT, 120)]
        self.assertEqual([n for n in range(7) if not self.usage(n)], [2, 3, 4])
        self.judge.no_kafka = [("eu", 109, 125)]
        self.assertEqual([n for n in range(7) if not self.usage(n)], [1, 2, 3, 4])
        self.judge.no_kafka = [("us", 109, 125)]
        self.assertEqual([n for n in range(7) if not self.usage(n)], [2, 3, 4])


if __name__ == "__main__":
    harness.main()
