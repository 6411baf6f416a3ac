"""Concurrency and plans: permits held at any instant stay within the limit, and come back by themselves."""
# Mostly waits.

import random
import select
import time

import checker
import harness
import load
import shapes

EIGHT = {"name": "c", "algorithm": "concurrency", "limit": 8, "hold": "1m"}


class Permits(harness.Case):
    def start(self, policies, shape="standalone", count=2):
        self.agents = shapes.start_agents(self, shape, policies, count=count)
        connection = self.agents[0].resp()
        self.addCleanup(connection.close)
        return connection

    def test_64_at_once_on_8(self):
        for shape in shapes.SHAPES:
            with self.subTest(shape=shape):
                agent = self.start([EIGHT], shape)
                with load.Swarm(shapes.addresses(self.agents), 64) as swarm:
                    for number in range(10):
                        hits = swarm.burst(("KOVA.ACQUIRE", "c", f"k{number}"))
                        admitted = [hit.reply for hit in hits if hit.admitted]
                        self.assertEqual((len(admitted), load.errors(hits)), (8, []))
                        permits = [reply[6] for reply in admitted]
                        self.assertEqual(len(set(permits)), 8)
                        self.assertTrue(all(reply[7] == 60000 for reply in admitted))
                        self.assertTrue(all(hit.reply[5:] == ["limited:c", None, None] for hit in hits if hit.refused))
                        for n, permit in enumerate(permits, 1):
                            self.assertEqual(agent.call("KOVA.RELEASE", "c", f"k{number}", permit), 1)
                            self.assertEqual(agent.call("KOVA.RELEASE", "c", f"k{number}", permit), 0, "twice")
                            self.assertEqual(agent.call("KOVA.PEEK", "c", f"k{number}")[:3], [1, n, 8])

    def test_never_more_than_the_limit_while_they_come_and_go(self):
        policy = {**EIGHT, "limit": 5}
        self.start([policy])
        rng, held, holding = random.Random(1), [], {}
        with load.Swarm(shapes.addresses(self.agents), 40) as swarm:
            end, errors = time.monotonic() + 3, []
            while time.monotonic() < end:
                for wire in swarm.wires:
                    if wire.asked:
                        continue
                    if wire in holding:
                        if rng.random() < 0.5:
                            acquired = holding.pop(wire)
                            hit = swarm.send(wire, ("KOVA.RELEASE", "c", "k", acquired.reply[6]))
                            held.append((acquired.received, hit.sent))
                    else:
                        swarm.send(wire, ("KOVA.ACQUIRE", "c", "k"))
                for wire, hit in swarm.poll(0.02):
                    if hit.words[0] == "KOVA.RELEASE":
                        errors += [hit] if hit.reply != 1 else []
                    elif hit.admitted:
                        holding[wire] = hit
            swarm.finish()
        self.assertEqual(errors, [])
        self.assertGreater(len(held), 50)
        self.assertIsNone(checker.held_violation(held, 5))

    def test_a_killed_holder_gives_all_back_within_hold(self):
        agent = self.start([{**EIGHT, "limit": 10, "hold": "1500ms"}])
        begun = time.monotonic()
        for _ in range(10):
            self.assertEqual(self.agents[1].call("KOVA.ACQUIRE", "c", "k")[0], 1)
        acquired = time.monotonic()
        self.agents[1].kill()
        refused = agent.call("KOVA.ACQUIRE", "c", "k")
        if time.monotonic() < begun + 1.4:
            self.assertEqual((refused[0], refused[5]), (0, "limited:c"))
            self.assertLessEqual(refused[3], 1500)
        while time.monotonic() < acquired + 1.502:
            time.sleep(0.005)
        self.assertEqual(agent.call("KOVA.PEEK", "c", "k")[1], 10, "all free")

    def test_a_waiter_gets_what_is_released(self):
        agent = self.start([{**EIGHT, "limit": 1}])
        permit = agent.call("KOVA.ACQUIRE", "c", "k")[6]
        waiters = [self.agents[0].resp(), self.agents[1].resp()]
        for waiter in waiters:
            self.addCleanup(waiter.close)
            waiter.send("KOVA.ACQUIRE", "c", "k", "WAIT", 25000)
        for _ in range(2):
            time.sleep(0.05)
            self.assertEqual(agent.call("KOVA.RELEASE", "c", "k", permit), 1)
            reply = self.first_of(waiters)
            self.assertEqual((reply[0], reply[5], reply[7]), (1, "ok", 60000))
            permit = reply[6]

    def first_of(self, waiters):
        ready, _, _ = select.select([w.socket for w in waiters], [], [], harness.PATIENCE)
        self.assertEqual(len(ready), 1, "one permit, one waiter")
        waiter = next(w for w in waiters if w.socket is ready[0])
        waiters.remove(waiter)
        return waiter.read()

    def test_who_hangs_up_while_waiting_holds_nothing(self):
        agent = self.start([{**EIGHT, "limit": 2}], count=1)
        permits = [agent.call("KOVA.ACQUIRE", "c", "k")[6] for _ in range(2)]
        for _ in range(10):
            waiter = self.agents[0].resp()
            waiter.send("KOVA.ACQUIRE", "c", "k", "WAIT", 25000)
            waiter.close()
        for permit in permits:
            agent.call("KOVA.RELEASE", "c", "k", permit)
        harness.wait_for(lambda: agent.call("KOVA.PEEK", "c", "k")[1] == 2, "both free")

    def test_release_and_renew_of_what_is_none(self):
        agent = self.start([EIGHT])
        permit = agent.call("KOVA.ACQUIRE", "c", "k")[6]
        for wrong in ("nonsense", "n", "", "0", permit[:-1], permit + "x", permit.swapcase()):
            for command in ("KOVA.RELEASE", "KOVA.RENEW"):
                reply = agent.pipeline([(command, "c", "k", wrong)])[0]
                self.assertTrue(reply == 0 or isinstance(reply, harness.RespError), (wrong, reply))
        self.assertEqual(agent.call("KOVA.RELEASE", "c", "other", permit), 0)
        self.assertEqual(agent.call("KOVA.PEEK", "c", "k")[1], 7, "nothing that was not asked for was released")
        self.assertEqual(agent.call("KOVA.RELEASE", "c", "k", permit), 1)

    def test_over_http(self):
        self.start([EIGHT])
        acquired = self.agents[0].http("POST", "/v1/acquire", {"policy": "c", "key": "k"}).json()
        self.assertEqual((acquired["allowed"], acquired["hold_ms"], acquired["remaining"]), (True, 60000, 7))
        body = {"policy": "c", "key": "k", "permit": acquired["permit"]}
        self.assertEqual(self.agents[1].http("POST", "/v1/renew", body).json(), {"renewed": 1})
        self.assertEqual(self.agents[1].http("POST", "/v1/release", body).json(), {"released": 1})
        self.assertEqual(self.agents[0].http("POST", "/v1/release", body).json(), {"released": 0})
        self.assertEqual(self.agents[0].http("POST", "/v1/renew", body).json(), {"renewed": 0})


