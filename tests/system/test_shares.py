"""Weighted levels: a guaranteed share of the parent, borrowing up to a ceiling, and nothing above the parent's bound."""
# Mostly waits.

import signal

import checker
import harness
import load
import shapes


def api(*, rate=200, room=100, **level):
    user = {"name": "user", "limit": 100000, "per": "1s", "burst": 100000, "weight": 1, **level}
    return {
        "name": "api",
        "levels": [{"name": "tenant", "limit": rate, "per": "1s", "burst": room}, user],
    }


def paced(address, key, seconds, rate):
    with load.Swarm([address], 4) as swarm:
        return swarm.run(seconds, ("KOVA.TAKE", "api", key), rate=rate)


def admitted(hits):
    return sum(hit.admitted for hit in hits)


def latency(hits, part):
    times = sorted(hit.received - hit.sent for hit in hits)
    return times[int(part * (len(times) - 1))]


class Shares(harness.Case):
    def start(self, policy, count=1, overrides=()):
        self.agents = shapes.start_agents(self, "standalone", [policy], count=count, overrides=list(overrides))
        return self.agents[0]

    def run_together(self, seconds, *loads):
        """(agent's number, key, rate) each; their hits."""
        running = [
            load.Background(paced, self.agents[number].resp_address, key, seconds, rate) for number, key, rate in loads
        ]
        return [one.result() for one in running]

    def assert_exact(self, *all_hits, rate=200, burst=100):
        hits = [hit for hits in all_hits for hit in hits]
        self.assertEqual(load.errors(hits), [])
        self.assertIsNone(checker.bucket_violation(checker.admissions(hits), rate, burst))

    def noisy_and_quiet(self, count):
        """The quiet one asks for half its share, the noisy one for a hundred times its own. What an answer takes is compared
        with another tenant's at the same time: the load itself needs the processor as well."""
        self.start(api(rate=40, room=40), count=count)
        noisy, quiet, other = self.run_together(
            4, (0, "acme/noisy", 2000), (count - 1, "acme/quiet", 10), (count - 1, "other/quiet", 10)
        )
        self.assert_exact(noisy, quiet, rate=40, burst=40)
        self.assertEqual(admitted(other), len(other))
        refused = [hit for hit in quiet if not hit.admitted]
        self.assertLessEqual(len(refused), 1, f"its share is 20: {load.replies(quiet)}")
        self.assertGreater(admitted(noisy), 0.95 * (20 + 4 * 30), "it borrows what the quiet one leaves")
        self.assertLess(latency(quiet, 0.5), 2 * latency(other, 0.5) + 0.005)

    def test_a_noisy_one_costs_a_quiet_one_nothing(self):
        self.noisy_and_quiet(1)

    def test_nor_does_one_at_another_agent(self):
        self.noisy_and_quiet(2)

    def test_nor_while_redis_is_away(self):
        agent = self.start({**api(rate=40, room=40), "on_outage": "local"})
        redis = next(process for process in self._processes if isinstance(process, harness.Redis))
        redis.send_signal(signal.SIGSTOP)
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "api", "acme/noisy")[5] == "outage", "an outage")
        noisy, quiet = self.run_together(4, (0, "acme/noisy", 2000), (0, "acme/quiet", 10))
        redis.send_signal(signal.SIGCONT)
        self.assertEqual({hit.reason for hit in noisy + quiet}, {"outage"})
        self.assertIsNone(checker.bucket_violation(checker.admissions(noisy + quiet), 40, 40))
        self.assertGreater(admitted(quiet), 0.8 * len(quiet), f"its share is 20: {load.replies(quiet)}")
        self.assertGreater(admitted(noisy), 0.9 * 4 * 20, "it borrows what the quiet one leaves")

    def test_one_that_is_alone_has_all(self):
        agent = self.start(api())
        hits = paced(agent.resp_address, "acme/lone", 1, 1000)
        self.assert_exact(hits)
        self.assertGreater(admitted(hits), 0.95 * (100 + 200))
        # Another one appears: the two have a half each at once. When it is quiet again, all is there for the first.
        one, other = self.run_together(2, (0, "acme/lone", 1000), (0, "acme/late", 1000))
        self.assertLess(abs(admitted(one) - admitted(other)), 0.1 * admitted(one))
        self.assertGreater(admitted(paced(agent.resp_address, "acme/lone", 2, 1000)), 0.95 * (2 * 200 - 50))

    def test_weights(self):
        """1 to 3 by an override, both far above their shares, at two agents."""
        self.start(api(), count=2, overrides=[{"policy": "api", "key": "acme/gold", "weight": 3}])
        one, gold = self.run_together(3, (0, "acme/one", 1500), (1, "acme/gold", 1500))
        self.assert_exact(one, gold)
        late = [[hit for hit in hits if hit.sent > hits[0].sent + 1] for hits in (one, gold)]
        self.assertAlmostEqual(admitted(late[1]) / admitted(late[0]), 3, delta=0.2)
        self.assertGreater(admitted(one) + admitted(gold), 0.95 * (100 + 3 * 200))

    def test_the_ceiling_holds(self):
        for limit, ceiling in ((1000, 60), (20, 60)):
            with self.subTest(limit=limit):
                agent = self.start(api(limit=limit, ceiling=ceiling, burst=10))
                hits = paced(agent.resp_address, "acme/u", 1.5, 500)
                self.assert_exact(hits, rate=60, burst=10)
                self.assertGreater(admitted(hits), 0.9 * (10 + 1.5 * 60))
                self.assertEqual({hit.reason for hit in hits}, {"ok", "limited:user"})

    def test_who_asks_for_the_parent_itself_takes_part(self):
        self.start(api())
        parent, child = self.run_together(2, (0, "acme", 2000), (0, "acme/quiet", 50))
        self.assert_exact(parent, child)
        self.assertLessEqual(len(child) - admitted(child), 1)

    def test_without_weights_nothing_is_kept(self):
        levels = [{k: v for k, v in level.items() if k != "weight"} for level in api()["levels"]]
        self.agents = shapes.start_agents(self, "standalone", [{"name": "api", "levels": levels}, {**api(), "name": "w"}])
        redis = next(process for process in self._processes if isinstance(process, harness.Redis))
        self.agents[0].call("KOVA.TAKE", "api", "acme/u")
        self.agents[0].call("KOVA.PEEK", "w", "acme/u")
        self.assertEqual(sorted(redis.call("KEYS", "k:[a-z]*{acme}*")), ["k:b{acme}api:0", "k:b{acme}api:1/u"])
        self.agents[0].call("KOVA.TAKE", "w", "acme/u")
        self.assertEqual(redis.call("STRLEN", "k:pb{acme}w:0"), 27)
        self.assertGreater(redis.call("TTL", "k:pb{acme}w:0"), 60)


