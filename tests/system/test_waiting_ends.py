"""How waiting ends when it is not by a turn: the policy is gone or another, the store is away, the agent is asked to end.

Whatever happens to the first of a queue, those behind it are never forgotten.
"""
# Mostly waits.
import signal
import time

import harness

ONCE = {"name": "p", "limit": 1, "per": "1h", "burst": 1, "on_outage": "deny"}
TIMEOUT = "50ms" if not harness.SANITIZED else "1s"  # nobody's Redis is away because a program is slow


class Ends(harness.Case):
    def start(self, *policies, timeout=TIMEOUT):
        self.redis = self.keep(harness.Redis(self.directory)).wait_ready()
        self.agent = self.start_agent({"redis": {"mode": "standalone", "url": self.redis.url, "timeout": timeout},
                                       "policies": policies})
        return self.agent

    def send(self, *words):
        connection = self.agent.resp()
        self.addCleanup(connection.close)
        connection.send(*words)
        return connection

    def wait_for_waiters(self, policy, count):
        metric = f'kova_waiters{{policy="{policy}"}} {count}\n'
        harness.wait_for(lambda: metric in self.agent.http("GET", "/metrics").body.decode(), f"{count} waiters")

    def line_up(self, count, *words):
        connections = []
        for number in range(count):
            connections.append(self.send(*words))
            self.wait_for_waiters(words[1], number + 1)
        return connections

    def replies(self, connections):
        begun = time.monotonic()
        replies = [connection.read(raise_error=False) for connection in connections]
        self.assertLess(time.monotonic() - begun, harness.PATIENCE / 2, "they were told at once, not at their deadline")
        self.wait_for_waiters("p", 0)
        return replies


