"""Pools from outside: every reply, option, outcome and error, over RESP and HTTP, by one agent and by two."""
import json
import threading
import time
from collections import Counter

import harness
from harness import Resp, RespError

FIELDS = ["ticket", "address", "endpoint", "tier", "session", "moved", "trial", "lease_ms", "paused", "retry_in_ms"]


def endpoints(n, **more):
    return [{"id": f"e{i}", "url": f"http://192.0.2.{i}:3128", **more} for i in range(1, n + 1)]


class Pools(harness.Case):
    def start(self, *pools, policies=(), **more):
        if not hasattr(self, "redis"):
            self.redis = self.start_redis()
        return self.start_agent({"redis": {"mode": "standalone", "url": self.redis.url}, "pools": list(pools),
                                 "policies": list(policies), **more})

    def connect(self, agent):
        client = Resp(agent.resp_address)
        self.addCleanup(client.close)
        return client

    @staticmethod
    def next(client, pool, *options):
        reply = client.call("KOVA.POOL.NEXT", pool, *options)
        assert reply[::2] == FIELDS, reply
        return dict(zip(reply[::2], reply[1::2]))

    def fails(self, client, pool, endpoint, outcome="refused", times=5, *options, target=None):
        """`times` failures of one endpoint, good answers of the others meanwhile."""
        while times > 0:
            given = self.next(client, pool, *(("TARGET", target) if target else ()))
            mine = given["endpoint"] == endpoint
            self.assertIsNotNone(given["ticket"], given)
            client.call("KOVA.POOL.REPORT", pool, given["ticket"], outcome if mine else "ok", *(options if mine else ()))
            times -= mine

    def show(self, agent, pool):
        return agent.http("GET", f"/v1/pools/{pool}").json()

    def error(self, client, *words):
        with self.assertRaises(RespError) as raised:
            client.call(*words)
        return str(raised.exception)


