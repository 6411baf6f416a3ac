"""Envoy's rate limit service, health and reflection, by gRPC's own client (tests/clients/grpc, installed by scripts/clients).

The messages are what reflection says that they are, so that it is tested with everything else.
"""
# Mostly waits.
import glob
import json
import os
import re
import sys
import unittest

import harness

CLIENT = os.path.join(harness.SOURCE, "build", "clients", "grpc")
INSTALLED = os.path.exists(CLIENT + ".done")
if INSTALLED:
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # agents are started beside channels
    sys.path[:0] = glob.glob(os.path.join(CLIENT, "lib", "python3*", "site-packages"))
    import grpc
    from google.protobuf import descriptor_pool, json_format, message_factory
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
OK, OVER_LIMIT = 1, 2
UNITS = {"SECOND": 1, "MINUTE": 2, "HOUR": 3, "DAY": 4, "MONTH": 5, "YEAR": 6, "WEEK": 7}


def policy(name, *keys, domain="edge", **more):
    rate = {} if "levels" in more or "algorithm" in more else {"limit": 5, "per": "1h", "burst": 5}
    return {"name": name, **rate, **more, "envoy": {"domain": domain, "descriptors": list(keys)}}


POLICIES = [
    policy("ip", "ip"),
    policy("user", "tenant", "user", levels=[{"name": "tenant", "limit": 10, "per": "1h", "burst": 10},
                                             {"name": "user", "limit": 3, "per": "1h", "burst": 3}]),
    policy("both-minute", "both", limit=60, per="1m", burst=60),
    policy("both-hour", "both", limit=4, per="1h", burst=4),
    policy("shadow", "shadow", limit=1, burst=1, shadow=True),
    policy("none", "none", limit=0, per="1s", burst=1),
    policy("week", "week", algorithm="calendar", limit=7, per="week"),
    policy("month", "month", algorithm="calendar", limit=7, per="month"),
    policy("odd", "odd", algorithm="sliding-window", limit=7, per="7s"),
    policy("hot", "hot", limit=1000000, per="1s", burst=1000000),
    policy("warm", "warm", limit=500000, per="1s", burst=500000),
    policy("other", "ip", domain="other", limit=1, burst=1),
]
OVERRIDES = [{"policy": "ip", "key": "banned", "banned": True}, {"policy": "ip", "key": "free", "unlimited": True},
             {"policy": "ip", "key": "a%2Fb", "limit": 2, "per": "1h", "burst": 2}]