class Frozen(shapes.Frozen):
    PLAN = {"name": "plan", "plan": {"slots": 50, "hold": "10s"}}

    def test_renew_extends(self):
        agent = self.start([EIGHT])
        permit = agent.call("KOVA.ACQUIRE", "c", "k")[6]
        for _ in range(3):
            self.clock.advance(59.999)
            self.assertEqual(agent.call("KOVA.RENEW", "c", "k", permit), 1)
        self.clock.advance(59.999999)
        self.assertEqual(agent.call("KOVA.PEEK", "c", "k")[1], 7)
        self.clock.advance(0.000001)
        self.assertEqual(agent.call("KOVA.PEEK", "c", "k")[1], 8)
        self.assertEqual(agent.call("KOVA.RENEW", "c", "k", permit), 0, "it has ended")
        self.assertEqual(agent.call("KOVA.RELEASE", "c", "k", permit), 0)

    def test_retry_after_is_the_first_end(self):
        agent = self.start([{**EIGHT, "limit": 2}])
        agent.call("KOVA.ACQUIRE", "c", "k")
        self.clock.advance(10)
        agent.call("KOVA.ACQUIRE", "c", "k")
        refused = agent.call("KOVA.ACQUIRE", "c", "k")
        self.assertEqual(refused[:6], [0, 0, 2, 50000, 60000, "limited:c"])
        self.clock.advance(50)
        self.assertEqual(agent.call("KOVA.ACQUIRE", "c", "k")[0], 1)

    def test_a_plans_take_ends_by_itself(self):
        """50 slots of 10 s: 5/s, burst 10, at most 50 at once."""
        agent = self.start([self.PLAN])
        self.assertEqual(agent.call("KOVA.TAKE", "plan", "k")[:3], [1, 9, 10], "its limit is its burst")
        for second in range(9):
            self.assertEqual(
                [reply[0] for reply in agent.pipeline([("KOVA.TAKE", "plan", "k")] * 20)].count(1),
                9 if second == 0 else 5,
            )
            self.clock.advance(1)
        # 1 + 9 + 8 * 5 = 50 at once: the bucket has tokens, and no slot is free.
        refused = agent.call("KOVA.TAKE", "plan", "k")
        self.assertEqual((refused[0], refused[5]), (0, "limited:plan"))
        self.assertEqual(refused[3], 1000, "until the first ten end")
        self.clock.advance(1)
        self.assertEqual([reply[0] for reply in agent.pipeline([("KOVA.TAKE", "plan", "k")] * 20)].count(1), 10)

    def test_a_plans_permit_ends_by_release(self):
        agent = self.start([{"name": "plan", "plan": {"slots": 2, "hold": "10s"}}])
        first = agent.call("KOVA.ACQUIRE", "plan", "k")
        self.assertEqual((first[0], first[2], first[7]), (1, 1, 10000))
        self.clock.advance(5)
        second = agent.call("KOVA.ACQUIRE", "plan", "k")
        self.assertEqual(second[0], 1)
        self.clock.advance(4)
        self.assertEqual(agent.call("KOVA.ACQUIRE", "plan", "k")[0], 0)
        self.assertEqual(agent.call("KOVA.RENEW", "plan", "k", first[6]), 1)
        self.clock.advance(5)
        self.assertEqual(agent.call("KOVA.ACQUIRE", "plan", "k")[:1], [0], "renewed: both are held")
        self.assertEqual(agent.call("KOVA.RELEASE", "plan", "k", second[6]), 1)
        self.assertEqual(agent.call("KOVA.ACQUIRE", "plan", "k")[0], 1, "a slot and a token are there")

    def test_a_refused_plan_takes_neither(self):
        agent = self.start([{"name": "plan", "plan": {"slots": 1, "hold": "10s"}}, self.PLAN | {"name": "fifty"}])
        permit = agent.call("KOVA.ACQUIRE", "plan", "k")[6]
        for _ in range(50):
            self.assertEqual(agent.call("KOVA.ACQUIRE", "plan", "k")[0], 0)
        self.clock.advance(9.9)
        agent.call("KOVA.RENEW", "plan", "k", permit)
        self.clock.advance(0.1)
        self.assertEqual(agent.call("KOVA.TAKE", "plan", "k")[0], 0, "a token, and no slot")
        agent.call("KOVA.RELEASE", "plan", "k", permit)
        self.assertEqual(agent.call("KOVA.TAKE", "plan", "k")[0], 1, "the token was not taken by those who got no slot")

    def test_an_id_is_answered_with_the_same_permit(self):
        agent = self.start([EIGHT])
        first = agent.call("KOVA.ACQUIRE", "c", "k", "ID", "job")
        self.assertEqual(agent.call("KOVA.ACQUIRE", "c", "k", "ID", "job"), first)
        self.assertEqual(agent.call("KOVA.PEEK", "c", "k")[1], 7)


if __name__ == "__main__":
    harness.main()
