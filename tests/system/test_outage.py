"""Redis is away: refuses, swallows, or stands still in the middle of a connection. Each policy's on_outage answers at
once, and the limit goes on."""
# Mostly waits.

import signal
import time

import checker
import harness
import load
import proxy

TIMEOUT = 0.2
LIMIT = {"limit": 20, "per": "1s", "burst": 20}
POLICIES = [{"name": name, **LIMIT, "on_outage": name} for name in ("local", "deny", "allow")]
POLICIES += [
    {"name": "window", "algorithm": "sliding-window", "limit": 20, "per": "1s", "on_outage": "local"},
    {"name": "permits", "algorithm": "concurrency", "limit": 20, "hold": "1m", "on_outage": "deny"},
]


class Away(harness.Case):
    def setUp(self):
        super().setUp()
        self.redis = self.start_redis()
        self.proxy = self.keep(proxy.LossyProxy(self.redis.address))
        config = {
            "redis": {"mode": "standalone", "url": self.proxy.url, "timeout": f"{int(TIMEOUT * 1000)}ms"},
            "policies": POLICIES,
        }
        self.agents = [self.start_agent(config) for _ in range(2)]

    def wait_until_they_know_each_other(self):
        """Until the part of each is a half: their heartbeats come every 2 s."""
        harness.wait_for(lambda: self.redis.call("ZCARD", "k:agents") == 2, "a heartbeat of each")
        time.sleep(2.5)

    def begin(self, way):
        if way == "refuses":
            self.redis.kill()
        elif way == "swallows":
            self.proxy.lose = 1.0
        elif way == "stops mid-reply":
            self.proxy.stalled = True
        else:
            self.redis.send_signal(signal.SIGSTOP)

    def end(self, way):
        if way == "refuses":
            self.redis = self.start_redis(port=self.redis.port)
        elif way == "swallows":
            self.proxy.lose = 0.0
        elif way == "stops mid-reply":
            self.proxy.stalled = False
        else:
            self.redis.send_signal(signal.SIGCONT)

    def timed(self, *words):
        begun = time.monotonic()
        reply = self.agents[0].call(*words)
        return reply, time.monotonic() - begun

    def metric(self, name):
        body = self.agents[0].http("GET", "/metrics").body.decode()
        return next((float(line.split()[-1]) for line in body.splitlines() if line.startswith(name)), None)

    def check_verdicts(self):
        first, took = self.timed("KOVA.TAKE", "deny", "k")
        self.assertEqual((first[0], first[5]), (0, "outage"))
        self.assertLess(took, TIMEOUT + 0.5, "one time-out")
        times = []
        for _ in range(100):
            for name, allowed in (("deny", 0), ("allow", 1)):
                reply, took = self.timed("KOVA.TAKE", name, "k")
                self.assertEqual((reply[0], reply[5]), (allowed, "outage"))
                times.append(took)
        self.assertLess(
            sorted(times)[int(len(times) * 0.9)], TIMEOUT / 2, "the time-out was paid once, not by each request"
        )
        self.assertEqual(self.agents[0].call("KOVA.ACQUIRE", "permits", "k")[5], "outage")
        self.assertEqual(self.agents[0].http("GET", "/readyz").status, 200, "it can answer")
        self.assertIn(b"redis", self.agents[0].http("GET", "/readyz").body)
        self.assertEqual(self.metric('kova_outage{part="redis"}'), 1)
        self.assertGreaterEqual(self.metric('kova_decisions_total{policy="allow",outcome="outage"}'), 100)

    def check(self, way):
        self.assertEqual(self.agents[0].call("KOVA.TAKE", "deny", "k")[5], "ok")
        self.begin(way)
        self.check_verdicts()
        self.end(way)
        harness.wait_for(
            lambda: all(agent.call("KOVA.TAKE", "deny", "k")[5] == "ok" for agent in self.agents),
            "decisions by Redis",
            10,
        )
        harness.wait_for(lambda: self.metric('kova_outage{part="redis"}') == 0, "the end of the outage")

    def test_it_refuses(self):
        self.check("refuses")

    def test_it_swallows(self):
        self.check("swallows")

    def test_it_stops_in_the_middle_of_a_reply(self):
        self.check("stops mid-reply")

    def test_it_stands_still(self):
        self.check("stands still")

    def test_local_keeps_the_limit(self):
        names = ("local", "window")
        self.wait_until_they_know_each_other()
        with load.Swarm([agent.resp_address for agent in self.agents], 20) as swarm:
            running = load.Background(swarm.run, 9, lambda n: ("KOVA.TAKE", names[n // 2 % 2], "k"), rate=800)
            time.sleep(2)
            away = time.time()
            self.begin("swallows")
            time.sleep(3)
            self.end("swallows")
            back = time.time()
            hits = running.result()
        for name in names:
            mine = [hit for hit in hits if hit.words[1] == name]
            meanwhile = [hit for hit in mine if hit.admitted and hit.sent > away + 2 * TIMEOUT and hit.received < back]
            self.assertTrue(all(hit.reason == "outage" for hit in meanwhile))
            span = back - away - 2 * TIMEOUT
            print(f"{name}: {len(meanwhile)} admitted in {span:.2f} s without Redis", flush=True)
            self.assertLessEqual(len(meanwhile), 20 * (span + 1))
            self.assertGreaterEqual(len(meanwhile), 20 * (span - 1.5) * 0.8, "local service goes on")
            self.assertIn(mine[-1].reason, ("ok", f"limited:{name}"))
            # When Redis is back it is charged with what was admitted without it: there is no burst. The agents find it
            # back one after the other, and until then each goes on with its part, of some more for a moment.
            if name == "local":
                self.assertIsNone(checker.bucket_violation(checker.admissions(mine), 20, 20 + 5))
            else:
                self.assertIsNone(checker.window_violation(checker.admissions(mine), 20 + 5, 1.0))


if __name__ == "__main__":
    harness.main()
