"""A policy's `durability`: an admission counts when it is where the policy wants it, and `on_outage` decides when it is not."""
# Mostly waits.
import itertools
import os
import signal
import socket
import statistics
import threading
import time

import harness

TIMEOUT_MS = 1000 if harness.SANITIZED else 400
REPLICATED = ["--repl-diskless-sync-delay", "0", "--repl-timeout", "60"]


def policy(name, durability, on_outage="deny", **more):
    return {"name": name, "limit": 10, "per": "1d", "burst": 10, "durability": durability, "on_outage": on_outage, **more}


POLICIES = [policy("safe", "replica:1"), policy("open", "replica:1", "allow"), policy("half", "replica:1", "local"),
            policy("plain", "none", burst=1000, limit=1000), policy("two", "replica:2"),
            {"name": "slots", "algorithm": "concurrency", "limit": 3, "hold": "1h", "durability": "replica:1", "on_outage": "deny"}]


def events(agent, name):
    return [line for line in agent.log_lines() if line.get("event") == name]


class NewerRedis:
    """A Redis with WAITAOF before one that has none: every command is passed on and its reply read, one after the other."""

    def __init__(self, target):
        self.target = target
        self.reply = b"*2\r\n:1\r\n:0\r\n"
        self.asked = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def kill(self):
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        requests, server = client.makefile("rb"), socket.create_connection(self.target)
        replies = server.makefile("rb")
        self._sockets.append(server)
        try:
            while command := self._value(requests):
                if b"WAITAOF" in command:
                    self.asked.append(command.split()[4::2])
                    client.sendall(self.reply)
                else:
                    server.sendall(command)
                    client.sendall(self._value(replies))
        except OSError:
            pass

    def _value(self, file):
        """The bytes of one value."""
        line = file.readline()
        if line[:1] == b"$" and line != b"$-1\r\n":
            return line + file.read(int(line[1:]) + 2)
        if line[:1] == b"*":
            return line + b"".join(self._value(file) for _ in range(int(line[1:])))
        return line


class Durable(harness.Case):
    def agent(self, redis, policies, **more):
        return self.start_agent({"redis": {"mode": "standalone", "url": redis.url, "timeout": f"{TIMEOUT_MS}ms", **more},
                                 "policies": policies})

    def each_loop(self, agent):
        """Connections to all loops of the agent: each loop finds out by itself what is there."""
        connections = [agent.resp() for _ in range(2 * harness.THREADS)]
        for connection in connections:
            self.addCleanup(connection.close)
        return connections

    def until_by_redis(self, agent, *words):
        connections, number = self.each_loop(agent), itertools.count()
        harness.wait_for(lambda: {connection.call(*words, f"probe{next(number)}")[5] for connection in connections} == {"ok"},
                         "decisions by Redis")


