"""The pool script: choice, windows, cooldowns, trials, blame, tiers, sessions, keys, tickets, and what each outcome does."""
import struct
import time
from collections import Counter

import harness
from pool_rig import Case

FIVE = list("abcde")
TEN = list("abcdefghij")


class Choice(Case):
    def test_round_robin_is_exactly_even(self):
        self.use(FIVE)
        self.assertEqual(Counter(n.endpoint for n in self.nexts(100)), dict.fromkeys(range(1, 6), 20))

    def test_one_in_cooldown_misses_its_time_away_and_does_not_catch_up(self):
        self.use(FIVE)
        self.fails(1)
        self.assertEqual(Counter(n.endpoint for n in self.nexts(40)), dict.fromkeys(range(2, 6), 10))
        self.later(30)
        trial = next(n for n in self.nexts(5) if n.endpoint == 1)
        self.report(trial)
        counts = Counter(n.endpoint for n in self.nexts(100))
        self.assertTrue(all(19 <= n <= 21 for n in counts.values()), counts)

    def test_weights_are_smooth(self):
        self.use([{"id": "a", "weight": 1}, {"id": "b", "weight": 3}], select="weighted")
        order = "".join(str(n.endpoint) for n in self.nexts(400))
        self.assertEqual(Counter(order), {"1": 100, "2": 300})
        self.assertNotIn("2222", order)

    def test_a_weight_is_multiplied_by_the_success_rate(self):
        self.use(["a", "b"], select="weighted", threshold=9)
        for _ in range(40):
            given = self.next()
            self.report(given, "ok" if given.endpoint == 2 or given.serial % 4 < 2 else "timeout")
        failures = self.show().endpoints[0].failures
        self.assertTrue(2 <= failures <= 8, failures)
        counts = Counter(n.endpoint for n in self.nexts(1000))
        self.assertAlmostEqual(counts[1] / counts[2], (10 - failures) / 10, delta=0.01)

    def test_after_a_return_the_weight_grows(self):
        self.use(["a", "b"], select="weighted", ramp=100, direct=1)
        self.fails(1)
        self.later(30)
        counts = Counter(n.endpoint for n in self.nexts(220))
        self.assertTrue(19 <= counts[1] <= 22, counts)
        self.later(50)
        counts = Counter(n.endpoint for n in self.nexts(310))
        self.assertTrue(107 <= counts[1] <= 112, counts)
        self.later(50)
        self.assertEqual(Counter(n.endpoint for n in self.nexts(200)), {1: 100, 2: 100})

    def test_a_clock_that_goes_back_leaves_a_growing_weight_what_it_began_with(self):
        self.use(["a", "b"], select="weighted", ramp=100, direct=1)
        self.fails(1)
        self.later(30)
        self.next()
        self.later(-5000)
        self.assertEqual(Counter(n.endpoint for n in self.nexts(110)), {1: 10, 2: 100})

    def test_least_loaded_by_weight_and_ties_in_turn(self):
        self.use([{"id": "a", "weight": 2}, "b", "c"], select="least-loaded")
        given = self.nexts(8)
        self.assertEqual(Counter(n.endpoint for n in given), {1: 4, 2: 2, 3: 2})
        for n in given:
            self.report(n)
        self.assertEqual(self.in_flight(), [0, 0, 0])
        one_by_one = []
        for _ in range(6):
            n = self.next()
            one_by_one.append(n.endpoint)
            self.report(n)
        self.assertEqual(Counter(one_by_one), {1: 2, 2: 2, 3: 2})

    def test_weight_0_drains(self):
        self.use(["a", "b"])
        session = next(n for n in (self.next(session=str(i)) for i in range(4)) if n.endpoint == 1)
        name = str(int(session.serial) - 1)
        self.use([{"id": "a", "weight": 0}, "b"])
        self.assertEqual({n.endpoint for n in self.nexts(10)}, {2})
        self.assertEqual(self.next(session=name).endpoint, 1)

    def test_slots(self):
        self.use([{"id": "a", "slots": 3}])
        given = self.nexts(4)
        self.assertEqual([n.endpoint for n in given], [1, 1, 1, None])
        self.assertEqual((given[3].why, given[3].retry), ("slots", 120))
        self.later(20)
        self.assertEqual(self.next().retry, 100)
        self.report(given[0])
        self.assertEqual(self.next().endpoint, 1)

    def test_nothing_to_give(self):
        for endpoints in ([], [{"id": "a", "off": 1}], [{"id": "a", "weight": 0}]):
            self.use(endpoints)
            self.assertEqual((self.next().why, self.next().retry), ("empty", -1))

    def test_adding_one_leaves_the_others_alone(self):
        self.use(["a", "b"])
        self.fails(1)
        self.use(["a", "b", "c"])
        shown = self.show().endpoints
        self.assertEqual([e.cooling for e in shown], [1, 0, 0])
        self.assertEqual({n.endpoint for n in self.nexts(9)}, {2, 3})

    def test_many_are_given_evenly(self):
        self.use([f"e{i}" for i in range(100)])
        self.assertEqual(set(Counter(n.endpoint for n in self.nexts(200)).values()), {2})
        for n in self.nexts(500, target="t"):
            self.report(n, "blocked" if n.endpoint == 50 else "ok", status=429)
        counts = Counter(n.endpoint for n in self.nexts(198, target="t"))
        self.assertEqual((set(counts.values()), counts[50]), ({2}, 0))
        counts = Counter(n.endpoint for n in self.nexts(196, skip=(17, 33)))
        self.assertEqual((counts[17], counts[33]), (0, 0))
        self.assertTrue(all(1 <= n <= 3 for e, n in counts.items()), counts)

    def test_one_that_left_and_came_back_is_as_it_was(self):
        self.use(["a", "b", "c"])
        self.fails(1, outcome="timeout")
        flying = [n for n in self.nexts(4) if n.endpoint == 2]
        before = self.show().endpoints
        self.use(["c"])
        self.assertEqual({n.endpoint for n in self.nexts(3)}, {1})
        self.use(["b", "c", "a"])
        after = self.show().endpoints
        self.assertEqual((after[0], after[2]), (before[1], before[0]))
        self.assertEqual([self.report(n) for n in flying], [True, True])
        self.assertEqual(self.in_flight()[0], before[1].in_flight - 2)

    def test_a_definition_without_it_keeps_that_one_cools_at_a_target(self):
        self.use(["a", "b", "c", "d"], max_out=1, least=9)
        self.fails(1, outcome="blocked", target="t", status=429)
        self.fails(2, outcome="blocked", target="t", status=429)
        self.later(29)
        self.use(["b", "c", "d"])
        self.later(1)
        self.report(next(n for n in self.nexts(3, target="t") if n.trial))
        self.use(["a", "b", "c", "d"])
        given = self.nexts(4, target="t")
        self.assertEqual([(n.endpoint, n.trial) for n in given if n.trial], [(1, 1)])

    def cool_as_first(self, ids, outcome, target="", **lists):
        """The first one fails; all others are in that state, too."""
        key = "k:p{x}" + ("t" + target if target else "")
        self.report(self.next(target=target), outcome)
        text = self.client.call("HGET", key, "e" + ids[0])
        self.client.call("HSET", key, *(part for i in ids for part in ("e" + i, text)))
        for field, value in lists.items():
            self.client.call("HSET", key, field, value)

    def test_as_many_as_there_may_be(self):
        ids = [f"e{i:05}" for i in range(20000)]
        rule = {"window": 1, "threshold": 1, "floor": 0, "base": 3600}
        self.use(ids, **rule)
        self.cool_as_first(ids, "refused", S=struct.pack("<d20000H", 0, *range(1, 20001)))
        self.assertEqual(self.next().why, "cooling")
        self.use(ids[:1], **rule)
        self.assertEqual(self.next().why, "cooling")
        self.use(ids, **rule)
        self.assertEqual([e.cooling for e in self.show().endpoints], [1] * 20000)

    def test_as_many_as_there_may_be_at_a_target(self):
        ids = [f"e{i:05}" for i in range(20000)]
        self.use(ids, window=1, threshold=1, base=3600, direct=1, max_out=1, least=2)
        self.cool_as_first(ids, "blocked", "t", c=b"".join(struct.pack("<HB", i, 6) + id.encode() for i, id in enumerate(ids, 1)))
        self.assertEqual(self.next(target="t").why, "cooling")
        self.later(3600)
        self.assertIsNotNone(self.next(target="t").endpoint)
        self.assertEqual(len(self.told()), 20001)

    def test_a_ramp_that_is_set_later_counts(self):
        self.use(["a", "b"], select="weighted", direct=1)
        self.fails(1)
        self.later(30)
        self.report(self.next())
        self.use(["a", "b"], select="weighted", direct=1, ramp=100)
        counts = Counter(n.endpoint for n in self.nexts(220))
        self.assertTrue(19 <= counts[1] <= 23, counts)


