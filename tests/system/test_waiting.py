"""WAIT: first come, first served; nobody is overtaken or held up; who hangs up takes nothing; bounds are kept."""
# Mostly waits.

import socket
import time

import checker
import harness
import load
import shapes


class Waiting(harness.Case):
    def start(self, policies, count=1, shape="standalone"):
        self.agents = shapes.start_agents(self, shape, policies, count=count)
        return self.agents[0]

    def connect(self, agent=None, count=None):
        connections = []
        for _ in range(count or 1):
            connection = (agent or self.agents[0]).resp()
            self.addCleanup(connection.close)
            connections.append(connection)
        return connections if count else connections[0]

    def waiters(self, policy, agent=None):
        body = (agent or self.agents[0]).http("GET", "/metrics").body.decode()
        for line in body.splitlines():
            if line.startswith(f'kova_waiters{{policy="{policy}"}}'):
                return int(float(line.split()[-1]))
        return 0

    def wait_for_waiters(self, policy, count):
        harness.wait_for(lambda: self.waiters(policy) == count, f"{count} waiters")


class Order(Waiting):
    SLOW = {"name": "p", "limit": 10, "per": "1s", "burst": 1}

    def line_up(self, count, *words):
        """`count` waiters of whom each came certainly after the one before."""
        connections = self.connect(count=count)
        for number, connection in enumerate(connections):
            connection.send("KOVA.TAKE", "p", "k", "WAIT", 20000, *words)
            self.wait_for_waiters("p", number + 1)
        return connections

    def test_a_newcomer_does_not_overtake(self):
        agent = self.start([{**self.SLOW, "limit": 1, "per": "1h"}])
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(2)
        for _ in range(20):
            refused = agent.call("KOVA.TAKE", "p", "k")
            self.assertEqual((refused[0], refused[5]), (0, "limited:p"))
            self.assertGreater(refused[3], 3500_000, "the rest of the hour, not when the waiters are tried next")
        # Room for one: it is the first waiter's, however fast newcomers ask.
        agent.http("PUT", "/v1/policies/p", {"name": "p", "limit": 1, "per": "1s", "burst": 1, "on_outage": "deny"})
        with load.Swarm([agent.resp_address], 10) as swarm:
            hits = swarm.run(1.5, ("KOVA.TAKE", "p", "k"))
        self.assertEqual(waiters[0].read()[0], 1)
        admitted = [hit for hit in hits if hit.admitted]
        if self.waiters("p"):
            self.assertEqual(admitted, [])
        self.assertEqual(waiters[1].read()[0], 1)

    def test_a_small_newcomer_does_not_overtake_a_large_waiter(self):
        agent = self.start([{"name": "p", "limit": 10, "per": "1h", "burst": 10}])
        agent.call("KOVA.TAKE", "p", "k", "COST", 5)
        self.line_up(1, "COST", 8)
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k")[0], 0, "5 are there, but the waiter is first")
        self.assertEqual(agent.call("KOVA.TAKE", "p", "other")[0], 1)
        self.assertEqual(agent.call("KOVA.PEEK", "p", "k")[1], 5, "nothing is taken for a waiter before it fits")

    def test_other_replies_are_not_held_up(self):
        agent = self.start([{**self.SLOW, "limit": 1, "per": "1h"}, {"name": "free", "limit": 1000000, "per": "1s"}])
        agent.call("KOVA.TAKE", "p", "k")
        waiter = self.line_up(1)[0]
        for _ in range(100):
            self.assertEqual(agent.call("KOVA.TAKE", "free", "k")[0], 1)
        self.assertEqual(agent.call("KOVA.TAKE", "p", "another")[0], 1)
        waiter.close()

    def test_commands_behind_a_waiting_one_keep_their_order(self):
        self.start([self.SLOW])
        connection = self.connect()
        replies = connection.pipeline(
            [
                ("KOVA.TAKE", "p", "k"),
                ("KOVA.TAKE", "p", "k", "WAIT", 10000),
                ("PING",),
                ("ECHO", "x"),
                ("KOVA.PEEK", "p", "new"),
                ("KOVA.TAKE", "p", "k", "WAIT", 10000),
                ("PING",),
            ]
        )
        self.assertEqual(
            [replies[0][0], replies[1][0], replies[2], replies[3], replies[4][:2], replies[5][0], replies[6]],
            [1, 1, "PONG", "x", [1, 1], 1, "PONG"],
        )