class Replicas(Durable):
    def setUp(self):
        super().setUp()
        self.primary = self.start_redis(options=REPLICATED)
        self.replicas = 0
        self.replica = self.start_replica()

    def start_replica(self):
        replica = self.start_redis(options=["--replicaof", "127.0.0.1", str(self.primary.port), *REPLICATED])
        self.replicas += 1
        harness.wait_for(self.in_step, "the replica in step")
        self.addCleanup(replica.send_signal, signal.SIGCONT)
        return replica

    def in_step(self):
        """Whether all replicas keep up, for a while: soon after its first synchronisation one may be silent for a moment."""
        with harness.Resp(self.primary.address) as resp:
            for _ in range(30):
                resp.call("SET", "here", "1")
                if resp.call("WAIT", self.replicas, 50) != self.replicas:
                    return False
                time.sleep(0.02)
        return True

    def stop_replica(self):
        self.replica.send_signal(signal.SIGSTOP)

    def test_a_replica_that_is_there(self):
        agent = self.agent(self.primary, POLICIES, **harness.PATIENT)
        with agent.resp() as resp:
            for left in range(9, -1, -1):
                self.assertEqual(resp.call("KOVA.TAKE", "safe", "k")[:3] + ["ok"], [1, left, 10, "ok"])
            self.assertEqual(resp.call("KOVA.TAKE", "safe", "k")[5], "limited:safe")
            self.assertEqual(resp.call("KOVA.PEEK", "safe", "k")[:2], [0, 0])
        self.assertGreaterEqual(int(self.replica_calls("wait")), 10)

    def replica_calls(self, command):
        for line in self.primary.call("INFO", "commandstats").splitlines():
            if line.startswith(f"cmdstat_{command}:"):
                return line.split("calls=")[1].split(",")[0]
        return 0

    def test_many_at_once(self):
        agent = self.agent(self.primary, [policy("many", "replica:1", limit=5000, burst=5000)], **harness.PATIENT)
        with agent.resp() as resp:
            replies = resp.pipeline([("KOVA.TAKE", "many", f"{n % 7}") for n in range(3000)])
        self.assertEqual({reply[5] for reply in replies}, {"ok"})
        self.assertEqual(sorted(5000 - agent.call("KOVA.PEEK", "many", f"{n}")[1] for n in range(7)), [428] * 3 + [429] * 4)

    def test_a_replica_that_stands_still(self):
        agent = self.agent(self.primary, POLICIES)
        with agent.resp() as resp:
            self.assertEqual(resp.call("KOVA.TAKE", "safe", "k")[5], "ok")
            self.stop_replica()
            began = time.monotonic()
            self.assertEqual(resp.call("KOVA.TAKE", "safe", "k")[0:6:5], [0, "outage"])
            took = time.monotonic() - began
            self.assertGreater(took, TIMEOUT_MS / 1000 * 0.9)
            self.assertLess(took, TIMEOUT_MS / 1000 + 0.15)
            began = time.monotonic()
            for name, allowed in (("safe", 0), ("open", 1), ("half", 0)):
                self.assertEqual(resp.call("KOVA.TAKE", name, "k")[0:6:5], [allowed, "outage"], name)
            self.assertLess(time.monotonic() - began, 0.1, "known by now, no time-out each")
            self.assertIn("durability", agent.http("GET", "/readyz").json()["degraded"])
            self.assertIn(b'kova_outage{part="durability"} 1\n', agent.http("GET", "/metrics").body)
            self.assertIn(b'kova_outage{part="redis"} 0\n', agent.http("GET", "/metrics").body)
            self.replica.send_signal(signal.SIGCONT)
            self.until_by_redis(agent, "KOVA.TAKE", "open")
            self.assertEqual(agent.http("GET", "/readyz").json()["degraded"], [])
            # Of "k": one admitted; one charged and not confirmed. Those while it was known to be away: not asked at all.
            self.assertEqual(resp.call("KOVA.PEEK", "safe", "k")[1], 8)
        self.assertEqual(events(agent, "durability_lost")[0]["durability"], "replica:1")
        self.assertEqual(len(events(agent, "durability_restored")), 1)

    def test_it_stays_known_until_the_replica_is_back(self):
        agent = self.agent(self.primary, POLICIES)
        self.stop_replica()
        with agent.resp() as resp:
            resp.call("KOVA.TAKE", "safe", "k")
            until = time.monotonic() + 3
            while time.monotonic() < until:
                began = time.monotonic()
                self.assertEqual(resp.call("KOVA.TAKE", "safe", "k")[5], "outage")
                self.assertLess(time.monotonic() - began, TIMEOUT_MS / 1000 / 2)
                time.sleep(0.05)
        self.assertEqual(len(events(agent, "durability_restored")), 0)

    def test_others_are_not_held_up(self):
        agent = self.agent(self.primary, POLICIES)
        agent.call("KOVA.TAKE", "safe", "k")
        self.stop_replica()
        times = []
        with agent.resp() as slow, agent.resp() as resp:
            slow.send("KOVA.TAKE", "safe", "k")
            for _ in range(100):
                began = time.monotonic()
                self.assertEqual(resp.call("KOVA.TAKE", "plain", "k")[5], "ok")
                times.append(time.monotonic() - began)
            self.assertEqual(slow.read()[5], "outage")
        self.assertLess(statistics.median(times), 0.02)
        self.assertLess(max(times), TIMEOUT_MS / 1000 / 2)

    def test_as_many_replicas_as_asked_for(self):
        agent = self.agent(self.primary, POLICIES)
        self.assertEqual(agent.call("KOVA.TAKE", "two", "k")[0:6:5], [0, "outage"])
        self.assertEqual(agent.call("KOVA.TAKE", "safe", "k")[5], "ok", "it has a connection of its own")
        self.start_replica()
        self.until_by_redis(agent, "KOVA.TAKE", "two")

    def test_pairs_wait_for_the_strictest(self):
        agent = self.agent(self.primary, POLICIES)
        self.assertEqual(agent.call("KOVA.TAKE", "plain", "a", "AND", "safe", "a")[5], "ok")
        self.assertEqual(agent.call("KOVA.TAKE", "safe", "a", "AND", "two", "a")[0:6:5], [0, "outage"])
        self.assertEqual(agent.call("KOVA.TAKE", "plain", "a")[1], 998)
        self.stop_replica()
        self.assertEqual(agent.call("KOVA.TAKE", "plain", "a", "AND", "safe", "a")[0:6:5], [0, "outage"])
        self.assertEqual(agent.call("KOVA.TAKE", "plain", "a")[5], "ok")

    def test_what_changes_something_is_safe_as_well(self):
        agent = self.agent(self.primary, POLICIES)
        receipt = agent.call("KOVA.TAKE", "safe", "k", "COST", 5, "RECEIPT")[6]
        permit = agent.call("KOVA.ACQUIRE", "slots", "k")[6]
        self.assertEqual(agent.call("KOVA.RENEW", "slots", "k", permit), 1)
        self.assertEqual(agent.call("KOVA.REFUND", receipt, 2), 2)
        self.stop_replica()
        with agent.resp() as resp:  # of one loop, which knows by the second that it need not ask
            with self.assertRaisesRegex(harness.RespError, "can't be reached"):
                resp.call("KOVA.REFUND", receipt, 4)
            with self.assertRaisesRegex(harness.RespError, "can't be reached"):
                resp.call("KOVA.RELEASE", "slots", "k", permit)
        self.replica.send_signal(signal.SIGCONT)
        self.until_by_redis(agent, "KOVA.TAKE", "safe")
        self.assertEqual(agent.call("KOVA.RELEASE", "slots", "k", permit), 1)
        self.assertEqual(agent.call("KOVA.REFUND", receipt, 5), 1, "4 of them had been given back")

    def test_a_repeat_is_no_safer_than_its_first_time(self):
        """The first time was not confirmed. Another agent, whose connection wrote nothing of it, answers the repeat."""
        first = self.agent(self.primary, POLICIES)
        other = self.agent(self.primary, POLICIES)
        self.assertEqual(other.call("KOVA.TAKE", "safe", "other")[5], "ok")
        self.stop_replica()
        self.assertEqual(first.call("KOVA.TAKE", "safe", "k", "ID", "x")[0:6:5], [0, "outage"])
        self.assertEqual(other.call("KOVA.TAKE", "safe", "k", "ID", "x")[0:6:5], [0, "outage"])
        self.replica.send_signal(signal.SIGCONT)
        self.until_by_redis(other, "KOVA.TAKE", "safe")
        self.assertEqual(other.call("KOVA.TAKE", "safe", "k", "ID", "x")[:2] + ["ok"], [1, 9, "ok"])
        self.assertEqual(other.call("KOVA.PEEK", "safe", "k")[1], 9, "charged once")

    def test_the_primary_dies_right_after(self):
        agent = self.agent(self.primary, POLICIES)
        for n in range(7):
            self.assertEqual(agent.call("KOVA.TAKE", "safe", "k")[1], 9 - n)
        self.primary.kill()
        self.replica.call("REPLICAOF", "NO", "ONE")
        promoted = self.agent(self.replica, [policy("safe", "none")])
        self.assertEqual(promoted.call("KOVA.PEEK", "safe", "k")[1], 3)

    def test_waiters_take_their_turn(self):
        agent = self.agent(self.primary, [policy("w", "replica:1", limit=20, per="1s", burst=1)])
        agent.call("KOVA.TAKE", "w", "k")
        with agent.resp() as first, agent.resp() as second:
            first.send("KOVA.TAKE", "w", "k", "WAIT", 3000)
            time.sleep(0.005)
            second.send("KOVA.TAKE", "w", "k", "WAIT", 3000)
            self.assertEqual([first.read()[5], second.read()[5]], ["ok", "ok"])

    def test_waiters_are_not_left_waiting(self):
        agent = self.agent(self.primary, [policy("w", "replica:1", limit=1, per="1h", burst=1)])
        agent.call("KOVA.TAKE", "w", "k")
        with agent.resp() as waiter:
            waiter.send("KOVA.TAKE", "w", "k", "WAIT", 30000)
            harness.wait_for(lambda: b'kova_waiters{policy="w"} 1' in agent.http("GET", "/metrics").body, "the waiter")
            self.stop_replica()
            for number, connection in enumerate(self.each_loop(agent)):
                connection.call("KOVA.TAKE", "w", f"other{number}")
            began = time.monotonic()
            self.assertEqual(waiter.read()[5], "outage")
            self.assertLess(time.monotonic() - began, TIMEOUT_MS / 1000 + 0.1)

    def test_an_end_in_the_middle(self):
        agent = self.agent(self.primary, POLICIES)
        agent.call("KOVA.TAKE", "safe", "k")
        self.stop_replica()
        with agent.resp() as resp:
            resp.send("KOVA.TAKE", "safe", "k")
            resp.send("KOVA.TAKE", "safe", "k")
            time.sleep(0.05)
            agent.send_signal(signal.SIGTERM)
            self.assertEqual(resp.read()[5], "outage")
        self.assertEqual(agent.wait(), 0)

    def test_a_policy_that_comes_later(self):
        agent = self.agent(self.primary, [policy("plain", "none")])
        body = policy("late", "replica:1")
        del body["name"]
        with agent.resp() as resp:
            self.assertLess(agent.http("PUT", "/v1/policies/late", body).status, 300)
            self.assertEqual(resp.call("KOVA.TAKE", "late", "k")[5], "ok", "its connection was waited for")


