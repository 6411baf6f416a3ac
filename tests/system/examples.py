"""What the tests of examples/ share: an agent by examples/kova.json, proxies that the site knows by addresses of their own."""
import json
import os
import unittest

import crawl
import harness

EXAMPLES = os.path.join(harness.SOURCE, "examples")
CLIENTS = os.path.join(harness.SOURCE, "build", "clients")
PYTHON = os.path.join(CLIENTS, "examples_python", "bin", "python")
USER, PASSWORD, TOKEN = "us3r", "p@ss:w0rd", "t0ken-5ecret"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def installed(name):
    if not os.path.exists(os.path.join(CLIENTS, f"{name}.done")):
        raise unittest.SkipTest(f"{name} is not installed (scripts/clients says why)")


def read_config():
    with open(os.path.join(EXAMPLES, "kova.json"), encoding="utf-8") as file:
        return json.load(file)


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.proxies = {}

    def proxy(self, name, **more):
        source = f"127.0.1.{len(self.proxies) + 1}"
        self.proxies[name] = self.keep(crawl.ForwardProxy(source, f"{USER}:{PASSWORD}", **more))
        return self.proxies[name]

    def endpoint(self, name, address=None, password=PASSWORD, scheme="http", **more):
        quoted = password.replace("@", "%40").replace(":", "%3A")
        return {"id": name, "url": f"{scheme}://{USER}:{quoted}@{address or self.proxies[name].address}", **more}

    def config(self, endpoints=(), site=None, **pool):
        """That of the examples, with other endpoints, other options of their pool, another limit of the site, and a token."""
        config = read_config()
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="ascii") as file:
            file.write(f"worker {TOKEN} check\n")
        config["auth"] = {"tokens_file": tokens}
        exits = next(p for p in config["pools"] if p["name"] == "exits")
        exits.update(endpoints=list(endpoints), **pool)
        next(p for p in config["policies"] if p["name"] == "site").update(site or {"limit": 1000, "burst": 1000})
        return config

    def outcomes(self, agent, pool="exits"):
        """How often each was reported."""
        return self.counted(agent, f'kova_pool_outcomes_total{{pool="{pool}"')

    def decisions(self, agent, policy):
        """How often each was made."""
        return self.counted(agent, f'kova_decisions_total{{policy="{policy}"')

    def counted(self, agent, series):
        found = {}
        for line in agent.http("GET", "/metrics", headers=BEARER).body.decode().splitlines():
            if line.startswith(series) and not line.endswith(" 0"):
                found[line.split('outcome="')[1].split('"')[0]] = int(line.rsplit(" ", 1)[1])
        return found

    def shown(self, agent, pool="exits"):
        return {e["id"]: e for e in agent.http("GET", f"/v1/pools/{pool}", headers=BEARER).json()["endpoints"]}

    def no_secrets(self, *texts):
        for text in texts:
            for secret in (PASSWORD, "p%40ss", "w0rd", USER, TOKEN):
                self.assertNotIn(secret, text)
