"""Pages through a pool of proxies: next, use, report. Needs requests; for endpoints of socks schemes PySocks too.

usage: fetch.py URL…     prints a line for each page. Exit status 75: no endpoint now, ask again later; 69: no agent; 1: no page
KOVA_URL  KOVA_TOKEN     the agent, http://127.0.0.1:7412 unless set, and the token that it wants, if any
KOVA_WAIT_MS             how long to wait for an endpoint: 30000 fits a batch job; 0 is for where somebody waits for the answer
KOVA_WHEN_AWAY           what is done without an agent: "stop", the default, or "direct"
"""
import os
import sys
import time
from urllib.parse import urlsplit

import requests

POOL = os.environ.get("KOVA_URL", "http://127.0.0.1:7412") + "/v1/pools/exits"
WAIT_MS = int(os.environ.get("KOVA_WAIT_MS", "30000"))
TRIES = 5

# Without a page, what no other endpoint would mend.
FINAL = {"target": "no TLS with the site", "cancelled": "not a URL or not an endpoint that requests can use"}

agent = requests.Session()
agent.trust_env = False  # $HTTP_PROXY is not on the way to the agent
if os.environ.get("KOVA_TOKEN"):
    agent.headers["Authorization"] = "Bearer " + os.environ["KOVA_TOKEN"]


class Paused(Exception):
    """The pool has no endpoint now: why, and in how many ms to ask again, -1 where nobody knows."""


class Failed(Exception):
    """No endpoint got the page: what became of the last; or there is none to have."""


class Away(Exception):
    """No answer from an agent."""


def next_endpoint(target):
    try:
        answer = agent.post(f"{POOL}/next", json={"target": target, "wait_ms": WAIT_MS}, timeout=WAIT_MS / 1000 + 5)
        given = answer.json()
    except (requests.RequestException, ValueError):
        # Yours to choose: to stop keeps every limit; to go on leaves this machine's own address to the site, and nobody counts.
        if os.environ.get("KOVA_WHEN_AWAY") != "direct":
            raise Away from None
        return {"ticket": None, "address": None, "endpoint": "direct"}
    if given.get("paused"):
        raise Paused(given["paused"], given["retry_in_ms"])
    if not answer.ok:
        raise Failed(f"the agent answers {answer.status_code}")
    return given


def report(given, outcome, response=None):
    if given["ticket"] is None:
        return
    body = {"ticket": given["ticket"], "outcome": outcome}
    if response is not None:
        body.update(status=response.status_code, retry_after=response.headers.get("Retry-After"))
    try:
        agent.post(f"{POOL}/report", json={k: v for k, v in body.items() if v is not None}, timeout=5)
    except requests.RequestException:
        pass  # the ticket's lease ends by itself


def outcome_of(response):
    """What a challenge looks like depends on the site: this line is yours."""
    if response.status_code in (403, 429):
        return "blocked"
    if response.status_code == 407:
        return "auth"
    if response.status_code >= 400:
        return "target"
    return "captcha" if b"captcha" in response.content else "ok" if response.content else "empty"


def outcome_of_error(error):
    if isinstance(error, ValueError):
        return "cancelled"  # a URL or a scheme, of the page or of the endpoint, that requests does not serve
    if isinstance(error, requests.exceptions.SSLError):
        return "target"
    if isinstance(error, requests.Timeout):
        return "timeout"
    if "Tunnel connection failed" in str(error):
        return "auth" if "failed: 407" in str(error) else "tunnel"
    return "refused"


def fetch(url):
    """The page, and which endpoint got it, of TRIES at most."""
    for _ in range(TRIES):
        given, outcome, response = next_endpoint(urlsplit(url).hostname), "cancelled", None
        address = given["address"] or ""  # empty, $HTTP_PROXY does not count either
        proxies = {"http": address, "https": address}
        try:
            response = requests.get(url, proxies=proxies, timeout=(5, 30))  # no session: cookies would tie the endpoints together
            outcome = outcome_of(response)
        except requests.RequestException as error:
            outcome = outcome_of_error(error)
        finally:
            report(given, outcome, response)
        if response is not None and outcome in ("ok", "target"):
            return response, given["endpoint"]
        if outcome in FINAL:
            raise Failed(f"{outcome}: {FINAL[outcome]}")
    raise Failed(outcome)


def main():
    for url in sys.argv[1:]:
        while True:
            try:
                response, endpoint = fetch(url)
                print(response.status_code, url, len(response.content), "by", endpoint, flush=True)
                break
            except Paused as paused:
                why, retry_in_ms = paused.args
                print(f"paused: {why}, retry in {retry_in_ms / 1000} s", file=sys.stderr)
                if WAIT_MS == 0:
                    return 75
                time.sleep(max(retry_in_ms, 1000) / 1000)
            except Failed as failed:
                print(f"failed: {url}: {failed}", file=sys.stderr)
                return 1
            except Away:
                print("the agent is away", file=sys.stderr)
                return 69
    return 0


if __name__ == "__main__":
    sys.exit(main())
