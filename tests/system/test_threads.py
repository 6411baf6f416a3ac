"""An agent with several loops is one agent to everybody: exact, edited at once, drained whole, counted together."""
# Bears others.

import collections
import select
import signal
import socket
import threading
import time

import harness
import load

THREADS = 4
CONNECTIONS = 16
WINDOW = {"name": "window", "algorithm": "sliding-window", "limit": 100, "per": "1h"}
BUCKET = {"name": "bucket", "limit": 100, "per": "1h", "burst": 100}
PERMITS = {"name": "permits", "algorithm": "concurrency", "limit": 100, "hold": "1h"}
HOT = {"name": "hot", "limit": 3600, "per": "1h", "burst": 1000, "lease": {"ttl": "200ms"}}
ONE = {"name": "one", "limit": 1, "per": "1h", "burst": 1, "wait": {"max_wait": "10m"}}
LOCAL = {"name": "local", "limit": 40, "per": "1s", "burst": 40, "on_outage": "local"}


def loop_of(connection):
    """Ids are dealt out so that they say which loop serves a connection."""
    return (connection.call("CLIENT", "ID") - 1) % THREADS


def readable(connections):
    """One of the connections that has something to be read, or None."""
    by_socket = {connection.socket: connection for connection in connections}
    ready = select.select(list(by_socket), [], [], 0)[0]
    return by_socket[ready[0]] if ready else None


class Threads(harness.Case):
    def start(self, *policies, **more):
        config = {"threads": THREADS, "policies": list(policies), **more}
        return self.start_agent(config)

    def connections(self, agent, count=CONNECTIONS):
        opened = [agent.resp() for _ in range(count)]
        for connection in opened:
            self.addCleanup(connection.close)
        return opened

    def metric(self, agent, line):
        for found in agent.http("GET", "/metrics").body.decode().splitlines():
            if found.startswith(line + " "):
                return float(found.split()[-1])
        return None


class Exact(Threads):
    def test_200_callers_on_a_limit_of_100(self):
        agent = self.start(WINDOW, BUCKET, PERMITS)
        with load.Swarm([agent.resp_address], 200) as swarm:
            for command, name in (("TAKE", "window"), ("TAKE", "bucket"), ("ACQUIRE", "permits")):
                for number in range(5):
                    hits = swarm.burst((f"KOVA.{command}", name, f"key-{number}"))
                    self.assertEqual(load.errors(hits), [])
                    self.assertEqual(sum(hit.admitted for hit in hits), 100, (name, number))

    def test_a_leased_key_on_all_loops(self):
        agent = self.start(HOT)
        begun = time.time()
        with load.Swarm([agent.resp_address], CONNECTIONS) as swarm:
            hits = swarm.run(4, ("KOVA.TAKE", "hot", "k"))
        self.assertEqual(load.errors(hits), [])
        admitted = sum(hit.admitted for hit in hits)
        refilled = int(time.time() - begun) + 1
        self.assertLessEqual(admitted, 1000 + refilled)
        self.assertGreaterEqual(admitted, 1000, "what leases left over came back")
        self.assertGreater(self.metric(agent, "kova_lease_decisions_total"), 1000)

    def test_what_was_taken_outlives_a_kill(self):
        redis = self.start_redis()
        config = {"redis": {"mode": "standalone", "url": redis.url}}
        agent = self.start(WINDOW, **config)
        for connection in self.connections(agent, 8):
            for _ in range(5):
                self.assertEqual(connection.call("KOVA.TAKE", "window", "k")[0], 1)
        self.assertEqual(agent.http("PUT", "/v1/policies/later", {"limit": 7, "per": "1h", "burst": 7}).status, 200)
        agent.kill()
        again = self.start_agent({"threads": THREADS, "policies": [WINDOW], **config}, directory=agent.directory)
        with load.Swarm([again.resp_address], 200) as swarm:
            hits = swarm.burst(("KOVA.TAKE", "window", "k"))
        self.assertEqual(sum(hit.admitted for hit in hits), 60)
        for connection in self.connections(again, 8):
            self.assertEqual(connection.call("KOVA.PEEK", "later", "k")[2], 7)