class Sentinel(Durable):
    def test_after_a_failover(self):
        sentinel = self.start_sentinel(replicas=2)
        agent = self.start_agent({"redis": {**sentinel.config(), "timeout": f"{TIMEOUT_MS}ms"}, "policies": [policy("safe", "replica:1")]})
        self.assertEqual(agent.call("KOVA.TAKE", "safe", "k", "COST", 4)[:2], [1, 6])
        sentinel.primary.kill()
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "safe", "probe")[5] == "ok", "the new primary", 60)
        self.assertEqual(agent.call("KOVA.PEEK", "safe", "k")[1], 6)


class Cluster(Durable):
    def test_each_shard_by_itself(self):
        cluster = self.start_cluster(masters=3, replicas=1)
        agent = self.start_agent({"redis": {**cluster.config(), "timeout": f"{TIMEOUT_MS}ms"}, "policies": [policy("safe", "replica:1", limit=1000, burst=1000)]})
        harness.wait_for(lambda: {agent.call("KOVA.TAKE", "safe", f"w{n}")[5] for n in range(30)} == {"ok"}, "every shard")
        stopped = next(node for node in cluster.nodes if "role:slave" in node.call("INFO", "replication"))
        stopped.send_signal(signal.SIGSTOP)
        self.addCleanup(stopped.send_signal, signal.SIGCONT)
        for _ in range(2):
            reasons = [agent.call("KOVA.TAKE", "safe", f"k{n}")[5] for n in range(60)]
        self.assertEqual(set(reasons), {"ok", "outage"})
        self.assertLess(reasons.count("outage"), 40)
        stopped.send_signal(signal.SIGCONT)
        harness.wait_for(lambda: {agent.call("KOVA.TAKE", "safe", f"w{n}")[5] for n in range(60)} == {"ok"}, "every shard again")


