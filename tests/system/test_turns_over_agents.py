"""Who waits at several agents of a region, or loops of one, is one line: first come first served within a key, turns among
keys, no newcomer before them, one bound; and an agent that is gone holds nobody up for long."""
# Mostly waits.

import time

import harness
import load
import proxy
import shapes

GONE_S = 1.25  # a ticket lapses that long after its holder asked last


class Line(harness.Case):
    def start(self, policy, count=3, **config):
        self.agents = shapes.start_agents(self, "standalone", [policy], count=count, **config)
        return self.agents

    def drain(self, policy, key, burst):
        self.assertEqual(self.agents[0].call("KOVA.TAKE", policy, key, "COST", burst)[0], 1)

    def waiters(self, count, policy="p"):
        metric = f'kova_waiters{{policy="{policy}"}} {count}\n'.encode()
        harness.wait_for(
            lambda: sum(metric in agent.http("GET", "/metrics").body for agent in self.agents), f"{count} waiters"
        )

    def line_up(self, swarm, keys, apart_s=0.01, words=()):
        """One waiter a wire, each certainly later than the one before."""
        hits = []
        for wire, key in zip(swarm.wires, keys):
            hits.append(swarm.send(wire, ("KOVA.TAKE", "p", key, "WAIT", 25000, *words)))
            swarm.poll(apart_s)
            time.sleep(apart_s)
        return hits

    def assert_in_order(self, hits, bound):
        for hit in hits:
            self.assertTrue(hit.admitted, hit)
        served = sorted(range(len(hits)), key=lambda i: hits[i].received)
        off = max(abs(place - came) for place, came in enumerate(served))
        self.assertLessEqual(off, bound, served)


