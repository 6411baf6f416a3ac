"""Agents that die, restart, and come back all at once."""
# Mostly waits.

import os
import random
import signal
import socket
import threading
import time

import checker
import harness
import load
import shapes

KILLS = int(os.environ.get("KOVA_KILLS", "40"))
POLICIES = [
    {"name": "b", "limit": 10, "per": "1s", "burst": 10, "on_outage": "deny"},
    {"name": "g", "algorithm": "gcra", "limit": 10, "per": "1s", "burst": 10, "on_outage": "deny"},
    {"name": "w", "algorithm": "sliding-window", "limit": 10, "per": "1s", "on_outage": "deny"},
    {"name": "n", "algorithm": "sliding-counter", "limit": 10, "per": "1s", "on_outage": "deny"},
    {"name": "c", "algorithm": "concurrency", "limit": 10, "hold": "1s", "on_outage": "deny"},
    {"name": "p", "plan": {"slots": 10, "hold": "1s"}, "on_outage": "deny"},
]
USERS = 20


class Agents(harness.Case):
    def start(self, count):
        self.redis = self.start_redis()
        config = {"redis": shapes.standalone(self.redis), "policies": POLICIES}
        self.agents = [self.start_agent(config) for _ in range(count)]

    def start_again(self, agent):
        """An agent of the same addresses, state and configuration."""
        started = self.start_agent(agent.config, directory=agent.directory)
        self.agents[self.agents.index(agent)] = started
        return started

    @staticmethod
    def words(n):
        user = f"user-{n // 12 % USERS}"
        extra = (("WAIT", 500), ("ID", f"id{n}"), (), ())[n // 12 % 4]
        policy = "bgwncp"[n % 6]
        if policy in "c" or (policy == "p" and n % 12 > 6):
            return ("KOVA.ACQUIRE", policy, user, *extra)
        return ("KOVA.TAKE", policy, user, *extra, *((("RECEIPT",)) if n % 2 else ()))

    def under_load(self, during):
        stop = threading.Event()
        with load.Swarm(shapes.addresses(self.agents), 30) as swarm:
            running = load.Background(swarm.run, 280, self.words, rate=1500, stop=stop)
            try:
                during()
            finally:
                stop.set()
            return running.result()

    def judge(self, hits):
        self.assertEqual(
            {reason for reason in load.replies(hits) if not reason.startswith("limited:")}
            - {"ok", "lost", "wait_timeout", "queue_full"},
            set(),
        )
        self.assertGreater(sum(hit.admitted for hit in hits), 100)
        for user in range(USERS):
            mine = [hit for hit in hits if hit.words[2] == f"user-{user}"]
            taken = {name: checker.admissions([hit for hit in mine if hit.words[1] == name]) for name in "bgw"}
            self.assertIsNone(checker.bucket_violation(taken["b"], 10, 10))
            self.assertIsNone(checker.bucket_violation(taken["g"], 10, 10))
            self.assertIsNone(checker.window_violation(taken["w"], 10, 1.0))
            held = [(hit.received, hit.sent + 1.0) for hit in mine if hit.admitted and hit.words[1] == "c"]
            self.assertIsNone(checker.held_violation(held, 10))


class Killed(Agents):
    def test_every_key_expires_and_every_user_is_admitted_again(self):
        self.start(3)
        rng = random.Random(19)

        def during():
            for _ in range(KILLS):
                time.sleep(rng.random() * 0.1)
                agent = rng.choice(self.agents)
                agent.kill()
                self.start_again(agent)

        self.judge(self.under_load(during))
        names = self.redis.call("KEYS", "*")
        self.assertGreater(len(names), USERS)
        with harness.Resp(self.redis.address) as resp:
            forever = [name for name, ttl in zip(names, resp.pipeline([("PTTL", name) for name in names])) if ttl == -1]
        self.assertEqual(forever, [])
        time.sleep(2.1)
        for user in range(USERS):
            for policy in "bgwn":
                self.assertEqual(
                    self.agents[0].call("KOVA.TAKE", policy, f"user-{user}", "COST", 10)[0], 1, (policy, user)
                )
            self.assertEqual(self.agents[0].call("KOVA.PEEK", "c", f"user-{user}")[1], 10)
            self.assertEqual(self.agents[0].call("KOVA.ACQUIRE", "p", f"user-{user}")[0], 1)


class OneByOne(Agents):
    def test_total_within_the_limit(self):
        self.start(3)

        def during():
            for _ in range(2):
                for agent in list(self.agents):
                    time.sleep(0.3)
                    self.assertEqual(agent.stop(), 0)
                    self.start_again(agent)
            time.sleep(0.3)

        hits = self.under_load(during)
        self.judge(hits)
        self.assertLess(sum(hit.lost for hit in hits), len(hits) / 2)

    def test_what_was_taken_stays_taken(self):
        self.start(2)
        self.agents[0].http("PUT", "/v1/policies/hour", {"name": "hour", "limit": 10, "per": "1h", "burst": 10})
        self.assertEqual(self.agents[0].call("KOVA.TAKE", "hour", "k", "COST", 10)[0], 1)
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.agents[0].stop(number)
            agent = self.start_again(self.agents[0])
            self.assertEqual(agent.call("KOVA.TAKE", "hour", "k")[0], 0)


class Door:
    """Between many agents and one Redis: shuts, and opens again, and notes when who comes."""

    def __init__(self, target):
        self.target = target
        self.times = []
        self.pairs = set()
        self.listener = None
        self.address = None
        self.open()

    def open(self):
        self.listener = socket.create_server(self.address or ("127.0.0.1", 0), backlog=512)
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def shut(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def cut(self):
        for end in list(self.pairs):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def kill(self):
        self.shut()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.times.append(time.monotonic())
            server = socket.create_connection(self.target)
            for one, other in ((client, server), (server, client)):
                self.pairs.add(one)
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        self.pairs.discard(source)
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()


class Herd(harness.Case):
    AGENTS = 50 if not harness.SANITIZED else 15

    def test_reconnects_are_spread_out(self):
        redis = self.start_redis()
        door = self.keep(Door(redis.address))
        config = {
            "redis": {"mode": "standalone", "url": "redis://127.0.0.1:%d" % door.address[1]},
            "policies": POLICIES,
        }
        agents = [self.start_agent(config, ready=False) for _ in range(self.AGENTS)]
        for agent in agents:
            agent.wait_ready()
        connections = len(door.times)

        door.shut()
        time.sleep(1.5)
        door.times.clear()
        opened = time.monotonic()
        door.open()
        for agent in agents:
            harness.wait_for(lambda a=agent: a.call("KOVA.TAKE", "b", f"k{a.pid}")[5] == "ok", "decisions by Redis", 15)
        harness.wait_for(lambda: len(door.times) >= connections, "every connection", 15)
        times = sorted(at - opened for at in door.times)
        print(
            f"{self.AGENTS} agents: {connections} connections at first; after the restart {len(times)}, "
            f"from {times[0]:.3f} to {times[-1]:.3f} s",
            flush=True,
        )
        self.assertLessEqual(len(times), 3 * connections, "no storm")
        most = max(sum(begin <= at < begin + 0.1 for at in times) for begin in times)
        self.assertLess(most, len(times) * 0.6, "not all within a tenth of a second")
        self.assertGreater(times[-1] - times[0], 0.2)


if __name__ == "__main__":
    harness.main()
