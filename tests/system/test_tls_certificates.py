"""Certificates of clients that stand for tokens, on the agent's fronts and the coordinator's: who may what by them, and who may not."""
# Mostly waits.
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess

import certificates
import coordinator
import harness

TOKEN = "tok-5ecret-value-of-ops"
WORKER, OPS = "spiffe://acme.example/worker", "ops.example"
LISTED = [{"name": WORKER, "scopes": ["check"]}, {"name": OPS, "scopes": ["admin"]}, {"name": "plain", "scopes": ["check", "admin"]}]


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.authority = certificates.Authority(self.directory)
        self.cert, self.key = self.authority.issue("kova")
        self.worker = self.shows("worker", f"URI:{WORKER}")
        self.ops = self.shows("ops", "DNS:other.example,DNS:OPS.example")
        self.plain = self.shows("plain", "IP:127.0.0.1")
        self.stranger = self.shows("plain", "DNS:stranger.example", "stranger")  # its CN is listed, and no name
        self.tokens = os.path.join(self.directory, "tokens")
        with open(self.tokens, "w", encoding="utf-8") as file:
            file.write(f"boss {TOKEN} check admin\n")

    def shows(self, name, alternative, file=None):
        return self.authority.context(self.authority.issue(name, alternative, write_as=file))

    def terms(self, **auth):
        return {"auth": {"certificates": LISTED, **auth},
                "tls": {"cert": self.cert, "key": self.key, "client_ca": self.authority.cert}}


