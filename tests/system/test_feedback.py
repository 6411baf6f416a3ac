"""Feedback: what one worker is told by a server elsewhere, every worker of the region obeys."""
# Mostly waits.
import json
import threading
import time
from email.utils import formatdate

import harness
import shapes

ALGORITHMS = [{"name": "bucket", "limit": 10, "per": "1h", "burst": 10},
              {"name": "gcra", "algorithm": "gcra", "limit": 10, "per": "1h", "burst": 10},
              {"name": "window", "algorithm": "sliding-window", "limit": 10, "per": "1h"},
              {"name": "counter", "algorithm": "sliding-counter", "limit": 10, "per": "7d"},
              {"name": "calendar", "algorithm": "calendar", "limit": 10, "per": "month"},
              {"name": "levels", "levels": [{"name": "tenant", "limit": 10, "per": "1h", "burst": 10},
                                            {"name": "user", "limit": 10, "per": "1h", "burst": 10}]}]
PERMITS = [{"name": "permits", "algorithm": "concurrency", "limit": 10, "hold": "1h"},
           {"name": "plan", "plan": {"slots": 10, "hold": "10s"}}]
OTHERS = [{"name": "fast", "limit": 1000, "per": "1s", "burst": 1000},
          {"name": "hot", "lease": {}, "limit": 100000, "per": "1s", "burst": 100000},
          {"name": "hotter", "lease": {}, "levels": [{"name": "tenant", "limit": 100000, "per": "1s", "burst": 100000},
                                        {"name": "user", "limit": 100000, "per": "1s", "burst": 100000}]},
          {"name": "slots", "algorithm": "concurrency", "limit": 2, "hold": "1m",
           "breaker": {"failures": 1, "of": 1, "open": "300ms"}},
          {"name": "none", "limit": 0, "per": "1s"},
          {"name": "shadow", "limit": 10, "per": "1h", "burst": 10, "shadow": True},
          {"name": "guarded", "limit": 1000, "per": "1s", "burst": 1000,
           "breaker": {"failures": 3, "of": 5, "open": "600ms", "trials": 2}}]


def metric(agent, name, **labels):
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    for line in agent.http("GET", "/metrics").body.decode().splitlines():
        if line.startswith(f"{name}{{{text}}} "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name} {labels}")


def leased(agent):
    for line in agent.http("GET", "/metrics").body.decode().splitlines():
        if line.startswith("kova_lease_decisions_total "):
            return float(line.split()[1])
    return 0


class Feedback(harness.Case):
    def start(self, count=2, shape="standalone"):
        self.agents = shapes.start_agents(self, shape, ALGORITHMS + PERMITS + OTHERS, count)
        self.one, self.other = self.agents[0], self.agents[-1]

    def feed(self, *words, agent=None):
        self.assertEqual((agent or self.one).call("KOVA.FEEDBACK", *words), "OK")

    def take(self, policy, key, *more, agent=None):
        return (agent or self.other).call("KOVA.TAKE", policy, key, *more)

    def check_held(self, answer, least, most):
        self.assertEqual((answer[0], answer[1], answer[5]), (0, 0, "held"), answer)
        self.assertTrue(least <= answer[3] <= most, answer)

    def heat(self, agent, policy, key):
        """Asks until the key is decided from leases."""
        before = leased(agent)
        deadline = time.monotonic() + harness.PATIENCE
        with agent.resp() as connection:
            while leased(agent) < before + 100:
                self.assertLess(time.monotonic(), deadline)
                for _ in range(100):
                    connection.call("KOVA.TAKE", policy, key)

    def error(self, *words, agent=None):
        with self.assertRaises(harness.RespError) as caught:
            (agent or self.one).call(*words)
        return str(caught.exception)


