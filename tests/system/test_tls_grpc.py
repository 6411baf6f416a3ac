"""gRPC over TLS by its two real clients, grpcio (BoringSSL) and grpc-go (crypto/tls, as grpcurl), with a client's certificate and without."""
# Mostly waits.
import json
import os
import subprocess
import unittest

import certificates
import harness
import test_grpc

GRPCURL = os.path.join(harness.SOURCE, "build", "clients", "grpcurl")
LISTED = [{"name": "spiffe://acme.example/worker", "scopes": ["check"]}, {"name": "ops.example", "scopes": ["admin"]}]
if test_grpc.INSTALLED:
    from test_grpc import grpc, health_pb2, health_pb2_grpc

    CODE = grpc.StatusCode


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.authority = certificates.Authority(self.directory)
        self.other = certificates.Authority(self.directory, "other")
        self.cert, self.key = self.authority.issue("kova")
        self.worker = self.authority.issue("worker", f"URI:{LISTED[0]['name']}")
        self.ops = self.authority.issue("ops", "DNS:ops.example")
        self.stranger = self.authority.issue("stranger", "DNS:stranger.example")

    def start(self, asks=False):
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
        config = {"listen": listen, "policies": test_grpc.POLICIES, "tls": {"cert": self.cert, "key": self.key}}
        if asks:
            config["tls"]["client_ca"] = self.authority.cert
            config["auth"] = {"certificates": LISTED}
        self.agent = self.start_agent(config, tls=self.authority.context(self.worker))
        self.address = "localhost:%d" % self.agent.grpc_address[1]


@unittest.skipUnless(test_grpc.INSTALLED, "the gRPC client is not installed (scripts/clients says why)")
class Grpcio(Case):
    connect, ask, refused = test_grpc.Grpc.connect, test_grpc.Grpc.ask, test_grpc.Grpc.refused

    def over(self, identity=None, authority=None):
        """A channel that believes `authority` and shows `identity`, (cert, key)."""
        def read(path):
            with open(path, "rb") as file:
                return file.read()
        shown = (read(identity[1]), read(identity[0])) if identity else (None, None)
        credentials = grpc.ssl_channel_credentials(read((authority or self.authority).cert), *shown)
        self.channel = grpc.secure_channel(self.address, credentials)
        self.addCleanup(self.channel.close)

    def health(self):
        return health_pb2_grpc.HealthStub(self.channel).Check(health_pb2.HealthCheckRequest(), timeout=harness.PATIENCE).status

    def no_connection(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.health()
        self.assertEqual(raised.exception.code(), CODE.UNAVAILABLE, raised.exception.details())
        return raised.exception.details()

    def test_without_a_certificate(self):
        self.start()
        self.over()
        self.connect()
        self.assertEqual(self.ask([("ip", "x")]).overall_code, test_grpc.OK)
        self.over(authority=self.other)
        self.assertIn("CERTIFICATE_VERIFY_FAILED", self.no_connection())

    def test_with_certificates(self):
        self.start(asks=True)
        self.over(self.worker)
        self.connect()
        self.assertEqual(self.ask([("ip", "x")]).overall_code, test_grpc.OK)
        self.refused(CODE.UNAUTHENTICATED, [("ip", "x")], metadata=[("authorization", "Bearer wrong")])
        for identity, code in ((self.ops, CODE.PERMISSION_DENIED), (self.stranger, CODE.UNAUTHENTICATED)):
            self.over(identity)
            self.assertEqual(self.health(), health_pb2.HealthCheckResponse.SERVING)  # open to all who get so far
            self.call = self.channel.unary_unary(f"/{test_grpc.SERVICE}/ShouldRateLimit", self.request.SerializeToString)
            why = self.refused(code, [("ip", "x")])
        self.assertIn("authorization: Bearer TOKEN", why)
        for identity in (None, self.other.issue("worker", f"URI:{LISTED[0]['name']}")):
            self.over(identity)
            self.no_connection()


@unittest.skipUnless(os.path.exists(GRPCURL), "grpc-go is not installed: Go 1.23 and its modules are needed (scripts/clients says why)")
class GrpcGo(Case):
    def curl(self, *words, identity=None, authority=None, good=True):
        shown = ["-cert", identity[0], "-key", identity[1]] if identity else []
        asked = {"domain": "edge", "descriptors": [{"entries": [{"key": "ip", "value": "y"}]}]}
        done = subprocess.run([GRPCURL, "-cacert", (authority or self.authority).cert, *shown, *words, "-d", json.dumps(asked),
                               self.address, f"{test_grpc.SERVICE}/ShouldRateLimit"],
                              capture_output=True, text=True, timeout=2 * harness.PATIENCE, check=False)
        self.assertEqual(done.returncode == 0, good, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_without_a_certificate(self):
        self.start()
        self.assertEqual(json.loads(self.curl())["overallCode"], "OK")
        self.assertIn("unknown authority", self.curl(authority=self.other, good=False))

    def test_with_certificates(self):
        self.start(asks=True)
        self.assertEqual(json.loads(self.curl(identity=self.worker))["overallCode"], "OK")
        self.assertIn("PermissionDenied", self.curl(identity=self.ops, good=False))
        self.assertIn("Unauthenticated", self.curl(identity=self.stranger, good=False))
        self.assertIn("Failed to dial", self.curl("-connect-timeout", "2", good=False))  # it tries as long as it may
        self.assertIn('"reason":"no_certificate"', self.agent.log())


if __name__ == "__main__":
    harness.main()