class Replies(Pools):
    def test_the_ten_fields(self):
        agent = self.start({"name": "x", "lease": "90s", "endpoints": [
            {"id": "dc-1", "url": "http://user:p%40ss@192.0.2.7:3128", "tier": 2}]})
        given = self.next(self.connect(agent), "x")
        self.assertLessEqual(len(given.pop("ticket")), 128)
        self.assertEqual(given, {"address": "http://user:p%40ss@192.0.2.7:3128", "endpoint": "dc-1", "tier": 2, "session": None,
                                 "moved": 0, "trial": 0, "lease_ms": 90000, "paused": None, "retry_in_ms": 0})

    def test_without_an_endpoint(self):
        client = self.connect(self.start({"name": "x"}))
        self.assertEqual(self.next(client, "x"), {"ticket": None, "address": None, "endpoint": None, "tier": None, "session": None,
                                                  "moved": 0, "trial": 0, "lease_ms": 0, "paused": "empty", "retry_in_ms": -1})

    def test_resp3_has_a_map(self):
        client = self.connect(self.start({"name": "x", "endpoints": endpoints(1)}))
        client.call("HELLO", "3")
        client.send("KOVA.POOL.NEXT", "x")
        self.assertEqual(client.input.readline(), b"%10\r\n")

    def test_http(self):
        agent = self.start({"name": "x", "endpoints": endpoints(1, slots=1)}, {"name": "none"})
        given = agent.http("POST", "/v1/pools/x/next", {"target": "t", "tier": 1, "session": "s"})
        self.assertEqual((given.status, list(given.json())), (200, FIELDS))
        self.assertIs(given.json()["moved"], False)
        refused = agent.http("POST", "/v1/pools/x/next")
        self.assertEqual((refused.status, refused.json()["paused"], refused.headers["Retry-After"]), (429, "slots", "120"))
        self.assertIsNone(refused.json()["ticket"])
        empty = agent.http("POST", "/v1/pools/none/next", {})
        self.assertEqual((empty.status, empty.json()["retry_in_ms"], empty.headers["Retry-After"]), (503, -1, None))
        report = {"ticket": given.json()["ticket"], "outcome": "ok", "status": 200, "retry_after": 1, "latency_ms": 3,
                  "headers": {"X-A": "b"}}
        self.assertEqual(agent.http("POST", "/v1/pools/x/report", report).json(), {"counted": True})
        self.assertEqual(agent.http("POST", "/v1/pools/x/report", report).json(), {"counted": False})
        for path, body, status in (("/v1/pools/zz/next", {}, 404), ("/v1/pools/zz/report", report, 404),
                                   ("/v1/pools/x/report", {**report, "ticket": "1.2.3"}, 404),
                                   ("/v1/pools/x/report", {**report, "outcome": "fine"}, 400),
                                   ("/v1/pools/x/next", {"tier": 10}, 400), ("/v1/pools/x/next", {"tarrget": "t"}, 400),
                                   ("/v1/pools/x/next", {"takes": [{"policy": "p", "key": "k"}]}, 404)):
            with self.subTest(path=path, body=body):
                self.assertEqual(agent.http("POST", path, body).status, status)
        self.assertEqual(agent.http("GET", "/v1/pools").json(), {"pools": ["none", "x"]})
        self.assertEqual(agent.http("GET", "/v1/pools/zz").status, 404)

    def test_errors(self):
        client = self.connect(self.start({"name": "x", "endpoints": endpoints(1)}))
        for words, code in ((["KOVA.POOL.NEXT", "y"], "NOPOOL"), (["KOVA.POOL.REPORT", "y", "t", "ok"], "NOPOOL"),
                            (["KOVA.POOL.REPORT", "x", "t", "ok"], "NOTICKET"), (["KOVA.POOL.REPORT", "x", "t", "good"], "ERR"),
                            (["KOVA.POOL.NEXT", "x", "TIER", "0"], "RANGE"), (["KOVA.POOL.NEXT", "x", "TIER", "a"], "ERR"),
                            (["KOVA.POOL.NEXT", "x", "TAKE", "p", "k"], "NOPOLICY"), (["KOVA.POOL.NEXT", "x", "COST", "1"], "ERR"),
                            (["KOVA.POOL.NEXT", "x", "WAIT", "-1"], "RANGE"), (["KOVA.POOL.NEXT", "x", "NOW"], "ERR"),
                            (["KOVA.POOL.NEXT", "x", "TARGET", "a", "TARGET", "b"], "ERR"), (["KOVA.POOL.NEXT"], "ERR"),
                            (["KOVA.POOL.REPORT", "x", "t", "ok", "STATUS", "99"], "RANGE"),
                            (["KOVA.POOL.REPORT", "x", "t", "ok", "HEADER", "a"], "ERR")):
            with self.subTest(words=words):
                self.assertEqual(self.error(client, *words).split()[0], code)
        self.assertEqual(self.next(client, "x")["endpoint"], "e1")

    def test_a_report_twice(self):
        client = self.connect(self.start({"name": "x", "endpoints": endpoints(3), "select": "least-loaded"}))
        given = [self.next(client, "x") for _ in range(9)]
        self.assertEqual(Counter(n["endpoint"] for n in given), {"e1": 3, "e2": 3, "e3": 3})
        for _ in range(2):
            for n in given:
                self.assertEqual(client.call("KOVA.POOL.REPORT", "x", n["ticket"], "OK"), "OK")

    def test_two_agents_share_it(self):
        pool = {"name": "x", "endpoints": endpoints(5)}
        one, two = self.start(pool), self.start(pool)
        a, b = self.connect(one), self.connect(two)
        self.fails(a, "x", "e3")
        self.assertNotIn("e3", {self.next(b, "x")["endpoint"] for _ in range(20)})
        given = self.next(a, "x")
        self.assertEqual(b.call("KOVA.POOL.REPORT", "x", given["ticket"], "ok"), "OK")
        self.assertEqual(self.show(one, "x")["cooling"], 1)

    def test_a_restart_keeps_the_deadline(self):
        pool = {"name": "x", "endpoints": endpoints(2), "cooldown": {"base": "60s", "jitter": 0}}
        one = self.start(pool)
        self.fails(self.connect(one), "x", "e1")
        before = next(e for e in self.show(one, "x")["endpoints"] if e["id"] == "e1")["returns_in_ms"]
        one.stop()
        two = self.start(pool)
        after = next(e for e in self.show(two, "x")["endpoints"] if e["id"] == "e1")["returns_in_ms"]
        self.assertTrue(before - 10000 < after <= before, (before, after))