class Lines(Case):
    def test_in_the_order_of_their_arrival(self):
        self.use([{"id": "a", "slots": 1}])
        held = self.next()
        came = {}
        for name in "123":
            came[name] = self.now
            self.assertEqual(self.next(waiter=name).why, "slots")
            self.later(0.01)
        for name in "123":
            self.report(held)
            for other in "321":
                if other > name:
                    refused = self.next(waiter=other, arrival=came[other])
                    self.assertEqual((refused.why, refused.retry), ("slots", 0.05))
            self.assertEqual(self.next().why, "slots", "no newcomer overtakes")
            held = self.next(waiter=name, arrival=came[name])
            self.assertEqual(held.endpoint, 1)
        self.report(held)
        self.assertEqual(self.next().endpoint, 1)

    def test_who_left_or_is_gone_holds_up_nobody(self):
        self.use([{"id": "a", "slots": 1}])
        for leaves in (True, False):
            held = self.next()
            self.next(waiter="1")
            self.report(held)
            self.assertEqual(self.next().why, "slots")
            if leaves:
                self.leave("1")
            else:
                self.later(0.5)
            held = self.next()
            self.assertEqual(held.endpoint, 1)
            self.report(held)

    def test_who_leaves_in_a_batch_holds_up_nobody_in_it(self):
        self.use([{"id": "a", "slots": 1}])
        held = self.next()
        self.next(waiter="1")
        self.report(held)
        ask, leave = b"\1" + bytes(25), b"\11" + b"1".ljust(8, b"\0")
        self.call([ask, leave, ask])
        self.assertEqual([self.read_next().endpoint for _ in range(2)], [None, 1])

    def test_where_there_is_room_for_all_nobody_waits_for_others(self):
        self.use([{"id": "a", "slots": 3}, {"id": "b", "slots": 1}])
        held = self.nexts(4)
        self.next(waiter="1")
        self.report(held[0])
        self.assertEqual(self.next().why, "slots")
        self.report(held[1])
        self.assertIsNotNone(self.next().endpoint)
        self.use(["a"])
        self.assertIsNotNone(self.next().endpoint)