class Held(Feedback):
    def test_the_next_take_of_another_agent_is_refused(self):
        self.start()
        for policy in ALGORITHMS:
            with self.subTest(policy["name"]):
                key = "acme/bob" if "levels" in policy else "k"
                self.feed(policy["name"], key, "ERROR", "STATUS", "429", "RETRYAFTER", "1.5", "LATENCY", "80")
                self.check_held(self.take(policy["name"], key), 1000, 1500)
                self.check_held(self.other.call("KOVA.PEEK", policy["name"], key), 1000, 1500)
                self.assertEqual(self.take(policy["name"], key + "2")[0], 1)
        for policy in PERMITS:
            with self.subTest(policy["name"]):
                self.feed(policy["name"], "k", "ERROR", "RETRYAFTER", "1.5")
                self.check_held(self.other.call("KOVA.ACQUIRE", policy["name"], "k")[:6], 1000, 1500)

    def test_retry_after_is_exact(self):
        self.start()
        for policy in ALGORITHMS[:5]:
            name = policy["name"]
            self.feed(name, "k", "ERROR", "RETRYAFTER", "0.4")
            answer = self.take(name, "k")
            self.check_held(answer, 200, 400)
            time.sleep(answer[3] / 1000)
            self.assertEqual(self.take(name, "k")[0], 1, name)
            self.assertEqual(self.other.call("KOVA.PEEK", name, "k")[1], 9, name)

    def test_a_shorter_hold_does_not_replace_a_longer_one(self):
        self.start()
        self.feed("bucket", "k", "ERROR", "RETRYAFTER", "20")
        self.feed("bucket", "k", "OK", "RETRYAFTER", "1", agent=self.other)
        self.feed("bucket", "k", "OK", "RETRYAFTER", "0", agent=self.other)
        self.feed("bucket", "k", "OK")
        self.check_held(self.take("bucket", "k"), 18000, 20000)
        self.feed("bucket", "k", "ERROR", "RETRYAFTER", "30", agent=self.other)
        self.check_held(self.take("bucket", "k"), 28000, 30000)

    def test_dates_in_all_forms(self):
        self.start()
        at = int(time.time()) + 30
        gmt = time.gmtime(at)
        forms = [formatdate(at, usegmt=True), time.strftime("%A, %d-%b-%y %H:%M:%S GMT", gmt),
                 time.strftime("%a %b ", gmt) + f"{gmt.tm_mday:2d}" + time.strftime(" %H:%M:%S %Y", gmt)]
        for i, form in enumerate(forms):
            self.feed("window", f"k{i}", "ERROR", "RETRYAFTER", form)
            left = (at - time.time()) * 1000
            self.check_held(self.take("window", f"k{i}"), left - 500, left + 500)
        self.feed("window", "past", "ERROR", "RETRYAFTER", formatdate(at - 60, usegmt=True))
        self.assertEqual(self.take("window", "past")[0], 1)

    def test_remaining_zero_with_reset(self):
        self.start()
        self.feed("fast", "k", "OK", "REMAINING", "0", "RESET", "20000")
        self.check_held(self.take("fast", "k"), 18000, 20000)
        self.feed("fast", "more", "OK", "REMAINING", "5", "RESET", "20000")
        self.assertEqual(self.take("fast", "more")[0], 1)

    def test_a_level_holds_what_is_below_it(self):
        self.start()
        self.feed("levels", "acme", "ERROR", "RETRYAFTER", "20")
        self.check_held(self.take("levels", "acme/bob"), 18000, 20000)
        self.check_held(self.take("levels", "acme"), 18000, 20000)
        self.assertEqual(self.take("levels", "acm/bob")[0], 1)
        self.feed("levels", "pear/bob", "ERROR", "RETRYAFTER", "20")
        self.assertEqual(self.take("levels", "pear/eve")[0], 1)

    def test_those_who_wait_wait_through_it(self):
        self.start()
        self.feed("fast", "k", "ERROR", "RETRYAFTER", "1.2")
        begun = time.monotonic()
        answers = []
        waiters = [threading.Thread(target=lambda: answers.append(self.take("fast", "k", "WAIT", "10000")))
                   for _ in range(3)]
        for thread in waiters:
            thread.start()
        time.sleep(0.3)
        self.check_held(self.take("fast", "k"), 300, 1000)  # behind them
        for thread in waiters:
            thread.join()
        self.assertEqual([answer[0] for answer in answers], [1, 1, 1])
        self.assertTrue(1.0 < time.monotonic() - begun < 3.0)

    def test_leases_of_this_agent_end_at_once_those_of_others_with_their_time(self):
        self.start()
        for agent in self.agents:
            self.heat(agent, "hot", "k")
        self.feed("hot", "k", "ERROR", "RETRYAFTER", "20")
        self.check_held(self.take("hot", "k", agent=self.one), 18000, 20000)
        time.sleep(0.6)
        self.check_held(self.take("hot", "k", agent=self.other), 17000, 20000)
        for _ in range(200):
            answer = self.take("hot", "k", agent=self.one)  # remembered: as exact
        self.check_held(answer, 16000, 19500)

    def test_leases_below_a_level_end_with_it(self):
        self.start()
        self.heat(self.one, "hotter", "acme/bob")
        self.feed("hotter", "acme", "ERROR", "RETRYAFTER", "20")
        self.check_held(self.take("hotter", "acme/bob", agent=self.one), 18000, 20000)

    def test_a_cluster_and_an_embedded_store(self):
        for shape in ("cluster", "embedded"):
            self.start(shape=shape)
            for name in ("bucket", "window"):
                self.feed(name, "k", "ERROR", "RETRYAFTER", "20")
                self.check_held(self.take(name, "k"), 15000, 20000)

    def test_shadow_and_zero(self):
        self.start()
        self.feed("shadow", "k", "ERROR", "RETRYAFTER", "20")
        answer = self.take("shadow", "k")
        self.assertEqual((answer[0], answer[5]), (1, "shadow"))
        self.feed("none", "k", "ERROR", "RETRYAFTER", "20")
        self.assertEqual(self.take("none", "k")[3], -1)