@unittest.skipUnless(INSTALLED, "the gRPC client is not installed (scripts/clients says why)")
class Grpc(harness.Case):
    redis = None

    def start(self, **more):
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
        self.agent = self.start_agent({"listen": listen, "policies": POLICIES, "overrides": OVERRIDES, **more})
        self.channel = grpc.insecure_channel("%s:%d" % self.agent.grpc_address)
        self.addCleanup(self.channel.close)

    def connect(self, metadata=None):
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        method = pool.FindServiceByName(SERVICE).FindMethodByName("ShouldRateLimit")
        self.request = message_factory.GetMessageClass(method.input_type)
        answer = message_factory.GetMessageClass(method.output_type)
        self.call = self.channel.unary_unary(f"/{SERVICE}/ShouldRateLimit", self.request.SerializeToString,
                                             answer.FromString)

    def setUp(self):
        super().setUp()
        if self._testMethodName not in ("test_tokens", "test_outage", "test_loops", "test_the_demonstration"):
            self.start()
            self.connect()

    def ask(self, *descriptors, domain="edge", hits=0, limits=(), addends=(), **more):
        """Each descriptor a list of (key, value); limits and addends by its number."""
        request = self.request(domain=domain, hits_addend=hits)
        for number, entries in enumerate(descriptors):
            descriptor = request.descriptors.add()
            for key, value in entries:
                descriptor.entries.add(key=key, value=value)
            if number in dict(limits):
                descriptor.limit.requests_per_unit, descriptor.limit.unit = dict(limits)[number]
            if number in dict(addends):
                descriptor.hits_addend.value = dict(addends)[number]
        return self.call(request, timeout=harness.PATIENCE, **more)

    def codes(self, *descriptors, **more):
        answer = self.ask(*descriptors, **more)
        return answer.overall_code, [status.code for status in answer.statuses]

    def remaining(self, policy_name, key):
        return self.agent.http("POST", "/v1/peek", {"policy": policy_name, "key": key}).json()["remaining"]

    def refused(self, code, *descriptors, **more):
        with self.assertRaises(grpc.RpcError) as raised:
            self.ask(*descriptors, **more)
        self.assertEqual(raised.exception.code(), code, raised.exception.details())
        return raised.exception.details()

    # ---- decisions

    def test_one_descriptor(self):
        for left in (4, 3, 2, 1, 0):
            answer = self.ask([("ip", "10.0.0.1")])
            status = answer.statuses[0]
            self.assertEqual((answer.overall_code, status.code, status.limit_remaining), (OK, OK, left))
            limit = status.current_limit
            self.assertEqual((limit.requests_per_unit, limit.unit, limit.name), (5, UNITS["HOUR"], "ip"))
            self.assertGreater(status.duration_until_reset.seconds, 0)
        answer = self.ask([("ip", "10.0.0.1")])
        self.assertEqual((answer.overall_code, answer.statuses[0].code), (OVER_LIMIT, OVER_LIMIT))
        fields = {header.key: header.value for header in answer.response_headers_to_add}
        self.assertEqual(fields["ratelimit-policy"], '"ip";q=5;w=3600')
        self.assertTrue(fields["ratelimit"].startswith('"ip";r=0;t='))
        self.assertGreater(int(fields["retry-after"]), 600)
        self.assertEqual(self.codes([("ip", "10.0.0.2")]), (OK, [OK]))

    def test_all_or_none(self):
        self.assertEqual(self.codes([("ip", "full")], hits=5), (OK, [OK]))
        for _ in range(100):
            answer = self.ask([("ip", "one")], [("ip", "full")], [("tenant", "t"), ("user", "u")])
            self.assertEqual(answer.overall_code, OVER_LIMIT)
            self.assertEqual([status.code for status in answer.statuses], [OK, OVER_LIMIT, OK])
            self.assertEqual([status.limit_remaining for status in answer.statuses], [5, 0, 3])
        self.assertEqual((self.remaining("ip", "one"), self.remaining("user", "t/u")), (5, 3))

    def test_the_last_one_is_not_over(self):
        answer = self.ask([("ip", "a")], [("tenant", "t"), ("user", "u")], addends={0: 5, 1: 3})
        self.assertEqual(answer.overall_code, OK)
        self.assertEqual([(s.code, s.limit_remaining) for s in answer.statuses], [(OK, 0), (OK, 0)])

    def test_what_no_policy_names_is_ok(self):
        for entries, domain in (([("ip", "x")], "nowhere"), ([("none of ours", "x")], "edge"),
                                ([("tenant", "x")], "edge"), ([("user", "x"), ("tenant", "y")], "edge"),
                                ([("ip", "x"), ("ip", "y")], "edge")):
            with self.subTest(entries=entries, domain=domain):
                self.assertEqual(self.codes(entries, domain=domain), (OK, [OK]))
        self.assertEqual(self.codes([("nothing", "x")], [("none", "x")]), (OVER_LIMIT, [OK, OVER_LIMIT]))

    def test_values_are_taken_whole(self):
        pairs = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("", ""), ("", "/"), ("%00", "x"), ("a\0b", "c"), ("a", "c")]
        for tenant, user in pairs:
            with self.subTest(tenant=tenant, user=user):
                status = self.ask([("tenant", tenant), ("user", user)]).statuses[0]
                self.assertEqual((status.code, status.limit_remaining), (OK, 2), "a bucket of its own")
        self.assertEqual(self.remaining("user", "a%2Fb/c"), 2)

    def test_domains_are_apart(self):
        self.assertEqual(self.codes([("ip", "x")], domain="other"), (OK, [OK]))
        self.assertEqual(self.codes([("ip", "x")], domain="other"), (OVER_LIMIT, [OVER_LIMIT]))
        self.assertEqual(self.ask([("ip", "x")]).statuses[0].limit_remaining, 4)

    def test_several_policies_of_one_descriptor(self):
        for left in (3, 2, 1, 0):
            status = self.ask([("both", "x")]).statuses[0]
            self.assertEqual((status.limit_remaining, status.current_limit.name), (left, "both-hour"))
        self.assertEqual(self.codes([("both", "x")]), (OVER_LIMIT, [OVER_LIMIT]))
        self.assertEqual(self.remaining("both-minute", "x"), 56)

    def test_hits(self):
        self.assertEqual(self.ask([("ip", "a")], hits=0).statuses[0].limit_remaining, 4, "0 of the request is 1")
        self.assertEqual(self.ask([("ip", "a")], hits=3).statuses[0].limit_remaining, 1)
        answer = self.ask([("ip", "b")], [("ip", "c")], hits=2, addends={1: 4})
        self.assertEqual([status.limit_remaining for status in answer.statuses], [3, 1])

    def test_no_hits_take_nothing(self):
        for _ in range(3):
            answer = self.ask([("ip", "a")], [("ip", "b")], addends={0: 0})
        self.assertEqual([status.limit_remaining for status in answer.statuses], [5, 2])
        self.assertEqual(self.codes([("ip", "c")], hits=5), (OK, [OK]))
        self.assertEqual(self.codes([("ip", "c")], [("ip", "b")], addends={0: 0}), (OVER_LIMIT, [OVER_LIMIT, OK]))
        self.assertEqual(self.remaining("ip", "b"), 2, "and nobody else is charged")

    def test_a_limit_of_its_own(self):
        for left in (1, 0):
            status = self.ask([("ip", "a")], limits={0: (2, UNITS["MINUTE"])}).statuses[0]
            self.assertEqual((status.code, status.limit_remaining), (OK, left))
            self.assertEqual((status.current_limit.requests_per_unit, status.current_limit.unit), (2, UNITS["MINUTE"]))
        self.assertEqual(self.codes([("ip", "a")], limits={0: (2, UNITS["MINUTE"])}), (OVER_LIMIT, [OVER_LIMIT]))
        self.assertEqual(self.codes([("ip", "b")], limits={0: (0, UNITS["SECOND"])}), (OVER_LIMIT, [OVER_LIMIT]))
        self.assertEqual(self.codes([("hot", "c")], limits={0: (1, UNITS["YEAR"])}), (OK, [OK]))
        self.assertEqual(self.codes([("hot", "c")], limits={0: (1, UNITS["YEAR"])}), (OVER_LIMIT, [OVER_LIMIT]))
        self.assertEqual(self.codes([("ip", "banned")], limits={0: (9, UNITS["DAY"])}), (OVER_LIMIT, [OVER_LIMIT]))

    def test_overrides(self):
        self.assertEqual(self.codes([("ip", "banned")], [("ip", "x")]), (OVER_LIMIT, [OVER_LIMIT, OK]))
        status = self.ask([("ip", "free")], hits=1000).statuses[0]
        self.assertEqual((status.code, status.limit_remaining), (OK, 2**32 - 1))
        self.assertFalse(status.HasField("current_limit"))
        self.assertEqual(self.ask([("ip", "a/b")]).statuses[0].current_limit.requests_per_unit, 2)

    def test_shadow_never_refuses(self):
        for _ in range(5):
            self.assertEqual(self.codes([("shadow", "x")]), (OK, [OK]))

    def test_units(self):
        for key, unit, limit in (("week", "WEEK", 7), ("month", "MONTH", 7), ("none", "SECOND", 0)):
            with self.subTest(key=key):
                got = self.ask([(key, "x")]).statuses[0].current_limit
                self.assertEqual((got.unit, got.requests_per_unit), (UNITS[unit], limit))
        got = self.ask([("odd", "x")]).statuses[0].current_limit
        self.assertEqual((got.unit, got.requests_per_unit), (0, 7), "7 s have no name")

    def test_a_hot_key_is_decided_in_memory(self):
        for _ in range(3000):
            self.assertEqual(self.ask([("hot", "x")]).overall_code, OK)
        metrics = self.agent.http("GET", "/metrics").body.decode()
        leased = next(line for line in metrics.splitlines() if line.startswith("kova_lease_decisions_total "))
        self.assertGreater(float(leased.split()[1]), 1000)
        self.assertIn('kova_request_duration_seconds_count{protocol="grpc"} 3000', metrics)

    def test_hot_keys_together_are_told_apart(self):
        for _ in range(500):
            answer = self.ask([("hot", "x")], [("warm", "x")])
            self.assertEqual([status.current_limit.name for status in answer.statuses], ["hot", "warm"])
            self.assertGreater(answer.statuses[0].limit_remaining, answer.statuses[1].limit_remaining)

    # ---- what is no request

    def test_malformed(self):
        self.refused(grpc.StatusCode.INVALID_ARGUMENT)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, [])
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, [("ip", "x")], domain="")
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, [("ip", "x" * 1025)])
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, [("ip", "x")], hits=2**32 - 1)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, [("ip", "x")], addends={0: 2**40})
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, [("ip", "x")], limits={0: (1, 0)})
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, *[[("ip", str(i))] for i in range(17)])
        raw = self.channel.unary_unary(f"/{SERVICE}/ShouldRateLimit")
        with self.assertRaises(grpc.RpcError) as raised:
            raw(b"\xff\xff", timeout=harness.PATIENCE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        with self.assertRaises(grpc.RpcError) as raised:
            self.channel.unary_unary(f"/{SERVICE}/Nothing")(b"", timeout=harness.PATIENCE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertEqual(self.remaining("ip", "x"), 5)

    def test_compressed_messages(self):
        self.refused(grpc.StatusCode.UNIMPLEMENTED, [("ip", "x" * 1000)], compression=grpc.Compression.Gzip)

    # ---- who may

    def test_tokens(self):
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("reader READ check\nadmin ADMIN admin\n")
        self.start(auth={"tokens_file": tokens})
        stub = health_pb2_grpc.HealthStub(self.channel)
        self.assertEqual(stub.Check(health_pb2.HealthCheckRequest(), timeout=harness.PATIENCE).status, 1)
        with self.assertRaises(grpc.RpcError) as raised:
            self.connect()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        open_agent = self.agent
        self.start()
        self.connect()
        request = self.request(domain="edge")
        request.descriptors.add().entries.add(key="ip", value="x")
        channel = grpc.insecure_channel("%s:%d" % open_agent.grpc_address)
        self.addCleanup(channel.close)
        call = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit", self.request.SerializeToString)
        for value, code in ((None, "UNAUTHENTICATED"), ("Bearer WRONG", "UNAUTHENTICATED"), ("READ", "UNAUTHENTICATED"),
                            ("Bearer ADMIN", "PERMISSION_DENIED"), ("Bearer READ", None), ("bearer READ", None)):
            with self.subTest(value=value):
                metadata = [("authorization", value)] if value else []
                try:
                    call(request, metadata=metadata, timeout=harness.PATIENCE)
                    self.assertIsNone(code)
                except grpc.RpcError as error:
                    self.assertEqual(error.code().name, code)
        self.assertNotIn("READ", open_agent.log())

    # ---- without Redis

    def test_outage(self):
        redis = self.start_redis()
        policies = [policy("local", "local", limit=1000, per="1s", burst=1000),
                    policy("deny", "deny", on_outage="deny"), policy("allow", "allow", on_outage="allow")]
        self.start(policies=policies, overrides=[], redis={"mode": "standalone", "url": redis.url, "timeout": "300ms"})
        self.connect()
        self.assertEqual(self.codes([("deny", "x")], [("allow", "x")]), (OK, [OK, OK]))
        redis.kill()
        self.assertEqual(self.codes([("allow", "x")]), (OK, [OK]))
        self.assertEqual(self.codes([("deny", "x")]), (OVER_LIMIT, [OVER_LIMIT]))
        self.assertEqual(self.codes([("deny", "x")], [("allow", "x")]), (OVER_LIMIT, [OVER_LIMIT, OK]))
        self.assertEqual(health_pb2_grpc.HealthStub(self.channel).Check(
            health_pb2.HealthCheckRequest(), timeout=harness.PATIENCE).status, 1)

    def test_the_demonstration(self):
        """What docs/protocol-grpc.md shows is what the fourth call is answered."""
        with open(os.path.join(harness.SOURCE, "deploy", "demo.json"), encoding="utf-8") as file:
            demo = json.load(file)
        with open(os.path.join(harness.SOURCE, "docs", "protocol-grpc.md"), encoding="utf-8") as file:
            shown = json.loads(re.search(r"```\n(\{\n.*?)```", file.read(), flags=re.S).group(1))
        self.start(policies=demo["policies"], overrides=demo["overrides"])
        self.connect()
        codes = [self.codes([("remote_address", "10.0.0.1")]) for _ in range(3)]
        self.assertEqual(codes, [(OK, [OK])] * 3)
        answer = json_format.MessageToDict(self.ask([("remote_address", "10.0.0.1")]))
        self.assertEqual((answer["overallCode"], answer["statuses"][0]["code"]), ("OVER_LIMIT", "OVER_LIMIT"))
        self.assertEqual(answer["statuses"][0]["currentLimit"], shown["statuses"][0]["currentLimit"])
        self.assertEqual(answer.keys(), shown.keys())

    # ---- health, reflection

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        for service in ("", SERVICE, "grpc.health.v1.Health"):
            self.assertEqual(stub.Check(health_pb2.HealthCheckRequest(service=service)).status, 1)
        with self.assertRaises(grpc.RpcError) as raised:
            stub.Check(health_pb2.HealthCheckRequest(service="none"))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        listed = stub.List(health_pb2.HealthListRequest()).statuses
        self.assertEqual((listed[""].status, listed[SERVICE].status), (1, 1))
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="none"), timeout=1)
        self.assertEqual(next(unknown).status, 3)
        with self.assertRaises(grpc.RpcError) as raised:
            next(unknown)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED, "it stays open")

    def test_watchers_hear_of_a_drain(self):
        watch = health_pb2_grpc.HealthStub(self.channel).Watch(health_pb2.HealthCheckRequest())
        self.assertEqual(next(watch).status, 1)
        self.agent.send_signal(15)
        self.assertEqual(next(watch).status, 2)
        with self.assertRaises(grpc.RpcError):
            next(watch)
        self.assertEqual(self.agent.wait(), 0)

    def test_reflection(self):
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        ask = reflection_pb2.ServerReflectionRequest
        asked = [ask(list_services=""), ask(file_by_filename="grpc/health/v1/health.proto"),
                 ask(file_containing_symbol=f"{SERVICE}.ShouldRateLimit"),
                 ask(file_containing_symbol="envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"),
                 ask(file_containing_symbol="envoy.type.v3.RateLimitUnit"),
                 ask(file_containing_symbol=f"{SERVICE}.Nothing"), ask(file_by_filename="none.proto"),
                 ask(all_extension_numbers_of_type="google.protobuf.Duration"), ask(), ask(host="me", list_services="")]
        answers = list(stub.ServerReflectionInfo(iter(asked), timeout=harness.PATIENCE))
        kinds = [answer.WhichOneof("message_response") for answer in answers]
        file, error = "file_descriptor_response", "error_response"
        self.assertEqual(kinds, ["list_services_response", file, file, file, file, error, error,
                                 "all_extension_numbers_response", error, "list_services_response"])
        self.assertEqual([answer.error_response.error_code for answer in answers if answer.HasField(error)], [5, 5, 3])
        self.assertIn(SERVICE, [service.name for service in answers[0].list_services_response.service])
        self.assertEqual((answers[9].valid_host, answers[9].original_request), ("me", asked[9]))

    # ---- several loops

    def test_loops(self):
        self.start(threads=3)
        self.connect()
        channels = [grpc.insecure_channel("%s:%d" % self.agent.grpc_address, [("grpc.channel_id", number)])
                    for number in range(6)]
        request = self.request(domain="edge")
        request.descriptors.add().entries.add(key="ip", value="shared")
        calls = [channel.unary_unary(f"/{SERVICE}/ShouldRateLimit", self.request.SerializeToString)
                 for channel in channels]
        codes = [call.future(request, timeout=harness.PATIENCE).result()[1] for call in calls * 3]
        self.assertEqual(codes.count(OK), 5)
        self.assertEqual(codes.count(OVER_LIMIT), 13)
        for channel in channels:
            channel.close()


if __name__ == "__main__":
    harness.main()