class Changes(Ends):
    def test_the_policy_is_deleted(self):
        agent = self.start(ONCE)
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(5, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        agent.http("DELETE", "/v1/policies/p")
        self.assertEqual([str(reply).split()[0] for reply in self.replies(waiters)], ["NOPOLICY"] * 5)

    def test_it_can_never_fit_any_more(self):
        agent = self.start({**ONCE, "burst": 10})
        agent.call("KOVA.TAKE", "p", "k", "COST", 10)
        waiters = self.line_up(5, "KOVA.TAKE", "p", "k", "COST", 5, "WAIT", 29000)
        agent.http("PUT", "/v1/policies/p", {**ONCE, "burst": 4})
        self.assertEqual([(reply[0], reply[3]) for reply in self.replies(waiters)], [(0, -1)] * 5)

    def test_who_waits_for_a_permit_becomes_unlimited(self):
        """As one who comes afterwards: with a permit, and with numbers of the new limit."""
        agent = self.start({"name": "p", "algorithm": "concurrency", "limit": 1, "hold": "1h"})
        agent.call("KOVA.ACQUIRE", "p", "k")
        waiters = self.line_up(3, "KOVA.ACQUIRE", "p", "k", "WAIT", 29000)
        agent.http("PUT", "/v1/overrides", {"policy": "p", "key": "k", "unlimited": True})
        replies = self.replies(waiters)
        self.assertEqual([reply[:6] for reply in replies], [agent.call("KOVA.ACQUIRE", "p", "k")[:6]] * 3)
        self.assertEqual([len(reply[6]) for reply in replies], [22] * 3)

    def test_a_bucket_becomes_a_plan(self):
        """Each of those who waited for tokens takes a slot of its own."""
        agent = self.start(ONCE)
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(3, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        agent.http("PUT", "/v1/policies/p", {"name": "p", "plan": {"slots": 50, "hold": "10s"}, "on_outage": "deny"})
        self.assertEqual([reply[0] for reply in self.replies(waiters)], [1] * 3)
        permits = [name for name in self.redis.call("ZRANGE", "k:c{k}p:0", 0, -1) if name != "n"]
        self.assertEqual((len(permits), {len(permit) for permit in permits}), (3, {22}))
        self.assertFalse(any("\0" in permit for permit in permits))

    def test_all_are_let_in_after_a_change_of_algorithm(self):
        agent = self.start(ONCE)
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(5, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        agent.http("PUT", "/v1/policies/p", {"name": "p", "algorithm": "sliding-window", "limit": 5, "per": "1h"})
        self.assertEqual([reply[:2] for reply in self.replies(waiters)], [[1, left] for left in (4, 3, 2, 1, 0)])


class Store(Ends):
    def test_it_is_away(self):
        """All who wait are answered by on_outage as soon as it is known, not one a second."""
        agent = self.start(ONCE, {"name": "probe", "limit": 1000, "per": "1s", "on_outage": "deny"})
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(5, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        time.sleep(1.1)  # the first has just asked, or asks now
        self.redis.send_signal(signal.SIGSTOP)
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "probe", "k")[5] == "outage", "an outage")
        begun = time.monotonic()
        self.assertEqual([reply[5] for reply in self.replies(waiters)], ["outage"] * 5)
        if not harness.SANITIZED:
            self.assertLess(time.monotonic() - begun, 0.5)
        self.redis.send_signal(signal.SIGCONT)

    def test_it_comes_back(self):
        """An outage leaves no queue behind in which newcomers wait for nobody."""
        agent = self.start({**ONCE, "limit": 1, "per": "2s"})
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(3, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        self.redis.send_signal(signal.SIGSTOP)
        self.replies(waiters)
        self.redis.send_signal(signal.SIGCONT)
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "p", "k")[0] == 1, "an admission")


class Repeats(Ends):
    def test_an_id_is_answered_again_while_others_wait(self):
        agent = self.start(ONCE)
        first = agent.call("KOVA.TAKE", "p", "k", "ID", "x")
        self.assertEqual(first[0], 1)
        self.line_up(1, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        for more in ((), ("WAIT", 29000)):
            again = agent.call("KOVA.TAKE", "p", "k", "ID", "x", *more)
            self.assertEqual((again[:3], again[5]), (first[:3], "ok"))
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k", "ID", "y")[0], 0)

    def test_an_unknown_id_stands_behind(self):
        agent = self.start({**ONCE, "limit": 5, "per": "1s"})
        agent.call("KOVA.TAKE", "p", "k")
        waiters = [self.send("KOVA.TAKE", "p", "k", "WAIT", 29000, "ID", number) for number in range(10)]
        self.assertEqual([reply[0] for reply in self.replies(waiters)], [1] * 10)


class Refusals(Ends):
    def test_a_newcomer_behind_who_waits_for_another_limit(self):
        """It hears of its own policy only, and its refusal is counted there."""
        agent = self.start(ONCE, {"name": "free", "limit": 100, "per": "1s", "burst": 200})
        agent.call("KOVA.TAKE", "p", "k")
        self.send("KOVA.TAKE", "p", "k", "AND", "free", "f", "WAIT", 29000)
        self.wait_for_waiters("free", 1)
        self.send("KOVA.TAKE", "free", "g", "AND", "p", "k", "WAIT", 29000)
        self.wait_for_waiters("free", 2)
        for key in "fg":
            reply = agent.call("KOVA.TAKE", "free", key)
            self.assertEqual((reply[0], reply[2], reply[5]), (0, 200, "limited:free"))
            self.assertGreaterEqual(reply[3], 1)
        self.assertEqual(agent.http("GET", "/v1/usage?policy=free&key=f").json()["refused"], 1)


class Terminated(Ends):
    def start_stalled(self, *words):
        agent = self.start(ONCE, timeout="2s")
        agent.call("KOVA.TAKE", "p", "k")
        self.redis.send_signal(signal.SIGSTOP)
        connection = self.send(*words)
        harness.wait_for(lambda: self.in_progress() == 1, "a request under way")
        return connection

    def in_progress(self):
        for line in self.agent.http("GET", "/metrics").body.decode().splitlines():
            if line.startswith("kova_requests_in_progress"):
                return int(float(line.split()[-1]))
        return None

    def test_a_refusal_that_comes_while_it_ends(self):
        """Who would have waited is told that there is no waiting any more."""
        caller = self.start_stalled("KOVA.TAKE", "p", "k", "WAIT", 29000)
        self.agent.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.redis.send_signal(signal.SIGCONT)
        self.assertEqual(caller.read()[0], 0)
        self.assertEqual(self.agent.wait(), 0)

    def test_a_store_that_stays_silent(self):
        agent = self.start(ONCE, timeout="6s")
        agent.call("KOVA.TAKE", "p", "k")
        waiters = self.line_up(3, "KOVA.TAKE", "p", "k", "WAIT", 29000)
        self.redis.send_signal(signal.SIGSTOP)
        time.sleep(1.2)  # the first asks
        agent.send_signal(signal.SIGTERM)
        self.assertEqual([waiter.read()[0] for waiter in waiters], [0] * 3)
        self.assertEqual(agent.wait(), 0)
        self.redis.send_signal(signal.SIGCONT)

    def test_a_caller_that_is_gone(self):
        """What is taken for it while the agent ends is given back before it has ended."""
        agent = self.start({"name": "c", "algorithm": "concurrency", "limit": 3, "hold": "1h"}, timeout="5s")
        agent.call("KOVA.ACQUIRE", "c", "other")  # the script is loaded
        self.redis.send_signal(signal.SIGSTOP)
        for _ in range(3):
            self.send("KOVA.ACQUIRE", "c", "k", "WAIT", 29000)
        harness.wait_for(lambda: self.in_progress() == 3, "requests under way")
        self.doCleanups()  # they hang up
        time.sleep(0.2)
        self.agent.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.redis.send_signal(signal.SIGCONT)
        self.assertEqual(self.agent.wait(), 0)
        self.assertEqual(self.redis.call("EXISTS", "k:c{k}c:0"), 0)


if __name__ == "__main__":
    harness.main()