class Tickets(Case):
    def test_twice_and_unknown(self):
        self.use(["a", "b", "c"], select="least-loaded")
        given = self.nexts(6)
        self.assertEqual([self.report(n) for n in given], [True] * 6)
        self.assertEqual([self.report(n) for n in given], [False] * 6)
        serial, end, mac = given[0].ticket.split(".")
        for bad in ("", "x", "1.2.3", f"{serial}.{end}.{mac[::-1]}", f"{serial}.{end}0.{mac}", given[0].ticket + "0", "f" * 200):
            self.assertIsNone(self.report(bad), bad)
        self.assertEqual(self.in_flight(), [0, 0, 0])

    def test_an_entry_of_an_older_version_has_no_ticket(self):
        self.use(["a"])
        entry = self.client.call("HGET", "k:p{x}i", int(self.next().serial))
        for known in (True, False):
            given = self.next()
            if not known:
                given["ticket"] = given.ticket[:-1] + ("1" if given.ticket[-1] == "0" else "0")
            self.client.call("HSET", "k:p{x}i", int(given.serial), entry[:-len(given.ticket)])
            self.assertEqual(self.report(given), True if known else None)

    def test_of_a_ticket_each_digit_counts(self):
        self.use(["a"])
        given = self.next()
        serial, stop, mac = given.ticket.split(".")
        for other in (f"0{serial}.{stop}.{mac}", f"{serial}.{stop}0.{mac}", f"{serial}.{stop}.{mac}0", f"{serial}.{stop}.{mac[::-1]}",
                      f"{serial}.{mac}", f"{serial}.", "f" * 30 + f".{stop}.{mac}", given.ticket + "."):
            self.assertIsNone(self.report(other), other)
        self.assertTrue(self.report(given))

    def test_another_pool_does_not_know_it(self):
        self.use(["a"])
        given = self.next()
        self.next(pool="k:p{y}")
        self.assertIsNone(self.report(given, pool="k:p{y}"))
        self.assertTrue(self.report(given))

    def test_the_lease_ends_by_itself(self):
        self.use([{"id": "a", "slots": 5}], lease=10)
        given = self.nexts(5)
        self.assertEqual(self.next().why, "slots")
        self.later(10)
        self.assertEqual(self.in_flight(), [0])
        self.assertEqual(self.next().endpoint, 1)
        self.assertEqual(self.report(given[0], "refused"), True)
        self.assertEqual(self.report(given[0], "refused"), False)
        self.assertEqual(self.in_flight(), [1])
        self.assertEqual(self.show().endpoints[0].failures, 1)

    def test_who_comes_back_to_the_definition_has_in_flight_what_is_still_out(self):
        self.use(["a", "b"], lease=10)
        given = self.nexts(8)
        self.use(["b"], lease=10)
        self.assertFalse(self.report(given[0]))
        self.undo(given[2])
        self.use(["a", "b"], lease=10)
        self.assertEqual(self.in_flight(), [2, 4])
        self.use(["b"], lease=10)
        self.later(10)
        self.show()
        self.use(["a", "b"], lease=10)
        self.assertEqual(self.in_flight(), [0, 0])

    def test_undoing_takes_no_ticket_off_numbers_that_were_told(self):
        self.use(["a"])
        given = self.next()
        self.later(60)
        self.call([b"\5"])
        self.undo(given)
        self.next()
        self.assertEqual(self.show().tickets, 1)

    def test_it_is_forgotten_an_hour_after_its_lease(self):
        self.use(["a"], lease=10)
        given = self.nexts(2)
        self.later(10 + 3599)
        self.assertTrue(self.report(given[0]))
        self.later(1)
        self.assertIsNone(self.report(given[1]))
        self.assertEqual(self.client.call("HLEN", "k:p{x}i"), 2)
        self.show()
        self.assertEqual(self.client.call("HLEN", "k:p{x}i"), 1)

    def test_undoing_leaves_no_trace(self):
        self.use([{"id": "a", "slots": 1}, "b"])
        before = self.show()
        given = self.next(session="s")
        self.undo(given)
        after = self.show()
        self.assertEqual(before.endpoints, after.endpoints)
        self.assertEqual((before.tickets, after.tickets), (0, 0))
        self.assertEqual(self.client.call("EXISTS", "k:p{x}ss"), 0)
        self.assertFalse(self.report(given))
        self.use(["a", "b"])
        for _ in range(8):
            self.undo(self.next())
        self.assertEqual(Counter(n.endpoint for n in self.nexts(8)), {1: 4, 2: 4})

    def test_whose_turn_was_given_back_is_next(self):
        for select in ("round-robin", "weighted"):
            with self.subTest(select=select):
                self.client.call("FLUSHALL")
                self.use(["a", "b"], select=select)
                self.report(self.next())
                for _ in range(3):
                    given = self.next()
                    self.assertEqual(given.endpoint, 2)
                    self.undo(given)

    def test_every_key_expires(self):
        self.use(["a", "b"])
        for n in self.nexts(4, target="t", session="s"):
            self.report(n, "blocked", 403)
        self.next()
        for key in self.client.call("KEYS", "*"):
            self.assertGreater(self.client.call("PTTL", key), 0, key)

    def test_memory_of_an_endpoint(self):
        self.use([f"{'e' * 56}{i:08}" for i in range(200)])
        for n in self.nexts(400, target="t")[:200]:
            self.report(n)
        bytes_used = sum(self.client.call("MEMORY", "USAGE", key, "SAMPLES", 0) for key in ("k:p{x}", "k:p{x}tt"))
        self.assertLess(bytes_used / 200, 1024)


