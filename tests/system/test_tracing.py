"""Spans at a collector: whose trace they are, what they say, and that a collector that fails touches no decision."""
# Mostly waits.

import glob
import os
import socket
import sys
import threading
import time
import unittest

import harness
from tracing import NOT_TAKEN, PARENT, POLICIES, SECRET, TAKEN, TRACE, Traced

CLIENT = os.path.join(harness.SOURCE, "build", "clients", "grpc")
if os.path.exists(CLIENT + ".done"):
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # agents are started beside channels
    sys.path[:0] = glob.glob(os.path.join(CLIENT, "lib", "python3*", "site-packages"))
    import grpc
else:
    grpc = None


class Trees(Traced):
    def test_an_admission(self):
        self.start()
        before = time.time_ns()
        self.assertEqual(self.take(key="acme/" + SECRET, state="rojo=1,congo=2").status, 200)
        call, below = self.call()
        self.assertEqual((call.name, call.kind, call.trace_id, call.parent_id, call.trace_state, call.flags, call.error),
                         ("kova.take", "server", TRACE, PARENT, "rojo=1,congo=2", 0x301, None))
        self.assertLess(before - 10**9, call.start_ns)
        self.assertLess(call.end_ns, time.time_ns() + 10**9)
        self.assertEqual(call.attributes, {
            "network.protocol.name": "http", "http.route": "/v1/take", "http.response.status_code": 200,
            "kova.allowed": True, "kova.reason": "ok", "kova.policy": "api", "kova.limit": 2, "kova.remaining": 1,
            "kova.cost": 1, "kova.pairs": 1, "kova.decided_by": "redis", "kova.home_region": "eu-west",
            "kova.redis.calls": 1})
        self.assertEqual([(s.name, s.kind, s.flags, s.attributes) for s in below], [
            ("kova.redis", "client", 0x101,
             {"db.system.name": "redis", "kova.region": "eu-west", "kova.redis.outcome": "allowed"})])
        self.assertEqual(call.resource["service.name"], "kova-agent")
        self.assertEqual((call.resource["service.instance.id"], call.resource["cloud.region"]), ("n1", "eu-west"))
        self.assertRegex(call.resource["service.version"], r"^\d+\.\d+")
        path, headers, body, _ = self.collector.requests[0]
        self.assertEqual((path, headers["Content-Type"]), ("/v1/traces", "application/x-protobuf"))
        self.assertNotIn(SECRET.encode(), body)

    def test_a_refusal_says_which_level(self):
        self.start()
        for _ in range(2):
            self.take(parent=None)
        self.assertEqual(self.take(cost=2).status, 429)
        call, below = self.call()
        self.assertEqual({k: v for k, v in call.attributes.items() if k in (
            "kova.allowed", "kova.reason", "kova.level", "kova.cost", "http.response.status_code")},
            {"kova.allowed": False, "kova.reason": "limited:user", "kova.level": "user", "kova.cost": 2,
             "http.response.status_code": 429})
        self.assertGreater(call.attributes["kova.retry_after_ms"], 0)
        self.assertIsNone(call.error, "a refusal is no error")
        self.assertEqual(below[0].attributes["kova.redis.outcome"], "refused")

    def test_waiting(self):
        self.start()
        self.take("slow", "k", parent=None)
        behind = threading.Thread(target=self.take, args=("slow", "k", None), kwargs={"wait_ms": 10000})
        behind.start()
        harness.wait_for(lambda: b'kova_waiters{policy="slow"} 1' in self.agent.http("GET", "/metrics").body, "a waiter")
        self.assertEqual(self.take("slow", "k", wait_ms=10000).status, 200)
        behind.join()
        call, below = self.call()
        wait = [s for s in below if s.name == "kova.wait"]
        self.assertEqual([(s.kind, s.attributes) for s in wait], [("internal", {"kova.queue.position": 2})])
        self.assertEqual(call.attributes["kova.wait.ms"], (wait[0].end_ns - wait[0].start_ns) // 10**6)
        self.assertGreater(wait[0].end_ns - wait[0].start_ns, 50 * 10**6)
        self.assertGreaterEqual(call.attributes["kova.redis.calls"], 1)
        self.assertEqual(sum(s.name == "kova.redis" for s in below), call.attributes["kova.redis.calls"])

    def test_who_hangs_up(self):
        self.start()
        self.take("slow", "k", parent=None, cost=1)
        body = b'{"policy":"slow","key":"k","wait_ms":60000}'
        self.agent.http("PUT", "/v1/overrides", {"policy": "slow", "key": "k", "limit": 1, "per": "1h", "burst": 1})
        with socket.create_connection(self.agent.http_address) as client:
            client.sendall(b"POST /v1/take HTTP/1.1\r\nHost: x\r\nTraceparent: %s\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (TAKEN.encode(), len(body), body))
            harness.wait_for(lambda: b'kova_waiters{policy="slow"} 1' in self.agent.http("GET", "/metrics").body, "a waiter")
        call, below = self.call()
        self.assertIs(call.attributes["kova.abandoned"], True)
        self.assertEqual([s.name for s in below if s.kind == "internal"], ["kova.wait"])

    def test_from_a_lease(self):
        self.start(sample=1, queue=100000)
        with self.agent.resp() as connection:
            def by_lease():
                for _ in range(200):
                    connection.call("KOVA.TAKE", "hot", "k")
                return [s for s in self.collector.spans() if s.attributes.get("kova.decided_by") == "lease"]
            call = harness.wait_for(by_lease, "a decision from a lease")[0]
        self.assertEqual((call.attributes["kova.policy"], call.attributes["kova.allowed"]), ("hot", True))
        self.assertEqual(call.attributes["kova.home_region"], "eu-west")

    def test_what_is_malformed(self):
        self.start()
        self.assertEqual(self.take("nobody").status, 404)
        self.assertEqual(self.take(cost=0).status, 400)
        spans = self.spans(2)
        self.assertEqual([s.attributes["http.response.status_code"] for s in spans], [404, 400])
        self.assertEqual(spans[0].attributes["error.type"], "no_policy")

    def test_every_call_of_http(self):
        self.start()
        permit = self.take("slots", "k", path="/v1/acquire").json()["permit"]
        self.take("slots", "k", path="/v1/renew", permit=permit)
        self.take("slots", "k", path="/v1/release", permit=permit)
        self.take("api", "k", path="/v1/peek")
        self.take("api", "k", path="/v1/feedback", ok=True)
        headers = {"traceparent": TAKEN}
        self.agent.http("GET", "/v1/check?policy=api&key=k", headers=headers)
        ticket = self.agent.http("POST", "/v1/pools/exits/next", {"session": SECRET}, headers).json()["ticket"]
        self.agent.http("POST", "/v1/pools/exits/report", {"ticket": ticket, "outcome": "ok"}, headers)
        self.agent.http("GET", "/v1/policies", headers=headers)
        spans = self.spans(8)
        calls = [s for s in spans if s.kind == "server"]
        self.assertEqual([s.name for s in calls], [f"kova.{name}" for name in (
            "acquire", "renew", "release", "peek", "feedback", "take", "next", "report")])
        for call in calls:
            self.assertIn("kova.redis", [s.name for s in spans if s.parent_id == call.span_id], call.name)
        given, report = calls[6:]
        self.assertEqual((given.attributes["kova.pool"], given.attributes["kova.pool.endpoint"]), ("exits", "one"))
        self.assertEqual((report.attributes["kova.pool.outcome"], report.attributes["kova.pool.counted"]), ("ok", True))
        for _, _, body, _ in self.collector.requests:
            for secret in (SECRET, "hidden", ticket, permit):
                self.assertNotIn(secret.encode(), body)

    @unittest.skipUnless(grpc, "the gRPC client is not installed (scripts/clients says why)")
    def test_grpc(self):
        self.start(agent={"listen": {f: f"127.0.0.1:{harness.free_port()}" for f in ("resp", "http", "grpc")}})
        entry = b"\x0a\x02ip\x12" + bytes([len(SECRET)]) + SECRET.encode()
        descriptor = b"\x0a" + bytes([len(entry)]) + entry
        request = b"\x0a\x04edge\x12" + bytes([len(descriptor)]) + descriptor
        with grpc.insecure_channel("%s:%d" % self.agent.grpc_address) as channel:
            ask = channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
            for metadata in ((("traceparent", TAKEN), ("tracestate", "a=1"), ("tracestate", "b=2")), (),
                             (("traceparent", NOT_TAKEN),)):
                ask(request, metadata=metadata, timeout=harness.PATIENCE)
        call, below = self.call()
        self.assertEqual((call.name, call.trace_id, call.parent_id, call.trace_state.replace(" ", "")),
                         ("kova.take", TRACE, PARENT, "a=1,b=2"))
        self.assertEqual((call.attributes["network.protocol.name"], call.attributes["kova.policy"],
                          call.attributes["kova.reason"]), ("grpc", "rls", "ok"))
        self.assertEqual([s.name for s in below], ["kova.redis"])

    def test_an_outage(self):
        redis = self.start_redis()
        self.start(agent={"redis": {"mode": "standalone", "url": redis.url, "timeout": "300ms"}})
        redis.kill()
        def by_outage():
            self.take("api", f"k{time.monotonic()}")
            return [s for s in self.collector.spans() if s.attributes.get("kova.decided_by") == "outage"]
        call = harness.wait_for(by_outage, "a decision by on_outage")[0]
        self.assertEqual(call.attributes["kova.reason"], "outage")


class Sampling(Traced):
    def test_who_says_nothing_is_traced_by_the_ratio(self):
        self.start(sample=1)
        self.take(parent=None)
        self.take(parent="00-" + "0" * 32 + f"-{PARENT}-01", state="a=1")
        self.take(parent=NOT_TAKEN)
        with self.agent.resp() as connection:
            connection.call("KOVA.TAKE", "api", "acme/bob")
            connection.call("KOVA.POOL.NEXT", "exits")
        calls = [s for s in self.spans(4) if s.kind == "server"]
        self.assertEqual([s.name for s in calls], ["kova.take"] * 3 + ["kova.next"])
        self.assertEqual([s.attributes["network.protocol.name"] for s in calls], ["http", "http", "resp", "resp"])
        self.assertEqual({(s.parent_id, s.trace_state) for s in calls}, {("", "")})
        self.assertEqual(len({s.trace_id for s in calls} | {TRACE}), 5)

    def test_a_part_of_them(self):
        self.start(sample=0.5, queue=100000)
        with self.agent.resp() as connection:
            for i in range(400):
                connection.call("KOVA.TAKE", "hot", "k")
        self.take("api", "k")
        spans = harness.wait_for(lambda: [s for s in self.collector.spans() if s.trace_id == TRACE]
                                 and self.collector.spans(), "the last trace")
        calls = [s for s in spans if s.kind == "server" and s.trace_id != TRACE]
        self.assertTrue(120 < len(calls) < 280, len(calls))
        for call in calls:  # OpenTelemetry's TraceIdRatioBased
            self.assertLess(int(call.trace_id[16:], 16) >> 1, 1 << 62)

    def test_what_is_no_tracestate_is_not_passed_on(self):
        self.start()
        for state in ("FOO=1", "a=1," * 33, "a=" + "x" * 256 + ",b=" + "x" * 255):
            self.take(state=state)
        self.assertEqual([s.trace_state for s in self.spans(3) if s.kind == "server"], ["", "", ""])

    def test_fields_that_come_twice(self):
        self.start()
        with socket.create_connection(self.agent.http_address) as client:
            client.settimeout(harness.PATIENCE)
            for fields in (f"Traceparent: {TAKEN}\r\ntraceparent: {TAKEN}\r\n",
                           f"Tracestate: a=1\r\nTraceparent: {TAKEN}\r\nTracestate: b=2, c=3\r\n"):
                client.sendall(f"GET /v1/check?policy=api&key=k HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
                self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))
        call, _ = self.call()  # the second one's
        self.assertEqual((call.trace_id, call.trace_state), (TRACE, "a=1,b=2, c=3"))

    def test_nothing_without_the_section(self):
        agent = self.start_agent({"policies": POLICIES})
        self.assertEqual(agent.http("POST", "/v1/take", {"policy": "api", "key": "k"}, {"traceparent": TAKEN}).status, 200)
        self.assertNotIn(b"kova_trace", agent.http("GET", "/metrics").body)

    def test_all_loops_share_a_collector(self):
        self.start(sample=1, queue=100000, agent={"threads": 4})
        def worker(number):
            with self.agent.resp() as connection:
                for _ in range(100):
                    connection.call("KOVA.TAKE", "hot", f"k{number}")
        threads = [threading.Thread(target=worker, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        calls = [s for s in self.spans(800) if s.kind == "server"]
        self.assertEqual((len(calls), len({s.span_id for s in calls})), (800, 800))
        self.assertEqual(self.metric("dropped"), 0)


if __name__ == "__main__":
    harness.main()
