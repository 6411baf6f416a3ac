"""The long way that tests of several regions stand on: how late a packet comes, which are lost, and that nothing is left."""
# Mostly waits. Runs no program of ours.
import os
import socket
import statistics
import subprocess
import sys
import time

import harness
import load
import wire

ONE_WAY = 0.0375


class Between(harness.Case):
    def setUp(self):
        super().setUp()
        self.wire = self.keep(wire.Wire(["a", "b", "c"], ONE_WAY))
        self.sockets = {place: self.udp(place) for place in self.wire.places}

    def udp(self, place):
        with self.wire.inside(place) as address:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((address, 5000))
        sock.settimeout(2)
        self.addCleanup(sock.close)
        return sock

    def send(self, a, b, data=b"x"):
        self.sockets[a].sendto(data, (self.wire.address[b], 5000))

    def takes(self, a, b):
        """Seconds that a datagram is on its way."""
        begun = time.monotonic()
        self.send(a, b)
        self.sockets[b].recvfrom(2048)
        return time.monotonic() - begun

    def arrives(self, a, b):
        self.sockets[b].settimeout(4 * ONE_WAY)
        try:
            return self.takes(a, b) > 0
        except TimeoutError:
            return False

    def test_it_takes_as_long_as_it_says(self):
        load.go_first()
        try:
            for delay in (0.0, 0.005, ONE_WAY):
                self.wire.delay("a", "b", delay)
                took = [self.takes(*way) for _ in range(20) for way in (("a", "b"), ("b", "a"))]
                self.assertGreaterEqual(min(took), delay)
                self.assertLess(statistics.median(took), delay + 0.001)
            self.assertGreaterEqual(self.takes("a", "c"), ONE_WAY)
            self.wire.delay("a", "c", 0.08, one_way=True)
            self.assertGreaterEqual(self.takes("a", "c"), 0.08)
            self.assertLess(self.takes("c", "a"), 0.08)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def test_none_overtakes_another(self):
        for i in range(200):
            if i % 50 == 0:
                self.wire.delay("a", "b", ONE_WAY / (1 + i / 50))
            self.send("a", "b", b"%d" % i)
        self.assertEqual([int(self.sockets["b"].recv(2048)) for _ in range(200)], list(range(200)))

    def test_a_part_is_lost(self):
        self.wire.lose("a", "b", 0.2, one_way=True)
        self.wire.delay("a", "b", 0)
        for _ in range(1000):
            self.send("a", "b")
            self.send("b", "a")
            time.sleep(0.0002)
        time.sleep(0.1)
        carried, lost, full = self.wire.count("a", "b")
        self.assertEqual((carried + lost, full), (1000, 0))
        self.assertGreater(lost, 140)
        self.assertLess(lost, 260)
        self.assertEqual(self.wire.count("b", "a"), (1000, 0, 0))

    def test_a_part_arrives_twice(self):
        self.wire.double("a", "b", 0.2, one_way=True)
        self.wire.delay("a", "b", 0)
        came = []
        for i in range(500):
            self.send("a", "b", b"%d" % i)
            self.send("b", "a")
            came.append(int(self.sockets["b"].recv(2048)))
        time.sleep(0.1)
        carried, lost, full = self.wire.count("a", "b")
        self.assertEqual((lost, full), (0, 0))
        self.assertGreater(carried, 540)
        self.assertLess(carried, 660)
        came += [int(self.sockets["b"].recv(2048)) for _ in range(carried - 500)]
        self.assertEqual(set(came), set(range(500)))
        self.assertEqual(came, sorted(came))
        self.assertEqual(self.wire.count("b", "a"), (500, 0, 0))

    def test_one_way_or_both_are_cut(self):
        self.wire.cut("a", "b", one_way=True)
        self.assertFalse(self.arrives("a", "b"))
        self.assertTrue(self.arrives("b", "a"))
        self.assertTrue(self.arrives("a", "c"))
        self.wire.join("a", "b")
        self.assertTrue(self.arrives("a", "b"))
        self.wire.cut_off("a")
        self.assertFalse(any(self.arrives(*way) for way in (("a", "b"), ("b", "a"), ("c", "a"))))
        self.assertTrue(self.arrives("b", "c"))
        self.wire.join_all()
        self.assertTrue(self.arrives("c", "a"))

    def test_what_is_on_its_way_is_cut_off_too(self):
        self.wire.delay("a", "b", 0.2)
        self.send("a", "b")
        time.sleep(0.02)
        self.wire.cut("a", "b")
        time.sleep(0.3)
        self.wire.join("a", "b")
        self.assertEqual(self.wire.count("a", "b"), (0, 1, 0))

    def test_what_is_sent_meanwhile_does_not_come_later(self):
        self.wire.delay("a", "b", 0.2)
        self.wire.cut("a", "b")
        self.send("a", "b")
        time.sleep(0.02)
        self.wire.join("a", "b")
        time.sleep(0.3)
        self.assertEqual(self.wire.count("a", "b"), (0, 1, 0))

    def test_a_queue_has_an_end(self):
        self.wire.delay("a", "b", 10)
        for i in range(6000):
            self.send("a", "b")
            if i % 64 == 0:
                time.sleep(0.001)
        harness.wait_for(lambda: self.wire.count("a", "b")[2] > 0, "a queue that is full")
        self.assertTrue(self.arrives("b", "c"))

    def test_a_connection_carries_what_it_is_given(self):
        with self.wire.inside("b") as address, socket.create_server((address, 6000)) as server:
            with self.wire.inside("a"):
                begun = time.monotonic()
                client = socket.create_connection((address, 6000), 5)
            self.assertGreaterEqual(time.monotonic() - begun, 2 * ONE_WAY)
            peer, _ = server.accept()
            with client, peer:
                self.wire.lose("a", "b", 0.01)
                data, got = os.urandom(300000), bytearray()
                sender = load.Background(client.sendall, data)
                peer.settimeout(10)
                while len(got) < len(data):
                    got += peer.recv(1 << 16)
                sender.result()
                self.assertEqual(bytes(got), data)

    def test_wrong_commands_are_errors(self):
        for words in (("delay", "a", "b", "-1"), ("delay", "a", "b", "x"), ("lose", "a", "b", "1.1"), ("double", "a", "b", "2"),
                      ("cut", "a", "d"), ("cut", "a", "a"), ("sing", "a", "b"), ("cut",)):
            with self.assertRaises(ValueError, msg=words):
                self.wire.tell(*words)
        self.assertTrue(self.arrives("a", "b"))

    def test_each_place_is_by_itself(self):
        with self.wire.inside("a"), socket.create_server(("127.0.0.1", 6001)):
            socket.create_connection(("127.0.0.1", 6001), 1).close()
            with self.wire.inside("b"), self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", 6001), 1)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", 6001), 1)


class Left(harness.Case):
    def test_nothing_is_left_of_a_test_that_was_killed(self):
        code = ("import os, subprocess, wire\n"
                "w = wire.Wire(['a', 'b'])\n"
                "with w.inside('a'):\n"
                "    print(w.child.pid, os.readlink('/proc/thread-self/ns/net'), flush=True)\n"
                "os.kill(os.getpid(), 9)\n")
        self.keep(wire.Wire(["a", "b"])).kill()  # or skipped here
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        pid, namespace = done.stdout.split()
        harness.wait_for(lambda: not harness.alive(int(pid)), "a wire that has ended")
        self.assertNotIn(namespace, [self.namespace_of(entry) for entry in os.listdir("/proc") if entry.isdigit()])

    @staticmethod
    def namespace_of(pid):
        try:
            return os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            return None


if __name__ == "__main__":
    harness.main()
