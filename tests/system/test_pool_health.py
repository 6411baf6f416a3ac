"""Active health of pools: endpoints in cooldown come back by a probe, and by nothing else; by real proxies of every kind."""
# Mostly waits.
import re
import socket
import subprocess
import time

import harness
import shim
from exits import Echo, Exit, certificate
from harness import Resp, wait_for

USER, PASSWORD = "us@er", "p:w/S3cret@%"
CREDENTIALS = "us%40er:p%3Aw%2FS3cret%40%25@"
POOL = {"window": 2, "threshold": 2, "floor": {"active": 0}, "cooldown": {"base": "100ms", "max": "100ms", "jitter": 0}}


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


class Health(harness.Case):
    def start(self, *pools, threads=harness.THREADS, **more):
        if not hasattr(self, "redis"):
            self.redis = self.start_redis()
        return self.start_agent({"redis": {"mode": "standalone", "url": self.redis.url},
                                 "threads": threads, "pools": [{**POOL, **pool} for pool in pools]}, **more)

    def cool(self, agent, pool, *ids):
        """Two failures each: they are in cooldown."""
        left = dict.fromkeys(ids, 2)
        with agent.resp() as client:
            while any(n > 0 for n in left.values()):
                reply = client.call("KOVA.POOL.NEXT", pool, "WAIT", "5000")
                self.assertIsNotNone(reply[1], reply)
                fails = left.get(reply[5], 0) > 0
                client.call("KOVA.POOL.REPORT", pool, reply[1], "refused" if fails else "ok")
                left[reply[5]] = left.get(reply[5], 0) - fails

    def page(self, agent, pool):
        return {e["id"]: e for e in agent.http("GET", f"/v1/pools/{pool}").json()["endpoints"]}

    def whys(self, agent, pool, ids):
        """What the last probes of all of these found; none is missing."""
        def all_known():
            page = self.page(agent, pool)
            return page if all(page[i]["probe"] for i in ids) else None
        page = wait_for(all_known, f"probes of {ids}")
        return {i: page[i]["probe"]["why"] or page[i]["probe"]["ok"] for i in ids}

    def probes(self, agent, pool):
        """What this agent's probes found, and how often."""
        lines = re.findall(rf'^kova_pool_probes_total{{pool="{pool}",result="(\w+)"}} (\d+)$',
                           agent.http("GET", "/metrics").body.decode(), flags=re.M)
        return {result: int(n) for result, n in lines if n != "0"}


