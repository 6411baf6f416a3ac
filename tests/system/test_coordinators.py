"""Several coordinators share the partitions: one that dies or sleeps is replaced, and nothing is counted twice."""
import signal
import time

import coordinator
import harness


class Several(coordinator.Case):
    def test_one_of_two_is_killed(self):
        agent = self.start(self.redis, node="n", report="100ms")
        first = self.coordinate("a").wait_partitions(4)
        second = self.coordinate("b").wait_partitions(2)
        first.wait_partitions(2)
        for _ in range(5):
            self.use(agent)
            time.sleep(0.2)
        first.kill()
        self.use(agent)
        second.wait_partitions(4)
        self.use(agent)
        self.wait_exact()

    def test_one_that_slept_is_refused(self):
        agent = self.start(self.redis, node="n", report="100ms")
        first = self.coordinate("a", rollup="5s").wait_partitions(4)
        second = self.coordinate("b").wait_partitions(2)
        first.wait_partitions(2)
        self.use(agent)
        time.sleep(0.5)  # it has read that, and most likely not committed
        first.send_signal(signal.SIGSTOP)
        try:
            self.use(agent)
            second.wait_partitions(4)
            self.use(agent)
        finally:
            first.send_signal(signal.SIGCONT)
        for _ in range(10):
            self.use(agent, count=100)
            time.sleep(0.2)
        first.wait_partitions(2)
        self.wait_exact()
        self.assertRegex(first.log(), "session_failed|partitions_lost")


if __name__ == "__main__":
    harness.main()