class File(Durable):
    POLICIES = [policy("file", "aof"), policy("plain", "none")]

    def start_store(self, *options, port=None):
        return self.start_redis(port=port, options=["--appendonly", "yes", *options])

    def test_a_store_that_writes_at_once(self):
        redis = self.start_store("--appendfsync", "always")
        agent = self.agent(redis, self.POLICIES)
        for n in range(6):
            self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[:2], [1, 9 - n])
        redis.kill()
        self.start_store("--appendfsync", "always", port=redis.port)
        self.until_by_redis(agent, "KOVA.TAKE", "file")
        self.assertEqual(agent.call("KOVA.PEEK", "file", "k")[1], 4)

    def test_settings_that_do_not_do(self):
        redis = self.start_redis(options=["--appendonly", "no", "--appendfsync", "always"])
        agent = self.agent(redis, self.POLICIES)
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[0:6:5], [0, "outage"])
        self.assertEqual(agent.call("KOVA.TAKE", "plain", "k")[5], "ok")
        self.assertRegex(events(agent, "durability_lost")[0]["why"], "append")
        redis.call("CONFIG", "SET", "appendonly", "yes")
        self.until_by_redis(agent, "KOVA.TAKE", "file")
        redis.call("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes")
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "file", "k2")[5] == "outage" or "waitaof" in redis.call("COMMAND", "LIST"), "the other setting to count")

    def test_a_user_who_may_not_ask(self):
        redis = self.start_store("--appendfsync", "always")
        redis.call("ACL", "SETUSER", "kova", "on", ">secret", "~k:*", "+@all", "-config", "-@blocking")
        agent = self.agent(redis, self.POLICIES, url=f"redis://kova:secret@127.0.0.1:{redis.port}")
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[0:6:5], [0, "outage"])
        self.assertRegex(events(agent, "durability_lost")[0]["why"], "can't be known, CONFIG GET: NOPERM")


