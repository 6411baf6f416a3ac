"""TLS on the agent's fronts, by real clients: who is let in, who is not and reads why, and certificates that change."""
# Bears others.
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import certificates
import harness

POLICIES = [{"name": "p", "limit": 1000000, "per": "1s"}]
TAKE = json.dumps({"policy": "p", "key": "k"})


class Tls(harness.Case):
    def setUp(self):
        super().setUp()
        self.authority = certificates.Authority(self.directory)
        self.cert, self.key = self.authority.issue("kova")
        self.tls = self.authority.context()

    def config(self, **tls):
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
        return {"listen": listen, "policies": POLICIES, "tls": {"cert": self.cert, "key": self.key, **tls}}

    def start(self, identity=None, **tls):
        return self.start_agent(self.config(**tls), tls=self.authority.context(identity))

    def failures(self, agent, reason):
        text = agent.http("GET", "/metrics").body.decode()
        return int(re.search(rf'kova_tls_failures_total{{reason="{reason}"}} (\d+)', text).group(1))

    def counted(self, agent, reason, before=0):
        harness.wait_for(lambda: self.failures(agent, reason) > before, f"a failure counted as {reason}")

    def run_command(self, *words):
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=harness.PATIENCE)

    def redis_cli(self, agent, *words):
        return self.run_command("redis-cli", "-p", str(agent.resp_address[1]), *words)

    def curl(self, agent, *words, scheme="https"):
        return self.run_command("curl", "-sS", "-m", "10", "-i", *words, "-d", TAKE,
                                f"{scheme}://localhost:{agent.http_address[1]}/v1/take")