class Cooldown(Case):
    def test_never_on_fewer_than_the_threshold(self):
        self.use(FIVE)
        self.fails(1, 4)
        self.assertEqual(self.told(), [])
        self.fails(1, 1)
        self.assertEqual(self.told(), [("cooled", 1, 30, "")])

    def test_five_of_the_last_ten(self):
        self.use(["a"])
        for _ in range(3):
            for outcome in ["refused"] * 4 + ["ok"] * 6:
                self.report(self.next(), outcome)
        self.assertEqual(self.told(), [])

    def test_the_targets_own_errors_never_cool(self):
        self.use(["a"])
        for _ in range(100):
            self.assertTrue(self.report(self.next(target="t"), "target", 404))
            self.report(self.next(), "target", 500)
            self.report(self.next(), "cancelled")
        shown = self.show().endpoints[0]
        self.assertEqual((shown.outcomes, shown.failures, shown.cooling), (0, 0, 0))

    def test_doubling_and_its_end(self):
        self.use(["a", "b"], max=100)
        self.fails(1)
        for length in (60, 100, 100):
            self.later(self.show().endpoints[0].returns / 1e6)
            self.report(next(n for n in self.nexts(2) if n.trial), "timeout")
            self.assertEqual(self.told()[-1], ("cooled", 1, length, ""))
        self.later(100)
        trial = next(n for n in self.nexts(2) if n.trial)
        self.report(trial)
        self.assertEqual(self.told()[-1], ("returned", 1, 0, ""))
        self.assertEqual(self.show().endpoints[0].outcomes, 0)

    def test_after_a_window_of_successes_it_is_the_first_again(self):
        for successes, length in ((9, 60), (10, 30)):
            self.client.call("FLUSHALL")
            self.use(["a", "b"], direct=1)
            self.fails(1)
            self.later(30)
            done = 0
            while done < successes:
                given = self.next()
                self.report(given)
                done += given.endpoint == 1
            self.told()
            self.fails(1)
            self.assertEqual(self.told(), [("cooled", 1, length, "")])

    def test_jitter_is_added(self):
        self.use(["a", "b"], jitter=0.5)
        self.fails(1)
        self.assertTrue(30 < self.told()[0][2] < 45)

    def test_retry_after_is_the_first_length_and_on_a_relapse_the_longer_counts(self):
        self.use(["a", "b", "c"], jitter=0.5, max=40)
        self.fails(1, hint=2)
        self.fails(2, hint=20)
        self.assertEqual([e[2] for e in self.told() if e[0] == "cooled"], [2, 20])
        self.later(2)
        trial = next(n for n in self.nexts(4) if n.trial)
        self.assertEqual(trial.endpoint, 1)
        self.report(trial, "timeout", hint=1)
        self.assertGreaterEqual(self.told()[0][2], 40)
        self.client.call("FLUSHALL")
        self.fails(1, hint=3600)
        self.assertEqual(self.told()[0][2], 40)

    def test_no_retry_after_is_no_hint(self):
        self.use(["a", "b"])
        self.fails(1, hint=0)
        self.assertEqual(self.told()[0][2], 30)

    def test_late_reports(self):
        self.use(["a", "b"])
        early = [n for n in self.nexts(40) if n.endpoint == 1]
        self.fails(1)
        self.assertEqual(self.told()[0], ("cooled", 1, 30, ""))
        self.assertFalse(self.report(early[0]))
        self.assertFalse(self.report(early[1], "timeout"))
        self.assertEqual((self.told(), self.show().endpoints[0].returns), ([], 30e6))
        self.assertFalse(self.report(early[2], "timeout", hint=10))
        self.assertEqual(self.show().endpoints[0].returns, 30e6)
        self.assertFalse(self.report(early[3], "timeout", hint=50))
        self.assertEqual(self.show().endpoints[0].returns, 50e6)
        self.later(50)
        self.report(next(n for n in self.nexts(2) if n.trial))
        for n in early[4:14]:
            self.assertFalse(self.report(n, "timeout"))
        self.assertEqual(self.show().endpoints[0].failures, 0)

    def test_one_trial_at_a_time(self):
        self.use(["a"], trial=5)
        self.fails(1)
        self.told()
        self.assertEqual((self.next().why, self.next().retry), ("cooling", 30))
        self.later(30)
        given = self.nexts(20)
        self.assertEqual([n.trial for n in given if n.endpoint], [1])
        self.assertEqual((given[1].why, given[1].retry), ("cooling", 5))
        self.report(given[0], "cancelled")
        again = self.nexts(20)
        self.assertEqual(sum(n.endpoint is not None for n in again), 1)
        self.later(5)
        third = self.next()
        self.assertEqual((third.endpoint, third.trial), (1, 1))
        self.report(again[0])
        self.assertEqual(self.show().endpoints[0].cooling, 1, "another trial is on its way")
        self.report(third, "target", 404)
        self.assertEqual(self.show().endpoints[0].cooling, 0)

    def test_direct(self):
        self.use(["a", "b"], direct=1)
        self.fails(1)
        self.later(30)
        given = self.nexts(10)
        self.assertEqual(Counter(n.endpoint for n in given), {1: 5, 2: 5})
        self.assertFalse(any(n.trial for n in given))
        self.assertIn(("returned", 1, 0, ""), self.told())

    def test_all_cool(self):
        self.use(["a", "b"], floor=0)
        self.fails(1, hint=5)
        self.fails(2, hint=3)
        given = self.next()
        self.assertEqual((given.why, given.retry, given.firm), ("cooling", 3, 3))

    def test_the_operators_word_stands(self):
        self.use(["a", "b"])
        self.fails(1)
        off = [{"id": "a", "off": 1}, "b"]
        self.use(off)
        self.later(1000)
        self.assertEqual({n.endpoint for n in self.nexts(10)}, {2})

    def test_probes_permit_a_trial_and_no_more(self):
        self.use(["a", "b"], health=1, every=10)
        self.fails(1)
        is_us, cooling = self.prober("one")
        self.assertEqual((is_us, len(cooling)), (True, 1))
        self.assertEqual(self.prober("two"), (False, []))
        endpoint, began = cooling[0]
        self.assertFalse(self.probe(endpoint, began - 1))
        self.later(30)
        self.assertEqual({n.endpoint for n in self.nexts(4)}, {2})
        self.assertTrue(self.probe(endpoint, began, 4))
        self.assertEqual({n.endpoint for n in self.nexts(4)}, {2})
        self.assertTrue(self.probe(endpoint, began))
        self.assertEqual([n.trial for n in self.nexts(4) if n.endpoint == 1], [1])

    def test_a_probe_is_due_once_an_interval(self):
        self.use(["a", "b", "c"], health=1, every=10, floor=0, base=300)
        self.fails(1)
        self.fails(2)
        self.assertEqual([e for e, _ in self.prober("one")[1]], [1, 2])
        self.later(8)
        self.fails(3)
        self.assertEqual([e for e, _ in self.prober("one")[1]], [3])
        self.later(2)
        self.assertEqual([e for e, _ in self.prober("one")[1]], [1, 2])
        self.later(9)
        self.assertEqual([([e for e, _ in self.prober("one", room=1)[1]], self.more) for _ in range(4)],
                         [([3], True), ([1], True), ([2], False), ([], False)])
        self.later(9)
        self.use(["a", {"id": "b", "off": 1}, {"id": "c", "weight": 0}], health=1, every=10, floor=0)
        self.assertEqual([e for e, _ in self.prober("one")[1]], [1, 3])

    def test_a_cooldown_of_its_own_is_probed_at_once(self):
        self.use(["a"], health=1, every=60, floor=0, base=10)
        self.fails(1)
        (_, began), = self.prober("one")[1]
        self.probe(1, began)
        self.later(10)
        self.report(self.next(), "refused")
        (_, again), = self.prober("one")[1]
        self.assertGreater(again, began)
        self.assertFalse(self.probe(1, began))

    def test_another_takes_over(self):
        self.use(["a"], health=1, every=10, floor=0)
        self.fails(1)
        self.assertEqual(self.prober("one", ttl=0.2)[0], True)
        self.assertEqual(self.prober("two")[0], False)
        time.sleep(0.3)
        self.assertEqual(self.prober("two"), (True, []))
        self.assertEqual(self.prober("one"), (False, []))

    def test_what_probes_found_is_shown(self):
        self.use(["a", "b"])
        self.assertIsNone(self.show().probes)
        self.use(["a", "b"], health=1)
        self.fails(2)
        (endpoint, began), = self.prober("one")[1]
        self.assertEqual(self.show().probes, [])
        self.probe(endpoint, began, 8)
        self.later(3)
        self.assertEqual(self.show().probes, [(2, 8, 3000000)])
        self.later(10)
        self.prober("one")
        self.assertEqual(self.show().probes, [(2, 8, 13000000)])

    def test_a_pause_is_no_firmer_than_the_first_cooldown(self):
        self.use(["a", "b"], health=1, every=60, floor=0)
        self.fails(1)
        self.fails(2)
        given = self.next()
        self.assertEqual((given.why, given.retry, given.firm), ("cooling", 60, 30))


