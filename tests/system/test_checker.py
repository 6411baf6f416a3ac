"""The checkers and the load generator: a seeded violation is found, and what keeps the limit is not accused."""
# Mostly waits.

import random
import socket
import threading
import time

import checker
import harness
import load
from checker import Admission


def blurred(instants, rng, width):
    """Admissions at `instants`, known to within up to `width` s on either side."""
    return [Admission(t - rng.random() * width, t + rng.random() * width) for t in instants]


def bucket_instants(rng, rate, burst, seconds):
    """What a token bucket that is asked all the time admits, with pauses in between."""
    now, level, instants = 1000.0, burst, []
    end = now + seconds
    while now < end:
        if level >= 1:
            level -= 1
            instants.append(now)
            continue
        step = (1 - level) / rate + 1e-6
        if rng.random() < 0.02:
            step += rng.random() * burst / rate
        now += step
        level = min(burst, level + step * rate)
    return instants


def window_instants(rng, limit, window, seconds):
    now, instants = 1000.0, []
    while now < 1000.0 + seconds:
        if sum(1 for t in instants[-limit:] if now - t < window) < limit:
            instants.append(now)
        now += rng.random() * window / limit / 3
    return instants


class Bucket(harness.Case):
    RATE, BURST = 50, 10

    def instants(self, seed):
        rng = random.Random(seed)
        return bucket_instants(rng, self.RATE, self.BURST, 10), rng

    def test_what_keeps_the_limit_is_not_accused(self):
        for seed in range(20):
            instants, rng = self.instants(seed)
            for width in (0, 0.001, 0.1):
                taken = blurred(instants, rng, width)
                self.assertIsNone(checker.bucket_violation(taken, self.RATE, self.BURST), f"seed {seed}, width {width}")

    def test_one_more_is_found(self):
        for seed in range(20):
            instants, rng = self.instants(seed)
            place = rng.randrange(len(instants))
            # A burst and one more at one instant, beside the one that was there.
            taken = blurred(instants + [instants[place]] * (self.BURST + 1), rng, 1e-4)
            self.assertIsNotNone(checker.bucket_violation(taken, self.RATE, self.BURST), f"seed {seed}")

    def test_one_token_too_many_in_a_full_burst(self):
        taken = [Admission(1000 + i * 1e-6, 1000.001) for i in range(self.BURST)]
        self.assertIsNone(checker.bucket_violation(taken, self.RATE, self.BURST))
        taken.append(Admission(1000.0005, 1000.002))
        self.assertIsNotNone(checker.bucket_violation(taken, self.RATE, self.BURST))
        taken[-1] = Admission(1000.0005, 1000.0205)  # it may have waited for its token
        self.assertIsNone(checker.bucket_violation(taken, self.RATE, self.BURST))

    def test_a_rate_that_is_one_per_cent_too_fast(self):
        instants = [1000 + i / (self.RATE * 1.01) for i in range(5000)]
        taken = blurred(instants, random.Random(1), 0.005)
        self.assertIsNotNone(checker.bucket_violation(taken, self.RATE, self.BURST))
        self.assertIsNone(checker.bucket_violation(taken, self.RATE * 1.01, self.BURST))

    def test_it_finds_what_trying_every_interval_finds(self):
        for seed in range(300):
            rng = random.Random(seed)
            taken = [Admission(t, t + rng.random(), rng.randint(1, 3)) for t in (rng.random() * 10 for _ in range(12))]
            burst = rng.randint(1, 8)
            worst = max(
                sum(a.cost for a in taken if a.sent >= first.sent and a.received <= last.received)
                - 2 * (last.received - first.sent + checker.TICK)
                - burst
                for first in taken
                for last in taken
                if first.sent <= last.received
            )
            self.assertEqual(
                checker.bucket_violation(taken, 2, burst) is not None, worst > 1e-6, f"seed {seed}: {worst}"
            )

    def test_costs_count(self):
        self.assertIsNone(checker.bucket_violation([Admission(1, 2, 10)], 0, 10))
        self.assertIsNotNone(checker.bucket_violation([Admission(1, 2, 11)], 0, 10))
        self.assertIsNone(checker.bucket_violation([], 1, 1))

    def test_needless_refusals(self):
        def hit(at, reply, width=1e-4):
            one = load.Hit((), at - width)
            one.received, one.reply = at + width, reply
            return one

        yes, no = [1, 0, 10, 0, 0, "ok"], [0, 0, 10, 1, 0, "limited:p"]
        drained = [hit(1000 + i * 1e-3, yes) for i in range(10)]
        self.assertIsNone(checker.needless_refusal(drained + [hit(1000.012, no)], 50, 10))
        self.assertIsNotNone(checker.needless_refusal(drained[:9] + [hit(1000.012, no)], 50, 10))
        self.assertIsNotNone(checker.needless_refusal(drained + [hit(1000.05, no)], 50, 10))
        self.assertIsNone(
            checker.needless_refusal(drained + [hit(1000.05, None), hit(1000.05, None), hit(1000.05, no)], 50, 10)
        )


