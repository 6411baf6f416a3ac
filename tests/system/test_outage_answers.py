"""What an agent answers whose Redis is not there: by each policy's on_outage, in the form of every other answer."""
# Mostly waits.
import os
import time

import harness

POLICIES = [
    {"name": "local", "limit": 1000, "per": "1s", "burst": 100},
    {"name": "deny", "limit": 10, "per": "1s", "on_outage": "deny"},
    {"name": "allow", "limit": 10, "per": "1s", "on_outage": "allow"},
    {"name": "permits", "algorithm": "concurrency", "limit": 3, "hold": "20s", "on_outage": "allow"},
]


class Outage(harness.Case):
    def setUp(self):
        super().setUp()
        url = f"redis://127.0.0.1:{harness.free_port()}"
        self.agent = self.start_agent({"policies": POLICIES, "redis": {"mode": "standalone", "url": url}})
        self.resp = self.agent.resp()
        self.addCleanup(self.resp.close)

    def test_reasons(self):
        for policy, allowed in (("deny", 0), ("allow", 1)):
            for command in ("KOVA.TAKE", "KOVA.PEEK"):
                reply = self.resp.call(command, policy, "k")
                self.assertEqual((len(reply), reply[0], reply[5]), (6, allowed, "outage"), (command, policy))

    def test_a_look_shows_what_is_there(self):
        self.assertEqual(self.resp.call("KOVA.TAKE", "local", "k")[:3], [0, 0, 100], "it begins empty")
        time.sleep(0.5)
        for _ in range(3):
            self.assertEqual(self.resp.call("KOVA.PEEK", "local", "k"), [1, 100, 100, 0, 0, "outage"])
        remaining = self.resp.call("KOVA.TAKE", "local", "k", "COST", 100)[1]
        self.assertLess(remaining, 100)

    def test_an_admission_brings_a_receipt_and_a_permit(self):
        self.assertIsInstance(self.resp.call("KOVA.TAKE", "allow", "k", "RECEIPT")[6], str)
        self.assertIsNone(self.resp.call("KOVA.TAKE", "deny", "k", "RECEIPT")[6])
        reply = self.resp.call("KOVA.ACQUIRE", "permits", "k")
        self.assertEqual((reply[0], reply[5], reply[7]), (1, "outage", 20000))
        self.assertIsInstance(reply[6], str)
        answer = self.agent.http("POST", "/v1/acquire", {"policy": "permits", "key": "k"}).json()
        self.assertIsInstance(answer["permit"], str)
        self.assertEqual(answer["hold_ms"], 20000)


class DiskFull(harness.Case):
    def test_a_redis_that_takes_no_writes_is_an_outage(self):
        """It can't save its data, so that it refuses every script: not ready, though it listens."""
        redis = self.start_redis(options=["--save", "3600 1"])
        agent = self.start_agent({"policies": POLICIES, "redis": {"mode": "standalone", "url": redis.url}})
        self.assertEqual(agent.call("KOVA.TAKE", "deny", "k")[5], "ok")
        in_the_way = os.path.join(redis.directory, "dump.rdb", "x")
        os.makedirs(in_the_way)
        redis.call("BGSAVE")
        harness.wait_for(lambda: "rdb_last_bgsave_status:err" in redis.call("INFO", "persistence"), "a save that fails")
        self.assertEqual(agent.call("KOVA.TAKE", "deny", "k")[5], "outage")
        harness.wait_for(lambda: agent.http("GET", "/readyz").json()["degraded"] == ["redis"], "an agent that says so")
        time.sleep(1)
        self.assertEqual(agent.http("GET", "/readyz").json()["degraded"], ["redis"], "also later, with nobody asking")
        self.assertIn(b'kova_outage{part="redis"} 1\n', agent.http("GET", "/metrics").body)
        os.removedirs(in_the_way)
        redis.call("BGSAVE")
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "deny", "k2")[5] == "ok", "decisions by Redis again")
        self.assertEqual(agent.http("GET", "/readyz").json()["degraded"], [])


if __name__ == "__main__":
    harness.main()