class Kinds(Health):
    """Each kind of proxy is probed as what it is, and comes back."""

    def setUp(self):
        super().setUp()
        self.tls = certificate(self.directory, "127.0.0.1", "echo.test")
        self.names = {"echo.test": "127.0.0.1"}

    def exit(self, **more):
        return self.keep(Exit(**{"names": self.names, **more}))

    def come_back(self, agent, pool, ids):
        """One trial each; nobody but a good report makes one active."""
        self.cool(agent, pool, *ids)
        self.assertEqual(self.whys(agent, pool, ids), dict.fromkeys(ids, True))
        with agent.resp() as client:
            given = [client.call("KOVA.POOL.NEXT", pool, "WAIT", "5000") for _ in ids]
            self.assertEqual({reply[5] for reply in given}, set(ids))
            self.assertEqual({reply[13] for reply in given}, {1})
            self.assertEqual({e["state"] for e in self.page(agent, pool).values()}, {"cooldown"})
            for reply in given:
                client.call("KOVA.POOL.REPORT", pool, reply[1], "ok")
        self.assertEqual({e["state"] for e in self.page(agent, pool).values()}, {"active"})

    def check(self, echo, url, exits, ids, env=None):
        health = {"url": url, "every": "100ms", "timeout": "10s"}
        agent = self.start({"name": "x", "health": health, "endpoints": [
            {"id": i, "url": exit.url(scheme, credentials)} for i, (scheme, credentials, exit) in zip(ids, exits)]},
            env={"SSL_CERT_FILE": self.tls, **(env or {})})
        self.come_back(agent, "x", ids)
        self.assertEqual(list(self.probes(agent, "x")), ["ok"])
        self.assertGreaterEqual(len(echo.asked), len(ids))
        for text in (agent.log(), agent.http("GET", "/metrics").body.decode(), agent.http("GET", "/v1/pools/x").body.decode()):
            self.assertNotIn("S3cret", text)
        return agent

    def test_names_are_the_proxys(self):
        echo = self.keep(Echo())
        both = (USER, PASSWORD)
        exits = [("http", "", self.exit()), ("http", CREDENTIALS, self.exit(credentials=both)), ("https", "", self.exit(tls=self.tls)),
                 ("https", CREDENTIALS, self.exit(tls=self.tls, credentials=both)), ("socks4a", "us%40er@", self.exit(credentials=both)),
                 ("socks5h", "", self.exit()), ("socks5h", CREDENTIALS, self.exit(credentials=both))]
        if has_ipv6():
            exits += [("http", CREDENTIALS, self.exit(credentials=both, host="::1")), ("socks5h", "", self.exit(host="::1"))]
        ids = [f"e{i}" for i in range(len(exits))]
        dead = f"http://127.0.0.1:{harness.free_port()}"
        self.check(echo, f"http://echo.test:{echo.port}/", exits, ids, {"http_proxy": dead, "all_proxy": dead, "no_proxy": "*"})
        for scheme, credentials, exit in exits:
            protocol = "connect" if scheme.startswith("http") else scheme
            self.assertEqual(set(exit.asked), {(protocol, "echo.test", USER if credentials else "")})

    def test_names_are_the_agents(self):
        echo = self.keep(Echo())
        exits = [("socks4", "", self.exit()), ("socks4", "us%40er@", self.exit(credentials=(USER, ""))), ("socks5", "", self.exit()),
                 ("socks5", CREDENTIALS, self.exit(credentials=(USER, PASSWORD)))]
        self.check(echo, f"http://127.0.0.1:{echo.port}/", exits, ["e1", "e2", "e3", "e4"])
        for scheme, credentials, exit in exits:
            self.assertEqual(set(exit.asked), {(scheme, "127.0.0.1", USER if credentials else "")})

    def test_a_service_with_tls(self):
        echo = self.keep(Echo(self.tls))
        exits = [("http", "", self.exit()), ("https", "", self.exit(tls=self.tls)), ("socks5h", "", self.exit())]
        self.check(echo, f"https://echo.test:{echo.port}/", exits, ["e1", "e2", "e3"])

    def test_a_service_with_another_ones_certificate(self):
        echo = self.keep(Echo(certificate(self.directory, "other.test")))
        agent = self.start({"name": "x", "health": {"url": f"https://echo.test:{echo.port}/", "every": "200ms"}, "endpoints": [
            {"id": scheme, "url": self.exit().url(scheme)} for scheme in ("http", "socks5h")]}, env={"SSL_CERT_FILE": self.tls})
        self.cool(agent, "x", "http", "socks5h")
        self.assertEqual(self.whys(agent, "x", ["http", "socks5h"]), {"http": "tunnel", "socks5h": "tunnel"})

    def test_without_a_proxy(self):
        echo = self.keep(Echo())
        agent = self.start({"name": "x", "health": {"url": f"http://127.0.0.1:{echo.port}/", "every": "100ms"},
                            "endpoints": [{"id": "d", "url": "direct://"}]}, env={"http_proxy": "http://127.0.0.1:1"})
        self.come_back(agent, "x", ["d"])