class Floor(Case):
    def test_it_pauses_once_and_then_serves(self):
        self.use(["a", "b", "c"], floor=2, pause=20)
        self.fails(1)
        self.fails(2)
        given = self.next()
        self.assertEqual((given.why, given.retry), ("floor", 20))
        self.assertEqual([e[0] for e in self.told()], ["cooled", "cooled", "paused"])
        self.later(20)
        self.assertEqual(self.next().endpoint, 3)
        self.assertEqual(self.told(), [("resumed", 0, 0, "")])
        self.fails(3)
        self.assertEqual([e[0] for e in self.told()], ["cooled", "paused"])

    def test_reached_again_it_goes_on(self):
        self.use(["a", "b", "c"], floor=2, pause=60)
        self.fails(1)
        self.later(10)
        self.fails(2)
        self.assertEqual((self.next().why, self.next().retry), ("floor", 20))
        self.later(20)
        self.assertIsNotNone(self.next().endpoint)
        self.assertIn("resumed", [e[0] for e in self.told()])


class Blame(Case):
    def test_one_of_ten(self):
        self.use(TEN)
        self.fails(3, outcome="blocked", status=429, target="t")
        self.assertEqual(self.told(), [("cooled", 3, 30, "t")])
        self.assertNotIn(3, {n.endpoint for n in self.nexts(20, target="t")})
        self.assertIn(3, {n.endpoint for n in self.nexts(20, target="u")})
        self.later(30)
        trials = [n for n in self.nexts(20, target="t") if n.trial]
        self.assertEqual([n.endpoint for n in trials], [3])
        self.report(trials[0], "blocked", 403)
        self.assertEqual(self.told(), [("cooled", 3, 60, "t")])

    def test_nine_of_ten(self):
        self.use(TEN)
        for n in self.nexts(10, target="t"):
            self.report(n, "ok" if n.endpoint == 10 else "blocked", 429)
        self.assertEqual(self.told(), [("held", 0, 30, "t")])
        self.assertEqual((self.next(target="t").why, self.next(target="t").retry), ("held", 30))
        self.assertIsNotNone(self.next(target="u").endpoint)
        self.assertIsNotNone(self.next().endpoint)
        self.assertEqual(self.show().targets["t"], (1, 30, []))

    def test_a_hold_is_made_longer_never_shorter(self):
        self.use(TEN)
        given = self.nexts(5, target="t")
        for n in given[:3]:
            self.report(n, "blocked", 429, hint=7)
        self.assertEqual(self.told(), [("held", 0, 7, "t")])
        self.later(5)
        self.report(given[3], "blocked", 429, hint=60)
        self.assertEqual(self.told(), [("extended", 0, 60, "t")])
        self.report(given[4], "blocked", 429, hint=8)
        self.assertEqual((self.told(), self.next(target="t").retry), ([], 60))

    def test_retry_after_replaces_the_hold(self):
        self.use(TEN)
        for n in self.nexts(3, target="t"):
            self.report(n, "blocked", 429, hint=7)
        self.assertEqual(self.next(target="t").retry, 7)
        self.later(7)
        self.assertIsNotNone(self.next(target="t").endpoint)

    def test_without_a_target_the_pool_is_meant(self):
        self.use(TEN)
        for n in self.nexts(10):
            self.report(n, "blocked", 429)
        self.assertEqual(self.told(), [("held", 0, 30, "")])
        self.assertEqual((self.next().why, self.next(target="u").why), ("held", "held"))
        self.client.call("FLUSHALL")
        self.fails(3, outcome="captcha")
        self.assertEqual(self.told(), [("cooled", 3, 30, "")])

    def test_outcomes_of_long_ago_do_not_count(self):
        self.use(TEN)
        for n in self.nexts(10, target="t")[:9]:
            self.report(n, "blocked", 429)
            self.later(5)
        self.assertEqual(self.told(), [])

    def test_only_a_share_of_a_tier_goes_out(self):
        self.use(["a", "b", "c"], least=4)
        self.fails(1, outcome="empty", target="t")
        self.fails(2, outcome="empty", target="t")
        self.assertEqual([e[:2] for e in self.told() if e[0] != "escalated"], [("cooled", 1), ("capped", 2)])
        self.fails(2, 3, outcome="empty", target="t")
        self.assertEqual([e for e in self.told() if e[0] == "capped"], [], "once")

    def test_an_endpoints_own_failures_are_no_blame_of_the_target(self):
        self.use(TEN)
        for n in self.nexts(30, target="t"):
            self.report(n, "timeout")
        self.assertEqual(self.told(), [])