class Remaining(Feedback):
    def test_downwards_only(self):
        self.start()
        for policy in ALGORITHMS:
            with self.subTest(policy["name"]):
                name, key = policy["name"], "acme/bob" if "levels" in policy else "k"
                self.feed(name, key, "OK", "REMAINING", "4")
                self.assertEqual(self.other.call("KOVA.PEEK", name, key)[1], 4)
                self.feed(name, key, "OK", "REMAINING", "9")
                self.assertEqual(self.other.call("KOVA.PEEK", name, key)[1], 4)
                self.assertEqual([self.take(name, key)[0] for _ in range(5)], [1, 1, 1, 1, 0])


class Breaker(Feedback):
    def fail(self, policy, key, n):
        for i in range(n):
            self.feed(policy, key, "ERROR", agent=self.agents[i % len(self.agents)])

    def events(self):
        return [(line["event"], line["policy"]) for agent in self.agents for line in agent.log_lines()
                if line.get("event", "").startswith("breaker_")]

    def test_the_agents_share_it(self):
        self.start()
        for _ in range(300):
            self.take("guarded", "secret-key")
        self.fail("guarded", "secret-key", 2)
        self.assertEqual(self.take("guarded", "secret-key")[0], 1)
        self.fail("guarded", "secret-key", 1)
        for agent in self.agents:
            answer = self.take("guarded", "secret-key", agent=agent)
            self.assertEqual((answer[0], answer[5]), (0, "breaker_open"))
            self.assertTrue(0 < answer[3] <= 600, answer)
        self.assertEqual(self.take("guarded", "other")[0], 1)
        time.sleep(answer[3] / 1000)
        admitted = [self.take("guarded", "secret-key", agent=self.agents[i % 2])[0] for i in range(6)]
        self.assertEqual(sum(admitted), 2)
        self.feed("guarded", "secret-key", "OK", agent=self.other)
        self.assertEqual([self.take("guarded", "secret-key")[0] for _ in range(5)], [1] * 5)
        self.assertEqual(sorted(self.events()), [("breaker_closed", "guarded"), ("breaker_opened", "guarded")])
        for agent in self.agents:
            self.assertNotIn("secret-key", agent.log())
        self.assertEqual(sum(metric(agent, "kova_breaker_opened_total", policy="guarded") for agent in self.agents), 1)
        self.assertEqual(sum(metric(agent, "kova_breaker_closed_total", policy="guarded") for agent in self.agents), 1)
        self.assertEqual(sum(metric(agent, "kova_feedback_total", policy="guarded", outcome="error")
                             for agent in self.agents), 3)
        self.assertEqual(metric(self.other, "kova_feedback_total", policy="guarded", outcome="ok"), 1)

    def test_a_trial_that_fails_opens_it_again(self):
        self.start()
        self.fail("guarded", "k", 3)
        time.sleep(0.65)
        self.assertEqual(self.take("guarded", "k")[0], 1)
        self.feed("guarded", "k", "ERROR")
        self.assertEqual(self.take("guarded", "k")[5], "breaker_open")

    def test_a_trial_without_feedback_frees_itself(self):
        self.start()
        self.fail("guarded", "k", 3)
        time.sleep(0.65)
        self.assertEqual([self.take("guarded", "k")[0] for _ in range(3)], [1, 1, 0])
        time.sleep(0.65)
        self.assertEqual([self.take("guarded", "k")[0] for _ in range(3)], [1, 1, 0])

    def test_permits_and_a_wait_for_the_trial(self):
        self.start()
        self.feed("slots", "k", "ERROR")
        self.assertEqual(self.other.call("KOVA.ACQUIRE", "slots", "k")[5], "breaker_open")
        self.assertEqual(self.other.call("KOVA.ACQUIRE", "slots", "k", "WAIT", "3000")[0], 1)
        self.assertEqual(self.other.call("KOVA.ACQUIRE", "slots", "k")[5], "breaker_open")
        self.feed("slots", "k", "OK")
        self.assertEqual(self.other.call("KOVA.ACQUIRE", "slots", "k")[0], 1)


