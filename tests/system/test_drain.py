"""SIGTERM: who waits is answered, what is under way ends, then the agent exits with 0."""
# Mostly waits.
import os
import signal
import time

import harness

POLICY = {"name": "p", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_wait": "10m"}}


class Drain(harness.Case):
    def start(self):
        return self.start_agent({"policies": [POLICY]})

    def test_waiting_callers_are_answered(self):
        agent = self.start()
        agent.call("KOVA.TAKE", "p", "k")
        waiters = [agent.resp() for _ in range(5)]
        for waiter in waiters:
            waiter.send("KOVA.TAKE", "p", "k", "WAIT", 600000)
        harness.wait_for(lambda: b'kova_waiters{policy="p"} 5' in agent.http("GET", "/metrics").body, "5 waiters")
        begun = time.monotonic()
        agent.send_signal(signal.SIGTERM)
        for waiter in waiters:
            answer = waiter.read(raise_error=False)
            self.assertIsInstance(answer, list)
            self.assertEqual(answer[0], 0)
            waiter.close()
        self.assertEqual(agent.wait(), 0)
        self.assertLess(time.monotonic() - begun, harness.PATIENCE / 2)

    def test_an_idle_connection_does_not_hold_it_up(self):
        agent = self.start()
        with agent.resp() as idle:
            self.assertEqual(idle.call("PING"), "PONG")
            agent.send_signal(signal.SIGTERM)
            self.assertEqual(agent.wait(), 0)

    def test_what_was_sent_before_is_answered(self):
        agent = self.start_agent({"policies": [{"name": "p", "limit": 1000000, "per": "1s"}]})
        with agent.resp() as connection:
            connection.send_raw(connection.encode("KOVA.TAKE", "p", "k") * 500)
            connection.read()  # it has begun
            agent.send_signal(signal.SIGTERM)
            answers = [connection.read() for _ in range(499)]
        self.assertEqual({(answer[0], answer[5]) for answer in answers}, {(1, "ok")})
        self.assertEqual(agent.wait(), 0)

    def test_sigint_is_the_same(self):
        agent = self.start()
        child = agent.children()[0]
        self.assertEqual(agent.stop(signal.SIGINT), 0)
        self.assertFalse(harness.alive(child))

    def test_ctrl_c_reaches_the_whole_process_group(self):
        """A terminal signals the child too: it must not end before the agent has answered its last callers."""
        agent = self.start()
        child = agent.children()[0]
        self.assertNotEqual(os.getpgid(child), os.getpgid(agent.pid), "the child is not in the terminal's group")


if __name__ == "__main__":
    harness.main()
