"""TLS and tokens of a coordinator's HTTP, by real clients: who is let in, who is not and reads why, and what changes by SIGHUP."""
# Mostly waits.
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time

import certificates
import coordinator
import harness

TOKEN = "tok-5ecret-value-of-ops"
GUARDED = ("/metrics", "/v1/members", "/v1/stream")
OPEN = ("/healthz", "/readyz", "/")


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.authority = certificates.Authority(self.directory)
        self.cert, self.key = self.authority.issue("kova")
        self.tls = self.authority.context()
        self.tokens = os.path.join(self.directory, "tokens")
        self.write_tokens(f"ops {TOKEN} check")

    def write_tokens(self, *lines):
        with open(self.tokens, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def config(self, tokens=True, **tls):
        """What needs no broker: it is never ready, and serves HTTP all the same."""
        config = {"node": "c", "kafka": {"bootstrap": f"127.0.0.1:{harness.free_port()}"},
                  "http": f"127.0.0.1:{harness.free_port()}", "tls": {"cert": self.cert, "key": self.key, **tls}}
        if tokens:
            config["auth"] = {"tokens_file": self.tokens}
        return config

    def start(self, config=None, **more):
        daemon = self.keep(coordinator.Coordinator(self.directory, config or self.config(**more)))
        harness.wait_for(lambda: '"listening"' in daemon.log() or not daemon.running(), "a coordinator that listens")
        self.assertTrue(daemon.running(), daemon.log())
        return daemon

    def get(self, daemon, path, token=None, tls=None):
        return harness.http_request(daemon.http_address, "GET", path, headers=bearer(token) if token else {}, tls=tls or self.tls)

    def reload(self, daemon, *more):
        count = daemon.log().count('"event":"reload')
        daemon.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: daemon.log().count('"event":"reload') > count, "the file read again")
        for text in more:
            self.assertIn(text, daemon.log())

    def check(self, config):
        path = os.path.join(self.directory, "check.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return subprocess.run([harness.program("kova-coordinator"), "--config", path, "--check-config"], capture_output=True,
                              text=True, check=False)


class Tokens(Case):
    def test_good_wrong_and_none(self):
        daemon = self.start()
        for path in OPEN:
            self.assertIn(self.get(daemon, path).status, (200, 503), path)
        for path in GUARDED:
            answer = self.get(daemon, path)
            self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, "Bearer"), path)
            self.assertEqual(json.loads(answer.body)["detail"], "the field `Authorization: Bearer TOKEN` is needed")
            for wrong in (TOKEN + "x", TOKEN[:-1], "x" * 300):
                answer = self.get(daemon, path, wrong)
                self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, 'Bearer error="invalid_token"'))
                self.assertNotIn(wrong, answer.body.decode())
        self.assertIn("kova_tls_handshakes_total", self.get(daemon, "/metrics", TOKEN).body.decode())
        self.assertEqual(self.get(daemon, "/v1/members", TOKEN).status, 404)  # there is no gossip
        with self.tls.wrap_socket(socket.create_connection(daemon.http_address, harness.PATIENCE),
                                  server_hostname="localhost") as viewer:
            viewer.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            said = b""
            while said.count(b"event: stats") < 3:
                data = viewer.recv(65536)
                self.assertNotEqual(data, b"", said)
                said += data
        self.assertTrue(said.startswith(b"HTTP/1.1 200 OK\r\n"), said[:200])
        texts = [said.decode(), daemon.log()]
        texts += [self.get(daemon, path, TOKEN).body.decode() for path in ("/metrics", "/v1/members", "/readyz", "/")]
        with open(f"/proc/{daemon.pid}/cmdline", encoding="utf-8") as file:
            texts.append(file.read())
        for text in texts:
            self.assertNotIn(TOKEN, text)
        self.assertEqual(daemon.stop(), 0, daemon.log())

    def test_they_change_by_a_reload_all_or_nothing(self):
        daemon = self.start()
        self.assertEqual(self.get(daemon, "/metrics", TOKEN).status, 200)  # it runs, and hears signals
        self.write_tokens("ops another-token-of-ops")
        self.reload(daemon)
        self.assertEqual(self.get(daemon, "/metrics", TOKEN).status, 401)
        self.assertEqual(self.get(daemon, "/metrics", "another-token-of-ops").status, 200)
        self.write_tokens("ops twice-the-same", "dev twice-the-same")
        self.reload(daemon, "nothing was changed", "the same token as in line 1")
        self.assertEqual(self.get(daemon, "/metrics", "another-token-of-ops").status, 200)
        self.assertNotIn("twice-the-same", daemon.log())

    def test_what_may_listen_beyond_loopback(self):
        address = f"0.0.0.0:{harness.free_port()}"
        for more, fault in (({}, "`http` listens beyond loopback: that needs `auth`"), ({"auth": {"tokens_file": self.tokens}}, None),
                            ({"insecure": True}, None)):
            config = {"kafka": {"bootstrap": "127.0.0.1:9"}, "http": address, **more}
            answer = self.check(config)
            self.assertEqual(answer.returncode, 1 if fault else 0, answer.stdout + answer.stderr)
            self.assertIn(fault or "", answer.stdout + answer.stderr)
        daemon = self.start({**self.config(), "http": address, "tls": {"cert": self.cert, "key": self.key}})
        self.assertNotIn("plain_text", daemon.log())
        daemon.stop()
        daemon = self.start({"node": "c", "kafka": {"bootstrap": "127.0.0.1:9"}, "http": address, "auth": {"tokens_file": self.tokens}})
        harness.wait_for(lambda: "plain_text" in daemon.log(), "a warning of tokens in the clear")
        daemon.stop()
        for auth, loud in ((True, False), (False, True)):  # `insecure` with tokens leaves nothing open
            config = {"node": "c", "kafka": {"bootstrap": "127.0.0.1:9"}, "http": address, "insecure": True}
            daemon = self.keep(coordinator.Coordinator(self.subdirectory(f"auth-{auth}"), {
                **config, **({"auth": {"tokens_file": self.tokens}} if auth else {})}))
            harness.wait_for(lambda log=daemon.log: '"listening"' in log(), "a coordinator that listens")
            daemon.stop()
            self.assertEqual("INSECURE" in daemon.log(), loud)

    def test_a_reload_opens_nothing(self):
        port = harness.free_port()
        config = {"node": "c", "kafka": {"bootstrap": "127.0.0.1:9"}, "http": f"0.0.0.0:{port}", "auth": {"tokens_file": self.tokens}}
        daemon = self.keep(coordinator.Coordinator(self.directory, config))
        harness.wait_for(lambda: '"listening"' in daemon.log() or not daemon.running(), "a coordinator that listens")
        del config["auth"]
        for http in (f"127.0.0.1:{port}", None):
            daemon.write_config({**config, "http": http})
            self.reload(daemon, "nothing was changed", f"0.0.0.0:{port} is beyond loopback and stays open until the next start")
            self.assertEqual(daemon.http("/metrics").status, 401)
        daemon.write_config({**config, "insecure": True})
        self.reload(daemon)
        self.assertEqual(daemon.http("/metrics").status, 200)