class Turns(shapes.Frozen):
    """With a clock that stands still: exact amounts, and waits that are enough."""

    def test_shares_by_hand(self):
        resp = self.start([api(rate=10, room=20)])
        take = lambda key, cost=1: resp.call("KOVA.TAKE", "api", key, "COST", cost)
        self.assertEqual(take("t/a", 20)[:3], [1, 0, 20], "alone: all")
        refused = take("t/b")
        self.assertEqual((refused[0], refused[3], refused[5]), (0, 200, "limited:tenant"))
        self.clock.advance(1)  # 5 for each
        self.assertEqual(take("t/a", 6)[0], 0)
        self.assertEqual(take("t/a", 5)[0], 1)
        self.assertEqual(take("t/a")[0], 0)
        self.assertEqual(resp.call("KOVA.PEEK", "api", "t/b")[1], 5)
        self.assertEqual(take("t/b", 5)[0], 1)
        self.clock.advance(3600)  # both have lapsed
        self.assertEqual(take("t/c", 20)[0], 1)

    def test_waiting_that_long_is_enough(self):
        resp = self.start([api(rate=10, room=20)])
        take = lambda key, cost: resp.call("KOVA.TAKE", "api", key, "COST", cost)
        take("t/b", 1)
        take("t/c", 1)
        for cost in (1, 3, 7, 12, 19, 20):
            reply = take("t/a", cost)
            for _ in range(2):
                if reply[0] == 0:
                    self.clock.advance(reply[3] / 1000)
                    reply = take("t/a", cost)
            self.assertEqual(reply[0], 1, f"{cost}")
        self.assertEqual(take("t/a", 21)[3], -1)


if __name__ == "__main__":
    harness.main()