class Waiting(Pools):
    def test_until_something_comes_back(self):
        pool = {"name": "x", "endpoints": endpoints(1, slots=1)}
        one, two = self.start(pool), self.start(pool)
        for other in (one, two):
            holder, waiter = self.connect(one), self.connect(other)
            given = self.next(holder, "x")
            begun = time.monotonic()
            waiter.send("KOVA.POOL.NEXT", "x", "WAIT", "5000")
            time.sleep(0.3)
            holder.call("KOVA.POOL.REPORT", "x", given["ticket"], "ok")
            reply = waiter.read()
            self.assertTrue(0.3 <= time.monotonic() - begun < 1.5)
            self.assertEqual(reply[5], "e1")
            holder.call("KOVA.POOL.REPORT", "x", reply[1], "ok")

    def test_in_turn(self):
        pool = {"name": "x", "endpoints": endpoints(1, slots=1)}
        agents = [self.start(pool), self.start(pool)]
        holder = self.connect(agents[0])
        given = self.next(holder, "x")
        waiters = [self.connect(agents[i % 2]) for i in range(8)]
        for waiter in waiters:
            waiter.send("KOVA.POOL.NEXT", "x", "WAIT", "20000")
            time.sleep(0.1)
        for waiter in waiters:
            holder.call("KOVA.POOL.REPORT", "x", given["ticket"], "ok")
            self.assertEqual(self.next(holder, "x")["paused"], "slots", "no newcomer overtakes")
            given = {"ticket": waiter.read()[1]}

    def test_until_time_is_up(self):
        agent = self.start({"name": "x", "endpoints": endpoints(1, slots=1)})
        client = self.connect(agent)
        self.next(client, "x")
        begun = time.monotonic()
        paused = self.next(client, "x", "WAIT", "400")
        self.assertTrue(0.4 <= time.monotonic() - begun < 1.5)
        self.assertEqual(paused["paused"], "slots")
        self.assertTrue(115000 < paused["retry_in_ms"] <= 119700, paused)

    def test_all_cooling(self):
        agent = self.start({"name": "x", "endpoints": endpoints(2), "floor": {"active": 0}, "cooldown": {"jitter": 0}})
        client = self.connect(agent)
        self.fails(client, "x", "e1", "refused", 5, "RETRYAFTER", "3")
        self.fails(client, "x", "e2", "refused", 5, "RETRYAFTER", "1.5")
        begun = time.monotonic()
        paused = self.next(client, "x")
        self.assertEqual(paused["paused"], "cooling")
        self.assertTrue(1200 < paused["retry_in_ms"] <= 1500, paused)
        given = self.next(client, "x", "WAIT", "10000")
        self.assertEqual((given["endpoint"], given["trial"]), ("e2", 1))
        self.assertTrue(1.2 < time.monotonic() - begun < 2.5)

    def test_who_hangs_up_takes_nothing(self):
        agent = self.start({"name": "x", "endpoints": endpoints(1, slots=1)})
        client = self.connect(agent)
        given = self.next(client, "x")
        gone = Resp(agent.resp_address)
        gone.send("KOVA.POOL.NEXT", "x", "WAIT", "20000")
        time.sleep(0.2)
        gone.close()
        time.sleep(0.2)
        client.call("KOVA.POOL.REPORT", "x", given["ticket"], "ok")
        time.sleep(0.2)
        self.assertEqual(self.show(agent, "x")["endpoints"][0]["in_flight"], 0)

    def test_a_drain_answers(self):
        agent = self.start({"name": "x", "endpoints": endpoints(1, slots=1)})
        client = self.connect(agent)
        self.next(client, "x")
        client.send("KOVA.POOL.NEXT", "x", "WAIT", "60000")
        time.sleep(0.2)
        threading.Thread(target=agent.stop).start()
        self.assertEqual(client.read()[17], "slots")