class Tiers(Case):
    TWO = ["a", "b", "c", {"id": "d", "tier": 2}, {"id": "e", "tier": 2}]

    def test_signs_of_recognition_escalate(self):
        self.use(self.TWO)
        for n in self.nexts(3, target="t"):
            self.report(n, "captcha")
        self.assertEqual(self.told(), [("escalated", 0, 2, "t")])
        given = self.next(target="t")
        self.assertEqual((given.tier, self.next().tier), (2, 1))
        self.later(600)
        self.assertEqual(self.next(target="t").tier, 1)

    def test_a_hold_that_ends_first_hides_no_escalation(self):
        self.use(self.TWO)
        for n in self.nexts(3, target="t"):
            self.report(n, "captcha")
        for n in self.nexts(6, target="t", tier=1):
            self.report(n, "blocked", 429)
        self.assertEqual([e[0] for e in self.told()], ["escalated", "held"])
        self.later(60)
        self.show()
        self.assertEqual(self.show().targets, {"t": (2, 0, [])})

    def test_so_many_among_the_last_outcomes(self):
        self.use(self.TWO, least=99, after=3, of=5, threshold=10)
        for outcomes, tier in ((["captcha", "ok", "ok", "empty", "ok", "blocked", "ok"], 1), (["captcha", "empty"], 2)):
            for outcome in outcomes:
                self.report(self.next(target="t"), outcome, 403)
            self.assertEqual(self.next(target="t").tier, tier)

    def test_other_failures_do_not(self):
        self.use(self.TWO)
        for outcome, status in (("timeout", 0), ("target", 500), ("blocked", 429)):
            for n in self.nexts(2, target="t"):
                self.report(n, outcome, status)
        self.assertEqual(self.next(target="t").tier, 1)

    def test_a_tier_that_cools_pauses(self):
        self.use(self.TWO, floor=0)
        for i in (1, 2, 3):
            self.fails(i)
        self.assertEqual(self.next().why, "cooling")
        self.assertEqual(self.next(tier=2).tier, 2)

    def test_the_next_higher_that_has_endpoints(self):
        self.use([{"id": "a", "tier": 3}, {"id": "b", "tier": 5, "off": 1}])
        self.assertEqual((self.next().tier, self.next(tier=2).tier), (3, 3))
        self.assertEqual(self.next(tier=4).why, "empty")

    def test_on_the_highest_a_target_at_fault_is_held(self):
        self.use(FIVE)
        for n in self.nexts(5, target="t"):
            self.report(n, "blocked", 403)
        self.assertEqual(self.told(), [("held", 0, 30, "t")])