class Turns(shapes.Frozen):
    """Each step of the clock makes room for exactly one."""

    def test_first_come_first_served(self):
        agent = self.start(
            [
                {"name": "p", "limit": 1, "per": "1h", "burst": 1},
                {"name": "c", "algorithm": "concurrency", "limit": 1, "hold": "1h"},
            ]
        )
        for command, policy in (("KOVA.TAKE", "p"), ("KOVA.ACQUIRE", "c")):
            self.assertEqual(agent.call(command, policy, "k")[0], 1)
            waiters = []
            for number in range(4):
                waiters.append(self.agent.resp())
                self.addCleanup(waiters[-1].close)
                waiters[-1].send(command, policy, "k", "WAIT", 28000)
                metric = f'kova_waiters{{policy="{policy}"}} {number + 1}'.encode()
                harness.wait_for(lambda m=metric: m in self.agent.http("GET", "/metrics").body, "one more waiter")
            for number, waiter in enumerate(waiters):
                self.clock.advance(3600)
                self.assertEqual(waiter.read()[0], 1)
                for later in waiters[number + 1 :]:
                    later.socket.settimeout(0.02)
                    with self.assertRaises(TimeoutError):
                        later.socket.recv(1, socket.MSG_PEEK)
                    later.socket.settimeout(harness.PATIENCE)