class Permits(Pools):
    ONE = {"name": "p", "limit": 1, "per": "60s", "burst": 1, "lease": "off"}
    TWO = {"name": "q", "limit": 2, "per": "60s", "burst": 2, "lease": "off"}

    def remaining(self, client, policy, key):
        return client.call("KOVA.PEEK", policy, key)[1]

    def test_all_or_nothing(self):
        agent = self.start({"name": "x", "endpoints": endpoints(1, slots=2)}, policies=[self.ONE, self.TWO])
        client = self.connect(agent)
        takes = ("TAKE", "q", "k", "TAKE", "p", "k")
        self.assertEqual(self.next(client, "x", *takes)["endpoint"], "e1")
        refused = self.next(client, "x", *takes)
        self.assertEqual(refused["paused"], "limited:p")
        self.assertTrue(50000 < refused["retry_in_ms"] <= 60000)
        self.assertEqual(self.remaining(client, "q", "k"), 1)
        self.assertEqual(self.show(agent, "x")["endpoints"][0]["in_flight"], 1)
        self.assertEqual(self.next(client, "x")["endpoint"], "e1")
        self.assertEqual(self.next(client, "x", "TAKE", "q", "k")["paused"], "slots")
        self.assertEqual(self.remaining(client, "q", "k"), 1)

    def test_an_endpoint_without_its_permit_is_passed_over(self):
        pool = {"name": "x", "kind": "key", "permit": "p", "endpoints": [
            {"id": "a", "key": "1", "group": "g"}, {"id": "b", "key": "2", "group": "g"}, {"id": "c", "key": "3"}]}
        client = self.connect(self.start(pool, policies=[self.ONE]))
        self.assertEqual(Counter(self.next(client, "x")["endpoint"] in "ab" for _ in range(2)), {True: 1, False: 1})
        self.assertEqual(self.next(client, "x")["paused"], "limited:p")
        self.assertEqual((self.remaining(client, "p", "g"), self.remaining(client, "p", "c")), (0, 0))

    def test_the_targets_policy_is_held_with_the_target(self):
        agent = self.start({"name": "x", "endpoints": endpoints(4), "target_policy": "q"}, policies=[self.TWO])
        client = self.connect(agent)
        given = [self.next(client, "x", "TARGET", "t") for _ in range(3)]
        self.assertEqual(given[2]["paused"], "limited:q")
        self.assertEqual(self.next(client, "x")["paused"], None)
        other = [self.next(client, "x", "TARGET", str(i)) for i in range(4)]
        self.assertEqual(len({n["endpoint"] for n in other}), 4)

    def test_a_held_target_holds_its_bucket(self):
        policy = {"name": "q", "limit": 1000, "per": "1s", "burst": 1000, "lease": "off"}
        agent = self.start({"name": "x", "endpoints": endpoints(4), "target_policy": "q"}, policies=[policy])
        client = self.connect(agent)
        for n in [self.next(client, "x", "TARGET", "t") for _ in range(4)]:
            client.call("KOVA.POOL.REPORT", "x", n["ticket"], "blocked", "STATUS", "429", "RETRYAFTER", "30")
        self.assertEqual(self.next(client, "x", "TARGET", "t")["paused"], "held")
        deadline = time.monotonic() + 2
        while client.call("KOVA.TAKE", "q", "t")[5] != "held":
            self.assertLess(time.monotonic(), deadline)

    def test_a_hold_made_longer_holds_its_bucket_for_longer(self):
        policy = {"name": "q", "limit": 1000, "per": "1s", "burst": 1000, "lease": "off"}
        agent = self.start({"name": "x", "endpoints": endpoints(4), "target_policy": "q"}, policies=[policy])
        client = self.connect(agent)
        for n, seconds in zip([self.next(client, "x", "TARGET", "t") for _ in range(4)], (10, 10, 10, 300)):
            client.call("KOVA.POOL.REPORT", "x", n["ticket"], "blocked", "STATUS", "429", "RETRYAFTER", seconds)
        harness.wait_for(lambda: client.call("KOVA.PEEK", "q", "t")[3] > 200000, "the bucket held for as long as the target")
        self.assertEqual(agent.log().count('"target_held"'), 1)


