"""A policy's `adaptive`: workers in front of somebody else's API find what it takes, by its answers."""
# Mostly waits.
import threading
import time

import harness

RATE = 40.0
AIMD = {"name": "aimd", "limit": 80, "per": "1s", "burst": 4,
        "adaptive": {"min": 2, "increase": 1, "window": "500ms"}}
GRADIENT = {"name": "gradient", "limit": 80, "per": "1s", "burst": 4,
            "adaptive": {"mode": "gradient", "min": 2, "increase": 2, "tolerance": 100, "window": "200ms"}}
SLOW = {"name": "slow", "limit": 10, "per": "1s", "burst": 20, "adaptive": {"min": 2, "decrease": 50, "window": "1m"}}
HOT = {"name": "hot", "limit": 100000, "per": "1s", "burst": 100000, "lease": {}, "adaptive": {}}


class Upstream:
    """Takes `rate` a second, which nobody is told; what would wait for longer than `patience` (s) gets 429."""

    def __init__(self, rate, patience, base):
        self.rate, self.patience, self.base = rate, patience, base
        self._free = 0.0
        self._lock = threading.Lock()

    def call(self):
        """(status, latency in s), after that time."""
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free)
            if begin - now > self.patience:
                status, latency = 429, self.base
            else:
                self._free = begin + 1 / self.rate
                status, latency = 200, begin - now + self.base
        time.sleep(latency)
        return status, latency


class Worker:
    """Several callers, each through an agent; what became of each request is kept with its time."""

    def __init__(self, agent, upstream, policy, callers=5):
        self.outcomes = []
        self._stop = False
        self._threads = [threading.Thread(target=self._run, args=(agent, upstream, policy), daemon=True)
                         for _ in range(callers)]
        for thread in self._threads:
            thread.start()

    def _run(self, agent, upstream, policy):
        with agent.resp() as resp:
            while not self._stop:
                if resp.call("KOVA.TAKE", policy, "api", "WAIT", 1000)[0] != 1:
                    continue
                status, latency = upstream.call()
                self.outcomes.append((time.monotonic(), status))
                resp.call("KOVA.FEEDBACK", policy, "api", "OK" if status == 200 else "ERROR",
                          "STATUS", status, "LATENCY", max(1, round(latency * 1000)))

    def stop(self):
        self._stop = True
        for thread in self._threads:
            thread.join()


