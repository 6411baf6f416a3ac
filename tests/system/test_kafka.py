"""The fixture itself: what is produced is read once, from one broker and from three of which one is killed."""
# Mostly waits. Runs no program of ours.
import unittest

import harness
import kafka


def produced(first, count):
    return [(f"k{i % 7}".encode(), str(i).encode(), {"schema": b"t", "n": str(i).encode()})
            for i in range(first, first + count)]


class One(kafka.Case):
    def test_what_is_produced_is_read_once(self):
        self.broker.create_topic("t", partitions=3)
        self.assertEqual(self.broker.read("t"), [])
        self.broker.produce("t", produced(0, 100))
        with self.broker.reader("t") as reader:
            records = reader.until_end()
            self.assertEqual(sorted(int(r.value) for r in records), list(range(100)))
            self.assertTrue(all(r.headers == {"schema": b"t", "n": r.value} for r in records))
            self.assertEqual(len({(r.key, r.partition) for r in records}), 7)
            self.broker.produce("t", produced(100, 5))
            self.assertEqual(sorted(int(r.value) for r in reader.until_end()), list(range(100, 105)))

    def test_a_broker_that_was_killed_comes_back_with_its_data(self):
        self.broker.create_topic("kept", partitions=1)
        self.broker.produce("kept", produced(0, 10))
        self.broker.kill()
        self.broker.restart()
        self.assertEqual([int(r.value) for r in self.broker.read("kept")], list(range(10)))


class Three(kafka.Case):
    brokers = 3

    def test_two_of_three_go_on(self):
        self.broker.create_topic("t", partitions=3, min_insync_replicas=2)
        self.broker.produce("t", produced(0, 50))
        self.broker.kill(2)
        self.broker.produce("t", produced(50, 50))
        self.assertEqual(sorted(int(r.value) for r in self.broker.read("t")), list(range(100)))


if __name__ == "__main__":
    harness.main()
