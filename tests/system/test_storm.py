"""A storm of faults, all at once, by a seeded dice: agents are killed and stopped, Redis is stopped, killed and restarted
from its file, replies are lost, connections cut, clocks set by up to 10 s, scripts flushed. Nothing is admitted beyond a limit.

What was admitted is judged by time as it passes on Redis's clock: an interval in which that clock was set ahead is so much
longer, and one in which it was set back no shorter (lib/core/bucket.h). An admission decided around such a step says nothing.

KOVA_STORM_SECONDS (8 by default, 600 for the whole of it), KOVA_STORM_SEED.
"""
# Bears others.
import os
import random
import signal
import threading
import time

import checker
import clock
import harness
import load
import proxy
import shapes

SECONDS = float(os.environ.get("KOVA_STORM_SECONDS", "8"))
SEED = int(os.environ.get("KOVA_STORM_SEED", "1"))
RATE = 1000  # requests a second
POLICIES = [{"name": "b", "limit": 60, "per": "1s", "burst": 40},
            {"name": "g", "algorithm": "gcra", "limit": 60, "per": "1s", "burst": 40},
            {"name": "w", "algorithm": "sliding-window", "limit": 60, "per": "1s"},
            {"name": "l", "levels": [{"name": "tenant", "limit": 90, "per": "1s", "burst": 60},
                                     {"name": "user", "limit": 60, "per": "1s", "burst": 40}]},
            {"name": "leased", "limit": 100, "per": "1s", "burst": 300, "lease": {}},
            {"name": "leasedw", "algorithm": "sliding-window", "limit": 150, "per": "1s", "lease": {}}]
# Rewritten early: in ten minutes it would grow so much that it takes half of one to load.
DURABLE = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "4mb"]
USED = 0.85 if SECONDS >= 60 and not harness.SANITIZED else 0.5  # of the limit; when nothing else runs it is 0.99
STEP_BLUR = 0.05  # s: around a step of Redis's clock nothing is known