class Findings(Health):
    def test_whatever_goes_wrong_has_its_name(self):
        echo = self.keep(Echo())
        echo.answers = {"127.0.0.5": (500, "127.0.0.5"), "127.0.0.6": (200, "hello"), "127.0.0.7": (200, "2001:db8::7"),
                        "127.0.0.8": (302, "127.0.0.8"), "127.0.0.9": (200, "x" * 100000 + " 127.0.0.9")}
        both, tls = (USER, PASSWORD), certificate(self.directory, "127.0.0.1")
        dead = harness.free_port()
        exits = {"connect": [("http", {"says": "hangs up"}), ("socks5h", {"says": "hangs up"}), ("socks4", {"says": "hangs up"}),
                             ("https", {"tls": tls}), ("https", {})],
                 "auth": [("http", {"credentials": both}), ("https", {"credentials": both, "tls": tls, "trusted": True}),
                          ("socks5h", {"credentials": both}), ("socks5", {"credentials": both}), ("socks4", {"credentials": both})],
                 "tunnel": [("http", {"says": "no", "status": 403}), ("http", {"says": "no", "status": 502}), ("http", {"says": "cuts"}),
                            ("http", {"says": "forwards"}), ("socks4a", {"says": "no"}), ("socks5", {"says": "no"}),
                            ("socks5h", {"says": "cuts"})],
                 "timeout": [("http", {"says": "silent"}), ("socks5h", {"says": "silent"})],
                 "status": [("http", {"sources": ["127.0.0.5"]}), ("socks5", {"sources": ["127.0.0.8"]})],
                 "body": [("http", {"sources": ["127.0.0.6"]}), ("http", {"sources": ["127.0.0.9"]})],
                 "family": [("socks4", {"sources": ["127.0.0.7"]})]}
        expected, endpoints = {"dead": "connect", "dead5": "connect"}, [
            {"id": "dead", "url": f"http://{CREDENTIALS}127.0.0.1:{dead}"}, {"id": "dead5", "url": f"socks5://127.0.0.1:{dead}"}]
        for why, kinds in exits.items():
            for i, (scheme, options) in enumerate(kinds):
                trusted = options.pop("trusted", False)
                exit = self.keep(Exit(**options))
                wrong = "nobody:wr0ng-S3cret@" if "credentials" in options else "us%40er:any-S3cret@" if scheme != "socks4" else ""
                id = f"{why}{i}-{scheme}"
                expected[id] = "connect" if trusted else why
                endpoints.append({"id": id, "url": exit.url(scheme, wrong)})
        agent = self.start({"name": "x", "health": {"url": f"http://127.0.0.1:{echo.port}/", "every": "500ms", "timeout": "2s",
                                                    "family": "ipv4"}, "endpoints": endpoints})
        self.cool(agent, "x", *expected)
        self.assertEqual(self.whys(agent, "x", expected), expected)
        with agent.resp() as client:
            paused = client.call("KOVA.POOL.NEXT", "x")
        self.assertEqual(paused[17], "cooling")
        self.assertEqual(set(self.probes(agent, "x")), {"connect", *exits})
        self.nowhere(agent, "x")

    def nowhere(self, agent, pool):
        """No secret in anything that anybody sees."""
        texts = [agent.log(), *(agent.http("GET", path).body.decode() for path in ("/metrics", f"/v1/pools/{pool}", "/readyz", "/"))]
        texts.append(subprocess.run([harness.program("kovactl"), "--agent", "%s:%d" % agent.resp_address, "pool", "show", pool],
                                    capture_output=True, text=True, check=True).stdout)
        self.assertRegex(texts[-1], r"\nstatus0-http .* cooldown +\d+  status ")
        with Resp(self.redis.address) as redis:
            for key in redis.call("KEYS", "*"):
                texts.append(repr(redis.call("DUMP", key)))
        for text in texts:
            self.assertNotIn("S3cret", text)

    def test_a_service_that_the_agent_does_not_find_is_no_endpoints_fault(self):
        exit = self.keep(Exit())
        expected = {"direct": "name", "socks4": "name", "socks5": "name", "nobody": "connect"}
        urls = {"direct": "direct://", "socks4": exit.url("socks4"), "socks5": exit.url("socks5"), "nobody": "http://none.test:3128"}
        agent = self.start({"name": "x", "health": {"url": "http://none.test/", "every": "200ms"},
                            "endpoints": [{"id": id, "url": url} for id, url in urls.items()]}, env=shim.env("resolver_shim.c", "-ldl"))
        self.cool(agent, "x", *expected)
        self.assertEqual(self.whys(agent, "x", expected), expected)

    def test_same_and_rotating(self):
        echo = self.keep(Echo())
        exits = {"fixed": self.keep(Exit(sources=["127.0.0.2"])), "turns": self.keep(Exit(sources=["127.0.0.2", "127.0.0.3"]))}
        session = "cust-{session}:S3cret@"
        pools = [{"name": how, "health": {"url": f"http://127.0.0.1:{echo.port}/", "every": "200ms", "exit": how},
                  "endpoints": [{"id": i, "url": exit.url("http", session)} for i, exit in exits.items()]}
                 for how in ("same", "rotating")]
        agent = self.start(pools[0])
        self.cool(agent, "same", *exits)
        self.assertEqual(self.whys(agent, "same", exits), {"fixed": True, "turns": "exit_changed"})
        users = [user for _, _, user in exits["fixed"].asked]
        self.assertEqual(users[0], users[1], "one session asks twice")
        self.assertRegex(users[0], "^cust-[0-9a-f]{10}$")
        agent.stop()
        exits["fixed"].asked.clear()
        agent = self.start(pools[1])
        self.cool(agent, "rotating", *exits)
        self.assertEqual(self.whys(agent, "rotating", exits), {"fixed": "not_rotating", "turns": True})
        users = [user for _, _, user in exits["fixed"].asked]
        self.assertNotEqual(users[0], users[1], "each asks in a session of its own")

    def test_the_other_family(self):
        if not has_ipv6():
            self.skipTest("there is no IPv6 here")
        echo = self.keep(Echo(host="::1"))
        exit = self.keep(Exit())
        for family, found in (("ipv6", True), ("ipv4", "family")):
            agent = self.start({"name": family, "health": {"url": f"http://[::1]:{echo.port}/", "every": "200ms", "family": family},
                                "endpoints": [{"id": "a", "url": exit.url("http")}, {"id": "b", "url": exit.url("socks5h")}]})
            self.cool(agent, family, "a", "b")
            self.assertEqual(self.whys(agent, family, "ab"), {"a": found, "b": found})
            agent.stop()