class Spread(Threads):
    def test_each_loop_gets_as_many(self):
        path = self.directory + "/agent.sock"
        listen = {"resp": f"127.0.0.1:{harness.free_port()}", "http": None, "unix": path}
        agent = self.start(WINDOW, listen=listen)
        tcp = self.connections(agent, 8)
        unix = [harness.Resp(path) for _ in range(8)]
        self.assertEqual(collections.Counter(map(loop_of, tcp)), {loop: 2 for loop in range(THREADS)})
        self.assertEqual(collections.Counter(map(loop_of, unix)), {loop: 2 for loop in range(THREADS)})
        # One that goes leaves room where it was.
        gone = loop_of(unix[3])
        unix[3].close()
        harness.wait_for(lambda: tcp[0].call("CLIENT", "LIST").count("\n") == 15, "it is gone")
        unix[3] = harness.Resp(path)
        self.assertEqual(loop_of(unix[3]), gone)
        for connection in unix:
            connection.close()


class Edits(Threads):
    def test_a_put_is_in_force_on_every_connection(self):
        agent = self.start(WINDOW)
        probes = self.connections(agent)
        self.assertEqual(len(set(map(loop_of, probes))), THREADS)
        stop = threading.Event()
        with load.Swarm([agent.resp_address], CONNECTIONS) as swarm:
            loading = load.Background(swarm.run, 60, ("KOVA.TAKE", "window", "busy"), stop=stop)
            try:
                for number in range(40):
                    limit = 100 + number
                    answer = agent.http("PUT", "/v1/policies/window", {**WINDOW, "limit": limit})
                    self.assertEqual(answer.status, 200, answer.body)
                    for probe in probes:
                        self.assertEqual(probe.call("KOVA.PEEK", "window", "k")[2], limit)
            finally:
                stop.set()
                hits = loading.result()
        self.assertEqual(load.errors(hits), [])
        self.assertGreater(len(hits), 100)

    def test_remembered_refusals_and_leases_go_on_every_loop(self):
        agent = self.start({**HOT, "limit": 1, "burst": 500})
        probes = self.connections(agent)
        for _ in range(60):  # the key gets hot, then is refused, on every loop
            for probe in probes:
                probe.call("KOVA.TAKE", "hot", "k")
        self.assertEqual({probe.call("KOVA.TAKE", "hot", "k")[0] for probe in probes}, {0})
        self.assertEqual(agent.http("PUT", "/v1/overrides", {"policy": "hot", "key": "k", "unlimited": True}).status, 200)
        self.assertEqual({probe.call("KOVA.TAKE", "hot", "k")[0] for probe in probes}, {1})
        self.assertEqual(agent.http("PUT", "/v1/overrides", {"policy": "hot", "key": "k", "banned": True}).status, 200)
        self.assertEqual({probe.call("KOVA.TAKE", "hot", "k")[5] for probe in probes}, {"banned"})
        self.assertEqual(agent.http("DELETE", "/v1/overrides?policy=hot&key=k").status, 204)
        self.assertEqual({probe.call("KOVA.TAKE", "hot", "k")[5] for probe in probes}, {"limited:hot"})
        listed = [agent.http("GET", "/v1/policies").json()["policies"] for _ in range(THREADS)]
        self.assertEqual([item for item in listed if item != listed[0]], [])
        for bad, status in (({"limit": -1}, 400), ({"limit": 1, "per": "1s", "name": "other"}, 400)):
            self.assertEqual([agent.http("PUT", "/v1/policies/p", bad).status for _ in range(THREADS)],
                             [status] * THREADS)
        self.assertEqual([agent.http("DELETE", "/v1/policies/none").status for _ in range(THREADS)], [404] * THREADS)

    def test_a_reload_brings_policies_and_tokens_to_every_loop(self):
        tokens = self.directory + "/tokens"
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("one FIRST-SECRET\n")
        config = {"auth": {"tokens_file": tokens}}
        agent = self.start(WINDOW, **config)
        probes = self.connections(agent)
        for probe in probes:
            self.assertEqual(probe.call("AUTH", "FIRST-SECRET"), "OK")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("two SECOND-SECRET\n")
        agent.reload({**agent.config, "policies": [{**WINDOW, "limit": 42}]})
        harness.wait_for(lambda: '"reloaded"' in agent.log(), "the reload")
        for probe in probes:
            with self.assertRaisesRegex(harness.RespError, "NOAUTH"):
                probe.call("KOVA.PEEK", "window", "k")
            with self.assertRaisesRegex(harness.RespError, "WRONGPASS"):
                probe.call("AUTH", "FIRST-SECRET")
            self.assertEqual(probe.call("AUTH", "SECOND-SECRET"), "OK")
            self.assertEqual(probe.call("KOVA.PEEK", "window", "k")[2], 42)