class Protocols(Feedback):
    def test_errors_over_resp(self):
        self.start(count=1)
        for words in (["k", "MAYBE"], ["k", "OK", "RETRYAFTER", "soon"], ["k", "OK", "RETRYAFTER", ""],
                      ["k", "OK", "RETRYAFTER"], ["k", "OK", "REMAINING", "x"], ["k", "OK", "NONSENSE", "1"],
                      ["k", "OK", "RESET", "1", "RESET", "2"], ["k"]):
            self.assertTrue(self.error("KOVA.FEEDBACK", "bucket", *words).startswith("ERR "), words)
        for words in (["RETRYAFTER", "-1"], ["RETRYAFTER", "86400.1"], ["STATUS", "42"], ["LATENCY", "-1"],
                      ["REMAINING", "1000000001"], ["RESET", "-1"], ["RETRYAFTER", formatdate(time.time() + 1e6, usegmt=True)]):
            self.assertTrue(self.error("KOVA.FEEDBACK", "bucket", "k", "OK", *words).startswith("RANGE "), words)
        self.assertTrue(self.error("KOVA.FEEDBACK", "unknown", "k", "OK").startswith("NOPOLICY "))
        self.assertEqual(self.take("bucket", "k")[1], 9)

    def post(self, body):
        return self.one.http("POST", "/v1/feedback", json.dumps(body))

    def test_http(self):
        self.start()
        base = {"policy": "window", "ok": False, "status": 429, "latency_ms": 12}
        for i, value in enumerate((30, 29.5, "30", " 30.0", formatdate(time.time() + 30, usegmt=True))):
            answer = self.post({**base, "key": f"k{i}", "retry_after": value})
            self.assertEqual((answer.status, json.loads(answer.body)), (200, {"ok": True}), value)
            refused = self.other.http("POST", "/v1/take", json.dumps({"policy": "window", "key": f"k{i}"}))
            self.assertEqual((refused.status, json.loads(refused.body)["reason"]), (429, "held"))
            self.assertTrue(27 <= int(refused.headers["Retry-After"]) <= 30)
        self.assertEqual(self.post({**base, "key": "n", "retry_after": None}).status, 200)
        self.assertEqual(self.post({**base, "key": "n", "remaining": 0, "reset_ms": 9000}).status, 200)
        self.check_held(self.take("window", "n"), 8000, 9000)
        for wrong in ({"retry_after": "soon"}, {"retry_after": -1}, {"retry_after": 86401}, {"retry_after": True},
                      {"retry_after": 1e300}, {"ok": 1}, {"remaining": -1}, {"status": 7}, {"nonsense": 1}, {"key": ""}):
            answer = self.post({**base, "key": "x", **wrong})
            self.assertEqual(answer.status, 400, wrong)
        self.assertEqual(self.post({"policy": "window", "key": "x"}).status, 400)
        self.assertEqual(self.post({**base, "policy": "unknown", "key": "x"}).status, 404)

    def test_unlimited_and_banned_keys_are_left_alone(self):
        agent = self.start_agent({"policies": ALGORITHMS, "overrides": [
            {"policy": "levels", "key": "acme/free", "unlimited": True},
            {"policy": "bucket", "key": "free", "unlimited": True}, {"policy": "bucket", "key": "bad", "banned": True}]})
        shapes.wait_for_redis(agent)
        for policy, key in (("levels", "acme/free"), ("bucket", "free"), ("bucket", "bad")):
            self.feed(policy, key, "ERROR", "RETRYAFTER", "20", agent=agent)
        self.assertEqual(self.take("levels", "acme/free", agent=agent)[0], 1)
        self.assertEqual(self.take("levels", "acme/bob", agent=agent)[0], 1)
        self.assertEqual(self.take("bucket", "free", agent=agent)[0], 1)
        self.assertEqual(self.take("bucket", "bad", agent=agent)[5], "banned")


if __name__ == "__main__":
    harness.main()