class Connections(Case):
    def failures(self, daemon, reason, **how):
        text = self.get(daemon, "/metrics", **how).body.decode()
        return int(re.search(rf'kova_tls_failures_total{{reason="{reason}"}} (\d+)', text).group(1))

    def test_plain_text_on_the_port(self):
        daemon = self.start(tokens=False)
        answer = harness.http_request(daemon.http_address, "GET", "/healthz")
        self.assertEqual((answer.status, json.loads(answer.body)["detail"]), (400, "this port speaks HTTPS only"))
        self.assertEqual(self.failures(daemon, "plain_text"), 1)

    def test_versions_and_what_is_spoken_inside(self):
        daemon = self.start(tokens=False)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.authority.context()
            context.minimum_version = context.maximum_version = version
            self.assertEqual(self.get(daemon, "/healthz", tls=context).status, 200)
        context = self.authority.context()
        context.set_alpn_protocols(["h2"])
        with self.assertRaises(ssl.SSLError):
            self.get(daemon, "/healthz", tls=context)
        self.assertEqual(self.failures(daemon, "alpn"), 1)

    def test_certificates_of_clients(self):
        daemon = self.start(tokens=False, client_ca=self.authority.cert)
        good = self.authority.context(self.authority.issue("prometheus", "DNS:prometheus"))
        self.assertEqual(self.get(daemon, "/metrics", tls=good).status, 200)
        other = certificates.Authority(self.directory, "other")
        stranger = self.authority.context(other.issue("stranger", "DNS:prometheus"))
        for context in (self.tls, stranger):
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.get(daemon, "/healthz", tls=context)
        for reason in ("no_certificate", "certificate"):
            harness.wait_for(lambda r=reason: self.failures(daemon, r, tls=good) > 0, f"a failure counted as {reason}")


class Certificates(Case):
    def expiry(self, daemon, tls=None):
        text = self.get(daemon, "/metrics", TOKEN, tls).body.decode()
        return {front: float(value) for front, value in
                re.findall(r'kova_tls_certificate_expiry_seconds{front="(\w+)"} (\S+)', text)}

    def test_a_new_one_a_bad_one_and_none(self):
        daemon = self.start()
        self.assertEqual(set(self.expiry(daemon)), {"http"})
        with self.tls.wrap_socket(socket.create_connection(daemon.http_address, harness.PATIENCE),
                                  server_hostname="localhost") as old:
            self.authority.issue("kova", days=5)
            self.reload(daemon)
            self.assertLess(abs(self.expiry(daemon)["http"] - time.time() - 5 * 86400), 3600)
            old.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b"200 OK", old.recv(4096))  # established before: it goes on
        self.authority.issue("kova", days=-1)
        self.reload(daemon, "the certificate has expired at 2020-02-01", "nothing was changed")
        self.assertGreater(self.expiry(daemon)["http"], time.time())
        config = self.config()
        config.update(http=f"127.0.0.1:{daemon.http_address[1]}", kafka={"bootstrap": "127.0.0.1:9"})
        del config["tls"]
        daemon.write_config(config)
        self.reload(daemon, '"option":"tls"')
        self.assertEqual(self.get(daemon, "/metrics", TOKEN).status, 200)

    def test_errors_of_the_configuration(self):
        for tls, says in (({"key": None}, "`tls` needs both `cert` and `key`"),
                          ({"key": self.authority.key}, "`key`: .*the key is not the certificate's"),
                          ({"client_auth": "required"}, "needs `client_ca`"), ({"fronts": ["http"]}, "unknown field `fronts`")):
            config = self.config(**tls)
            config["tls"] = {name: value for name, value in config["tls"].items() if value is not None}
            answer = self.check(config)
            self.assertEqual(answer.returncode, 1, says)
            self.assertRegex(answer.stdout + answer.stderr, says)


if __name__ == "__main__":
    harness.main()