class Together(Threads):
    def test_numbers_are_those_of_all_loops(self):
        agent = self.start(WINDOW)
        probes = self.connections(agent)
        for probe in probes:
            for _ in range(10):
                probe.call("KOVA.TAKE", "window", "k")
        for _ in range(THREADS):  # whichever loop is asked
            self.assertEqual(self.metric(agent, 'kova_decisions_total{policy="window",outcome="allowed"}'), 100)
            self.assertEqual(self.metric(agent, 'kova_decisions_total{policy="window",outcome="refused"}'), 60)
            usage = agent.http("GET", "/v1/usage?policy=window&key=k").json()
            self.assertEqual((usage["admitted"], usage["refused"]), (100, 60))
            self.assertEqual(agent.http("GET", "/readyz").json()["redis"], {"shards": 1, "up": 1})
        for probe in probes:
            info = dict(line.split(":", 1) for line in probe.call("INFO").splitlines() if ":" in line)
            self.assertGreaterEqual(int(info["connected_clients"]), CONNECTIONS)
            self.assertGreaterEqual(int(info["total_commands_processed"]), 160)
            self.assertEqual(info["kova_resp"], "%s:%d" % agent.resp_address)
            self.assertEqual(info["kova_http"], "%s:%d" % agent.http_address)
            self.assertEqual(probe.call("CLIENT", "LIST").count("\n"), CONNECTIONS)
        # A pipeline's answers keep their order, whoever has to be asked for them.
        replies = probes[0].pipeline([("PING", "1"), ("INFO", "server"), ("PING", "2"), ("CLIENT", "LIST"), ("PING", "3")])
        self.assertEqual(replies[::2], ["1", "2", "3"])
        self.assertIn("kova_version", replies[1])
        self.assertIn("cmd=client", replies[3])

    def test_clients_that_do_not_wait_for_their_answers(self):
        agent = self.start(WINDOW)
        for number in range(100):
            with agent.resp() as connection:
                connection.send_raw(connection.encode("INFO") + connection.encode("CLIENT", "LIST"))
            body = b'{"limit": %d, "per": "1h", "burst": 7}' % (number + 1)
            with socket.create_connection(agent.http_address) as connection:
                connection.sendall(b"PUT /v1/policies/p HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
                                   + body + b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        self.assertEqual(agent.http("PUT", "/v1/policies/q", {"limit": 1, "per": "1h", "burst": 9}).status, 200)
        self.assertEqual({probe.call("KOVA.PEEK", "q", "k")[2] for probe in self.connections(agent)}, {9})

    def test_all_who_wait_are_answered_by_a_drain(self):
        agent = self.start(ONE)
        agent.call("KOVA.TAKE", "one", "k")
        waiters = self.connections(agent)
        for waiter in waiters:
            waiter.send("KOVA.TAKE", "one", "k", "WAIT", 600000)
        harness.wait_for(lambda: self.metric(agent, 'kova_waiters{policy="one"}') == CONNECTIONS, "all wait")
        begun = time.monotonic()
        agent.send_signal(signal.SIGTERM)
        self.assertEqual([waiter.read(raise_error=False)[0] for waiter in waiters], [0] * CONNECTIONS)
        self.assertEqual(agent.wait(), 0)
        self.assertLess(time.monotonic() - begun, harness.PATIENCE / 2)

    def test_a_permit_released_on_one_loop_lets_in_a_waiter_on_another(self):
        agent = self.start({**PERMITS, "limit": 1})
        holder, *others = self.connections(agent, THREADS)
        permit = holder.call("KOVA.ACQUIRE", "permits", "k")[6]
        for other in others:
            other.send("KOVA.ACQUIRE", "permits", "k", "WAIT", 30000)
        harness.wait_for(lambda: self.metric(agent, 'kova_waiters{policy="permits"}') == 3, "all wait")
        waiting = dict(enumerate(others))
        for _ in others:
            self.assertEqual(holder.call("KOVA.RELEASE", "permits", "k", permit), 1)
            released = time.monotonic()
            ready = harness.wait_for(lambda: readable(waiting.values()), "one is let in")
            self.assertLess(time.monotonic() - released, harness.PATIENCE / 20)
            number = next(n for n, other in waiting.items() if other is ready)
            reply = waiting.pop(number).read()
            self.assertEqual(reply[0], 1)
            permit = reply[6]


class Away(Threads):
    def test_the_local_part_is_the_agents(self):
        """All of one agent's part, and no more, whether one connection asks for it or many."""
        redis = self.start_redis()
        agent = self.start(LOCAL, redis={"mode": "standalone", "url": redis.url})
        probes = self.connections(agent)
        redis.kill()
        harness.wait_for(lambda: {probe.call("KOVA.PEEK", "local", "x")[5] for probe in probes} == {"outage"}, "an outage")
        for key, asking in (("many", CONNECTIONS), ("single", 1)):
            begun = time.monotonic()
            with load.Swarm([agent.resp_address], asking) as swarm:
                hits = swarm.run(3, ("KOVA.TAKE", "local", key))
            took = time.monotonic() - begun
            admitted = sum(hit.admitted for hit in hits)
            self.assertEqual({hit.reason for hit in hits}, {"outage"})
            self.assertLessEqual(admitted, 40 * took + 1, key)
            self.assertGreaterEqual(admitted, 40 * 2.5, key)
        self.assertEqual([line["event"] for line in agent.log_lines()].count("outage_begun"), 1)
        redis = self.start_redis(port=redis.port)
        harness.wait_for(lambda: {probe.call("KOVA.PEEK", "local", "x")[5] for probe in probes} == {"ok"}, "its end")
        harness.wait_for(lambda: [line["event"] for line in agent.log_lines()].count("outage_ended") == 1, "said once")


class Flood(Threads):
    def test_all_loops_ask_for_no_more_at_once_than_one(self):
        """Redis is given 512 checks at once, by however many loops (32 each at least), so no call waits long for others."""
        levels = [{"name": f"l{i}", "limit": 1000000, "per": "1h"} for i in range(8)]
        for threads, most in ((1, 32), (4, 16), (16, 4)):
            agent = self.start({"name": "deep", "algorithm": "sliding-window", "levels": levels}, threads=threads)
            probes = self.connections(agent, 16)
            for probe in probes:
                probe.send_raw(b"".join(probe.encode("KOVA.TAKE", "deep", f"k{i}/b/c/d/e/f/g/h") for i in range(100)))
            self.assertEqual({probe.read()[5] for probe in probes for _ in range(100)}, {"ok"})
            operations = self.metric(agent, "kova_script_operations_total")
            self.assertGreaterEqual(operations, 1600)
            quotient = operations / self.metric(agent, "kova_script_calls_total")
            self.assertLessEqual(quotient, most)
            self.assertGreater(quotient, most / 4, "calls are as large as they may be")
            self.assertEqual(agent.stop(), 0)


class Start(Threads):
    def test_a_store_that_is_not_there(self):
        agent = self.start(LOCAL, redis={"mode": "standalone", "url": f"redis://127.0.0.1:{harness.free_port()}"})
        self.assertEqual(agent.call("KOVA.TAKE", "local", "k")[5], "outage")
        self.assertEqual(agent.stop(), 0)

    def test_an_address_in_use(self):
        first = self.start(WINDOW)
        second = self.start_agent({"threads": THREADS, "policies": [WINDOW], "listen": first.config["listen"]}, ready=False)
        self.assertEqual(second.wait(), 1)
        self.assertIn("address already in use", second.log())

    def test_each_number_of_threads(self):
        for threads in (1, 2, 64):
            agent = self.start_agent({"threads": threads, "policies": [WINDOW]})
            with load.Swarm([agent.resp_address], 128) as swarm:
                hits = swarm.burst(("KOVA.TAKE", "window", "k"))
            self.assertEqual(sum(hit.admitted for hit in hits), 100, threads)
            self.assertEqual(agent.stop(), 0)


if __name__ == "__main__":
    harness.main()