class Order(Line):
    POLICY = {"name": "p", "limit": 20, "per": "1s", "burst": 40}  # so that a loop which is late loses nothing

    def test_first_come_first_served_at_three_agents(self):
        self.start(self.POLICY)
        self.drain("p", "k", 40)
        with load.Swarm(shapes.addresses(self.agents), 45) as swarm:
            hits = self.line_up(swarm, ["k"] * 45)
            swarm.finish()
        self.assert_in_order(hits, 1)

    def test_all_who_came_first_are_at_one_agent(self):
        self.start(self.POLICY, count=2)
        self.drain("p", "k", 40)
        first, second = shapes.addresses(self.agents)
        with load.Swarm([first] * 20 + [second] * 10, 30) as swarm:
            hits = self.line_up(swarm, ["k"] * 30)
            swarm.finish()
        self.assert_in_order(hits, 1)

    def test_at_four_loops(self):
        self.start(self.POLICY, count=1, threads=4)
        self.drain("p", "k", 40)
        with load.Swarm(shapes.addresses(self.agents), 40) as swarm:
            hits = self.line_up(swarm, ["k"] * 40)
            swarm.finish()
        self.assert_in_order(hits, 1)

    def test_with_every_algorithm(self):
        for algorithm, more in (
            ("gcra", {"limit": 20, "per": "1s", "burst": 1}),
            ("sliding-window", {"limit": 1, "per": "50ms"}),
            ("sliding-counter", {"limit": 1, "per": "50ms"}),
        ):
            with self.subTest(algorithm):
                self.start({"name": "p", "algorithm": algorithm, **more}, count=2)
                with load.Swarm(shapes.addresses(self.agents), 20) as swarm:
                    hits = self.line_up(swarm, ["k"] * 20, apart_s=0.005)
                    swarm.finish()
                self.assert_in_order(hits, 1)

    def test_permits(self):
        policy = {"name": "p", "algorithm": "concurrency", "limit": 1, "hold": "1h"}
        self.start(policy, count=2)
        held = self.agents[0].call("KOVA.ACQUIRE", "p", "k")[6]
        order = []
        with load.Swarm(shapes.addresses(self.agents), 8) as swarm:
            places = {}
            for number, wire in enumerate(swarm.wires):
                places[swarm.send(wire, ("KOVA.ACQUIRE", "p", "k", "WAIT", 25000))] = number
                time.sleep(0.02)
            while len(order) < 8:
                self.agents[0].call("KOVA.RELEASE", "p", "k", held)
                answered = []
                while not answered:
                    answered = swarm.poll(0.1)
                self.assertEqual(len(answered), 1)
                held = answered[0][1].reply[6]
                order.append(places[answered[0][1]])
        self.assertEqual(order, list(range(8)))

    def test_a_newcomer_at_another_agent_does_not_overtake(self):
        agents = self.start({"name": "p", "limit": 10, "per": "1s", "burst": 5}, count=2)
        self.drain("p", "k", 5)
        first, second = shapes.addresses(agents)
        with load.Swarm([first], 15) as swarm, load.Swarm([second], 4) as newcomers:
            hits = self.line_up(swarm, ["k"] * 15, apart_s=0.001)
            new = newcomers.run(1.0, ("KOVA.TAKE", "p", "k"))
            swarm.finish()
        last = max(hit.received for hit in hits)
        self.assertEqual([hit for hit in new if hit.admitted and hit.sent < last - 0.1], [])
        self.assertEqual({hit.reason for hit in new if hit.refused}, {"limited:p"})
        self.assert_in_order(hits, 1)

    def test_a_newcomer_does_not_take_what_a_larger_waiter_needs(self):
        agents = self.start({"name": "p", "limit": 5, "per": "1h", "burst": 10}, count=2)
        agents[0].call("KOVA.TAKE", "p", "k", "COST", 5)
        with agents[0].resp() as waiter:
            waiter.send("KOVA.TAKE", "p", "k", "COST", 8, "WAIT", 20000)
            self.waiters(1)
            # It is in vain, and nobody waits for it.
            self.assertEqual(agents[1].call("KOVA.TAKE", "p", "k")[0], 1)
        agents[0].http("PUT", "/v1/policies/p", {"name": "p", "limit": 1, "per": "3s", "burst": 10})
        agents[1].http("PUT", "/v1/policies/p", {"name": "p", "limit": 1, "per": "3s", "burst": 10})
        with agents[0].resp() as waiter:
            waiter.send("KOVA.TAKE", "p", "k", "COST", 6, "WAIT", 25000)
            self.waiters(1)
            for _ in range(20):
                self.assertEqual(agents[1].call("KOVA.TAKE", "p", "k")[0], 0, "4 are there, but the waiter is first")
            self.assertEqual(agents[1].call("KOVA.TAKE", "p", "other")[0], 1)
            self.assertEqual(waiter.read()[0], 1)


