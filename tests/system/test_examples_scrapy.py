"""examples/scrapy: a real Scrapy crawls a site that limits and bans by address, through proxies that the pool gives it."""
# Mostly waits.
import json
import os
import subprocess
import time

import crawl
import examples
import harness

SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"

    def __init__(self, first):
        super().__init__(start_urls=[first])

    def parse(self, response):
        yield {"path": response.url.split("/", 3)[3], "by": response.meta.get("kova_endpoint")}
        yield from response.follow_all(css="a")
"""


def page(links=()):
    return b"<html><body>a page " + b"".join(b'<a href="/%s">x</a>' % link.encode() for link in links) + b"</body></html>"


class Scrapy(examples.Case):
    def setUp(self):
        examples.installed("examples_python")
        super().setUp()
        self.spider = os.path.join(self.directory, "pages.py")
        with open(self.spider, "w", encoding="ascii") as file:
            file.write(SPIDER)

    def start_crawl(self, site, agent, concurrency=8, **settings):
        self.items, self.said = os.path.join(self.directory, "items.jsonl"), os.path.join(self.directory, "scrapy.log")
        settings = {"KOVA_URL": "http://%s:%d" % agent.http_address, "KOVA_TOKEN": examples.TOKEN,
                    "DOWNLOADER_MIDDLEWARES": '{"kova_pool.KovaPoolMiddleware": 585}',
                    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor", "TELNETCONSOLE_ENABLED": 0,
                    "CONCURRENT_REQUESTS": concurrency, "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency, "RETRY_TIMES": 10, **settings}
        command = [examples.PYTHON, "-m", "scrapy", "runspider", self.spider, "-o", self.items, "-a", f"first={site.url}/"]
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        return self.keep(harness.Process(command, self.said, cwd=self.directory,
                                         env={"PYTHONPATH": os.path.join(examples.EXAMPLES, "scrapy")}))

    def end(self, crawler, agent):
        """What it has crawled, by path, and by which endpoint."""
        self.assertEqual(crawler.wait(harness.PATIENCE * 3), 0, crawler.log()[-3000:])
        self.no_secrets(crawler.log(), agent.log())
        self.assertNotIn("Traceback", crawler.log())
        with open(self.items, encoding="utf-8") as file:
            return {item["path"]: item["by"] for item in map(json.loads, file)}

    def paths(self, n):
        return [str(i) for i in range(1, n + 1)]

    def test_a_crawl_stays_below_the_limits_and_leaves_a_banned_proxy(self):
        # The site gives so many pages a second, and none at all to one of four addresses.
        pages, concurrency, slots, threshold, rate, burst = 36, 8, 2, 3, 12, 5
        for name in ("a", "b", "c", "banned"):
            self.proxy(name)
        banned = self.proxies["banned"].source

        def answer(address, path, _):
            if address == banned:
                return 403, b"banned", {}
            if sum(hit.at > time.monotonic() - 1 for hit in site.hits) >= burst + rate + concurrency:
                return 429, b"too fast", {"Retry-After": "1"}
            if path == "/moved":
                return 302, b"", {"Location": "/1?moved"}
            return 200, page([*self.paths(pages), "moved"] if path == "/" else ()), {}

        site = self.keep(crawl.Site(answer))
        agent = self.start_agent(self.config([self.endpoint(name, slots=slots) for name in self.proxies],
                                             site={"limit": rate, "burst": burst}, threshold=threshold, cooldown={"base": "10m"}))
        crawled = self.end(self.start_crawl(site, agent, concurrency), agent)
        self.assertEqual(set(crawled), {"", "1?moved", *self.paths(pages)})
        self.assertEqual(set(crawled.values()), {"a", "b", "c"})
        self.assertEqual([hit for hit in site.hits if hit.status == 429], [], "the site's own limit is not met")
        for seconds in (0.5, 1, 2):
            self.assertLessEqual(site.most_in(seconds, site.hits), burst + rate * seconds + concurrency, f"in {seconds} s")
        # Those that were on their way when the last failure was reported, and no more.
        self.assertLessEqual(len(site.by(banned)), threshold + slots - 1)
        self.assertEqual(self.outcomes(agent), {"ok": pages + 3, "blocked": len(site.by(banned))})
        shown = self.shown(agent)
        self.assertEqual([t["target"] for t in shown["banned"]["targets"]], ["127.0.0.1"])
        self.assertEqual(sum(e["in_flight"] for e in shown.values()), 0, "every ticket was reported")

    def test_a_proxy_is_not_used_before_its_retry_after_is_over(self):
        pages = 24
        for name in ("a", "limited"):
            self.proxy(name)
        limited = self.proxies["limited"].source

        def answer(address, path, _):
            if address == limited and 3 <= len(site.by(limited)) < 5:
                return 429, b"too many", {"Retry-After": "2"}
            return 200, page(self.paths(pages) if path == "/" else ()), {}

        site = self.keep(crawl.Site(answer))
        agent = self.start_agent(self.config([self.endpoint(name, slots=1) for name in self.proxies],
                                             site={"limit": 6, "burst": 1}, threshold=2, cooldown={"base": "10m", "jitter": 0}))
        crawled = self.end(self.start_crawl(site, agent), agent)
        self.assertEqual(set(crawled), {"", *self.paths(pages)})
        hits = site.by(limited)
        self.assertEqual([hit.status for hit in hits[:6]], [200] * 3 + [429] * 2 + [200], "it came back")
        self.assertGreaterEqual(hits[5].at - hits[4].at, 2)
        self.assertEqual(self.outcomes(agent), {"ok": pages + 1, "blocked": 2})

    def test_without_an_agent(self):
        self.proxy("a")
        site = self.keep(crawl.Site(lambda *_: (200, page(), {})))
        agent = self.start_agent(self.config([self.endpoint("a")]))
        agent.stop()
        crawled = self.end(self.start_crawl(site, agent, KOVA_PATIENCE=1), agent)
        self.assertEqual((crawled, site.hits), ({}, []), "nothing goes out uncounted")
        crawled = self.end(self.start_crawl(site, agent, KOVA_WHEN_AWAY="direct"), agent)
        self.assertEqual((crawled, len(site.by("127.0.0.1"))), ({"": None}, 1))

    def test_an_agent_that_comes_back(self):
        self.proxy("a")
        site = self.keep(crawl.Site(lambda *_: (200, page(), {})))
        agent = self.start_agent(self.config([self.endpoint("a")]))
        agent.stop()
        crawler = self.start_crawl(site, agent)
        harness.wait_for(lambda: "paused: the agent is away" in crawler.log(), "a crawler that waits")
        agent = self.start_agent(agent.config, directory=agent.directory)
        self.assertEqual(self.end(crawler, agent), {"": "a"})
        self.assertEqual(len(site.by(self.proxies["a"].source)), 1)

    def test_an_endpoint_that_is_no_http_proxy_is_not_to_blame(self):
        site = self.keep(crawl.Site(lambda *_: (200, page(), {})))
        address = f"127.0.0.1:{harness.free_port()}"
        agent = self.start_agent(self.config([self.endpoint("only", address, scheme="socks5h")]))
        crawler = self.start_crawl(site, agent)
        self.assertEqual(crawler.wait(harness.PATIENCE * 3), 0, crawler.log()[-3000:])
        self.no_secrets(crawler.log(), agent.log())
        self.assertIn("endpoint only: Scrapy serves http:// proxies only", crawler.log())
        self.assertEqual((site.hits, self.outcomes(agent)), ([], {"cancelled": 1}))


if __name__ == "__main__":
    harness.main()