class Clients(Tls):
    def test_redis_cli_and_curl(self):
        agent = self.start()
        answer = self.redis_cli(agent, "--tls", "--cacert", self.authority.cert, "KOVA.TAKE", "p", "k")
        self.assertEqual(answer.stdout.split()[0], "1", answer.stderr)
        answer = self.curl(agent, "--cacert", self.authority.cert)
        self.assertIn("HTTP/1.1 200 OK", answer.stdout)
        for version in ("1.2", "1.3"):
            answer = self.curl(agent, "--cacert", self.authority.cert, f"--tlsv{version}", "--tls-max", version)
            self.assertIn('"allowed":true', answer.stdout, version)

    def test_what_is_spoken_inside(self):
        agent = self.start()
        for address, offer, agreed in ((agent.http_address, ["h2", "http/1.1"], "http/1.1"),
                                       (agent.http_address, ["h2"], None), (agent.http_address, [], ""),
                                       (agent.grpc_address, ["h2"], "h2"), (agent.grpc_address, ["http/1.1"], None),
                                       (agent.grpc_address, [], None), (agent.resp_address, ["redis"], "")):
            context = self.authority.context()
            if offer:
                context.set_alpn_protocols(offer)
            try:
                with socket.create_connection(address, harness.PATIENCE) as plain, \
                        context.wrap_socket(plain, server_hostname="localhost") as client:
                    found = client.selected_alpn_protocol() or ""
                    if address == agent.grpc_address and client.recv(100) == b"":
                        found = None  # in TLS 1.3 a client that offered nothing is told behind its handshake
            except (ssl.SSLError, ConnectionError):
                found = None
            self.assertEqual(found, agreed, (address, offer))
        self.counted(agent, "alpn", 2)

    def test_unix_sockets_stay_plain_and_so_do_other_fronts(self):
        config = self.config(fronts=["resp"])
        config["listen"]["unix"] = os.path.join(self.directory, "socket")
        agent = self.start_agent(config)
        with harness.Resp(config["listen"]["unix"]) as connection:
            self.assertEqual(connection.call("PING"), "PONG")
        with harness.Resp(agent.resp_address, tls=self.tls) as connection:
            self.assertEqual(connection.call("PING"), "PONG")
            self.assertRegex(connection.call("INFO", "server"), "kova_http_tls:0")
        self.assertEqual(agent.http("GET", "/healthz").status, 200)

    def test_large_answers_pipelines_and_half_closed_connections(self):
        agent = self.start()
        with agent.resp() as connection:
            text = "x" * 15000
            self.assertEqual(connection.pipeline([("ECHO", text)] * 100), [text] * 100)
        plain = socket.create_connection(agent.resp_address, harness.PATIENCE)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.tls.wrap_bio(incoming, outgoing, server_hostname="localhost")
        received = self.drive(client, incoming, outgoing, plain, client.do_handshake)
        client.write(harness.Resp.encode("PING"))
        with self.assertRaises(ssl.SSLWantReadError):
            client.unwrap()  # close_notify: this end is shut, the answer is still to come
        plain.sendall(outgoing.read())
        received = b""
        while True:
            data = plain.recv(4096)
            if not data:
                break
            incoming.write(data)
        received = client.read(100)
        self.assertEqual(received, b"+PONG\r\n")
        client.unwrap()  # raises unless close_notify came
        plain.close()

    @staticmethod
    def drive(client, incoming, outgoing, plain, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
            finally:
                if outgoing.pending:
                    plain.sendall(outgoing.read())

    def test_sessions_are_resumed_by_tickets(self):
        agent = self.start()
        session = None
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.authority.context()
            context.minimum_version = context.maximum_version = version
            session = None
            for resumed in (False, True, True):
                plain = socket.create_connection(agent.resp_address, harness.PATIENCE)
                with context.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
                    connection.sendall(b"PING\r\n")
                    self.assertEqual(connection.recv(100), b"+PONG\r\n")
                    self.assertEqual(connection.session_reused, resumed)
                    session = connection.session
        text = agent.http("GET", "/metrics").body.decode()
        self.assertIn('kova_tls_handshakes_total{kind="resumed"} 4', text)


class Kovactl(Tls):
    def kovactl(self, *words):
        return self.run_command(harness.program("kovactl"), *words)

    def test_resp_and_http(self):
        good = self.authority.issue("operator", "DNS:operator")
        agent = self.start(identity=good, client_ca=self.authority.cert)
        port = agent.resp_address[1]
        shown = ("--ca", self.authority.cert, "--cert", good[0], "--key", good[1])
        for address in (f"localhost:{port}", f"rediss://127.0.0.1:{port}"):
            answer = self.kovactl("take", "p", "k", "--agent", address, *shown)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            answer = self.kovactl("--agent", address, *shown, "policies", "--json")  # learns the HTTP address
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn('"p"', answer.stdout)
            answer = self.kovactl("doctor", "--agent", address, *shown)
            self.assertIn("HTTP", answer.stdout)
            self.assertNotIn("TLS:", answer.stdout + answer.stderr)

        answer = self.kovactl("take", "p", "k", "--agent", f"localhost:{port}")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("speaks TLS only", answer.stderr)
        self.assertIn("--ca FILE", answer.stderr)
        other = certificates.Authority(self.directory, "other")
        answer = self.kovactl("take", "p", "k", "--agent", f"localhost:{port}", "--ca", other.cert)
        self.assertEqual(answer.returncode, 3)
        self.assertIn("certificate verify failed", answer.stderr)
        answer = self.kovactl("take", "p", "k", "--agent", f"localhost:{port}", "--cert", good[0])
        self.assertEqual(answer.returncode, 2)


class Refusals(Tls):
    def test_plain_text_on_a_port_of_tls(self):
        agent = self.start()
        self.assertIn("this port speaks TLS only", self.redis_cli(agent, "PING").stdout)
        answer = self.curl(agent, scheme="http")
        self.assertIn("HTTP/1.1 400 ", answer.stdout)
        self.assertIn("this port speaks HTTPS only", answer.stdout)
        with socket.create_connection(agent.grpc_address, harness.PATIENCE) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            said = b""
            while data := client.recv(4096):
                said += data
        self.assertEqual(said, b"\0\0\0\4" + bytes(5) + b"\0\0\x21\7" + bytes(5) + bytes(4) + b"\0\0\0\x0cthis port speaks TLS only")
        self.counted(agent, "plain_text", 2)
        self.assertEqual(agent.call("PING"), "PONG")

    def test_tls_on_a_plain_port(self):
        agent = self.start_agent({"policies": POLICIES})
        for address in (agent.resp_address, agent.http_address):
            with self.assertRaisesRegex(ssl.SSLError, "(?i)wrong.version.number|record.layer.failure"):
                with socket.create_connection(address, harness.PATIENCE) as client:
                    self.tls.wrap_socket(client, server_hostname="localhost")
        self.assertEqual(agent.call("PING"), "PONG")

    def test_a_client_that_believes_another_authority(self):
        agent = self.start()
        other = certificates.Authority(self.directory, "other")
        answer = self.redis_cli(agent, "--tls", "--cacert", other.cert, "PING")
        self.assertIn("certificate verify failed", answer.stderr + answer.stdout)
        answer = self.curl(agent, "--cacert", other.cert)
        self.assertEqual(answer.returncode, 60, answer.stderr)
        self.counted(agent, "refused", 1)
        self.assertIn('"reason":"refused","why":"tlsv1 alert unknown ca"', agent.log())

    def test_clients_certificates(self):
        other = certificates.Authority(self.directory, "other")
        good = self.authority.issue("worker", "URI:spiffe://acme/worker")
        agent = self.start(identity=good, client_ca=self.authority.cert)
        answer = self.redis_cli(agent, "--tls", "--cacert", self.authority.cert, "--cert", good[0], "--key", good[1],
                                "PING")
        self.assertEqual(answer.stdout.strip(), "PONG", answer.stderr)
        answer = self.curl(agent, "--cacert", self.authority.cert, "--cert", good[0], "--key", good[1])
        self.assertIn('"allowed":true', answer.stdout)

        answer = self.curl(agent, "--cacert", self.authority.cert)
        self.assertIn("certificate required", answer.stderr)
        self.counted(agent, "no_certificate")
        bad = other.issue("stranger", "URI:spiffe://acme/worker")
        answer = self.curl(agent, "--cacert", self.authority.cert, "--cert", bad[0], "--key", bad[1])
        self.assertIn("unknown ca", answer.stderr)
        self.counted(agent, "certificate")
        late = self.authority.issue("late", "URI:spiffe://acme/worker", days=-1)
        answer = self.curl(agent, "--cacert", self.authority.cert, "--cert", late[0], "--key", late[1])
        self.assertIn("certificate expired", answer.stderr)
        self.counted(agent, "certificate_expired")

    def test_old_versions(self):
        agent = self.start(min_version="1.3")
        answer = self.curl(agent, "--cacert", self.authority.cert, "--tls-max", "1.2")
        self.assertIn("protocol version", answer.stderr)
        self.counted(agent, "version")

    def test_errors_of_the_configuration(self):
        late = self.authority.issue("late", days=-1)
        for tls, says in (({"cert": self.cert}, "`tls` needs both `cert` and `key`"),
                          ({"cert": self.cert, "key": "none.key"}, "`key`: .*none.key: No such file"),
                          ({"cert": self.key, "key": self.key}, "`cert`: .*there is no certificate in PEM"),
                          ({"cert": self.cert, "key": self.authority.key}, "`key`: .*the key is not the certificate's"),
                          ({"cert": late[0], "key": late[1]}, "the certificate has expired at 2020-02-01"),
                          ({"cert": self.cert, "key": self.key, "client_auth": "required"}, "needs `client_ca`"),
                          ({"cert": self.cert, "key": self.key, "fronts": ["rest"]}, "must hold `resp`, `http` or `grpc`"),
                          ({"cert": self.cert, "key": self.key, "min_version": "1.1"}, "one of `1.2` `1.3`")):
            answer = self.run_agent("--check-config", config={"tls": tls})
            self.assertEqual(answer.returncode, 1, says)
            self.assertRegex(answer.stderr + answer.stdout, says)


class Reloads(Tls):
    def expiry(self, agent):
        text = agent.http("GET", "/metrics").body.decode()
        return {front: float(value) for front, value in
                re.findall(r'kova_tls_certificate_expiry_seconds{front="(\w+)"} (\S+)', text)}

    def test_a_new_certificate_under_load_and_a_bad_one(self):
        agent = self.start()
        before = self.expiry(agent)
        self.assertEqual(set(before), {"resp", "http", "grpc"})
        self.assertLess(abs(before["resp"] - time.time() - 2 * 86400), 3600)
        stop, asked, errors = threading.Event(), [0, 0], []

        def stay():
            with agent.resp() as connection:
                while not stop.is_set():
                    asked[0] += connection.call("KOVA.TAKE", "p", "k")[0]

        def come_and_go():
            while not stop.is_set():
                asked[1] += agent.http("POST", "/v1/take", TAKE).status == 200

        def run(work):
            try:
                work()
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in (stay, come_and_go)]
        with agent.resp() as old:
            for thread in threads:
                thread.start()
            for days in (3, 4, 5):
                self.authority.issue("kova", days=days)
                agent.send_signal(signal.SIGHUP)
                harness.wait_for(lambda d=days: abs(self.expiry(agent)["grpc"] - time.time() - d * 86400) < 3600,
                                 "the new certificate")
            self.assertEqual(old.call("PING"), "PONG")
        seen = [n + 5 for n in asked]
        harness.wait_for(lambda: errors or all(n > s for n, s in zip(asked, seen)), "requests after the last one")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

        self.authority.issue("kova", days=-1)
        agent.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: "the certificate has expired at 2020-02-01" in agent.log(), "why it is not taken")
        self.assertIn("nothing was changed", agent.log())
        self.assertEqual(agent.call("PING"), "PONG")
        self.assertGreater(self.expiry(agent)["resp"], time.time())

    def test_other_terms_for_clients(self):
        good = self.authority.issue("worker", "DNS:worker")
        agent = self.start(identity=good)
        bare = self.tls
        with harness.Resp(agent.resp_address, tls=bare) as old:
            agent.config["tls"]["client_ca"] = self.authority.cert
            agent.reload(agent.config)

            def refused():
                try:
                    with harness.Resp(agent.resp_address, tls=bare) as connection:
                        connection.call("PING")
                    return False
                except (ssl.SSLError, ConnectionError):
                    return True
            harness.wait_for(refused, "clients without a certificate refused")
            self.assertEqual(old.call("PING"), "PONG")
        self.assertEqual(agent.call("PING"), "PONG")


