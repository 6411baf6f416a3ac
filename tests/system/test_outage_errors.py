"""A Redis that answers, with an error: each is an outage, named while it lasts, and over within a second of its end."""
# Mostly waits.

import threading
import time

import checker
import harness
import load
import refuser

TIMEOUT = 0.1
RATE = 20
POLICIES = [{"name": name, "limit": RATE, "per": "1s", "burst": RATE, "on_outage": name}
            for name in ("local", "deny", "allow")]
ADMITTED = {"deny": 0, "allow": 1}


class Answers(harness.Case):
    def start(self, url, **redis):
        self.agent = self.start_agent({"policies": POLICIES, "redis": {
            "mode": "standalone", "url": url, "timeout": f"{int(TIMEOUT * 1000)}ms", **redis}})
        harness.wait_for(self.by_redis, "decisions by Redis")

    def by_redis(self):
        return self.agent.call("KOVA.TAKE", "deny", "probe")[5] != "outage"

    def degraded(self):
        return self.agent.http("GET", "/readyz").json()["degraded"] == ["redis"]

    def check_verdicts(self):
        """At once, and by each policy."""
        took = []
        with self.agent.resp() as resp:
            for _ in range(40):
                for name, admitted in ADMITTED.items():
                    begun = time.monotonic()
                    reply = resp.call("KOVA.TAKE", name, "k")
                    took.append(time.monotonic() - begun)
                    self.assertEqual((reply[0], reply[5]), (admitted, "outage"))
        self.assertLess(sorted(took)[len(took) // 2], TIMEOUT / 4)

    def check(self, begin, end, first=True):
        with load.Swarm([self.agent.resp_address], 4) as swarm:
            stop = threading.Event()
            running = load.Background(swarm.run, 60, ("KOVA.TAKE", "local", "k"), rate=200, stop=stop)
            time.sleep(0.2)
            begin()
            if first:
                harness.wait_for(lambda: self.agent.call("KOVA.TAKE", "deny", "k")[5] == "outage", "an outage", 8)
            self.check_verdicts()
            harness.wait_for(self.degraded, "/readyz that names it", 1)
            self.assertIn(b'kova_outage{part="redis"} 1\n', self.agent.http("GET", "/metrics").body)
            time.sleep(0.4)
            self.assertTrue(self.degraded(), "as long as it lasts")
            end()
            back = time.monotonic()
            harness.wait_for(self.by_redis, "decisions by Redis again", 5)
            took = time.monotonic() - back
            # Over-drawn by `allow`: nothing is left, and no burst follows.
            self.assertLessEqual(self.agent.call("KOVA.PEEK", "allow", "k")[1], RATE * (took + 0.5))
            time.sleep(0.3)
            stop.set()
            hits = running.result()
        print(f"{self.id().split('.')[-1]}: decisions by Redis again after {took * 1000:.0f} ms", flush=True)
        self.assertLess(took, 1.0)
        self.assertIsNone(checker.bucket_violation(checker.admissions(hits), RATE, RATE + 3))
        self.assertEqual(set(load.replies(hits)) - {"ok", "outage", "limited:local"}, set(), "no errors")


class Real(Answers):
    """By a redis-server itself."""

    def setUp(self):
        super().setUp()
        self.redis = self.start_redis()

    def configure(self, *words):
        self.assertEqual(self.redis.call("CONFIG", "SET", *words), "OK")

    def test_oom(self):
        self.start(self.redis.url)
        self.configure("maxmemory-policy", "noeviction")
        self.check(lambda: self.configure("maxmemory", "1"), lambda: self.configure("maxmemory", "0"))

    def test_noreplicas(self):
        self.start(self.redis.url)
        self.check(lambda: self.configure("min-replicas-to-write", "1"), lambda: self.configure("min-replicas-to-write", "0"))

    def test_busy(self):
        """Somebody else's script that does not end."""
        self.start(self.redis.url)
        self.configure("lua-time-limit", "50")

        def begin():
            load.Background(self.redis.call, "EVAL", "while true do end", "0")

        self.check(begin, lambda: self.redis.call("SCRIPT", "KILL"))

    def test_readonly(self):
        self.start(self.redis.url)
        self.check(lambda: self.redis.call("REPLICAOF", "127.0.0.1", harness.free_port()),
                   lambda: self.redis.call("REPLICAOF", "NO", "ONE"))

    def test_masterdown(self):
        self.start(self.redis.url)
        self.configure("replica-serve-stale-data", "no")
        self.check(lambda: self.redis.call("REPLICAOF", "127.0.0.1", harness.free_port()),
                   lambda: self.redis.call("REPLICAOF", "NO", "ONE"))

    def acl(self, *rules):
        self.assertEqual(self.redis.call("ACL", "SETUSER", "kova", *rules), "OK")

    def test_noperm(self):
        self.acl("on", ">secret", "~k:*", "+@all")
        self.start(self.redis.url, user="kova", password_file=self.password("secret"))
        for taken, given in (("-evalsha", "+evalsha"), ("resetkeys", "~k:*")):
            self.check(lambda rule=taken: self.acl(rule), lambda rule=given: self.acl(rule))

    def password(self, text):
        path = f"{self.directory}/password"
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def test_wrongpass(self):
        """The user is gone, and with it the connections; there again under the same password."""
        self.acl("on", ">secret", "~k:*", "+@all")
        self.start(self.redis.url, user="kova", password_file=self.password("secret"))
        self.check(lambda: self.redis.call("ACL", "DELUSER", "kova"),
                   lambda: self.acl("on", ">secret", "~k:*", "+@all"))
        self.assertNotIn("secret", self.agent.log())


class Told(Answers):
    """By whatever stands between: the same error to every command, or to writes alone."""

    def setUp(self):
        super().setUp()
        self.redis = self.start_redis()
        self.between = self.keep(refuser.Refuser(self.redis.address))
        self.start(self.between.url)

    def check_error(self, error, writes_only=False):
        self.check(lambda: self.between.refuse(error, writes_only), lambda: self.between.refuse(None))

    def test_loading(self):
        self.check_error("LOADING Redis is loading the dataset in memory")

    def test_misconf(self):
        self.check_error("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk")

    def test_noauth(self):
        self.check_error("NOAUTH Authentication required.")

    def test_a_cluster_s_answers(self):
        for error in ("MOVED 3999 127.0.0.1:6381", "CLUSTERDOWN The cluster is down"):
            self.check_error(error, writes_only=True)

    def test_an_old_server_s_oom(self):
        self.check_error("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed", writes_only=True)


class Storm(harness.Case):
    def test_moved_in_circles(self):
        """Two nodes, each of which says that the other one serves the slot: a time-out now and then, not one a request."""
        redis = self.start_redis()
        nodes = [self.keep(refuser.Refuser(redis.address)) for _ in range(2)]
        for node, other in ((nodes[0], nodes[1]), (nodes[1], nodes[0])):
            node.slots = node.address[1]
            node.moved_to = other.address[1]
        agent = self.start_agent({"policies": POLICIES, "redis": {
            "mode": "cluster", "nodes": [f"127.0.0.1:{node.address[1]}" for node in nodes],
            "timeout": f"{int(TIMEOUT * 1000)}ms"}})
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "deny", "k")[5] == "ok", "decisions by Redis")
        for node in nodes:
            node.refuse("MOVED", writes_only=True)
        took, degraded = [], 0
        begun = time.monotonic()
        with agent.resp() as resp:
            while time.monotonic() < begun + 2.5:
                at = time.monotonic()
                reply = resp.call("KOVA.TAKE", "allow", "k")
                took.append(time.monotonic() - at)
                self.assertEqual((reply[0], reply[5]), (1, "outage"))
                time.sleep(0.005)
                degraded += agent.http("GET", "/readyz").json()["degraded"] == ["redis"]
        slow = sum(took)
        print(f"{len(took)} verdicts, {slow:.2f} of 2.5 s in time-outs, {degraded} times degraded", flush=True)
        self.assertLess(max(took), 0.4, "no call goes round for ever")
        self.assertLess(sorted(took)[len(took) * 8 // 10], TIMEOUT / 4)
        self.assertGreater(degraded, len(took) / 2)
        for node in nodes:
            node.refuse(None)
        back = time.monotonic()
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "deny", "k2")[5] == "ok", "decisions by Redis again", 5)
        self.assertLess(time.monotonic() - back, 1.0)


if __name__ == "__main__":
    harness.main()