class WaitAof(Durable):
    def test_a_store_of_its_own(self):
        """One that writes every second: an admission waits for that, is there after a crash, and is none when it takes too long."""
        redis = self.start_redis(options=["--appendonly", "yes", "--appendfsync", "everysec"])
        if "waitaof" not in redis.call("COMMAND", "LIST"):
            self.skipTest("needs Redis 7.2 or later")
        agent = self.agent(redis, File.POLICIES, timeout="2500ms")
        for n in range(3):
            self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[:2], [1, 9 - n])
        self.assertIn("cmdstat_waitaof", redis.call("INFO", "commandstats"))
        redis.kill()
        redis = self.start_redis(port=redis.port, options=["--appendonly", "yes", "--appendfsync", "no"])
        harness.wait_for(lambda: agent.call("KOVA.PEEK", "file", "k")[:2] == [1, 7], "all three")
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[0:6:5], [0, "outage"])

    def test_a_store_that_has_it(self):
        newer = self.keep(NewerRedis(self.start_redis().address))
        agent = self.agent(newer, File.POLICIES)
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[:2], [1, 9])
        self.assertEqual(newer.asked, [[b"1", b"0", str(TIMEOUT_MS).encode()]])
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k", "COST", 10)[5], "limited:file")
        self.assertEqual(agent.call("KOVA.PEEK", "file", "k")[1], 9)
        self.assertEqual(len(newer.asked), 1, "what writes nothing has nothing to wait for")
        newer.reply = b"*2\r\n:0\r\n:0\r\n"
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[0:6:5], [0, "outage"])
        self.assertRegex(events(agent, "durability_lost")[0]["why"], "not on disk in time")
        newer.reply = b"*2\r\n:1\r\n:0\r\n"
        self.until_by_redis(agent, "KOVA.TAKE", "file")

    def test_a_store_that_refuses_it(self):
        newer = self.keep(NewerRedis(self.start_redis().address))
        newer.reply = b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n"
        agent = self.agent(newer, File.POLICIES)
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[0:6:5], [0, "outage"])
        self.assertRegex(events(agent, "durability_lost")[0]["why"], "WAITAOF: ERR .*appendonly is disabled")

    def test_a_reply_that_is_none(self):
        newer = self.keep(NewerRedis(self.start_redis().address))
        for reply in (b"+OK\r\n", b"*0\r\n", b"$-1\r\n", b"*1\r\n$1\r\n1\r\n"):
            newer.reply = reply
            agent = self.agent(newer, File.POLICIES)
            self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[0:6:5], [0, "outage"], reply)
            self.assertTrue(agent.running())


