"""One page through a pool of proxies: next, use, report, with httpx. fetch.py does what a job needs beyond that."""
import os
import ssl
import sys
from urllib.parse import urlsplit

import httpx

POOL = os.environ.get("KOVA_URL", "http://127.0.0.1:7412") + "/v1/pools/exits"
HEADERS = {"Authorization": "Bearer " + os.environ["KOVA_TOKEN"]} if "KOVA_TOKEN" in os.environ else {}
OUTCOMES = {403: "blocked", 407: "auth", 429: "blocked"}

with httpx.Client(headers=HEADERS, trust_env=False, timeout=35) as agent:
    url = sys.argv[1]
    given = agent.post(f"{POOL}/next", json={"target": urlsplit(url).hostname, "wait_ms": 30000}).json()
    if given.get("ticket") is None:
        sys.exit(f"no endpoint: {given.get('paused') or given}")
    report = {"ticket": given["ticket"], "outcome": "cancelled"}
    try:
        page = httpx.get(url, proxy=given["address"], trust_env=False, verify=ssl.create_default_context())
        report["outcome"] = OUTCOMES.get(page.status_code, "ok" if page.status_code < 400 else "target")
        report.update(status=page.status_code, retry_after=page.headers.get("Retry-After", "0"))
        print(page.status_code, url, len(page.content), "by", given["endpoint"])
    except httpx.ProxyError as error:
        report["outcome"] = "auth" if "407" in str(error) else "tunnel"
    except httpx.TransportError as error:
        report["outcome"] = "timeout" if isinstance(error, httpx.TimeoutException) else "target" if "SSL" in str(error) else "refused"
    finally:
        agent.post(f"{POOL}/report", json=report)
    sys.exit(report["outcome"] != "ok")