class Sessions(Case):
    def test_kept_and_then_moved(self):
        self.use(FIVE)
        given = [self.next(session="s") for _ in range(20)]
        self.assertEqual({(n.endpoint, n.moved, n.moves) for n in given}, {(given[0].endpoint, 0, 0)})
        for n in given[:5]:
            self.report(n, "timeout")
        moved = self.next(session="s")
        self.assertNotEqual(moved.endpoint, given[0].endpoint)
        self.assertEqual((moved.moved, moved.moves), (1, 1))
        self.assertEqual((self.next(session="s").endpoint, self.next(session="s").moved), (moved.endpoint, 0))

    def test_a_move_that_was_undone_is_told_by_the_next(self):
        self.use(["a"], direct=1)
        for n in [self.next(session="s") for _ in range(5)]:
            self.report(n, "timeout")
        self.later(30)
        moved = self.next(session="s")
        self.assertEqual(moved.moved, 1)
        self.undo(moved)
        given = [self.next(session="s"), self.next(session="s")]
        self.assertEqual([n.moved for n in given], [1, 0])

    def test_an_endpoint_that_cooled_and_came_back_has_a_new_id(self):
        self.use(["a"], direct=1)
        for n in [self.next(session="s") for _ in range(5)]:
            self.report(n, "timeout")
        self.later(30)
        given = self.next(session="s")
        self.assertEqual((given.endpoint, given.moved, given.moves), (1, 1, 1))

    def test_forgotten(self):
        self.use(FIVE, ttl=0.05)
        first = self.next(session="s")
        self.assertEqual(first.moved, 0)
        self.client.call("PEXPIRE", "k:p{x}ss", 0)
        self.assertEqual(self.next(session="s").moved, 0)

    def test_exclusive(self):
        self.use(["a", "b"], exclusive=1, ttl=60)
        one, two = self.next(session="1"), self.next(session="2")
        self.assertEqual({one.endpoint, two.endpoint}, {1, 2})
        self.assertEqual((self.next(session="3").why, self.next().retry), ("slots", 60))
        self.assertEqual(self.next(session="1").endpoint, one.endpoint)
        self.later(60)
        self.client.call("DEL", "k:p{x}s1", "k:p{x}s2")
        self.assertIsNotNone(self.next().endpoint)