def metric(agent, name):
    for line in agent.http("GET", "/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


class Adaptive(harness.Case):
    def setUp(self):
        super().setUp()
        redis = self.start_redis()
        config = {"redis": {"mode": "standalone", "url": redis.url},
                  "policies": [{**policy, "on_outage": "deny"} for policy in (AIMD, GRADIENT, SLOW, HOT)]}
        self.agents = [self.start_agent(config) for _ in range(2)]

    def judge(self, when, workers, begin, end, rate):
        statuses = [status for worker in workers for at, status in worker.outcomes if begin <= at < end]
        served, errors = statuses.count(200) / (end - begin), statuses.count(429)
        print(f"{when}: {served:.1f} of {rate:.0f} a second, "
              f"{100 * errors / len(statuses):.1f} % errors", flush=True)
        self.assertGreaterEqual(served, 0.8 * rate)
        self.assertLessEqual(errors, 0.05 * len(statuses))

    def test_it_finds_what_an_upstream_takes(self):
        """By refusals, and by latency; also when it takes half of that."""
        upstreams = {"aimd": Upstream(RATE, patience=0.2, base=0.02), "gradient": Upstream(RATE, patience=60, base=0.1)}
        workers = {policy: [Worker(self.agents[i % 2], upstream, policy) for i in range(3)]
                   for policy, upstream in upstreams.items()}
        try:
            for when in ("found", "halved"):
                time.sleep(6)
                begin = time.monotonic()
                time.sleep(4)
                for policy, upstream in upstreams.items():
                    self.judge(f"{policy}, {when}", workers[policy], begin, time.monotonic(), upstream.rate)
                    upstream.rate /= 2
        finally:
            for worker in workers["aimd"] + workers["gradient"]:
                worker.stop()
        for name in ("raised", "lowered"):
            self.assertGreater(sum(metric(agent, f'kova_adaptive_{name}_total{{policy="aimd"}}') for agent in self.agents), 3)

    def test_it_is_one_limit_for_all_and_shown(self):
        one, other = self.agents
        self.assertEqual(one.call("KOVA.PEEK", "slow", "k")[1:3], [20, 20])
        for _ in range(5):  # of one moment: once
            self.assertEqual(one.call("KOVA.FEEDBACK", "slow", "k", "ERROR", "STATUS", "429"), "OK")
        self.assertEqual(other.call("KOVA.PEEK", "slow", "k")[1:3], [10, 10])
        answer = other.http("POST", "/v1/take", {"policy": "slow", "key": "k"})
        self.assertEqual((answer.json()["limit"], answer.json()["remaining"]), (10, 9))
        self.assertEqual(answer.headers["RateLimit-Policy"], '"slow";q=10;w=2')
        self.assertEqual(one.call("KOVA.TAKE", "slow", "k", "COST", 9)[:2], [1, 0])
        refused = one.call("KOVA.TAKE", "slow", "k", "COST", 10)
        self.assertEqual(refused[2], 10)
        self.assertGreater(refused[3], 1500, "5 a second, not 10")
        self.assertEqual(one.call("KOVA.TAKE", "slow", "k", "COST", 11)[3], -1)
        self.assertEqual(one.call("KOVA.PEEK", "slow", "other")[1:3], [20, 20])
        lowered = [line for line in one.log_lines() if line["event"] == "limit_lowered"]
        self.assertEqual([(line["policy"], line["limit"]) for line in lowered], [("slow", 5)])

    def test_what_counts_as_too_much(self):
        """By the status; without one an ERROR does."""
        cases = ((("ERROR",), 10), (("ERROR", "STATUS", "500"), 10), (("OK", "STATUS", "503"), 10),
                 (("ERROR", "STATUS", "429", "RETRYAFTER", "0"), 10), (("ERROR", "STATUS", "408"), 10),
                 (("ERROR", "STATUS", "404"), 20), (("OK", "STATUS", "200"), 20), (("OK",), 20))
        for i, (words, limit) in enumerate(cases):
            self.agents[0].call("KOVA.FEEDBACK", "slow", f"k{i}", *words)
            self.assertEqual(self.agents[1].call("KOVA.PEEK", "slow", f"k{i}")[2], limit, words)
        self.agents[0].http("POST", "/v1/feedback", {"policy": "slow", "key": "h", "ok": False, "status": 429, "latency_ms": 3})
        self.assertEqual(self.agents[1].call("KOVA.PEEK", "slow", "h")[2], 10)

    def test_there_are_no_leases(self):
        """Their holders would go by a limit of before."""
        with self.agents[0].resp() as resp:
            for _ in range(3000):
                self.assertEqual(resp.call("KOVA.TAKE", "hot", "k")[0], 1)
        self.assertEqual(metric(self.agents[0], "kova_lease_decisions_total"), 0)

    def test_the_policy_says_so(self):
        policies = self.agents[0].http("GET", "/v1/policies").json()["policies"]
        shown = next(policy for policy in policies if policy["name"] == "gradient")
        self.assertEqual(shown["adaptive"], GRADIENT["adaptive"])

    def test_an_override_bounds_it(self):
        body = {"policy": "slow", "key": "small", "limit": 4, "per": "1s", "burst": 4}
        self.assertLess(self.agents[0].http("PUT", "/v1/overrides", body).status, 300)
        self.assertEqual(self.agents[0].call("KOVA.PEEK", "slow", "small")[2], 4)
        self.agents[0].call("KOVA.FEEDBACK", "slow", "small", "ERROR")
        self.assertEqual(self.agents[0].call("KOVA.PEEK", "slow", "small")[2], 2)

    def test_id_refund_and_levels(self):
        one = self.agents[0]
        one.call("KOVA.FEEDBACK", "slow", "k", "ERROR")
        first = one.call("KOVA.TAKE", "slow", "k", "COST", 4, "ID", "x", "RECEIPT")
        again = one.call("KOVA.TAKE", "slow", "k", "COST", 4, "ID", "x", "RECEIPT")
        self.assertEqual((first[:3], again[:3]), ([1, 6, 10], [1, 6, 10]))
        self.assertEqual(one.call("KOVA.REFUND", first[6]), 4)
        self.assertGreaterEqual(one.call("KOVA.PEEK", "slow", "k")[1], 10)


class Breaker(harness.Case):
    def test_a_status_is_a_failure(self):
        """Whatever the word says: 429 and 503 without a Retry-After, and 5xx."""
        agent = self.start_agent({"policies": [{"name": "b", "limit": 100, "per": "1s",
                                                "breaker": {"failures": 1, "of": 1, "open": "1h"}}]})
        cases = ((("OK", "STATUS", "429"), True), (("OK", "STATUS", "503"), True), (("OK", "STATUS", "500"), True),
                 (("ERROR", "STATUS", "404"), True), (("OK", "STATUS", "404"), False),
                 (("OK", "STATUS", "429", "RETRYAFTER", "0"), False), (("OK", "STATUS", "200"), False))
        for i, (words, opened) in enumerate(cases):
            agent.call("KOVA.FEEDBACK", "b", f"k{i}", *words)
            self.assertEqual(agent.call("KOVA.PEEK", "b", f"k{i}")[5] == "breaker_open", opened, words)


class Away(harness.Case):
    def test_an_outage_goes_on_with_the_limit_that_was_heard_of_last(self):
        redis = self.start_redis()
        agent = self.start_agent({"redis": {"mode": "standalone", "url": redis.url, "timeout": "100ms"},
                                  "policies": [{**SLOW, "adaptive": {"min": 2, "decrease": 80, "window": "1m"}}]})
        self.assertEqual(agent.call("KOVA.TAKE", "slow", "other")[2], 20)
        agent.call("KOVA.FEEDBACK", "slow", "k", "ERROR", "STATUS", "429")
        self.assertEqual(agent.call("KOVA.TAKE", "slow", "k")[2], 4)
        redis.kill()
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "slow", "k")[5] == "outage", "an outage")
        admitted, begun = {"k": 0, "other": 0}, time.monotonic()
        while time.monotonic() < begun + 4:
            for key in admitted:
                answer = agent.call("KOVA.TAKE", "slow", key)
                admitted[key] += answer[0]
                self.assertEqual(answer[2], 4 if key == "k" else 20)
            time.sleep(0.02)
        self.assertTrue(6 <= admitted["k"] <= 10, admitted)
        self.assertGreater(admitted["other"], 30)


if __name__ == "__main__":
    harness.main()