class Bounds(Waiting):
    def test_wait_timeout(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1}])
        agent.call("KOVA.TAKE", "p", "k")
        begun = time.monotonic()
        reply = agent.call("KOVA.TAKE", "p", "k", "WAIT", 300)
        elapsed = time.monotonic() - begun
        self.assertEqual((reply[0], reply[5]), (0, "wait_timeout"))
        self.assertGreaterEqual(elapsed, 0.299)
        self.assertGreater(reply[3], 3000_000, "the rest of the hour")
        self.assertEqual(self.waiters("p"), 0)

    def test_each_of_a_queue_is_told_the_same(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1}])
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.connect(count=4)
        for number, waiter in enumerate(waiters):
            waiter.send("KOVA.TAKE", "p", "k", "WAIT", 1100 + 300 * number)
        for reply in [waiter.read() for waiter in waiters]:
            self.assertEqual((reply[0], reply[5]), (0, "wait_timeout"))
            self.assertGreater(reply[3], 3500_000, "the rest of the hour")

    def test_the_time_that_was_waited_is_taken_off(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "3s", "burst": 1}])
        agent.call("KOVA.TAKE", "p", "k")
        taken = time.monotonic()
        waiters = self.connect(count=3)
        for waiter in waiters:
            waiter.send("KOVA.TAKE", "p", "k", "WAIT", 700)
        time.sleep(0.3)
        replies = [agent.call("KOVA.TAKE", "p", "k"), *(waiter.read() for waiter in waiters)]
        passed_ms = (time.monotonic() - taken) * 1000
        for reply, least_ms in zip(replies, (200, 650, 650, 650)):
            self.assertEqual(reply[0], 0)
            self.assertLessEqual(reply[3], 3000 - least_ms, reply)
            self.assertLessEqual(reply[4], 3000 - least_ms, reply)
            self.assertGreaterEqual(reply[3], 3000 - passed_ms - 5, reply)
        time.sleep(replies[-1][3] / 1000)
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k")[0], 1, "and that long is enough")

    def test_it_is_not_answered_late_because_nothing_else_happens(self):
        """The reply comes at the deadline, not with the next retry."""
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1}])
        agent.call("KOVA.TAKE", "p", "k")
        waits = []
        for _ in range(5):
            begun = time.monotonic()
            agent.call("KOVA.TAKE", "p", "k", "WAIT", 50)
            waits.append(time.monotonic() - begun)
        self.assertLess(min(waits), 0.5)

    def test_wait_zero_answers_at_once(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1}])
        agent.call("KOVA.TAKE", "p", "k")
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k", "WAIT", 0)[5], "limited:p")

    def test_a_long_wait_is_cut_to_max_wait(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_wait": "200ms"}}])
        agent.call("KOVA.TAKE", "p", "k")
        begun = time.monotonic()
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k", "WAIT", 86400000)[5], "wait_timeout")
        self.assertGreaterEqual(time.monotonic() - begun, 0.199)

    def test_queue_full(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_queue": 3}}])
        agent.call("KOVA.TAKE", "p", "k")
        for connection in self.connect(count=3):
            connection.send("KOVA.TAKE", "p", "k", "WAIT", 20000)
        self.wait_for_waiters("p", 3)
        reply = agent.call("KOVA.TAKE", "p", "k", "WAIT", 20000)
        self.assertEqual((reply[0], reply[5]), (0, "queue_full"))
        agent.call("KOVA.TAKE", "p", "other")
        begun = time.monotonic()
        self.assertEqual(
            agent.call("KOVA.TAKE", "p", "other", "WAIT", 100)[5], "wait_timeout", "each key has its queue"
        )
        self.assertGreaterEqual(time.monotonic() - begun, 0.099)

    def test_a_policy_on_which_nobody_waits(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_queue": 0}}])
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k", "WAIT", 20000)[0], 1)
        begun = time.monotonic()
        reply = agent.call("KOVA.TAKE", "p", "k", "WAIT", 20000)
        self.assertEqual(reply[0], 0)
        self.assertLess(time.monotonic() - begun, 10)

    def test_what_can_never_fit_does_not_wait(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1}])
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k", "COST", 2, "WAIT", 20000)[3:4], [-1])

    def test_over_http(self):
        agent = self.start([{"name": "p", "limit": 20, "per": "1s", "burst": 1}])
        self.assertEqual(agent.http("POST", "/v1/take", {"policy": "p", "key": "k"}).status, 200)
        answer = agent.http("POST", "/v1/take", {"policy": "p", "key": "k", "wait_ms": 10000})
        self.assertEqual((answer.status, answer.json()["reason"]), (200, "ok"))
        agent.http("POST", "/v1/take", {"policy": "p", "key": "k"})
        agent.http("PUT", "/v1/policies/p", {"name": "p", "limit": 1, "per": "1h", "burst": 1, "on_outage": "deny"})
        answer = agent.http("POST", "/v1/take", {"policy": "p", "key": "k", "wait_ms": 100})
        self.assertEqual((answer.status, answer.json()["reason"]), (429, "wait_timeout"))


class Edges(Waiting):
    WINDOW = {"name": "w", "algorithm": "sliding-window", "limit": 5, "per": "500ms"}

    def test_waiters_at_a_windows_edge(self):
        """Many waiters, all let in as windows move on: in every interval of one window at most the limit."""
        policies = [
            self.WINDOW,
            {"name": "b", "limit": 10, "per": "1s", "burst": 5},
            {"name": "g", "algorithm": "gcra", "limit": 10, "per": "1s", "burst": 5},
        ]
        self.start(policies, count=2)
        with load.Swarm(shapes.addresses(self.agents), 90) as swarm:
            hits = swarm.burst(lambda n: ("KOVA.TAKE", "wbg"[n // 2 % 3], "k", "WAIT", 25000))
        self.assertEqual(load.replies(hits), {"ok": 90})
        taken = {name: checker.admissions([hit for hit in hits if hit.words[1] == name]) for name in "wbg"}
        # All were sent at the beginning, so only the replies say when: what came between two of them was let in between
        # the end of one and of the other, but for what the way back takes.
        for name in "wbg":
            times = sorted(a.received for a in taken[name])
            self.assertEqual(len(times), 30)
            if name == "w":
                self.assertGreaterEqual(times[-1] - times[0], 0.5 * 5 * 0.9, "5 windows for 25 more")
            else:
                self.assertGreaterEqual(times[-1] - times[0], 25 / 10 * 0.9)

    def test_in_a_loop(self):
        """Callers who wait, are let in and come again: each admission is known from both sides."""
        policies = [self.WINDOW, {"name": "b", "limit": 20, "per": "1s", "burst": 5}]
        self.start(policies, count=2)
        with load.Swarm(shapes.addresses(self.agents), 12) as swarm:
            hits = swarm.run(5, lambda n: ("KOVA.TAKE", "wb"[n % 2], "k", "WAIT", 25000))
        self.assertEqual(load.errors(hits), [])
        taken = {name: checker.admissions([hit for hit in hits if hit.words[1] == name]) for name in "wb"}
        self.assertIsNone(checker.window_violation(taken["w"], 5, 0.5))
        self.assertIsNone(checker.bucket_violation(taken["b"], 20, 5))


class HangUp(Waiting):
    def test_who_hangs_up_takes_nothing(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 10}])
        agent.call("KOVA.TAKE", "p", "k", "COST", 10)
        connections = self.connect(count=20)
        for connection in connections:
            connection.send("KOVA.TAKE", "p", "k", "WAIT", 25000)
        self.wait_for_waiters("p", 20)
        for connection in connections[::2]:
            connection.close()
        self.wait_for_waiters("p", 10)
        # Two refills of ten for ten callers.
        agent.http("PUT", "/v1/policies/p", {"name": "p", "limit": 1000, "per": "1s", "burst": 20, "on_outage": "deny"})
        for connection in connections[1::2]:
            self.assertEqual(connection.read()[0], 1)
        usage = agent.http("GET", "/v1/usage?policy=p&key=k").json()
        self.assertEqual((usage["admitted"], usage["waited"]), (20, 10), "ten at first, ten who waited to the end")

    def test_in_a_storm_of_hang_ups(self):
        """Callers who leave at any moment, while the bucket fills: what was answered and what is charged agree."""
        limit = 100000
        agent = self.start(
            [
                {"name": "w", "algorithm": "sliding-window", "limit": limit, "per": "1h"},
                {"name": "gate", "limit": 200, "per": "1s", "burst": 1},
            ]
        )
        admitted = 0
        for turn in range(80):
            connections = [agent.resp() for _ in range(10)]
            for connection in connections:
                connection.send("KOVA.TAKE", "gate", "k", "AND", "w", "k", "WAIT", 25000)
            time.sleep(0.003 * (turn % 5))
            for connection in connections[:7]:
                connection.close()
            for connection in connections[7:]:
                admitted += connection.read()[0]
                connection.close()
        self.assertEqual(admitted, 240)
        self.wait_for_waiters("gate", 0)
        charged = limit - agent.call("KOVA.PEEK", "w", "k")[1]
        # An answer that was on its way when its caller left was his: it may be charged, or given back.
        self.assertGreaterEqual(charged, admitted)
        self.assertLessEqual(charged, 800)

    def test_a_waiter_in_the_middle_leaves(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 2}])
        agent.call("KOVA.TAKE", "p", "k", "COST", 2)
        connections = self.connect(count=3)
        for number, connection in enumerate(connections):
            connection.send("KOVA.TAKE", "p", "k", "WAIT", 25000)
            self.wait_for_waiters("p", number + 1)
        connections[1].close()
        self.wait_for_waiters("p", 2)
        connections[0].close()
        self.wait_for_waiters("p", 1)
        agent.http("PUT", "/v1/policies/p", {"name": "p", "limit": 10, "per": "1s", "burst": 2, "on_outage": "deny"})
        self.assertEqual(connections[2].read()[0], 1)
        harness.wait_for(lambda: agent.call("KOVA.PEEK", "p", "k")[1] == 2, "a full bucket")

    def test_an_http_client_that_hangs_up(self):
        agent = self.start([{"name": "p", "limit": 1, "per": "1h", "burst": 1}])
        agent.call("KOVA.TAKE", "p", "k")
        body = b'{"policy":"p","key":"k","wait_ms":25000}'
        with socket.create_connection(agent.http_address) as client:
            client.sendall(b"POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            self.wait_for_waiters("p", 1)
        self.wait_for_waiters("p", 0)


class Pairs(Waiting):
    """Waiting for several limits at once."""

    POLICIES = [
        {"name": "x", "limit": 20, "per": "1s", "burst": 1},
        {"name": "y", "limit": 20, "per": "1s", "burst": 1},
    ]

    def check(self, shape):
        self.start(self.POLICIES, shape=shape)
        with load.Swarm(shapes.addresses(self.agents), 24) as swarm:
            pairs = (("x", "a", "AND", "y", "b"), ("y", "b", "AND", "x", "a"), ("x", "a"), ("y", "b"))
            hits = swarm.burst(lambda n: ("KOVA.TAKE", *pairs[n % 4], "WAIT", 25000))
        self.assertEqual(load.replies(hits), {"ok": 24}, "everybody gets through, whatever the order of the pairs")

    def test_no_deadlock(self):
        self.check("standalone")

    def test_no_deadlock_across_slots(self):
        self.check("cluster")


if __name__ == "__main__":
    harness.main()
