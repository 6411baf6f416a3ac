"""The shipped examples for nginx (auth_request) and HAProxy, as they are but for their addresses."""
# Mostly waits.
import http.server
import os
import threading

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
        self.agent = self.start_agent({"policies": POLICIES})
        self.port = harness.free_port()

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
        self.keep(harness.Process([binary, "-db", "-f", config], os.path.join(self.directory, "haproxy.log")))
        harness.wait_for(lambda: not harness.unused(self.port), "haproxy")
        self.check_limit()


if __name__ == "__main__":
    harness.main()