class Agent(Case):
    def start(self, **auth):
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
        listen["unix"] = os.path.join(self.directory, "socket")
        return self.start_agent({"listen": listen, "threads": 2, "policies": [{"name": "p", "limit": 1000, "per": "1s"}],
                                 **self.terms(**auth)}, tls=self.plain)

    def resp(self, agent, context):
        connection = harness.Resp(agent.resp_address, tls=context)
        self.addCleanup(connection.close)
        return connection

    def http(self, agent, context, method="GET", path="/v1/members", body=None, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = harness.http_request(agent.http_address, method, path, body, headers, context)
        return answer.status, answer.body.decode()

    def refused(self, code, call, *words):
        with self.assertRaisesRegex(harness.RespError, f"^{code}") as caught:
            call(*words)
        return str(caught.exception)

    def test_over_resp(self):
        agent = self.start(tokens_file=self.tokens)
        for context in (self.worker, self.plain):
            connection = self.resp(agent, context)
            self.assertEqual(connection.call("KOVA.TAKE", "p", "k")[0], 1)
        connection = self.resp(agent, self.ops)
        self.assertIn("the certificate lacks the scope 'check'", self.refused("NOPERM", connection.call, "KOVA.TAKE", "p", "k"))
        self.refused("WRONGPASS", connection.call, "AUTH", "wrong")
        self.refused("NOPERM", connection.call, "KOVA.TAKE", "p", "k")
        self.assertEqual(connection.call("AUTH", TOKEN), "OK")
        self.assertEqual(connection.call("KOVA.TAKE", "p", "k")[0], 1)
        self.assertEqual(connection.call("RESET"), "RESET")
        self.refused("NOPERM", connection.call, "KOVA.TAKE", "p", "k")
        connection = self.resp(agent, self.stranger)
        self.refused("NOAUTH", connection.call, "KOVA.TAKE", "p", "k")
        self.assertEqual(connection.call("AUTH", TOKEN), "OK")
        self.assertEqual(connection.call("KOVA.TAKE", "p", "k")[0], 1)
        with harness.Resp(agent.config["listen"]["unix"]) as connection:  # shows none
            self.refused("NOAUTH", connection.call, "KOVA.TAKE", "p", "k")

    def test_over_http(self):
        agent = self.start(tokens_file=self.tokens)
        take = ("POST", "/v1/take", json.dumps({"policy": "p", "key": "k"}))
        put = ("PUT", "/v1/policies/q", json.dumps({"limit": 5, "per": "1s"}))
        self.assertEqual(self.http(agent, self.worker, *take)[0], 200)
        status, body = self.http(agent, self.worker, *put)
        self.assertEqual((status, json.loads(body)["detail"]), (403, "this certificate lacks the scope `admin`"))
        self.assertEqual(self.http(agent, self.worker, *put, token=TOKEN)[0], 201 if status == 201 else 200)
        self.assertEqual(self.http(agent, self.ops, *take)[0], 403)
        self.assertEqual(self.http(agent, self.ops, "DELETE", "/v1/policies/q")[0], 204)
        changes = self.http(agent, self.ops, path="/v1/changes")[1]
        self.assertIn(f'"certificate:{OPS}"', changes)
        self.assertIn('"token:boss"', changes)
        self.assertEqual(self.http(agent, self.stranger)[0], 401)
        self.assertEqual(self.http(agent, self.stranger, token=TOKEN)[0], 200)
        self.assertEqual(self.http(agent, self.stranger, path="/healthz")[0], 200)
        self.assertEqual(self.http(agent, self.plain, *take, token="wrong")[0], 401)

    def test_without_any_token_and_by_a_reload(self):
        agent = self.start()
        connection = self.resp(agent, self.worker)
        self.assertEqual(connection.call("KOVA.TAKE", "p", "k")[0], 1)
        self.refused("NOAUTH", self.resp(agent, self.stranger).call, "PING")
        self.assertEqual(self.http(agent, self.stranger)[0], 401)
        config = {**agent.config, **self.terms(certificates=[*LISTED[1:], {"name": "stranger.example", "scopes": ["check"]}])}
        agent.reload(config)
        harness.wait_for(lambda: '"event":"reloaded"' in agent.log(), "the list in force on each loop")
        self.assertIn("Authentication required", self.refused("NOAUTH", connection.call, "KOVA.TAKE", "p", "k"))
        for _ in range(4):  # on each loop
            self.assertEqual(self.resp(agent, self.stranger).call("KOVA.TAKE", "p", "k")[0], 1)
            self.refused("NOAUTH", self.resp(agent, self.worker).call, "PING")

    def test_a_handshake_amid_a_reload_is_no_way_in(self):
        agent = self.start()
        received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.worker.wrap_bio(received, to_send, server_hostname="localhost")
        with socket.create_connection(agent.resp_address, harness.PATIENCE) as connection:
            with self.assertRaises(ssl.SSLWantReadError):
                client.do_handshake()
            connection.sendall(to_send.read())
            while not to_send.pending:  # until the client has an answer to all that the agent says first
                received.write(connection.recv(65536))
                with contextlib.suppress(ssl.SSLWantReadError):
                    client.do_handshake()
            other = certificates.Authority(self.subdirectory("other"))
            agent.reload({**agent.config, "tls": {**agent.config["tls"], "client_ca": other.cert}})
            harness.wait_for(lambda: '"event":"reloaded"' in agent.log(), "the new authority in force")
            client.write(b"PING\r\n")
            connection.sendall(to_send.read())
            with contextlib.suppress(ConnectionResetError):
                while data := connection.recv(65536):
                    received.write(data)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        self.fail(client.read())
        harness.wait_for(lambda: "amid the handshake" in agent.log(), "the log says why")

    def test_errors_of_the_configuration(self):
        whole = self.terms()
        for change, says in (
                ({"tls": {"cert": self.cert, "key": self.key}}, "`certificates` needs `tls` with `client_ca`"),
                ({"auth": {"certificates": [{"name": "x", "scopes": ["write"]}]}}, "`scopes` must hold `check`, `admin` or both"),
                ({"auth": {"certificates": [{"name": "x", "scopes": []}]}}, "`scopes` must hold `check`, `admin` or both"),
                ({"auth": {"certificates": [{"name": "x"}]}}, "`scopes` is missing"),
                ({"auth": {"certificates": [{"name": "a b", "scopes": ["check"]}]}}, "printable ASCII characters without blanks"),
                ({"auth": {"certificates": [{"name": "x" * 116, "scopes": ["admin"]}]}}, "`name` must have at most 115 bytes"),
                ({"auth": {"certificates": [LISTED[1], {"name": "OPS.example", "scopes": ["check"]}]}}, "is listed already")):
            answer = self.run_agent("--check-config", config={**whole, **change})
            self.assertEqual(answer.returncode, 1, says)
            self.assertIn(says, answer.stdout + answer.stderr)
        twins = [{"name": name, "scopes": ["check"]} for name in ("x" * 255, WORKER, WORKER.replace("worker", "Worker"))]
        for auth, status in ((whole["auth"], 0), ({"certificates": twins}, 0), ({"certificates": []}, 1)):
            answer = self.run_agent("--check-config", config={**whole, "auth": auth, "listen": {"resp": "0.0.0.0:7411"}})
            self.assertEqual(answer.returncode, status, answer.stdout + answer.stderr)


class Coordinator(Case):
    def test_its_http(self):
        daemon = self.keep(coordinator.Coordinator(self.directory, {
            "node": "c", "kafka": {"bootstrap": f"127.0.0.1:{harness.free_port()}"}, **self.terms()}))
        harness.wait_for(lambda: '"listening"' in daemon.log() or not daemon.running(), "a coordinator that listens")

        def status(context, path="/metrics", **headers):
            return harness.http_request(daemon.http_address, "GET", path, headers=headers, tls=context).status
        self.assertEqual([status(context) for context in (self.worker, self.ops, self.stranger)], [200, 200, 401])
        self.assertEqual(status(self.stranger, "/healthz"), 200)
        self.assertEqual(status(self.worker, Authorization="Bearer wrong"), 401)
        viewer = self.ops.wrap_socket(socket.create_connection(daemon.http_address, harness.PATIENCE), server_hostname="localhost")
        self.addCleanup(viewer.close)
        viewer.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(viewer.recv(65536).startswith(b"HTTP/1.1 200 "))
        config = json.loads(subprocess.run(["cat", daemon.config_path], capture_output=True, check=True).stdout)
        config["auth"]["certificates"] = LISTED[:1]
        daemon.write_config(config)
        daemon.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: status(self.ops) == 401, "the list read again")
        self.assertEqual(status(self.worker), 200)
        with contextlib.suppress(ssl.SSLEOFError, ConnectionResetError):  # the end, without a farewell
            self.assertIn(b"", (viewer.recv(65536) for _ in range(30)))


if __name__ == "__main__":
    harness.main()
