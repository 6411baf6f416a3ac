"""examples/ in Python, Node.js, Go and shell: each fetches pages by proxies of every kind of trouble, and reports them rightly."""
# Mostly waits.
import os
import socketserver
import subprocess

import crawl
import examples
import exits
import harness

TARGET = "127.0.0.1"


class NoTLS(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class Fetchers:
    """What each of the four must do; a class says how it is started."""

    def run_example(self, agent, *urls, wait_ms=30000, **env):
        done = subprocess.run(
            [*self.command, *urls], capture_output=True, text=True, check=False, timeout=harness.PATIENCE * 3, cwd=self.cwd,
            env={**os.environ, "KOVA_URL": "http://%s:%d" % agent.http_address, "KOVA_AGENT": "%s:%d" % agent.resp_address,
                 "KOVA_TOKEN": examples.TOKEN, "KOVA_WAIT_MS": str(wait_ms), "KOVA_WAIT": f"{wait_ms // 1000}s",
                 "PATH": f"{harness.BUILD}:{os.environ['PATH']}",
                 "REQUESTS_CA_BUNDLE": self.cert[0], "NODE_EXTRA_CA_CERTS": self.cert[0], "SSL_CERT_FILE": self.cert[0],
                 "CURL_CA_BUNDLE": self.cert[0], **env})
        self.no_secrets(done.stdout, done.stderr, agent.log())
        return done

    cwd = None

    def setUp(self):
        if self.client:
            examples.installed(self.client)
        super().setUp()
        self.cert = crawl.certificate(self.directory)

    def site(self, answer=lambda *_: (200, b"a page", {})):
        return self.keep(crawl.Site(answer, self.cert))

    def test_each_kind_of_trouble_is_reported_as_what_it_is(self):
        for name in ("good", "fine", "banned"):
            self.proxy(name)
        self.proxy("tunnel", tunnel_status=502)
        self.proxy("auth")
        banned = self.proxies["banned"].source
        site = self.site(lambda address, *_: (403, b"go away", {}) if address == banned else (200, b"a page", {}))
        endpoints = [self.endpoint(name) for name in ("good", "banned", "tunnel", "fine")]
        endpoints += [self.endpoint("auth", password="another"), self.endpoint("gone", f"127.0.0.1:{harness.free_port()}")]
        agent = self.start_agent(self.config(endpoints, threshold=2, cooldown={"base": "10m"}))
        pages = [f"{site.url}/{i}" for i in range(14)]
        done = self.run_example(agent, *pages)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([(l[0], l[1], l[2]) for l in lines], [("200", page, "6") for page in pages])
        self.assertEqual({l[4] for l in lines}, {"good", "fine"})
        self.assertEqual(self.outcomes(agent), {"ok": 14, "blocked": 2, "tunnel": 2, "auth": 2, "refused": 2})
        # What cools is not used again: two failures each, and no third request.
        self.assertEqual(len(site.by(banned)), 2)
        shown = self.shown(agent)
        self.assertEqual({name for name, e in shown.items() if e["state"] == "cooldown"}, {"tunnel", "auth", "gone"})
        self.assertEqual([t["target"] for t in shown["banned"]["targets"]], [TARGET])
        self.assertEqual(sum(e["in_flight"] for e in shown.values()), 0, "every ticket was reported")

    def test_retry_after_is_handed_over_and_who_can_not_wait_is_told(self):
        self.proxy("only")
        site = self.site(lambda *_: (429, b"later", {"Retry-After": "100"}))
        agent = self.start_agent(self.config([self.endpoint("only")], threshold=2, cooldown={"base": "10s", "jitter": 0},
                                             blame={"max_out": 1}))
        done = self.run_example(agent, site.url + "/", wait_ms=0)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertIn("paused: cooling, retry in ", done.stderr)
        self.assertEqual((len(site.hits), self.outcomes(agent)), (2, {"blocked": 2}))
        (at,) = self.shown(agent)["only"]["targets"]
        self.assertTrue(10000 < at["returns_in_ms"] <= 100000, at)

    def test_a_batch_job_waits(self):
        self.proxy("only")
        site = self.site(lambda *_: (429, b"later", {"Retry-After": "2"}) if len(site.hits) < 2 else (200, b"a page", {}))
        agent = self.start_agent(self.config([self.endpoint("only")], threshold=2, cooldown={"base": "10m", "jitter": 0},
                                             blame={"max_out": 1}))
        done = self.run_example(agent, site.url + "/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.outcomes(agent), {"blocked": 2, "ok": 1})
        first, second, third = (hit.at for hit in site.hits)
        self.assertGreaterEqual(third - second, 2)

    def test_without_an_agent(self):
        self.proxy("only")
        site = self.site()
        agent = self.start_agent(self.config([self.endpoint("only")]))
        agent.stop()
        done = self.run_example(agent, site.url + "/", wait_ms=0)
        self.assertEqual((done.returncode, site.hits, done.stdout), (69, [], ""), done.stderr)
        done = self.run_example(agent, site.url + "/", wait_ms=0, KOVA_WHEN_AWAY="direct")
        self.assertEqual((done.returncode, done.stdout.split()[0], done.stdout.split()[-1]), (0, "200", "direct"), done.stderr)
        self.assertEqual(len(site.by("127.0.0.1")), 1)

    def fails(self, agent, url, what, **env):
        """It stops, and says what is wrong in a line of its own."""
        done = self.run_example(agent, url, **env)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(what, done.stderr.splitlines()[-1])

    def test_a_site_without_a_right_certificate_is_no_page(self):
        self.proxy("only")
        site = self.keep(crawl.Site(lambda *_: (200, b"a page", {}), crawl.certificate(self.subdirectory("another"))))
        plain = self.keep(crawl.Server(NoTLS))
        agent = self.start_agent(self.config([self.endpoint("only")]))
        for already, url in enumerate((site.url, f"https://{plain.address}")):
            self.fails(agent, url + "/", "target: ")
            self.assertEqual((site.hits, self.outcomes(agent)), ([], {"target": already + 1}))

    def test_an_endpoint_of_a_scheme_that_it_does_not_serve_is_not_to_blame(self):
        there = f"127.0.0.1:{harness.free_port()}" if self.unserved != "direct" else ""
        agent = self.start_agent(self.config([{"id": "other", "url": f"{self.unserved}://{there}"}]))
        self.fails(agent, self.site().url + "/", "cancelled: ")
        self.assertEqual(self.outcomes(agent), {"cancelled": 1})

    def test_nobody_is_to_blame_for_a_redirect_to_what_is_no_page(self):
        self.proxy("only")
        site = self.site(lambda *_: (302, b"", {"Location": "market://app"}))
        agent = self.start_agent(self.config([self.endpoint("only")]))
        self.fails(agent, site.url + "/", "cancelled: ")
        self.assertEqual((len(site.hits), self.outcomes(agent)), (1, {"cancelled": 1}))

    def test_the_proxies_of_the_environment_count_nowhere(self):
        self.proxy("only")
        site, gone = self.site(), f"http://127.0.0.1:{harness.free_port()}"
        agent = self.start_agent(self.config([self.endpoint("only")]))
        done = self.run_example(agent, site.url + "/", NO_PROXY="*")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([hit.address for hit in site.hits], [self.proxies["only"].source])
        agent.stop()
        done = self.run_example(agent, site.url + "/", KOVA_WHEN_AWAY="direct", HTTPS_PROXY=gone, ALL_PROXY=gone)
        self.assertEqual((done.returncode, len(site.by("127.0.0.1"))), (0, 1), done.stderr)

    def test_an_agent_that_refuses_is_not_away(self):
        self.proxy("only")
        site = self.site()
        agent = self.start_agent(self.config([self.endpoint("only")]))
        self.fails(agent, site.url + "/", self.refused, KOVA_TOKEN="another", KOVA_WHEN_AWAY="direct")
        self.assertEqual(site.hits, [])


class Socks:
    """Of those that serve SOCKS."""

    def test_an_endpoint_that_speaks_socks(self):
        proxy = self.keep(exits.Exit(names={"site.test": "127.0.0.1"}, credentials=(examples.USER, examples.PASSWORD)))
        site = self.keep(crawl.Site(lambda *_: (200, b"a page", {})))
        agent = self.start_agent(self.config([self.endpoint("only", f"127.0.0.1:{proxy.port}", scheme="socks5h")]))
        done = self.run_example(agent, site.url.replace("127.0.0.1", "site.test") + "/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((proxy.asked, len(site.hits)), ([("socks5h", "site.test", examples.USER)], 1))


class Python(Fetchers, examples.Case):
    client = "examples_python"
    command = [examples.PYTHON, os.path.join(examples.EXAMPLES, "python", "fetch.py")]
    unserved, refused = "socks5h", "the agent answers 401"  # PySocks is not installed


class ThirtyLines(examples.Case):
    def fetch(self, agent, url):
        done = subprocess.run(
            [examples.PYTHON, os.path.join(examples.EXAMPLES, "python", "thirty_lines.py"), url], capture_output=True, text=True,
            check=False, timeout=harness.PATIENCE * 3,
            env={**os.environ, "KOVA_URL": "http://%s:%d" % agent.http_address, "KOVA_TOKEN": examples.TOKEN,
                 "SSL_CERT_FILE": self.cert[0]})
        self.no_secrets(done.stdout, done.stderr, agent.log())
        return done

    def test_each_kind_of_trouble_is_reported_as_what_it_is(self):
        examples.installed("examples_python")
        self.cert = crawl.certificate(self.directory)
        for name, more in (("good", {}), ("banned", {}), ("tunnel", {"tunnel_status": 502}), ("auth", {})):
            self.proxy(name, **more)
        banned = self.proxies["banned"].source
        site = self.keep(crawl.Site(
            lambda address, *_: (429, b"later", {"Retry-After": "100"}) if address == banned else (200, b"a page", {}), self.cert))
        endpoints = [self.endpoint(name) for name in ("good", "banned", "tunnel")]
        endpoints += [self.endpoint("auth", password="another"), self.endpoint("gone", f"127.0.0.1:{harness.free_port()}")]
        agent = self.start_agent(self.config(endpoints, threshold=2, cooldown={"base": "10s", "jitter": 0}, blame={"max_out": 1}))
        ended = [self.fetch(agent, f"{site.url}/{i}") for i in range(10)]
        self.assertEqual(sorted(done.returncode for done in ended), [0, 0] + [1] * 8, [done.stderr for done in ended])
        self.assertIn(f"200 {site.url}/0 6 by good\n", [done.stdout for done in ended])
        self.assertEqual(self.outcomes(agent), {"ok": 2, "blocked": 2, "tunnel": 2, "auth": 2, "refused": 2})
        shown = self.shown(agent)
        self.assertEqual(sum(e["in_flight"] for e in shown.values()), 0, "every ticket was reported")
        (at,) = shown["banned"]["targets"]
        self.assertTrue(10000 < at["returns_in_ms"] <= 100000, at)


class Node(Fetchers, examples.Case):
    client = "examples_node"
    command = ["node", "fetch.mjs"]
    cwd = os.path.join(examples.CLIENTS, client)
    unserved, refused = "socks5h", "the agent answers 401"


class Go(Fetchers, Socks, examples.Case):
    client = "examples_go"
    command = [os.path.join(examples.CLIENTS, "examples_go_fetch")]
    unserved, refused = "socks4", "the agent answers 401"


class Shell(Fetchers, Socks, examples.Case):
    client = None
    command = [os.path.join(examples.EXAMPLES, "shell", "fetch.sh")]
    unserved, refused = "direct", "does not know this token"

    def setUp(self):
        harness.require("curl")
        super().setUp()


if __name__ == "__main__":
    harness.main()
