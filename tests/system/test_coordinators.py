"""Several coordinators share the partitions: one that dies or sleeps is replaced, and nothing is counted twice."""
# Mostly waits.
import contextlib
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
    def wait_exact(self, timeout=60):
        """Beside that: there is one row for each policy and interval, whoever published it, and no time is left out."""
        rows, ends = super().wait_exact(timeout), {}
        for row in rows:
            self.assertEqual(row["from"], ends.get(row["policy"], row["from"]), row)
            self.assertLessEqual(row["from"], row["to"])
            ends[row["policy"]] = row["to"]
        self.assertEqual(len({tuple(sorted(row["regions"])) for row in rows}), 1)
        totals = {row["policy"]: sum(region["admitted_total"] for region in row["regions"].values()) for row in rows}
        self.assertEqual({policy: total for policy, total in totals.items() if total > 0},
                         self.expected(self.clients.admitted))
        return rows

    def three(self):
        """Each has a partition or two; that of partition 0 publishes the rows."""
        daemons = [self.coordinate(node).wait_partitions(4 if i == 0 else 4 // (i + 1), timeout=90)
                   for i, node in enumerate("abc")]
        harness.wait_for(lambda: sorted(d.metric("kova_coordinator_partitions") for d in daemons) == [1, 1, 2],
                         "partitions of each", 90)
        return daemons

    def publishers(self, daemons, seconds=1.5):
        """Those of which there are new rows."""
        before = [d.metric("kova_coordinator_rows_total") for d in daemons]
        time.sleep(seconds)
        return [d for d, was in zip(daemons, before) if d.metric("kova_coordinator_rows_total") > was]

    def test_rows_of_three_are_complete_whoever_is_killed(self):
        agent, daemons = self.start(self.redis, node="n", report="100ms"), self.three()
        for _ in range(5):
            self.use(agent, count=200)
            time.sleep(0.2)
        self.wait_exact()
        publisher, = self.publishers(daemons)
        other = next(d for d in daemons if d is not publisher)
        for victim in (other, publisher):
            victim.kill()
            daemons.remove(victim)
            for _ in range(5):
                self.use(agent, count=200)
                time.sleep(0.2)
            harness.wait_for(lambda: sum(d.metric("kova_coordinator_partitions") for d in daemons) == 4,
                             "partitions that are all owned", 60)
            self.use(agent, count=200)
            self.wait_exact()
        self.assertEqual(self.publishers(daemons), daemons)

    @contextlib.contextmanager
    def open_transaction(self):
        """Behind it, in any partition, what was kept can't be read."""
        blocker = self.broker.transactions("blocker")
        try:
            blocker.begin()
            for i in range(50):
                blocker.produce(coordinator.LEDGER, b"key %d" % i, b"it is never committed", {})
            blocker.flush()
            yield
            blocker.abort()
        finally:
            blocker.close()

    def test_one_of_two_is_killed_and_until_it_is_replaced_the_other_goes_on(self):
        agent = self.start(self.redis, node="n", report="100ms")
        first = self.coordinate("a", session_timeout="6s").wait_partitions(4)
        second = self.coordinate("b", session_timeout="6s").wait_partitions(2)
        first.wait_partitions(2)
        for _ in range(5):
            self.use(agent)
            time.sleep(0.2)
        with self.open_transaction():
            first.kill()
            self.use(agent)
            harness.wait_for(lambda: second.http("/readyz").json()["taking_over"] == 2, "a take-over", 60)
            before = second.metric("kova_coordinator_transactions_total")
            self.use(agent)
            harness.wait_for(lambda: second.metric("kova_coordinator_transactions_total") >= before + 5, "transactions")
            self.assertEqual(second.http("/readyz").json()["taking_over"], 2)
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