class Keys(Case):
    def test_a_hold_on_one_is_on_its_group(self):
        self.use([{"id": "a", "account": "g"}, {"id": "b", "account": "g"}, "c"], kind="key")
        given = self.next()
        self.assertTrue(self.report(given, "blocked", 429, hint=5))
        self.assertEqual({n.endpoint for n in self.nexts(4)}, {3})
        self.assertEqual(self.show().endpoints[0].failures, 0)
        self.report(self.next(), "blocked", 429, hint=9)
        self.assertEqual((self.next().why, self.next().retry), ("held", 5))
        self.later(5)
        self.assertEqual({n.endpoint for n in self.nexts(4)}, {1, 2})

    def test_the_latest_of_the_resets(self):
        self.use(["a"], kind="key")
        self.report(self.next(), quotas=[("requests", 60, 10, 1), ("tokens", 1000, 0, 300)])
        self.assertEqual((self.next().why, self.next().retry), ("held", 300))
        self.later(300)
        self.assertEqual(self.next().endpoint, 1)

    def test_each_next_takes_one_off(self):
        self.use(["a"], kind="key")
        self.report(self.next(), quotas=[("requests", 60, 3, 20)])
        self.assertEqual([n.endpoint for n in self.nexts(4)], [1, 1, 1, None])

    def test_out_of_order(self):
        self.use(["a"], kind="key")
        given = self.nexts(4)
        self.report(given[0], quotas=[("requests", 60, 5, 20)])
        self.report(given[1], quotas=[("requests", 60, 9, 20.9)])
        self.assertEqual(self.show().endpoints[0].quota["requests"][1], 5)
        self.report(given[2], quotas=[("requests", 60, -1, 20)])
        self.assertEqual(self.show().endpoints[0].quota["requests"][1], 5)
        self.later(20)
        self.report(given[3], quotas=[("requests", 60, 59, 60)])
        self.assertEqual(self.show().endpoints[0].quota["requests"][1], 59)

    def test_three_unknown_keys_in_a_row_disable(self):
        self.use(["a", "b"], kind="key", threshold=10)
        self.fails(1, 2, outcome="auth")
        self.report(next(n for n in self.nexts(2) if n.endpoint == 1), "ok")
        self.fails(1, 2, outcome="auth")
        self.assertEqual(self.told(), [])
        self.fails(1, 1, outcome="auth")
        self.assertEqual(self.told(), [("disabled", 1, 0, "")])
        self.later(86400)
        self.assertEqual({n.endpoint for n in self.nexts(4)}, {2})
        self.enable(1)
        self.assertEqual({n.endpoint for n in self.nexts(4)}, {1, 2})

    def test_the_providers_failures_are_neutral(self):
        self.use(["a"], kind="key")
        for outcome in ("refused", "tunnel", "timeout") * 10:
            self.assertTrue(self.report(self.next(), outcome))
        self.assertEqual(self.show().endpoints[0].outcomes, 0)


class Numbers(Case):
    def test_endpoints_that_are_gone_are_forgotten_after_a_day(self):
        self.use([f"old{i}" for i in range(80)])
        self.nexts(80)
        self.use(["a"])
        for days, left in ((0.9, 80), (1.1, 0)):
            self.later(days * 86400)
            self.call([b"\5"])
            self.assertEqual(sum(f.startswith("oold") for f in self.client.call("HKEYS", "k:p{x}")), left)

    def test_the_time_in_a_cooldown_at_a_target_counts_whoever_finds_that_it_is_over(self):
        self.use([{"id": "a", "slots": 1}], direct=1, least=9, max_out=1)
        self.fails(1, outcome="captcha", target="t")
        self.next()
        self.later(30)
        self.assertEqual(self.next(target="t").why, "slots")
        self.assertEqual(self.show().cooled, 30e6)

    def test_five(self):
        self.use(["a", "b", {"id": "c", "tier": 2}])
        self.fails(1)
        self.later(30)
        self.report(next(n for n in self.nexts(2) if n.trial))
        for n in self.nexts(30):
            self.report(n, "ok")
        for _ in range(3):
            self.report(self.next(tier=2))
        shown = self.show()
        self.assertEqual((shown.cooldowns, shown.cooled, shown.active_min), (1, 30e6, 2))
        self.assertEqual((shown.back, shown.good), (10, 10))
        self.assertEqual(shown.above, 3)
        self.assertEqual(sum(e.tickets for e in shown.endpoints), shown.tickets)


if __name__ == "__main__":
    harness.main()