class Embedded(Durable):
    def test_killed_right_after(self):
        agent = self.start_agent({"redis": {"mode": "embedded", "timeout": "1s"}, "policies": File.POLICIES})
        for n in range(6):
            self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[:2], [1, 9 - n])
        for _ in range(2):  # the second one is a server that the agent has started again
            os.kill(agent.children()[0], signal.SIGKILL)
            harness.wait_for(lambda: agent.call("KOVA.TAKE", "file", "probe")[5] != "ok", "the end of it")
            self.until_by_redis(agent, "KOVA.TAKE", "file")
            self.assertEqual(agent.call("KOVA.PEEK", "file", "k")[1], 4)

    def test_it_writes_at_once_only_when_asked_to(self):
        agent = self.start_agent({"policies": [policy("plain", "none")]})
        socket = os.path.join(agent.config["state_dir"], "redis", "redis.sock")

        def fsync():
            with harness.Resp(socket) as resp:
                return resp.call("CONFIG", "GET", "appendfsync")[1]
        self.assertEqual(fsync(), "everysec")
        agent.reload({**agent.config, "policies": File.POLICIES})
        harness.wait_for(lambda: fsync() == "always", "the setting")
        self.assertEqual(agent.call("KOVA.TAKE", "file", "k")[5], "ok")

    def test_it_has_no_replicas(self):
        result = self.run_agent("--check-config", config={"policies": [policy("safe", "replica:1")]})
        self.assertEqual(result.returncode, 1)
        self.assertIn("an embedded Redis has no replicas", result.stdout + result.stderr)
        agent = self.start_agent({"policies": [policy("plain", "none")]})
        body = policy("safe", "replica:1")
        del body["name"]
        answer = agent.http("PUT", "/v1/policies/safe", body)
        self.assertEqual(answer.status, 400)
        self.assertIn(b"an embedded Redis has no replicas", answer.body)

    def test_a_policy_of_before_that_needs_replicas(self):
        """Put by administration when the store was another one: it is kept, and in force nowhere here."""
        redis = self.start_redis()
        directory = self.subdirectory("moved")
        agent = self.start_agent({"redis": {"mode": "standalone", "url": redis.url}}, directory=directory)
        body = policy("safe", "replica:1")
        del body["name"]
        self.assertLess(agent.http("PUT", "/v1/policies/safe", body).status, 300)
        agent.stop()
        agent = self.start_agent({"redis": {"mode": "embedded"}}, directory=directory)
        with self.assertRaisesRegex(harness.RespError, "NOPOLICY"):
            agent.call("KOVA.TAKE", "safe", "k")
        self.assertIn("no replicas", events(agent, "policy_held_back")[0]["why"])
        agent.stop()
        agent = self.start_agent({"redis": {"mode": "standalone", "url": redis.url}}, directory=directory)
        self.assertEqual(agent.call("KOVA.TAKE", "safe", "k")[5], "outage", "of a policy that asks for a replica")


if __name__ == "__main__":
    harness.main()