class Returns(Health):
    def setUp(self):
        super().setUp()
        self.echo = self.keep(Echo())
        self.exits = [self.keep(Exit()) for _ in range(3)]
        self.pool = {"name": "x", "health": {"url": f"http://127.0.0.1:{self.echo.port}/", "every": "200ms", "timeout": "5s"},
                     "endpoints": [{"id": f"e{i}", "url": exit.url("http")} for i, exit in enumerate(self.exits)]}

    def test_only_by_a_probe_and_then_a_trial(self):
        agent = self.start(self.pool)
        self.exits[0].says = "no"
        self.cool(agent, "x", "e0")
        wait_for(lambda: len(self.exits[0].asked) >= 3, "three probes")
        e = self.page(agent, "x")["e0"]
        self.assertEqual((e["state"], e["probe"]["ok"], e["probe"]["why"]), ("cooldown", False, "tunnel"))
        self.assertGreater(e["returns_in_ms"], 0)
        with agent.resp() as client:
            given = [client.call("KOVA.POOL.NEXT", "x")[5] for _ in range(6)]
            self.assertNotIn("e0", given)
            self.exits[0].says = "yes"
            wait_for(lambda: self.page(agent, "x")["e0"]["returns_in_ms"] == 0, "a probe that passed")
            trials = [reply for reply in (client.call("KOVA.POOL.NEXT", "x") for _ in range(6)) if reply[5] == "e0"]
            self.assertEqual([reply[13] for reply in trials], [1])
            client.call("KOVA.POOL.REPORT", "x", trials[0][1], "refused")
            self.assertEqual(self.page(agent, "x")["e0"]["cooldowns"], 2)
        self.assertEqual([len(exit.asked) for exit in self.exits[1:]], [0, 0], "those that are active are not probed")

    def test_all_down(self):
        for exit in self.exits:
            exit.says = "silent"
        agent = self.start({**self.pool, "cooldown": {**POOL["cooldown"], "return": "direct"},
                            "health": {**self.pool["health"], "timeout": "300ms"}})
        self.cool(agent, "x", "e0", "e1", "e2")
        self.assertEqual(self.whys(agent, "x", ["e0", "e1", "e2"]), dict.fromkeys(["e0", "e1", "e2"], "timeout"))
        for exit in self.exits:
            exit.says = "yes"
        with agent.resp() as client:
            self.assertEqual(client.call("KOVA.POOL.NEXT", "x", "WAIT", "10000")[13], 0, "no trial: it is active")
        wait_for(lambda: {e["state"] for e in self.page(agent, "x").values()} == {"active"}, "all of them")
        self.assertGreaterEqual(sum(line.get("event") == "endpoint_returned" for line in agent.log_lines()), 3)

    def test_a_wait_ends_with_the_probe(self):
        pool = {**self.pool, "health": {**self.pool["health"], "every": "1h"}, "cooldown": {"base": "2s", "jitter": 0},
                "endpoints": self.pool["endpoints"][:2], "sessions": {"exclusive": True}}
        agents = [self.start(pool), self.start(pool)]
        for exit in self.exits:
            exit.says = "no"
        self.cool(agents[0], "x", "e0", "e1")
        clients = [agent.resp() for agent in agents]
        for client in clients:
            self.addCleanup(client.close)
            self.assertGreater(client.call("KOVA.POOL.NEXT", "x")[19], 1000000, "not before the next probe")
            client.send("KOVA.POOL.NEXT", "x", "WAIT", "20000")
        self.whys(agents[0], "x", ["e0", "e1"])
        for exit in self.exits:
            exit.says = "yes"
        with Resp(self.redis.address) as redis:
            redis.call("DEL", "k:p{x}h")  # now the next one is due
        self.assertEqual({client.read()[5] for client in clients}, {"e0", "e1"})

    def test_what_the_operator_took_out_is_left_alone(self):
        agent = self.start(self.pool)
        self.exits[0].says = self.exits[1].says = "no"
        self.cool(agent, "x", "e0", "e1")
        self.assertEqual(agent.http("PATCH", "/v1/pools/x/endpoints/e0", {"state": "disabled"}).status, 200)
        wait_for(lambda: self.page(agent, "x")["e0"]["state"] == "disabled", "the change")
        wait_for(lambda: self.probes(agent, "x").get("tunnel", 0) >= 2, "probes under way")
        before = [len(exit.asked) for exit in self.exits]
        self.exits[0].says = "yes"
        wait_for(lambda: len(self.exits[1].asked) >= before[1] + 4, "more probes of the other")
        self.assertLessEqual(len(self.exits[0].asked), before[0] + 1)
        self.assertEqual(self.page(agent, "x")["e0"]["state"], "disabled")


    def test_what_is_secret_in_the_services_url_is_not_told(self):
        agent = self.start(self.pool)
        self.pool.pop("name")
        self.pool["health"]["url"] += "?token=S3cret"
        self.assertEqual(agent.http("PUT", "/v1/pools/x", {**POOL, **self.pool}).status, 200)
        self.cool(agent, "x", "e0")
        self.assertEqual(self.whys(agent, "x", ["e0"]), {"e0": True})
        for text in (agent.log(), agent.http("GET", "/v1/changes").body.decode(), agent.http("GET", "/v1/pools/x").body.decode()):
            self.assertNotIn("S3cret", text)
        self.assertIn('"url":"…"', agent.http("GET", "/v1/changes").body.decode().replace(": ", ":"))