class Floods(Tls):
    def memory_kb(self, agent):
        with open(f"/proc/{agent.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def hello(self):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self.tls.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        except ssl.SSLWantReadError:
            pass
        return outgoing.read()

    def test_handshakes_that_are_never_finished(self):
        """More than may be under way: others get through all the same, and what they hold is bounded."""
        agent = self.start()
        hello, clients = self.hello(), []
        before = self.memory_kb(agent)
        for _ in range(900):
            client = socket.create_connection(agent.resp_address, harness.PATIENCE)
            client.sendall(hello)
            clients.append(client)
        self.assertEqual(agent.call("PING"), "PONG")  # stands in line until slow ones end
        self.assertGreater(self.failures(agent, "crowded"), 0)
        if not harness.SANITIZED:
            self.assertLess(self.memory_kb(agent) - before, 100 * 1024)
        for client in clients:
            client.close()
        harness.wait_for(lambda: 'kova_connections 1\n' in agent.http("GET", "/metrics").body.decode(), "all gone")

    def test_garbage(self):
        agent = self.start()
        for number in range(300):
            data = os.urandom(1 + number * 7)
            if number % 3:
                data = b"\x16\x03\x01" + len(data).to_bytes(2, "big") + data
            with socket.create_connection((agent.resp_address, agent.http_address, agent.grpc_address)[number % 3],
                                          harness.PATIENCE) as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                try:
                    while client.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(agent.call("PING"), "PONG")


if __name__ == "__main__":
    harness.main()
