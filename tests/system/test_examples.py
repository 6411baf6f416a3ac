"""examples/ in Python, Node.js, Go and shell: each fetches pages by proxies of every kind of trouble, and reports them rightly."""
# Mostly waits.
import os
import subprocess

import crawl
import examples
import harness

TARGET = "127.0.0.1"


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


class Python(Fetchers, examples.Case):
    client = "examples_python"
    command = [examples.PYTHON, os.path.join(examples.EXAMPLES, "python", "fetch.py")]


class Node(Fetchers, examples.Case):
    client = "examples_node"
    command = ["node", "fetch.mjs"]
    cwd = os.path.join(examples.CLIENTS, client)


class Go(Fetchers, examples.Case):
    client = "examples_go"
    command = [os.path.join(examples.CLIENTS, "examples_go_fetch")]


class Shell(Fetchers, examples.Case):
    client = None
    command = [os.path.join(examples.EXAMPLES, "shell", "fetch.sh")]

    def setUp(self):
        harness.require("curl")
        super().setUp()


if __name__ == "__main__":
    harness.main()