class Prober(Health):
    def test_one_at_a_time_and_another_when_it_dies(self):
        echo, exit = self.keep(Echo()), self.keep(Exit())
        pool = {"name": "x", "cooldown": {"base": "10m", "jitter": 0}, "endpoints": [{"id": "e", "url": exit.url("http")}],
                "health": {"url": f"http://127.0.0.1:{echo.port}/", "every": "400ms"}}
        agents = [self.start(pool) for _ in range(4)]
        begun = time.monotonic()
        self.cool(agents[0], "x", "e")
        wait_for(lambda: len(exit.asked) >= 8, "eight probes")
        self.assertLessEqual(len(exit.asked), (time.monotonic() - begun) / (0.9 * 0.4) + 1)
        probers = [agent for agent in agents if self.probes(agent, "x")]
        self.assertEqual(len(probers), 1)
        probers[0].kill()
        rest = [agent for agent in agents if agent is not probers[0]]
        wait_for(lambda: sum(self.probes(agent, "x").get("ok", 0) for agent in rest) >= 3, "another prober")
        self.assertEqual(sum(bool(self.probes(agent, "x")) for agent in rest), 1)
        for agent in rest:
            self.assertIs(self.page(agent, "x")["e"]["probe"]["ok"], True, "each page says what the prober found")

    def test_a_drain_does_not_wait_for_probes(self):
        exit, other = self.keep(Exit(says="silent")), self.keep(Exit(says="no"))
        agent = self.start({"name": "x", "health": {"url": "http://echo.test/", "every": "100ms", "timeout": "1h"}, "endpoints": [
            {"id": "e", "url": exit.url("socks5h", "u:S3cret@")}, {"id": "o", "url": other.url("http")}]})
        self.cool(agent, "x", "e", "o")
        wait_for(lambda: len(other.asked) >= 4 and exit.connections, "a probe on its way that was due again meanwhile")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(exit.connections, 1, "one probe of an endpoint at a time")

    def test_a_resolver_that_hangs_holds_up_nobody(self):
        health = {"url": "http://echo.test/", "every": "200ms", "timeout": "300ms"}
        agent = self.start({"name": "x", "health": health, "endpoints": [{"id": "e", "url": "http://u:S3cret@slow.test:3128"}]},
                           env=shim.env("resolver_shim.c", "-ldl"))
        self.cool(agent, "x", "e")
        self.assertEqual(self.whys(agent, "x", ["e"]), {"e": "timeout"})
        self.assertEqual(agent.stop(), 0)

    def test_no_more_at_a_time_than_are_allowed(self):
        exit = self.keep(Exit(says="silent"))
        ids = [f"e{i}" for i in range(50)]
        agent = self.start({"name": "x", "endpoints": [{"id": i, "url": exit.url("http", f"{i}:S3cret@")} for i in ids],
                            "health": {"url": "http://echo.test/", "every": "1s", "timeout": "2s"}})
        self.cool(agent, "x", *ids)
        wait_for(lambda: exit.connections >= 32, "as many as there is room for")
        self.assertEqual(exit.connections, 32)
        self.assertEqual(set(self.whys(agent, "x", ids).values()), {"timeout"})
        self.assertIn('kova_pool_probes_put_off_total{pool="x"}', agent.http("GET", "/metrics").body.decode())

    def test_no_more_of_all_pools_than_are_allowed(self):
        exit = self.keep(Exit(says="silent"))
        pools = [{"name": f"p{i}", "cooldown": {"base": "10m", "jitter": 0},
                  "endpoints": [{"id": f"e{k}", "url": exit.url("http", f"{k}:S3cret@")} for k in range(32)]} for i in range(9)]
        agent = self.start(*pools)
        with agent.resp() as client:
            for pool in pools:
                for ticket in [client.call("KOVA.POOL.NEXT", pool["name"])[1] for _ in range(64)]:
                    client.call("KOVA.POOL.REPORT", pool["name"], ticket, "refused")
        agent.stop()
        health = {"url": "http://echo.test/", "every": "1s", "timeout": "4s"}
        self.start(*({**pool, "health": health} for pool in pools))  # all of them ask at once
        wait_for(lambda: exit.connections >= 256, "as many as there is room for")
        time.sleep(1)
        self.assertEqual(exit.connections, 256)
        wait_for(lambda: exit.connections >= 288, "those that were left")

    def test_health_is_taken_away_while_the_script_is_about_to_be_asked(self):
        pool = {"endpoints": [{"id": "e", "url": "http://127.0.0.1:1"}]}
        agent = self.start({"name": "x", **pool, "health": {"url": "http://echo.test/", "every": "500ms"}}, threads=1)
        with Resp(self.redis.address) as redis, agent.resp() as one, agent.resp() as other:
            wait_for(lambda: redis.call("EXISTS", "k:p{x}p"), "a prober, so that the next time is in 500 ms")
            redis.call("CLIENT", "PAUSE", "5000", "WRITE")
            for client in (one, other):  # as many calls as there may be on their way
                client.send("KOVA.POOL.NEXT", "x")
                time.sleep(0.05)
            time.sleep(1)
            self.assertEqual(agent.http("PUT", "/v1/pools/x", {**POOL, **pool}).status, 200)
            redis.call("CLIENT", "UNPAUSE")
            self.assertEqual([client.read()[5] for client in (one, other)], ["e", "e"])
            self.assertEqual(one.call("KOVA.POOL.NEXT", "x")[5], "e")


if __name__ == "__main__":
    harness.main()