class Keys(Pools):
    def pool(self, dialect, **more):
        return {"name": "k", "kind": "key", "dialect": dialect, "endpoints": [{"id": "a", "key": "sk-a"}], **more}

    def headers(self, dialect, *headers, outcome="ok", options=()):
        """What a report of these headers makes of the key: NEXT, and its quotas."""
        agent = self.start(self.pool(dialect))
        client = self.connect(agent)
        given = self.next(client, "k")
        words = [word for header in headers for word in ("HEADER", *header)]
        client.call("KOVA.POOL.REPORT", "k", given["ticket"], outcome, *options, *words)
        quotas = {q["name"]: q for q in self.show(agent, "k")["endpoints"][0]["quota"]}
        return self.next(client, "k"), quotas

    def near(self, retry_in_ms, seconds):
        self.assertTrue(seconds * 1000 - 1500 < retry_in_ms <= seconds * 1000, retry_in_ms)

    def test_the_latest_reset_of_the_exhausted(self):
        paused, quotas = self.headers("openai", ("X-RateLimit-Remaining-Requests", "10"), ("x-ratelimit-reset-requests", "1s"),
                                      ("x-ratelimit-limit-requests", "60"), ("x-ratelimit-remaining-tokens", "0"),
                                      ("x-ratelimit-reset-tokens", "6m0s"))
        self.assertEqual(paused["paused"], "held")
        self.near(paused["retry_in_ms"], 360)
        self.assertEqual(quotas["tokens"]["remaining"], 0)

    def test_retry_after_holds_for_exactly_that_and_counts_for_nothing_else(self):
        agent = self.start(self.pool("none"))
        client = self.connect(agent)
        given = self.next(client, "k")
        client.call("KOVA.POOL.REPORT", "k", given["ticket"], "blocked", "STATUS", "429", "HEADER", "Retry-After", "7")
        paused = self.next(client, "k")
        self.near(paused["retry_in_ms"], 7)
        shown = self.show(agent, "k")["endpoints"][0]
        self.assertEqual(shown["window"], {"outcomes": 0, "failures": 0})
        self.near(shown["held_ms"], 7)

    def test_2captcha(self):
        for error, seconds in (("ERROR_NO_SLOT_AVAILABLE", 5), ("ERROR_ZERO_BALANCE", 60)):
            paused, _ = self.headers("2captcha", ("error", error), outcome="blocked")
            self.assertEqual(paused["paused"], "held")
            self.near(paused["retry_in_ms"], seconds)
            self.redis_flush()

    def redis_flush(self):
        client = Resp(self.redis.address)
        client.call("FLUSHALL")
        client.close()

    def test_unknown_keys_are_disabled_until_the_operator_says(self):
        agent = self.start(self.pool("2captcha"))
        client = self.connect(agent)
        for _ in range(3):
            given = self.next(client, "k")
            client.call("KOVA.POOL.REPORT", "k", given["ticket"], "ok", "HEADER", "error", "ERROR_WRONG_USER_KEY")
        self.assertEqual((self.next(client, "k")["paused"], self.show(agent, "k")["endpoints"][0]["state"]), ("empty", "disabled"))
        self.assertEqual(agent.http("PATCH", "/v1/pools/k/endpoints/a", {"state": "active"}).status, 200)
        deadline = time.monotonic() + 3
        while self.next(client, "k")["endpoint"] != "a":
            self.assertLess(time.monotonic(), deadline)

    def test_bad_hints_are_counted(self):
        agent = self.start(self.pool("openai"))
        client = self.connect(agent)
        for value in ("soon", "-1", "86401", ""):
            given = self.next(client, "k")
            self.assertEqual(client.call("KOVA.POOL.REPORT", "k", given["ticket"], "ok", "RETRYAFTER", value), "OK")
        self.assertIn('kova_pool_bad_hints_total{pool="k"} 4', agent.http("GET", "/metrics").body.decode())


