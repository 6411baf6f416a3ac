"""The shipped examples for nginx (auth_request) and HAProxy, as they are but for their addresses."""
# Mostly waits.
import http.server
import os
import re
import threading

import certificates
import harness

POLICIES = [{"name": "login", "algorithm": "sliding-window", "limit": 5, "per": "1m"}]


class Application(http.server.BaseHTTPRequestHandler):
    """What stands behind the proxy: counts the requests that got through."""
    protocol_version = "HTTP/1.1"
    passed = 0

    def do_GET(self):
        Application.passed += 1
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"app")

    def log_message(self, *_):
        pass


class Proxies(harness.Case):
    def setUp(self):
        super().setUp()
        Application.passed = 0
        self.application = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application)
        threading.Thread(target=self.application.serve_forever, daemon=True).start()
        self.agent = self.start_agent(self.config())
        self.port = harness.free_port()

    def config(self):
        return {"policies": POLICIES}

    def tearDown(self):
        self.application.shutdown()
        self.application.server_close()
        super().tearDown()

    def example(self, *path):
        with open(os.path.join(harness.SOURCE, "deploy", *path), encoding="utf-8") as file:
            text = file.read()
        text = text.replace("127.0.0.1:7412", "%s:%d" % self.agent.http_address)
        text = text.replace("127.0.0.1:8000", "127.0.0.1:%d" % self.application.server_port)
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        return text.replace("/etc/haproxy/", self.directory + "/")

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def get(self):
        return harness.http_request(("127.0.0.1", self.port), "GET", "/page?x=1")

    def check_limit(self):
        answers = [self.get() for _ in range(8)]
        self.assertEqual([a.status for a in answers], [200] * 5 + [429] * 3)
        self.assertEqual(answers[0].body, b"app")
        self.assertEqual(Application.passed, 5)
        self.assertRegex(answers[0].headers["RateLimit"], r'^"login";r=4')
        self.assertRegex(answers[7].headers["RateLimit"], r'^"login";r=0;t=\d+')
        self.assertLessEqual(1, int(answers[7].headers["Retry-After"]))
        self.assertLessEqual(int(answers[7].headers["Retry-After"]), 60)

    def test_nginx(self):
        harness.require("nginx")
        here = self.directory
        paths = "".join(f"{kind}_temp_path {here}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = self.write("nginx.conf", f"daemon off;\npid {here}/nginx.pid;\nerror_log {here}/error.log;\n"
                            + ("user root;\n" if os.getuid() == 0 else "")
                            + "worker_processes 1;\nevents {}\nhttp {\naccess_log off;\n" + paths
                            + f"include {self.write('kova.conf', self.example('nginx', 'auth_request.conf'))};\n}}\n")
        binary = "/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else "nginx"
        nginx = self.keep(harness.Process([binary, "-p", here, "-c", config], os.path.join(here, "nginx.log")))
        harness.wait_for(lambda: harness.http_request(("127.0.0.1", self.port), "GET", "/kova/check").status == 404,
                         "nginx (the check itself is internal)")
        self.check_limit()
        self.assertEqual(nginx.stop(), 0)

    def test_haproxy(self):
        harness.require("haproxy")
        self.write("kova.lua", self.example("haproxy", "kova.lua"))
        config = self.write("haproxy.cfg", self.example("haproxy", "haproxy.cfg"))
        binary = "/usr/sbin/haproxy" if os.path.exists("/usr/sbin/haproxy") else "haproxy"
        haproxy = self.keep(harness.Process([binary, "-db", "-f", config], os.path.join(self.directory, "haproxy.log")))
        harness.wait_for(lambda: not harness.unused(self.port) or not haproxy.running(), "haproxy")
        self.assertTrue(haproxy.running(), haproxy.log())
        self.check_limit()


class ProxiesOverTls(Proxies):
    """With the lines for TLS that the examples have as comments; the proxy's certificate stands for its token."""

    def config(self):
        authority = certificates.Authority(self.directory, "kova-ca")
        cert, key = authority.issue("kova", "DNS:kova.example")
        shown = authority.issue("kova-client", "DNS:proxy.example")
        with open(shown[0], "a", encoding="ascii") as both, open(shown[1], encoding="ascii") as file:
            both.write(file.read())  # as HAProxy wants it
        self.local = harness.free_port()
        return {**super().config(), "tls": {"cert": cert, "key": key, "client_ca": authority.cert, "fronts": ["http"]},
                "auth": {"certificates": [{"name": "proxy.example", "scopes": ["check"]}]},
                "listen": {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http")}}

    def start_agent(self, config, **more):
        """Ready by what it says, as nobody here may ask it."""
        agent = super().start_agent(config, ready=False, **more)
        harness.wait_for(lambda: '"event":"started"' in agent.log(), "an agent that runs")
        return agent

    def example(self, *path):
        text = super().example(*path)
        text = re.sub(r"# (?=(proxy_ssl_\w+|proxy_set_header Authorization \"\") ?[^;\n]*;$)", "", text, flags=re.M)
        text = re.sub(r"^# (?=frontend kova$|backend kova$|    )", "", text, flags=re.M)
        text = re.sub("proxy_(connect|read)_timeout .*?;|TIMEOUT_MS = 500", lambda found: {  # a busy machine is no outage
            "T": "TIMEOUT_MS = 9000"}.get(found[0][0], f"proxy_{found[1]}_timeout 9s;"), text)
        text = text.replace("http://kova/", "https://kova/").replace("/etc/nginx/", self.directory + "/")
        if path[-1] == "kova.lua":
            text = text.replace("http://%s:%d" % self.agent.http_address, "http://127.0.0.1:7499")
        return text.replace("127.0.0.1:7499", f"127.0.0.1:{self.local}")


if __name__ == "__main__":
    harness.main()