class Windows(harness.Case):
    def test_sliding(self):
        for seed in range(10):
            rng = random.Random(seed)
            instants = window_instants(rng, 20, 1.0, 10)
            self.assertIsNone(checker.window_violation(blurred(instants, rng, 0.01), 20, 1.0), f"seed {seed}")
            more = instants + [rng.choice(instants)] * 20
            self.assertIsNotNone(checker.window_violation(blurred(more, rng, 1e-4), 20, 1.0), f"seed {seed}")

    def test_exactly_a_window_apart_is_allowed(self):
        self.assertIsNone(checker.window_violation([Admission(10, 10), Admission(11, 11)], 1, 1.0))
        self.assertIsNotNone(checker.window_violation([Admission(10, 10), Admission(10.99, 10.999)], 1, 1.0))

    def test_fixed(self):
        taken = [Admission(10 + i / 10, 10 + i / 10 + 0.01) for i in range(10)]
        self.assertIsNone(checker.fixed_violation(taken, 10, [10 - 1e-3, 11, 12]))
        self.assertIsNotNone(checker.fixed_violation(taken, 9, [10 - 1e-3, 11, 12]))

    def test_held(self):
        self.assertIsNone(checker.held_violation([(1, 2), (2, 3), (5, 5)], 1))
        self.assertIsNotNone(checker.held_violation([(1, 2.1), (2, 3)], 1))


class Generator(harness.Case):
    """Against a server that answers slowly, in pieces, and hangs up."""

    def serve(self, handle):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

        def serve_one(connection):
            with connection:
                handle(connection)

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()

    @staticmethod
    def in_pieces(connection):
        while connection.recv(4096):
            for byte in b"*2\r\n:1\r\n$3\r\na\r\n\r\n":
                connection.sendall(bytes([byte]))
                time.sleep(0.0005)
            connection.sendall(b"")

    def test_replies_in_pieces(self):
        with load.Swarm([self.serve(self.in_pieces)], 4) as swarm:
            hits = swarm.burst(("X",))
            self.assertEqual([hit.reply for hit in hits], [[1, "a\r\n"]] * 4)
            for hit in hits:
                self.assertGreater(hit.received - hit.sent, 0.005)

    def test_a_lost_connection_is_a_lost_hit(self):
        def hang_up(connection):
            connection.recv(4096)

        with load.Swarm([self.serve(hang_up)], 3) as swarm:
            hits = swarm.burst(("X",)) + swarm.burst(("X",))
            self.assertEqual([hit.lost for hit in hits], [True] * 6)

    def test_the_rate_is_kept(self):
        def answer(connection):
            while data := connection.recv(65536):
                connection.sendall(b"+OK\r\n" * data.count(b"$1\r\n"))

        with load.Swarm([self.serve(answer)], 5) as swarm:
            hits = swarm.run(1.0, ("X",), rate=200)
            self.assertGreaterEqual(len(hits), 100)
            self.assertLessEqual(len(hits), 201)


if __name__ == "__main__":
    harness.main()