class Changing(Pools):
    def test_put_patch_delete(self):
        agent = self.start()
        client = self.connect(agent)
        put = agent.http("PUT", "/v1/pools/y", {"endpoints": endpoints(3)})
        self.assertEqual(put.status, 200)
        self.assertEqual(self.next(client, "y")["endpoint"], "e1")
        for change, seen in (({"state": "disabled"}, "disabled"), ({"state": "active", "weight": 0, "slots": 5, "tier": 1}, "active")):
            self.assertEqual(agent.http("PATCH", "/v1/pools/y/endpoints/e2", change).status, 200)
            self.assertNotIn("e2", {self.next(client, "y")["endpoint"] for _ in range(6)})
            self.assertEqual(self.show(agent, "y")["endpoints"][1]["state"], seen)
        for path, change, status in (("e9", {"weight": 1}, 404), ("e1", {"weight": -1}, 400), ("e1", {"url": "http://h:1"}, 400),
                                     ("e1", {}, 400)):
            self.assertEqual(agent.http("PATCH", f"/v1/pools/y/endpoints/{path}", change).status, status)
        self.assertEqual(agent.http("PUT", "/v1/pools/" + "y" * 64, {"endpoints": endpoints(1)}).status, 200)
        for n, status in ((64, 200), (65, 404), (66, 404)):
            self.assertEqual(agent.http("PATCH", f"/v1/pools/{'y' * n}/endpoints/e1", {"weight": 2}).status, status)
        self.assertEqual(agent.http("DELETE", "/v1/pools/y").status, 204)
        self.assertEqual(self.error(client, "KOVA.POOL.NEXT", "y").split()[0], "NOPOOL")
        self.assertEqual(agent.http("DELETE", "/v1/pools/y").status, 404)

    def test_what_cannot_be(self):
        agent = self.start()
        for pool in ({"window": 1}, {"threshold": 11}, {"endpoints": ["http://192.0.2.1"]}, {"endpoints": ["http://u:p@ss@h:1"]},
                     {"endpoints_file": "exits.txt"}, {"permit": "nope"}, {"floor": {"active": 2}, "endpoints": endpoints(1)},
                     {"endpoints": [{"id": "a", "url": "http://h:1"}, {"id": "a", "url": "http://h:2"}]}):
            with self.subTest(pool=pool):
                answer = agent.http("PUT", "/v1/pools/y", pool)
                self.assertEqual(answer.status, 400, answer.body)
                self.assertNotIn(b"p@ss", answer.body)

    def test_a_put_leaves_the_state_of_those_that_stay(self):
        agent = self.start({"name": "x", "endpoints": endpoints(3)})
        self.fails(self.connect(agent), "x", "e1")
        self.assertEqual(agent.http("PUT", "/v1/pools/x", {"endpoints": endpoints(4)}).status, 200)
        self.assertEqual([e["state"] for e in self.show(agent, "x")["endpoints"]], ["cooldown", "active", "active", "active"])


    def test_other_endpoints_leave_the_rest_of_the_pool(self):
        shaped = {"window": 4, "threshold": 4, "lease": "77s", "cooldown": {"base": "1h"}}
        agent = self.start({"name": "x", **shaped, "endpoints": [*endpoints(2, tier=2, weight=7), {"id": "off", "url": "http://h:1", "state": "disabled"}]})
        client = self.connect(agent)
        self.fails(client, "x", "e1", times=4)
        put = lambda body, pool="x": agent.http("PUT", f"/v1/pools/{pool}/endpoints", body)
        self.assertEqual(put({"endpoints": ["HTTP://H:1", "http://192.0.2.9:3128", "http://192.0.2.1:3128",
                                            {"url": "http://192.0.2.2:3128", "tier": 3}]}).status, 200)
        seen = self.show(agent, "x")["endpoints"]
        self.assertEqual([(e["tier"], e["weight"], e["state"]) for e in seen],
                         [(1, 1, "disabled"), (1, 1, "active"), (2, 7, "cooldown"), (3, 7, "active")])
        self.assertEqual([e["id"] for e in seen if e["host"] != "192.0.2.9:3128"], ["off", "e1", "e2"])
        self.assertEqual(self.next(client, "x")["lease_ms"], 77000)
        for pool, body, status in (("y", {"endpoints": []}, 404), ("x", {}, 400), ("x", {"endpoints": {}}, 400),
                                   ("x", {"endpoints": [], "window": 3}, 400), ("x", {"endpoints": ["http://u:s3cret@h"]}, 400)):
            answer = put(body, pool)
            self.assertEqual(answer.status, status, body)
            self.assertNotIn(b"s3cret", answer.body)
        self.assertEqual(self.show(agent, "x")["endpoints"][2]["id"], "e1")


