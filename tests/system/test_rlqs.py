"""Envoy's rate limit quota service: several filters (envoy.py) on several agents never admit more than the limit, together."""
# Mostly waits.
import glob
import os
import queue
import sys
import threading
import time
import unittest

import checker
import envoy
import harness

CLIENT = os.path.join(harness.SOURCE, "build", "clients", "grpc")
INSTALLED = os.path.exists(CLIENT + ".done")
if INSTALLED:
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # agents are started beside channels
    sys.path[:0] = glob.glob(os.path.join(CLIENT, "lib", "python3*", "site-packages"))
    import grpc
    from google.protobuf import descriptor_pool, message_factory
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

LIMIT, BURST = 60, 120


def policy(name, *keys, **more):
    rate = {} if "levels" in more or "algorithm" in more else {"limit": LIMIT, "per": "1s", "burst": BURST}
    return {"name": name, **rate, **more, "envoy": {"domain": "edge", "descriptors": list(keys)}}


POLICIES = [
    policy("user", "user"),
    policy("path", "tenant", "path", levels=[{"name": "tenant", "limit": LIMIT, "per": "1s", "burst": BURST},
                                             {"name": "path", "limit": LIMIT // 2, "per": "1s", "burst": LIMIT}]),
    policy("window", "window", algorithm="sliding-window", limit=200, per="20s"),
    policy("gcra", "gcra", algorithm="gcra", limit=LIMIT, per="1s", burst=BURST),
    policy("shadow", "shadow", shadow=True),
    policy("deny", "deny", on_outage="deny"),
    policy("allow", "allow", on_outage="allow"),
    policy("off", "off", lease="off"),
]
OVERRIDES = [{"policy": "user", "key": "banned", "banned": True}, {"policy": "user", "key": "free", "unlimited": True}]


@unittest.skipUnless(INSTALLED, "the gRPC client is not installed (scripts/clients says why)")
class Quotas(harness.Case):
    def setUp(self):
        super().setUp()
        self.agents, self.filters = [], []
        self.redis = self.start_redis()
        self.addCleanup(lambda: [each.vanish() for each in self.filters])

    def start(self, n=1, **more):
        for number in range(n):
            listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
            self.agents.append(self.start_agent({
                "node": f"agent-{len(self.agents)}", "listen": listen, "policies": POLICIES, "overrides": OVERRIDES,
                "redis": {"mode": "standalone", "url": self.redis.url, "timeout": "1s"}, **more}))
        if not hasattr(self, "messages"):
            with grpc.insecure_channel("%s:%d" % self.agents[0].grpc_address) as channel:
                pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
                method = pool.FindServiceByName(envoy.SERVICE).FindMethodByName("StreamRateLimitQuotas")
                self.messages = [message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type)]

    def filter(self, agent=0, **more):
        self.filters.append(envoy.Filter(grpc, self.messages, **more).connect(self.agents[agent].grpc_address))
        return self.filters[-1]

    def load(self, seconds, each, **bucket_id):
        """All filters ask at these rates (a second) for so long."""
        end = time.monotonic() + seconds

        def ask(one, rate):
            next_at = time.monotonic()
            while next_at < end and not one.stopped.is_set():
                one.ask(**bucket_id)
                next_at += 1 / rate
                time.sleep(max(0, next_at - time.monotonic()))

        threads = [threading.Thread(target=ask, args=(one, rate)) for one, rate in zip(self.filters, each)]
        for thread in threads:
            thread.start()
        return threads

    def admissions(self):
        return [checker.Admission(when, when) for one in self.filters for _, when in one.admitted]

    def assert_within(self, burst=BURST, limit=LIMIT):
        self.assertIsNone(checker.bucket_violation(self.admissions(), limit, burst))

    def wait_assigned(self, one, expected, **bucket_id):
        def right():
            got = one.assigned(**bucket_id)
            return expected(got) if callable(expected) else got == expected
        harness.wait_for(right, f"{bucket_id} is assigned")

    def metric(self, name, agent=0):
        for line in self.agents[agent].http("GET", "/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        self.fail(f"no {name}")


class Assignments(Quotas):
    def test_what_a_bucket_is_told(self):
        self.start()
        one = self.filter()
        for bucket, expected in (({"user": "x"}, lambda tokens: isinstance(tokens, float) and tokens > 0),
                                 ({"path": "/", "tenant": "t"}, lambda tokens: isinstance(tokens, float) and tokens > 0),
                                 ({"window": "x"}, lambda tokens: isinstance(tokens, float) and tokens > 0),
                                 ({"off": "x"}, lambda tokens: isinstance(tokens, float) and tokens > 0),
                                 ({"user": "banned"}, "deny"), ({"user": "free"}, "allow"), ({"shadow": "x"}, "allow"),
                                 ({"nobody": "x"}, "allow"), ({"user": "x", "more": "y"}, "allow"),
                                 ({"gcra": "x"}, "deny"), ({"user": "x" * 1025}, "deny")):
            with self.subTest(bucket=bucket):
                self.assertFalse(one.ask(**bucket), "nothing is assigned yet")
                self.wait_assigned(one, expected, **bucket)
        self.assertIn("rlqs_unleasable", self.agents[0].log())
        self.assertEqual(self.metric("kova_rlqs_streams"), 1)

    def test_a_key_is_that_of_the_other_fronts(self):
        self.start()
        one = self.filter()
        one.ask(tenant="a/b", path="/c")
        self.wait_assigned(one, lambda tokens: isinstance(tokens, float), tenant="a/b", path="/c")
        peek = self.agents[0].http("POST", "/v1/peek", {"policy": "path", "key": "a%2Fb/%2Fc"}).json()
        self.assertLess(peek["remaining"], LIMIT)

    def test_changes_are_pushed_at_once(self):
        self.start()
        one = self.filter(interval=30)
        one.ask(user="x")
        self.wait_assigned(one, lambda tokens: isinstance(tokens, float), user="x")
        for body, expected in (({"banned": True}, "deny"), ({"unlimited": True}, "allow"),
                               ({"limit": 80, "per": "1s", "burst": 100}, lambda got: isinstance(got, float) and got <= 25)):
            answer = self.agents[0].http("PUT", "/v1/overrides", {"policy": "user", "key": "x", **body})
            self.assertEqual(answer.status, 200)
            began = time.monotonic()
            self.wait_assigned(one, expected, user="x")
            self.assertLess(time.monotonic() - began, 10, "long before what was told has ended")

    def test_unassigned_requests_are_charged(self):
        self.start()
        one = self.filter(interval=30)
        with one.lock:
            bucket = one.buckets[frozenset({"user": "x"}.items())] = envoy.Bucket()
            bucket.allowed = 100
            one._report(list(one.buckets))
        harness.wait_for(lambda: self.metric("kova_rlqs_unassigned_total") == 100, "the report was heard")
        peek = self.agents[0].http("POST", "/v1/peek", {"policy": "user", "key": "x"}).json()
        self.assertLess(peek["remaining"], BURST)
        self.assertEqual(self.agents[0].http("GET", "/v1/usage?policy=user&key=x").json()["admitted"], 100)


class Exact(Quotas):
    def test_filters_of_several_agents_share_a_limit(self):
        """Far more is asked than the limit; what is admitted is all of it, but for what is on its way."""
        self.start(2)
        for agent in (0, 0, 1, 1):
            self.filter(agent, interval=0.3)
        began = time.monotonic()
        for thread in self.load(8, (150, 50, 100, 20), user="x"):
            thread.join()
        self.assert_within()
        admitted = len(self.admissions())
        self.assertGreater(admitted, 0.6 * LIMIT * (time.monotonic() - began), "and the limit is used")
        for one in self.filters:
            self.assertGreater(len(one.admitted), 0.02 * admitted, "nobody starves")
        self.assertGreater(len(self.filters[0].admitted), len(self.filters[3].admitted), "by demand")

    def test_who_asks_for_little_is_served(self):
        self.start()
        for _ in range(3):
            self.filter(interval=0.5)
        for thread in self.load(8, (8, 8, 8), user="x"):
            thread.join()
        self.assert_within()
        self.assertGreater(len(self.admissions()), 0.75 * 3 * 8 * 8)

    def test_a_window(self):
        self.start(2)
        self.filter(0), self.filter(1)
        for thread in self.load(8, (100, 100), window="x"):
            thread.join()
        self.assertIsNone(checker.window_violation(self.admissions(), 200, 20))
        self.assertGreater(len(self.admissions()), 100)

    def test_a_filter_and_an_agent_are_killed(self):
        self.start(2)
        for agent in (0, 0, 1, 1):
            self.filter(agent, interval=0.3)
        threads = self.load(11, (100, 100, 100, 100), user="x")
        time.sleep(2)
        dead = self.filters[0]
        dead.stopped.set()
        dead.channel.close()
        time.sleep(2)
        self.agents[1].kill()
        for one in self.filters[2:]:
            one.connect(self.agents[0].grpc_address)  # with what it has; the rest of it lasts
        for thread in threads:
            thread.join()
        self.assert_within()
        late = [when for one in self.filters[2:] for _, when in one.admitted if when > time.monotonic() - 3]
        self.assertGreater(len(late), LIMIT, "the others go on")

    def test_loops(self):
        self.start(threads=3)
        for _ in range(6):
            self.filter(0, interval=0.3)
        for thread in self.load(6, (40,) * 6, user="x"):
            thread.join()
        self.assert_within()
        self.assertGreater(len(self.admissions()), 0.4 * LIMIT * 6)


class Outages(Quotas):
    def test_redis_goes_away(self):
        """What was handed out is spent, and then each policy says; when it is back, nothing was minted."""
        self.start()
        one = self.filter(interval=0.3)
        for name in ("user", "deny", "allow"):
            one.ask(**{name: "x"})
            self.wait_assigned(one, lambda tokens: isinstance(tokens, float), **{name: "x"})
        self.redis.kill()
        self.wait_assigned(one, "deny", deny="x")
        self.wait_assigned(one, "allow", allow="x")
        harness.wait_for(lambda: one.ask(user="x"), "`local` gives a part")
        one.admitted.clear()
        for thread in self.load(3, (100,), user="x"):
            thread.join()
        self.assert_within()

    def test_it_comes_back(self):
        self.start()
        one = self.filter(interval=0.3)
        self.redis.kill()
        one.ask(deny="x")
        self.wait_assigned(one, "deny", deny="x")
        self.redis = self.keep(harness.Redis(self.directory, port=self.redis.port)).wait_ready()
        self.wait_assigned(one, lambda tokens: isinstance(tokens, float), deny="x")


class Streams(Quotas):
    def refused(self, *messages):
        with grpc.insecure_channel("%s:%d" % self.agents[0].grpc_address) as channel:
            call = channel.stream_stream(envoy.METHOD, lambda message: message, lambda message: message)
            with self.assertRaises(grpc.RpcError) as raised:
                for _ in call(iter(messages), timeout=harness.PATIENCE):
                    pass
        return raised.exception.code()

    def test_what_is_no_report(self):
        self.start()
        reports = self.messages[0]
        entry = reports(domain="edge")
        entry.bucket_quota_usages.add(num_requests_allowed=1)
        other = reports(domain="other")
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        self.assertEqual(self.refused(b"\xff"), invalid)
        self.assertEqual(self.refused(reports().SerializeToString()), invalid, "no domain")
        self.assertEqual(self.refused(entry.SerializeToString()), invalid, "no id")
        self.assertEqual(self.refused(reports(domain="edge").SerializeToString(), other.SerializeToString()), invalid)
        long = reports(domain="edge")
        usage = long.bucket_quota_usages.add(num_requests_allowed=1)
        usage.bucket_id.bucket["remote_address"] = "x" * 2000  # too long for a key: it can only be denied
        long.bucket_quota_usages.add(num_requests_allowed=2**64 - 1).bucket_id.bucket["remote_address"] = "y"
        self.assertEqual(self.refused(long.SerializeToString(), b"\xff"), invalid)
        flood = [reports(domain="edge").SerializeToString()] * 3000
        self.assertEqual(self.refused(*flood), grpc.StatusCode.RESOURCE_EXHAUSTED)
        large = reports(domain="x" * 70000).SerializeToString()
        self.assertEqual(self.refused(large), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_too_many_buckets_are_denied(self):
        self.start()
        one = self.filter(interval=30)
        with one.lock:
            for number in range(520):
                one.buckets[frozenset({"nobody": str(number)}.items())] = envoy.Bucket()
            keys = list(one.buckets)
            for at in range(0, len(keys), 100):
                one._report(keys[at:at + 100])
        harness.wait_for(lambda: sum(bucket.rule is not None for bucket in one.buckets.values()) == 520, "all are told")
        self.assertEqual(sum(bucket.rule == "deny" for bucket in one.buckets.values()), 8)
        self.assertEqual(self.metric("kova_rlqs_buckets"), 512)

    def test_tokens_and_a_drain(self):
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("reader READ check\n")
        self.start()
        self.start(auth={"tokens_file": tokens})
        with grpc.insecure_channel("%s:%d" % self.agents[1].grpc_address) as channel:
            call = channel.stream_stream(envoy.METHOD)
            with self.assertRaises(grpc.RpcError) as raised:
                next(call(iter([b""]), timeout=harness.PATIENCE))
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        one = self.filter()
        one.ask(user="x")
        self.wait_assigned(one, lambda tokens: isinstance(tokens, float), user="x")
        self.assertEqual(self.agents[0].stop(), 0)
        harness.wait_for(lambda: one.error is not None, "the stream has ended")
        self.assertEqual(one.error.code(), grpc.StatusCode.UNAVAILABLE)

    def test_a_token_that_is_taken_away_ends_the_stream(self):
        tokens = os.path.join(self.directory, "tokens")

        def write(line):
            with open(tokens, "w", encoding="utf-8") as file:
                file.write(line)
        write("reader READ check\n")
        self.start()
        self.start(auth={"tokens_file": tokens})
        report = self.messages[0](domain="edge")
        report.bucket_quota_usages.add(num_requests_allowed=1).bucket_id.bucket["user"] = "x"
        to_send = queue.Queue()
        with grpc.insecure_channel("%s:%d" % self.agents[1].grpc_address) as channel:
            call = channel.stream_stream(envoy.METHOD)(iter(to_send.get, None), timeout=harness.PATIENCE,
                                                       metadata=[("authorization", "Bearer READ")])
            to_send.put(report.SerializeToString())
            self.assertTrue(next(call))
            write("reader OTHER check\n")
            self.agents[1].reload(self.agents[1].config)
            harness.wait_for(lambda: '"event":"reloaded"' in self.agents[1].log(), "a file read again")
            to_send.put(report.SerializeToString())
            with self.assertRaises(grpc.RpcError) as raised:
                for _ in call:
                    pass
            to_send.put(None)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_a_bucket_of_which_nothing_is_asked_is_abandoned(self):
        self.start()
        one = self.filter(interval=2)
        one.ask(user="x")
        harness.wait_for(lambda: one.abandoned, "it is abandoned", timeout=harness.PATIENCE + 40)
        self.assertEqual(self.metric("kova_rlqs_buckets"), 0)


if __name__ == "__main__":
    harness.main()
