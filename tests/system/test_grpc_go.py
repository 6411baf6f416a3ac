"""grpc-go and grpcurl against an agent: tests/clients/grpc_go, installed by scripts/clients."""
# Mostly waits.
import json
import os
import subprocess
import unittest

import harness

CLIENTS = os.path.join(harness.SOURCE, "build", "clients")
INSTALLED = os.path.exists(os.path.join(CLIENTS, "grpc_go.done"))


def policy(*keys, **more):
    rate = {} if "levels" in more else {"limit": 5, "per": "1h", "burst": 5}
    return {"name": keys[-1], **rate, **more, "envoy": {"domain": "edge", "descriptors": list(keys)}}


POLICIES = [policy("ip"), policy("tenant", "user", levels=[{"name": "tenant", "limit": 10, "per": "1h", "burst": 10},
                                                           {"name": "user", "limit": 3, "per": "1h", "burst": 3}])]
OVERRIDES = [{"policy": "ip", "key": "banned", "banned": True}, {"policy": "ip", "key": "free", "unlimited": True}]


@unittest.skipUnless(INSTALLED, "grpc-go is not installed: Go 1.23 and its modules are needed (scripts/clients says why)")
class GrpcGo(harness.Case):
    def start(self, n=1):
        redis = self.start_redis()
        self.agents = []
        for number in range(n):
            listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
            self.agents.append(self.start_agent({
                "node": f"agent-{number}", "listen": listen, "policies": POLICIES, "overrides": OVERRIDES,
                "redis": {"mode": "standalone", "url": redis.url, "timeout": "1s"}}))
        self.addresses = ["%s:%d" % agent.grpc_address for agent in self.agents]

    def check(self, name):
        self.start()
        done = subprocess.run([os.path.join(CLIENTS, "grpc_go"), name, *self.addresses], capture_output=True, text=True,
                              timeout=2 * harness.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_rls(self):
        self.check("rls")

    def test_rlqs(self):
        self.check("rlqs")

    def test_health(self):
        self.check("health")

    def test_reflection(self):
        self.check("reflection")

    def test_deadline(self):
        self.check("deadline")

    def test_keepalive(self):
        self.check("keepalive")

    def test_large_messages(self):
        self.check("large")

    def test_max_streams(self):
        self.check("max-streams")

    def test_a_drain_loses_no_call(self):
        self.start(2)
        client = subprocess.Popen([os.path.join(CLIENTS, "grpc_go"), "drain", *self.addresses], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(client.kill)
        self.assertEqual(client.stdout.readline(), "calling\n")
        self.assertEqual(self.agents[0].stop(), 0)
        _, error = client.communicate("ended\n", timeout=2 * harness.PATIENCE)
        self.assertEqual(client.returncode, 0, error)

    def curl(self, *words, data=None):
        more = ["-d", json.dumps(data)] if data is not None else []
        done = subprocess.run([os.path.join(CLIENTS, "grpcurl"), "-plaintext", *more, self.addresses[0], *words],
                              capture_output=True, text=True, timeout=2 * harness.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_grpcurl(self):
        self.start()
        services = self.curl("list").split()
        quotas = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"
        self.assertIn(quotas, services)
        self.assertIn("StreamRateLimitQuotas", self.curl("describe", quotas))
        self.assertEqual(json.loads(self.curl("grpc.health.v1.Health/Check", data={})), {"status": "SERVING"})
        asked = {"domain": "edge", "descriptors": [{"entries": [{"key": "ip", "value": "x"}]}]}
        answer = json.loads(self.curl("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", data=asked))
        self.assertEqual((answer["overallCode"], answer["statuses"][0]["limitRemaining"]), ("OK", 4))


if __name__ == "__main__":
    harness.main()
