"""ID: charged once, whatever is repeated where; and replies that are lost on the way from Redis."""
# Mostly waits.

import time

import harness
import load
import proxy
import shapes

POLICIES = [
    {"name": "w", "algorithm": "sliding-window", "limit": 100000, "per": "1h"},
    {"name": "one", "limit": 1, "per": "1h", "burst": 1},
    {"name": "b", "limit": 100, "per": "1h", "burst": 100},
    {"name": "c", "algorithm": "concurrency", "limit": 2, "hold": "1h"},
]


class Repeats:
    """Tests of a class with `shape`."""

    policies = POLICIES

    def remaining(self, policy, key):
        return self.resp.call("KOVA.PEEK", policy, key)[1]

    def test_on_every_agent_and_protocol(self):
        first = self.resp.call("KOVA.TAKE", "b", "every", "COST", 10, "ID", "x")
        self.assertEqual(first[:3], [1, 90, 100])
        for agent in self.agents:
            again = agent.call("KOVA.TAKE", "b", "every", "COST", 10, "ID", "x")
            self.assertEqual(again[:3] + again[5:], first[:3] + first[5:])
            answer = agent.http("POST", "/v1/take", {"policy": "b", "key": "every", "cost": 10, "id": "x"})
            self.assertEqual((answer.status, answer.json()["allowed"], answer.json()["remaining"]), (200, True, 90))
        self.assertEqual(self.remaining("b", "every"), 90)
        answer = self.agents[-1].http("POST", "/v1/take", {"policy": "b", "key": "every", "cost": 10, "id": "y"}).json()
        self.assertEqual(answer["remaining"], 80)
        self.assertEqual(self.resp.call("KOVA.TAKE", "b", "every", "COST", 10, "ID", "y")[:2], [1, 80])

    def test_for_the_same_pairs_only(self):
        self.assertEqual(self.resp.call("KOVA.TAKE", "b", "k", "ID", "x")[1], 99)
        for words in (("b", "k", "COST", 2), ("b", "l"), ("w", "k"), ("b", "k", "AND", "w", "k")):
            before = [self.remaining("b", "k"), self.remaining("b", "l"), self.remaining("w", "k")]
            self.assertEqual(self.resp.call("KOVA.TAKE", *words, "ID", "x")[0], 1)
            after = [self.remaining("b", "k"), self.remaining("b", "l"), self.remaining("w", "k")]
            self.assertNotEqual(before, after, words)
            self.resp.call("KOVA.TAKE", *words, "ID", "x")
            self.assertEqual(
                after, [self.remaining("b", "k"), self.remaining("b", "l"), self.remaining("w", "k")], words
            )

    def test_an_exhausted_limit_still_answers_a_repeat(self):
        self.assertEqual(self.resp.call("KOVA.TAKE", "one", "k", "ID", "x")[0], 1)
        self.assertEqual(self.resp.call("KOVA.TAKE", "one", "k", "ID", "x")[0], 1)
        self.assertEqual(self.resp.call("KOVA.TAKE", "one", "k", "ID", "y")[0], 0)

    def test_several_pairs(self):
        words = ("KOVA.TAKE", "one", "left", "AND", "one", "right", "AND", "b", "third", "ID", "x")
        self.assertEqual(self.resp.call(*words)[0], 1)
        for agent in self.agents:
            for _ in range(3):
                self.assertEqual(agent.call(*words)[0], 1, "an admission is answered again")
        harness.wait_for(lambda: self.remaining("b", "third") == 99, "charged once")
        self.assertEqual([self.remaining("one", "left"), self.remaining("one", "right")], [0, 0])

    def test_a_refusal_is_not_remembered(self):
        permit = self.resp.call("KOVA.ACQUIRE", "c", "k")[6]
        self.resp.call("KOVA.ACQUIRE", "c", "k")
        self.assertEqual(self.resp.call("KOVA.ACQUIRE", "c", "k", "ID", "x")[0], 0)
        self.resp.call("KOVA.RELEASE", "c", "k", permit)
        first = self.resp.call("KOVA.ACQUIRE", "c", "k", "ID", "x")
        self.assertEqual(first[0], 1)
        answer = self.agents[-1].http("POST", "/v1/acquire", {"policy": "c", "key": "k", "id": "x"}).json()
        self.assertEqual((answer["allowed"], answer["permit"], answer["hold_ms"]), (True, first[6], first[7]))

    def test_200_repeats_at_once(self):
        with load.Swarm(shapes.addresses(self.agents), 200) as swarm:
            for number in range(5):
                hits = swarm.burst(("KOVA.TAKE", "b", f"k{number}", "COST", 30, "ID", "x"))
                self.assertEqual(load.replies(hits), {"ok": 200})
                self.assertEqual({hit.reply[1] for hit in hits}, {70})
                self.assertEqual(self.remaining("b", f"k{number}"), 70)


class Standalone(Repeats, shapes.Shared):
    shape = "standalone"


