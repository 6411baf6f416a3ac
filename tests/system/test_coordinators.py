"""Several coordinators share the partitions: one that dies or sleeps is replaced, and nothing is counted twice."""
# Mostly waits.
import signal
import socket
import struct
import time

import coordinator
import harness


class Group:
    """The coordinators' group, by requests of Kafka's protocol (version 0 of each) that librdkafka does not have."""

    NAME = "kova-coordinator"
    LEAVE_GROUP, DESCRIBE_GROUPS = 13, 15

    def __init__(self, bootstrap):
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self.address = host, int(port)

    @staticmethod
    def _text(value):
        return struct.pack(">h", len(value)) + value.encode()

    def _call(self, request, body):
        message = struct.pack(">hhi", request, 0, 1) + self._text("test") + body
        with socket.create_connection(self.address) as connection, connection.makefile("rb") as answer:
            connection.sendall(struct.pack(">i", len(message)) + message)
            size, _ = struct.unpack(">ii", answer.read(8))
            return answer.read(size - 4)

    def member(self):
        """The identity of the only member."""
        answer = self._call(self.DESCRIBE_GROUPS, struct.pack(">i", 1) + self._text(self.NAME))
        at, texts = 6, []
        for gap in (0, 0, 0, 0, 4):  # group, state, kind, strategy; how many members; the first one's identity
            at += gap
            size, = struct.unpack_from(">h", answer, at)
            texts.append(answer[at + 2:at + 2 + size].decode())
            at += 2 + size
        return texts[4]

    def put_out(self, member):
        assert self._call(self.LEAVE_GROUP, self._text(self.NAME) + self._text(member)) == b"\0\0"


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

    def test_one_that_does_not_know_that_it_is_out_is_refused(self):
        agent, daemon = self.start(self.redis, node="n", report="100ms"), self.coordinate().wait_partitions(4)
        self.use(agent)
        group = Group(self.broker.bootstrap)
        group.put_out(group.member())  # its next heartbeat will tell it, in 3 s at most; it commits five times a second
        harness.wait_for(lambda: "the offsets were refused" in daemon.log(), "a transaction that is refused")
        self.use(agent)
        self.wait_exact()

    def test_one_that_slept_goes_on_without_what_it_held(self):
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