class Keys(Line):
    def api(self, rate):
        return {
            "name": "p",
            "levels": [
                {"name": "tenant", "limit": rate, "per": "1s", "burst": 1},
                {"name": "user", "limit": 1000, "per": "1s", "burst": 1000},
            ],
        }

    def shares(self, hits, end):
        served = [hit.words[2] for hit in sorted(hits, key=lambda hit: hit.received)[:end]]
        return {key: served.count(key) for key in sorted(set(served))}

    def test_keys_have_equal_parts_wherever_they_wait(self):
        """x at all three agents, y at one, z beside x at another: a third each."""
        self.start(self.api(40))
        self.drain("p", "t/x", 1)
        one, two, three = shapes.addresses(self.agents)
        places = [one, two, three] * 10 + [one] * 20 + [two] * 20
        keys = ["t/x"] * 30 + ["t/y"] * 20 + ["t/z"] * 20
        with load.Swarm(places, 70) as swarm:
            hits = self.line_up(swarm, keys, apart_s=0)
            swarm.finish()
        behind = [hit for hit in hits if hit.received > max(hit.sent for hit in hits)]
        parts = self.shares(behind, 36)
        self.assertLessEqual(max(parts.values()) - min(parts.values()), 4, parts)

    def test_a_noisy_key_costs_a_quiet_one_one_turn(self):
        self.start(self.api(40))
        self.drain("p", "t/noisy", 1)
        one, two, three = shapes.addresses(self.agents)
        stop_at = time.monotonic() + 4
        with load.Swarm([one, two], 100) as noisy, load.Swarm([three], 1) as quiet:
            for wire in noisy.wires:
                noisy.send(wire, ("KOVA.TAKE", "p", "t/noisy", "WAIT", 25000))
            loud = load.Background(lambda: noisy.run(5, ("KOVA.TAKE", "p", "t/noisy", "WAIT", 25000)))
            time.sleep(0.5)
            waits = []
            while time.monotonic() < stop_at:
                hit = quiet.send(quiet.wires[0], ("KOVA.TAKE", "p", "t/quiet", "WAIT", 25000))
                quiet.finish()
                waits.append(hit.received - hit.sent)
                time.sleep(0.06)
            loud.result()
        waits.sort()
        self.assertLess(waits[len(waits) // 2], 0.075, "its own turn and one of the other's: 50 ms")


class Bounds(Line):
    def test_a_queue_is_full_for_all(self):
        policy = {"name": "p", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_queue": 10}}
        self.start(policy)
        self.drain("p", "k", 1)
        with load.Swarm(shapes.addresses(self.agents), 10) as swarm:
            hits = self.line_up(swarm, ["k"] * 10, apart_s=0.02)
            self.assertEqual([hit.reply for hit in hits], [None] * 10)
            for agent in self.agents:
                reply = agent.call("KOVA.TAKE", "p", "k", "WAIT", 20000)
                self.assertEqual((reply[0], reply[5]), (0, "queue_full"))
                self.assertEqual(agent.call("KOVA.TAKE", "p", "k")[5], "limited:p")
            swarm.hang_up(4)
            self.waiters(3)
            with self.agents[0].resp() as late, self.agents[2].resp() as later:
                late.send("KOVA.TAKE", "p", "k", "WAIT", 500)
                time.sleep(0.1)
                later.send("KOVA.TAKE", "p", "k", "WAIT", 500)
                self.assertEqual(later.read()[5], "queue_full")
                self.assertEqual(late.read()[5], "wait_timeout")

    def test_callers_of_an_agent_that_is_gone_count_no_more(self):
        """Those of one that lives do, as long as they wait, also of keys that never ask themselves."""
        agents = self.start({"name": "p", "wait": {"max_queue": 4},
                             "levels": [{"name": "tenant", "limit": 1, "per": "24s", "burst": 1},
                                        {"name": "user", "limit": 10, "per": "1h", "burst": 10}]})
        self.drain("p", "t/other", 1)
        with load.Swarm([agents[0].resp_address], 4) as lost, load.Swarm([agents[1].resp_address], 33) as swarm:
            self.line_up(swarm, [f"t/{number}" for number in range(30)])
            self.line_up(lost, ["t/k"] * 3, apart_s=0.02)
            swarm.send(swarm.wires[30], ("KOVA.TAKE", "p", "t/k", "WAIT", 25000))
            time.sleep(5)
            self.assertEqual(agents[2].call("KOVA.TAKE", "p", "t/k", "WAIT", 100)[5], "queue_full")
            agents[0].kill()
            time.sleep(5)
            self.assertEqual(agents[2].call("KOVA.TAKE", "p", "t/k", "WAIT", 100)[5], "wait_timeout")
            with agents[2].resp() as late, agents[1].resp() as later:
                late.send("KOVA.TAKE", "p", "t/k", "WAIT", 9000)
                time.sleep(0.1)
                swarm.send(swarm.wires[-1], ("KOVA.TAKE", "p", "t/k", "WAIT", 9000))
                swarm.send(swarm.wires[-2], ("KOVA.TAKE", "p", "t/k", "WAIT", 9000))
                time.sleep(5)
                self.assertEqual(later.call("KOVA.TAKE", "p", "t/k", "WAIT", 100)[5], "queue_full")

    def test_an_agent_that_is_gone_holds_others_up_for_a_bounded_time(self):
        agents = self.start({"name": "p", "limit": 10, "per": "1s", "burst": 20})
        self.drain("p", "k", 20)
        with load.Swarm([agents[0].resp_address], 10) as lost, load.Swarm(shapes.addresses(agents[1:]), 20) as swarm:
            self.line_up(lost, ["k"] * 10, apart_s=0.001)
            hits = self.line_up(swarm, ["k"] * 20, apart_s=0.001)
            agents[0].kill()
            killed = time.time()
            swarm.finish()
        self.assert_in_order(hits, 2)
        first = min(hit.received for hit in hits) - killed
        self.assertLess(first, GONE_S + 0.3)
        # What came in meanwhile is there, and nothing was taken for the dead.
        self.assertLess(max(hit.received for hit in hits) - killed, 3.0 + 0.3)

    def test_all_of_the_limit_is_used(self):
        self.start({"name": "p", "limit": 10, "per": "1s", "burst": 5})
        self.drain("p", "k", 5)
        begun = time.time()
        with load.Swarm(shapes.addresses(self.agents), 12) as swarm:
            hits = swarm.run(8, ("KOVA.TAKE", "p", "k", "WAIT", 25000))
        admitted = sum(hit.admitted for hit in hits)
        passed = time.time() - begun
        self.assertGreaterEqual(admitted, 0.98 * 10 * passed - 1)
        self.assertLessEqual(admitted, 10 * passed + 5)


class Traces(Line):
    """Who waits no more is not counted, however he left: a queue for two has room for two others at once."""

    POLICY = {"name": "p", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_queue": 2}}

    def assert_nobody_waits(self):
        with load.Swarm([self.agents[0].resp_address], 2) as swarm:
            hits = swarm.burst(("KOVA.TAKE", "p", "k", "WAIT", 200))
        self.assertEqual([hit.reason for hit in hits], ["wait_timeout"] * 2)

    def assert_two_end(self, change, reason):
        self.start(self.POLICY, count=2)
        self.drain("p", "k", 1)
        with load.Swarm([self.agents[1].resp_address], 2) as swarm:
            hits = self.line_up(swarm, ["k"] * 2)
            self.assertEqual(self.agents[0].call("KOVA.TAKE", "p", "k", "WAIT", 200)[5], "queue_full")
            change(self.agents[1])
            swarm.finish()
        self.assertEqual([hit.reason.split()[0] for hit in hits], [reason] * 2)
        self.assert_nobody_waits()

    def test_the_policy_was_deleted(self):
        self.assert_two_end(lambda agent: agent.http("DELETE", "/v1/policies/p"), "NOPOLICY")

    def test_the_key_became_unlimited(self):
        override = {"policy": "p", "key": "k", "unlimited": True}
        self.assert_two_end(lambda agent: agent.http("PUT", "/v1/overrides", override), "ok")

    def test_the_agent_was_told_to_end(self):
        self.assert_two_end(lambda agent: agent.stop(), "wait_timeout")

    def test_the_answer_was_that_to_his_id_elsewhere(self):
        self.start({**self.POLICY, "per": "1s"}, count=2)
        self.drain("p", "k", 1)
        with load.Swarm(shapes.addresses(self.agents), 2) as swarm:
            hits = self.line_up(swarm, ["k"] * 2, words=("ID", "x"))
            swarm.finish()
        self.assertEqual([hit.reply[:2] for hit in hits], [[1, 0]] * 2)
        self.assert_nobody_waits()

    def test_he_hung_up_while_he_joined(self):
        redis = self.start_redis()
        far = self.keep(proxy.SlowProxy(redis.address, 0.2))
        self.agents = [
            self.start_agent({"redis": shapes.standalone(redis, url=url), "policies": [{"on_outage": "deny", **self.POLICY}]})
            for url in (redis.url, far.url)
        ]
        for agent in self.agents:
            shapes.wait_for_redis(agent)
        self.drain("p", "k", 1)
        with load.Swarm([self.agents[1].resp_address], 2) as swarm:
            for wire in swarm.wires:
                swarm.send(wire, ("KOVA.TAKE", "p", "k", "WAIT", 20000))
            self.waiters(2)  # they were refused, and ask for their places now
            for number in range(2):
                swarm.hang_up(number)
        gone = b'kova_abandoned_total{policy="p"} 2\n'
        harness.wait_for(lambda: gone in self.agents[1].http("GET", "/metrics").body, "both are gone")
        time.sleep(0.5)  # on the long link
        self.assert_nobody_waits()


if __name__ == "__main__":
    harness.main()
