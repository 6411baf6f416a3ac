"""Several limits in one step: levels of a key path, pairs of one request; all or nothing, and who refused is named."""
# Mostly waits.

import checker
import harness
import load
import shapes

HIERARCHY = {
    "name": "api",
    "levels": [
        {"name": "tenant", "limit": 10, "per": "1h", "burst": 10},
        {"name": "user", "limit": 6, "per": "1h", "burst": 6},
        {"name": "rest", "limit": 3, "per": "1h", "burst": 3},
    ],
}
POLICIES = [
    HIERARCHY,
    {"name": "a", "limit": 5, "per": "1h", "burst": 5},
    {"name": "b", "limit": 1000, "per": "1h", "burst": 1000},
    {"name": "w", "algorithm": "sliding-window", "limit": 5, "per": "1h"},
    {"name": "d", "algorithm": "calendar", "limit": 5, "per": "month"},
]


class InEveryShape:
    """Tests of a class with `shape`."""

    policies = POLICIES

    def take(self, *words):
        return self.resp.call("KOVA.TAKE", *words)

    def remaining(self, policy, key):
        return self.resp.call("KOVA.PEEK", policy, key)[1]

    def test_the_level_that_refused_is_named(self):
        for _ in range(3):
            self.assertEqual(self.take("api", "acme/alice/search")[0], 1)
        refused = self.take("api", "acme/alice/search")
        self.assertEqual((refused[:3], refused[5]), ([0, 0, 3], "limited:rest"))
        for _ in range(3):
            self.assertEqual(self.take("api", "acme/alice/read")[0], 1)
        refused = self.take("api", "acme/alice/write")
        self.assertEqual((refused[:3], refused[5]), ([0, 0, 6], "limited:user"))
        for _ in range(2):
            self.assertEqual(self.take("api", "acme/bob/read")[0], 1)
        self.assertEqual(self.take("api", "acme/carol/x", "COST", 2)[0], 1)
        refused = self.take("api", "acme/dave/x")
        self.assertEqual((refused[:3], refused[5]), ([0, 0, 10], "limited:tenant"))
        self.assertEqual(self.take("api", "other/dave/x")[0], 1)

    def test_a_refused_level_costs_the_others_nothing(self):
        self.assertEqual(self.take("api", "t/u/x", "COST", 3)[0], 1)
        for _ in range(100):
            self.assertEqual(self.take("api", "t/u/x")[5], "limited:rest")
        self.assertEqual(self.remaining("api", "t"), 7)
        self.assertEqual(self.remaining("api", "t/u"), 3)
        self.assertEqual(self.take("api", "t/u/y", "COST", 3)[0], 1)
        for _ in range(100):
            self.assertEqual(self.take("api", "t/u/z")[5], "limited:user")
        self.assertEqual(self.remaining("api", "t"), 4)

    def test_a_short_key_is_checked_on_the_levels_it_has(self):
        self.assertEqual(self.take("api", "short", "COST", 10)[:3], [1, 0, 10])
        self.assertEqual(self.take("api", "short/u")[5], "limited:tenant")

    def test_the_last_level_takes_the_rest(self):
        self.assertEqual(self.take("api", "r/u/a/b/c", "COST", 3)[:3], [1, 0, 3])
        self.assertEqual(
            self.take("api", "r/u/a/b/d", "COST", 3)[:2], [1, 0], "another rest; the user level is empty with it"
        )

    def test_the_least_remaining_is_told(self):
        self.assertEqual(self.take("api", "n/u/x")[1:3], [2, 3])
        self.assertEqual(self.take("api", "n/u/y", "COST", 2)[1:3], [1, 3])
        self.assertEqual(self.take("api", "n/u", "COST", 2)[1:3], [1, 6])
        self.assertEqual(self.take("b", "n", "AND", "a", "n", "COST", 2)[1:3], [3, 5])
        self.assertEqual(self.take("a", "n", "AND", "b", "n", "COST", 2)[1:3], [2, 5])

    def test_a_full_and_b_free(self):
        """100 requests for two limits, the first of them exhausted: the second keeps what it has, in either order."""
        for number, full in enumerate(("a", "w", "d")):
            one, other = f"{{x{number}}}full", f"{{y{number}}}free"
            self.assertEqual(self.take(full, one, "COST", 5)[0], 1)
            for words in ((full, one, "AND", "b", other), ("b", other, "AND", full, one)):
                for reply in self.resp.pipeline([("KOVA.TAKE", *words)] * 50):
                    self.assertEqual((reply[0], reply[1], reply[2], reply[5]), (0, 0, 5, f"limited:{full}"))
            self.assertEqual(self.remaining("b", other), 1000)

    def test_pairs_and_costs(self):
        self.assertEqual(self.take("a", "p1", "COST", 2, "AND", "a", "p2", "COST", 3, "AND", "b", "p3")[:3], [1, 2, 5])
        self.assertEqual([self.remaining(*pair) for pair in (("a", "p1"), ("a", "p2"), ("b", "p3"))], [3, 2, 999])
        self.assertEqual(self.take("a", "p1", "COST", 3, "AND", "a", "p2", "COST", 3)[0], 0)
        self.assertEqual([self.remaining(*pair) for pair in (("a", "p1"), ("a", "p2"))], [3, 2])

    def test_a_pair_given_twice_counts_twice(self):
        self.assertEqual(self.take("a", "t", "COST", 2, "AND", "a", "t", "COST", 2)[:2], [1, 1])
        self.assertEqual(self.take("a", "t", "AND", "a", "t")[0], 0)
        self.assertEqual(self.remaining("a", "t"), 1)

    def test_children_of_one_parent_in_one_request(self):
        self.assertEqual(self.take("api", "f/u1", "COST", 5, "AND", "api", "f/u2", "COST", 5)[0], 1)
        refused = self.take("api", "f/u1", "AND", "api", "f/u2")
        self.assertEqual((refused[0], refused[5]), (0, "limited:tenant"))
        self.assertEqual(self.take("api", "g/u1", "COST", 6, "AND", "api", "g/u2", "COST", 5)[5], "limited:tenant")
        self.assertEqual(self.remaining("api", "g/u1"), 6, "neither was taken")

    def test_no_policy_of_that_name_takes_nothing(self):
        with self.assertRaisesRegex(harness.RespError, "^NOPOLICY"):
            self.take("a", "np", "AND", "nope", "np")
        self.assertEqual(self.remaining("a", "np"), 5)

    def test_sixteen_pairs_and_not_more(self):
        words = ["b", "s0"]
        for i in range(1, 16):
            words += ["AND", "b", f"s{i}"]
        self.assertEqual(self.take(*words)[:2], [1, 999])
        self.assertEqual([self.remaining("b", f"s{i}") for i in range(16)], [999] * 16)
        with self.assertRaisesRegex(harness.RespError, "^ERR"):
            self.take(*words, "AND", "b", "s16")

    def test_200_callers_on_two_limits(self):
        """Two keys with 40 and 1000: exactly 40 pass, and both were charged 40."""
        agents = shapes.addresses(self.agents)
        self.agents[0].http("PUT", "/v1/policies/forty", {"name": "forty", "limit": 40, "per": "1h", "burst": 40})
        for agent in self.agents[1:]:
            agent.http("PUT", "/v1/policies/forty", {"name": "forty", "limit": 40, "per": "1h", "burst": 40})
        with load.Swarm(agents, 200) as swarm:
            for number in range(5):
                one, other = f"left{number}", f"right{number}"
                hits = swarm.burst(
                    lambda n, pairs=(("forty", one), ("b", other)): (
                        "KOVA.TAKE",
                        *pairs[n % 2],
                        "AND",
                        *pairs[1 - n % 2],
                    )
                )
                self.assertEqual(load.errors(hits), [])
                self.assertLessEqual(sum(hit.admitted for hit in hits), 40)
                # While a request across slots holds one key and is refused on the other, others may be refused for it.
                while sum(hit.admitted for hit in hits) < 40:
                    more = swarm.burst(("KOVA.TAKE", "forty", one, "AND", "b", other))
                    self.assertTrue(any(hit.admitted for hit in more), "room, and nobody gets it")
                    hits += more
                harness.wait_for(lambda o=other: self.remaining("b", o) == 960, "what the refused had taken is back")
                self.assertEqual((self.remaining("forty", one), sum(hit.admitted for hit in hits)), (0, 40))


class Standalone(InEveryShape, shapes.Shared):
    shape = "standalone"


class Cluster(InEveryShape, shapes.Shared):
    shape = "cluster"

    def test_all_or_none_is_seen(self):
        """Each request takes one of two keys in different slots: in the end both have lost the same."""
        with load.Swarm(shapes.addresses(self.agents), 20) as swarm:
            keys = [(f"m{i}", f"n{i}") for i in range(20)]
            hits = swarm.run(3, lambda n: ("KOVA.TAKE", "b", keys[n % 20][0], "AND", "b", keys[n % 20][1]))
        self.assertEqual(load.errors(hits), [])
        for one, other in keys:
            admitted = sum(hit.admitted and hit.words[2] == one for hit in hits)
            self.assertGreater(admitted, 0)
            # 1000 an hour come back: less than one in these seconds.
            self.assertEqual([1000 - self.remaining("b", key) for key in (one, other)], [min(admitted, 1000)] * 2)
        self.assertIsNone(
            checker.bucket_violation(
                checker.admissions([hit for hit in hits if hit.words[2] == "m0"]), 1000 / 3600, 1000
            )
        )


if __name__ == "__main__":
    harness.main()
