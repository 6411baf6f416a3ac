"""A downloader middleware for Scrapy: each request goes out by the next endpoint of a pool, and how it went is reported.

settings.py:

    TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"      # the default since Scrapy 2.13
    DOWNLOADER_MIDDLEWARES = {"kova_pool.KovaPoolMiddleware": 585}

    KOVA_URL = "http://127.0.0.1:7412"
    KOVA_TOKEN = os.environ.get("KOVA_TOKEN")                   # what the agent wants, if anything
    KOVA_POOL = "exits"
    KOVA_WAIT_MS = 30000          # how long an agent lets a request wait for an endpoint
    KOVA_PATIENCE = 600           # seconds after which a request without one is given up
    KOVA_WHEN_AWAY = "wait"       # what is done without an agent: "wait", within that patience, or "direct"

Needs httpx. Place 585 is behind the redirects (600) and what decompresses (590), before the retries (550).
"""
import asyncio
import logging
import time

import httpx
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import IgnoreRequest, NotSupported
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.error import TCPTimedOutError, TimeoutError as TwistedTimeoutError
from twisted.web.client import ResponseFailed

logger = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)  # a line a call otherwise


class KovaPoolMiddleware:
    def __init__(self, crawler):
        get = crawler.settings.get
        token = get("KOVA_TOKEN")
        self.crawler = crawler
        self.pool = f"{get('KOVA_URL', 'http://127.0.0.1:7412')}/v1/pools/{get('KOVA_POOL', 'exits')}"
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.wait_ms = crawler.settings.getint("KOVA_WAIT_MS", 30000)
        self.patience = crawler.settings.getfloat("KOVA_PATIENCE", 600)
        self.direct_when_away = get("KOVA_WHEN_AWAY", "wait") == "direct"
        self.agent = None

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    async def ask(self, what, body, timeout):
        if self.agent is None:  # here the loop runs
            self.agent = httpx.AsyncClient(headers=self.headers, trust_env=False, limits=httpx.Limits(max_connections=None))
        return await self.agent.post(f"{self.pool}/{what}", json=body, timeout=timeout)

    async def next_endpoint(self, target):
        """None: without an endpoint."""
        until = time.monotonic() + self.patience
        while True:
            try:
                answer = await self.ask("next", {"target": target, "wait_ms": self.wait_ms}, self.wait_ms / 1000 + 5)
                given = answer.json()
                if given.get("ticket"):
                    return given
                why, wait = given.get("paused") or given["detail"], given.get("retry_in_ms", -1) / 1000
            except httpx.HTTPError:
                # Yours to choose: to wait keeps every limit; to go on leaves this machine's own address to the site, and nobody counts.
                if self.direct_when_away:
                    return None
                why, wait = "the agent is away", -1
            logger.info("paused: %s, retry in %s s", why, wait)
            wait = max(wait, 1)
            if time.monotonic() + wait > until:
                raise IgnoreRequest(f"no endpoint: {why}")
            await asyncio.sleep(wait)

    async def report(self, request, outcome, response=None):
        ticket = request.meta.pop("kova_ticket", None)
        if ticket is None:
            return
        body = {"ticket": ticket, "outcome": outcome}
        if response is not None:
            body["status"] = response.status
            if retry_after := response.headers.get("Retry-After"):
                body["retry_after"] = retry_after.decode("latin-1")
        try:
            await self.ask("report", body, 5)
        except httpx.HTTPError:
            pass  # the ticket's lease ends by itself

    async def process_request(self, request, spider=None):
        await self.report(request, "ok")  # it has a ticket yet: a redirect was the answer
        given = await self.next_endpoint(urlparse_cached(request).hostname)
        request.meta.pop("proxy", None)
        if given is not None:
            # HttpProxyMiddleware makes a header of the credentials, so that no log has them.
            request.meta.update(proxy=given["address"], kova_ticket=given["ticket"], kova_endpoint=given["endpoint"])
            if not given["address"].lower().startswith("http:"):
                raise NotSupported(f"endpoint {given['endpoint']}: Scrapy serves http:// proxies only")

    def outcome_of(self, response):
        """What a challenge looks like depends on the site: derive a class and say."""
        if "cached" in response.flags:
            return "cancelled"
        if response.status in (403, 429):
            return "blocked"
        if response.status == 407:
            return "auth"
        if response.status >= 400:
            return "target"
        return "ok" if response.body else "empty"

    def outcome_of_error(self, error):
        if isinstance(error, TunnelError):
            return "auth" if "407" in str(error) else "tunnel"
        if isinstance(error, (TwistedTimeoutError, TCPTimedOutError)):
            return "timeout"
        if isinstance(error, (OSError, ResponseFailed)) or type(error).__module__.startswith("twisted.internet.error"):
            return "refused"
        return "cancelled"  # not of the network

    async def process_response(self, request, response, spider=None):
        outcome = self.outcome_of(response)
        await self.report(request, outcome, response)
        if outcome in ("blocked", "captcha", "empty", "auth"):
            return get_retry_request(request, spider=self.crawler.spider, reason=outcome) or response
        return response

    async def process_exception(self, request, exception, spider=None):
        await self.report(request, self.outcome_of_error(exception))