class Cluster(Repeats, shapes.Shared):
    shape = "cluster"

    def test_repeats_across_slots_at_once(self):
        """However they meet: each of 40 requests is charged once on both keys, and answered to all who repeat it."""
        with load.Swarm(shapes.addresses(self.agents), 40) as swarm:
            for number in range(5):
                left, right = f"l{number}", f"r{number}"
                words = [("KOVA.TAKE", "w", left, "AND", "w", right, "ID", f"id{n % 10}") for n in range(40)]
                self.assertEqual(load.replies(swarm.burst(lambda n, w=words: w[n])), {"ok": 40})
                for key in (left, right):
                    harness.wait_for(lambda k=key: self.remaining("w", k) == 100000 - 10, f"ten charged on {key}")


class Remembered(shapes.Frozen):
    def test_for_60_seconds(self):
        resp = self.start(POLICIES)
        first = resp.call("KOVA.TAKE", "w", "k", "COST", 7, "ID", "x")
        self.clock.advance(59.9)
        self.assertEqual(resp.call("KOVA.TAKE", "w", "k", "COST", 7, "ID", "x")[:3], first[:3])
        self.assertEqual(resp.call("KOVA.PEEK", "w", "k")[1], 100000 - 7)
        self.clock.advance(0.2)
        self.assertEqual(resp.call("KOVA.TAKE", "w", "k", "COST", 7, "ID", "x")[0], 1)
        self.assertEqual(resp.call("KOVA.PEEK", "w", "k")[1], 100000 - 14)


class LostReplies(harness.Case):
    """A proxy swallows one in ten of Redis's replies: the decision was made, and nobody knows."""

    REQUESTS = 150

    def start(self, lose=0.1):
        redis = self.start_redis()
        self.proxy = self.keep(proxy.LossyProxy(redis.address))
        policies = [{**policy, "on_outage": "deny"} for policy in POLICIES]
        config = {"redis": {"mode": "standalone", "url": self.proxy.url, "timeout": "200ms"}, "policies": policies}
        self.agents = [self.start_agent(config), self.start_agent({**config, "redis": shapes.standalone(redis)})]
        self.proxy.lose = lose

    def charged(self, policy="w", key="k"):
        return 100000 - self.agents[1].call("KOVA.PEEK", policy, key)[1]

    def ask_all(self, words_of):
        """Each request is repeated until it is admitted."""
        again, deadline = list(range(self.REQUESTS)), time.monotonic() + 90
        with load.Swarm([self.agents[0].resp_address], 4) as swarm:
            while again:
                self.assertLess(time.monotonic(), deadline, f"{len(again)} requests are never admitted")
                hits = swarm.burst(lambda n: words_of(again[n % len(again)]))
                self.assertFalse([hit for hit in hits if not isinstance(hit.reply, list)], "errors")
                done = {hit.words[4] for hit in hits if hit.admitted}
                again = [n for n in again if words_of(n)[4] not in done]
                if not any(hit.admitted for hit in hits):
                    time.sleep(0.02)

    def run_until_lost(self, swarm, words):
        """Load for four seconds, and again until more than three replies were lost: by chance, so not in a set time."""
        hits, deadline = swarm.run(4, words, rate=300), time.monotonic() + harness.PATIENCE
        while self.proxy.lost <= 3:
            self.assertLess(time.monotonic(), deadline, "replies are lost")
            hits += swarm.run(1, words, rate=300)
        return hits

    def test_with_an_id_charged_are_the_distinct_requests(self):
        self.start()
        self.ask_all(lambda n: ("KOVA.TAKE", "w", "k", "ID", f"request-{n}"))
        print(f"{self.proxy.lost} replies lost, {self.proxy.passed} not", flush=True)
        self.assertGreater(self.proxy.lost, 5, "replies were lost")
        self.proxy.lose = 0
        self.assertEqual(self.charged(), self.REQUESTS)

    def test_without_never_admitted_more_than_charged(self):
        self.start()
        with load.Swarm([self.agents[0].resp_address], 10) as swarm:
            hits = self.run_until_lost(swarm, ("KOVA.TAKE", "w", "k"))
        admitted = sum(hit.admitted for hit in hits)
        self.assertGreater(admitted, 0)
        self.assertLessEqual(admitted, self.charged())
        self.assertEqual(set(load.replies(hits)) - {"ok", "outage"}, set())

    def test_no_answer_goes_to_another_request(self):
        """Two policies, told apart by their limit: a reply that is one too late would answer with the other's."""
        self.start(0.05)
        with load.Swarm([self.agents[0].resp_address], 10) as swarm:
            hits = self.run_until_lost(swarm, lambda n: ("KOVA.TAKE", *(("w", "k") if n % 2 else ("b", f"k{n}"))))
        for hit in hits:
            if hit.reason == "ok":
                self.assertEqual(hit.reply[2], 100000 if hit.words[1] == "w" else 100, hit)

    def test_connections_that_are_cut(self):
        self.start(0)
        with load.Swarm([self.agents[0].resp_address], 10) as swarm:
            running = load.Background(swarm.run, 4, ("KOVA.TAKE", "w", "k"), rate=300)
            while running.running():
                time.sleep(0.15)
                self.proxy.cut()
            hits = running.result()
        admitted = sum(hit.admitted for hit in hits)
        self.assertGreater(admitted, 0)
        self.assertLessEqual(admitted, self.charged())
        self.assertEqual(set(load.replies(hits)) - {"ok", "outage"}, set())


if __name__ == "__main__":
    harness.main()