class Storm(harness.Case):
    def start(self, durable=True, agents=4):
        self.rng = random.Random(SEED)
        self.steps = []  # (when, s) of Redis's clock, when by the real one
        self.faults = {}
        self.redis_clock = clock.Clock(self.directory, "redis-clock")
        self.options = DURABLE if durable else []
        self.redis = self._redis()
        self.proxy = self.keep(proxy.LossyProxy(self.redis.address, SEED))
        policies = [{"on_outage": "deny", **policy} for policy in POLICIES]
        config = {"redis": {"mode": "standalone", "url": self.proxy.url, "timeout": "200ms"}, "policies": policies}
        self.clocks = [clock.Clock(self.directory, f"clock-{n}") for n in range(agents)]
        self.agents = [self.start_agent(config, env=own.env()) for own in self.clocks]
        for agent in self.agents:
            shapes.wait_for_redis(agent)

    def _redis(self, **more):
        with self.redis_clock.around():
            redis = self.keep(harness.Redis(self.directory, options=self.options, **more))
        harness.wait_for(lambda: redis.call("PING") == "PONG", "a redis-server that has loaded its file", 120)
        return redis

    # ---- faults: each leaves things as they were, in the end ----

    def kill_an_agent(self):
        n = self.rng.randrange(len(self.agents))
        agent = self.agents[n]
        agent.kill()
        time.sleep(self.rng.random() * 0.3)
        self.agents[n] = self.start_agent(agent.config, ready=False, directory=agent.directory, env=self.clocks[n].env())

    def _stop(self, process):
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.random() * 1.2)
        process.send_signal(signal.SIGCONT)

    def stop_an_agent(self):
        self._stop(self.rng.choice(self.agents))

    def stop_redis(self):
        self._stop(self.redis)

    def kill_redis(self):
        self.redis.kill()
        time.sleep(self.rng.random() * 0.2)
        self.redis = self._redis(port=self.redis.port)

    def lose_replies(self):
        self.proxy.lose = 0.1
        time.sleep(self.rng.random())
        self.proxy.lose = 0.0

    def cut_connections(self):
        self.proxy.cut()

    def set_an_agents_clock(self):
        self.rng.choice(self.clocks).shift(self.rng.uniform(-10, 10))

    def set_redis_clock(self):
        seconds = self.rng.choice((-1, 1)) * 10 ** self.rng.uniform(-2, 1)
        self.steps.append((time.time(), seconds))
        self.redis_clock.advance(seconds)

    def flush_scripts(self):
        self.redis.call("SCRIPT", "FLUSH")

    KINDS = (kill_an_agent, kill_an_agent, stop_an_agent, stop_redis, kill_redis, lose_replies, cut_connections,
             set_an_agents_clock, set_redis_clock, flush_scripts)

    def storm(self, seconds, kinds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fault = self.rng.choice(kinds)
            self.faults[fault.__name__] = self.faults.get(fault.__name__, 0) + 1
            fault(self)
            time.sleep(self.rng.random() * 0.3)

    def load(self, during):
        """Hits while `during` runs; a client hangs up now and then."""
        rng, stop = random.Random(SEED), threading.Event()

        def words(n):
            if rng.random() < 0.002:
                swarm.hang_up(rng.randrange(len(swarm.wires)))
            policy = ("b", "g", "w", "l", "leased", "leasedw", "leased", "leasedw")[n % 8]
            key = f"t/u{rng.randrange(2)}" if policy == "l" else "k"
            return ("KOVA.TAKE", policy, key, *(("ID", f"i{n}") if policy == "b" and n % 3 == 0 else ()))

        with load.Swarm(shapes.addresses(self.agents), 24) as swarm:
            running = load.Background(swarm.run, 10 * SECONDS + 60, words, rate=RATE, stop=stop)
            try:
                during()
            finally:
                stop.set()
            return running.result()

    # ---- judgement ----

    def passed(self, at):
        """`at` (real time) as time that passed on Redis's clock."""
        return at + sum(step for when, step in self.steps if step > 0 and when < at)

    def _unclear(self, hit):
        return any(hit.sent - STEP_BLUR < when < hit.received + STEP_BLUR for when, _ in self.steps)

    def taken(self, hits):
        return [checker.Admission(self.passed(hit.sent), self.passed(hit.received))
                for hit in hits if hit.admitted and not self._unclear(hit)]

    def violations(self, hits):
        of = {name: [hit for hit in hits if hit.words[1] == name] for name in {hit.words[1] for hit in hits}}
        found = {"b": checker.bucket_violation(self.taken(of["b"]), 60, 40),
                 "g": checker.bucket_violation(self.taken(of["g"]), 60, 40),
                 "w": checker.window_violation(self.taken(of["w"]), 60, 1.0),
                 "l": checker.bucket_violation(self.taken(of["l"]), 90, 60)}
        for user in ("t/u0", "t/u1"):
            mine = [hit for hit in of["l"] if hit.words[2] == user]
            found[user] = checker.bucket_violation(self.taken(mine), 60, 40)
        for part in self._between_leaps(of["leased"]):
            found["leased"] = found.get("leased") or checker.bucket_violation(self.taken(part), 100, 300)
        for part in self._between_leaps(of["leasedw"]):
            found["leasedw"] = found.get("leasedw") or checker.window_violation(self.taken(part), 150, 1.0)
        return {name: what for name, what in found.items() if what}

    def _between_leaps(self, hits):
        """Leases rest on Redis's clock not leaping ahead by more than their margin (docs/leases.md): each time in
        between, from when what was leased before has ended."""
        leaps = [when for when, step in self.steps if step > 0.01]
        for begin, end in zip([0, *leaps], [*leaps, float("inf")]):
            yield [hit for hit in hits if begin + 1.0 < hit.sent and hit.received < end]

    @staticmethod
    def used(hits, begin, end):
        """What was admitted of bucket `b` of what it refilled from `begin` to `end`."""
        admitted = sum(hit.admitted for hit in hits if hit.words[1] == "b" and begin <= hit.sent < end)
        return admitted / (60 * (end - begin))


class All(Storm):
    def test_no_limit_is_exceeded(self):
        self.start()
        marks = []

        def during():
            time.sleep(1.5)
            marks.append(time.time())
            time.sleep(2 if SECONDS < 60 else 20)
            marks.append(time.time())
            self.storm(SECONDS, self.KINDS)

        hits = self.load(during)
        used = self.used(hits, *marks)
        print(f"seed {SEED}: {len(hits)} requests, {sum(hit.admitted for hit in hits)} admitted, "
              f"{sum(hit.lost for hit in hits)} lost; faults {self.faults}; "
              f"{self.proxy.lost} replies lost; used before the storm: {100 * used:.1f} %", flush=True)
        self.assertEqual(self.violations(hits), {})
        self.assertGreater(used, USED)
        self.assertGreater(sum(hit.admitted for hit in hits), 200)

    def test_agents_that_are_killed_cost_little(self):
        self.start()
        marks = []

        def during():
            time.sleep(1)
            marks.append(time.time())
            for _ in range(1 if SECONDS < 60 else 6):
                self.kill_an_agent()
                time.sleep(3 if SECONDS < 60 else 9.5)
            marks.append(time.time())

        hits = self.load(during)
        used = self.used(hits, *marks)
        print(f"an agent killed every {3 if SECONDS < 60 else 10} s: {100 * used:.1f} % used", flush=True)
        self.assertEqual(self.violations(hits), {})
        self.assertGreater(used, USED - 0.1)


class Seeded(Storm):
    def test_a_redis_that_forgets_is_found_out(self):
        self.start(durable=False, agents=2)

        def during():
            for _ in range(3):
                time.sleep(1)
                self.kill_redis()
            time.sleep(0.5)

        found = self.violations(self.load(during))
        print(f"found: {found}", flush=True)
        self.assertTrue(found)


if __name__ == "__main__":
    harness.main()