class Told(Pools):
    def test_numbers_and_metrics(self):
        agent = self.start({"name": "x", "report": "500ms", "cooldown": {"base": "200ms", "jitter": 0}, "endpoints": endpoints(2)})
        client = self.connect(agent)
        self.fails(client, "x", "e1")
        deadline = time.monotonic() + harness.PATIENCE
        while '"event":"pool_numbers"' not in agent.log() or '"cooldowns":1' not in agent.log():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        line = next(json.loads(l) for l in agent.log().splitlines() if '"cooldowns":1' in l)
        self.assertEqual((line["pool"], set(line["share"]), line["escalation"]), ("x", {"e1", "e2"}, 0))
        cooled = [json.loads(l) for l in agent.log().splitlines() if '"endpoint_cooled"' in l]
        self.assertEqual([(e["pool"], e["endpoint"], e["why"], e["ms"]) for e in cooled], [("x", "e1", "refused", 200)])
        metrics = agent.http("GET", "/metrics").body.decode()
        for sample in ('kova_pool_cooldowns_total{pool="x"} 1', 'kova_pool_outcomes_total{pool="x",outcome="refused"} 5',
                       'kova_pool_share_ratio{pool="x",endpoint="e1"}', 'kova_pool_active_min{pool="x"}',
                       'kova_pool_escalation_ratio{pool="x"} 0', 'kova_pool_in_flight{pool="x"} 0', 'kova_pool_paused{pool="x"}',
                       'kova_pool_endpoints{pool="x",state="disabled"} 0', 'kova_pool_cooldown_seconds_total{pool="x"}'):
            self.assertIn(sample, metrics)

    def test_numbers_of_many_pools_in_one_second(self):
        names = {f"x{i:02}" for i in range(40)}
        agent = self.start(*({"name": name, "report": "1s", "endpoints": endpoints(2)} for name in sorted(names)))
        lines = lambda: [line for line in agent.log_lines() if line["event"] == "pool_numbers"]
        harness.wait_for(lambda: {line.get("pool") for line in lines()} >= names, "the numbers of each pool")
        self.assertFalse([line for line in lines() if "left_out" in line])

    def test_no_secret_in_any_output(self):
        secret = "%40%3A%2F%3F%23%5B%5D%40"
        path = self.directory + "/exits.txt"
        with open(path, "w", encoding="utf-8") as file:
            file.write("192.0.2.50:3128:filed:f1le-S3cret\n")
        address = f"http://us3r-x:{secret}@192.0.2.7:3128"
        agent = self.start({"name": "x", "report": "200ms", "endpoints": [address, address.replace("http", "HTTP")],
                            "endpoints_file": path},
                           {"name": "k", "kind": "key", "endpoints": ["sk-s3cret"]})
        client = self.connect(agent)
        self.assertEqual(sorted(self.next(client, "x")["address"] for _ in range(2)),
                         sorted([address, "http://filed:f1le-S3cret@192.0.2.50:3128"]))
        self.fails(client, "k", self.next(client, "k")["endpoint"], "blocked")
        agent.http("PUT", "/v1/pools/z", {"endpoints": [{"id": "a", "url": address}]})
        outputs = [agent.http("GET", path).body.decode() for path in ("/v1/pools/x", "/v1/pools/k", "/v1/pools", "/metrics", "/v1/changes")]
        time.sleep(0.5)
        store = Resp(self.redis.address)
        for key in store.call("KEYS", "*"):
            store.send("DUMP", key)
            length = int(store.input.readline()[1:])
            outputs.append(repr(key) + repr(store.input.read(length + 2)))
        store.close()
        outputs.append(agent.log())
        for text in outputs:
            for word in (secret, "us3r-x", "@:/?#[]@", "f1le-S3cret", "sk-s3cret"):
                self.assertNotIn(word, text)
        self.assertIn("duplicate_endpoint", agent.log())


if __name__ == "__main__":
    harness.main()
