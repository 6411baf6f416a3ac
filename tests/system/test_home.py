"""Home regions: where a key is at home, by this second implementation, by the agent and by kovactl."""
# Mostly waits.
import json
import math
import os
import random
import subprocess
import unittest
import urllib.parse

import harness

MASK = (1 << 64) - 1


def finalize(h):
    h = (h ^ h >> 33) * 0xff51afd7ed558ccd & MASK
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53 & MASK
    return h ^ h >> 33


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & MASK
    return h


def distance(x):
    x |= 1
    zeros = 64 - x.bit_length()
    m, fraction = x << zeros >> 32, 0
    for _ in range(32):
        m = m * m >> 31
        fraction = fraction << 1 | m >> 32
        m >>= m >> 32
    return (zeros + 1 << 32) - fraction


def home(key, weights):
    """As docs/home.md has it; `key` is bytes."""
    k = finalize(fnv1a(key.split(b"/")[0]))
    best, least = None, 0
    for name in sorted(weights):
        d = distance(finalize(k ^ finalize(fnv1a(name.encode()))))
        if weights[name] and (best is None or d * weights[best] < least * weights[name]):
            best, least = name, d
    return best


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(harness.SOURCE, "tests", "vectors", "home.json"), encoding="utf-8") as file:
            cls.vectors = json.load(file)

    def test_hashes(self):
        for v in self.vectors["fnv1a64"]:
            self.assertEqual(v["hash"], f"{fnv1a(v['text'].encode()):016x}")
        for v in self.vectors["hash"]:
            self.assertEqual(v["hash"], f"{finalize(fnv1a(v['text'].encode())):016x}")

    def test_the_distance_is_a_logarithm(self):
        for v in self.vectors["distance"]:
            self.assertEqual(v["distance"], distance(int(v["x"], 16)))
        dice = random.Random(1)
        for _ in range(10000):
            x = dice.getrandbits(64) >> dice.randrange(64) | 1
            self.assertAlmostEqual(64 - math.log2(x), distance(x) / 2**32, delta=1e-8)

    def test_homes(self):
        for ring in self.vectors["homes"]:
            self.assertGreater(len(ring["keys"]), 30)
            for v in ring["keys"]:
                self.assertEqual(v["root"], v["key"].split("/")[0])
                self.assertEqual(v["region"], home(v["key"].encode(), ring["regions"]), v["key"])


class Asked(harness.Case):
    WEIGHTS = {"eu-west": 2, "us-east": 1, "ap-south": 1}

    def start(self):
        regions = {name: {"weight": weight} for name, weight in self.WEIGHTS.items()}
        return self.start_agent({"region": "us-east", "regions": regions})

    def test_the_agent_and_kovactl_say_where(self):
        agent = self.start()
        keys = [b"acme", b"acme/u7", b"/", b"a%2Fb/c", "büro/1".encode(), b"\xff\xfe/x"] + \
            [b"tenant%d" % i for i in range(40)]
        found = set()
        for key in keys:
            answer = agent.http("GET", "/v1/home?key=" + urllib.parse.quote_from_bytes(key, safe=""))
            self.assertEqual(200, answer.status)
            expected = home(key, self.WEIGHTS)
            self.assertEqual(expected, answer.json()["region"], key)
            if key.isascii():
                self.assertEqual(key.split(b"/")[0].decode(), answer.json()["root"])
            found.add(expected)
        self.assertEqual(set(self.WEIGHTS), found)
        said = subprocess.run([harness.program("kovactl"), "--agent", "%s:%d" % agent.resp_address, "home", "acme/u7"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(home(b"acme/u7", self.WEIGHTS), said.stdout.strip())

    def test_a_reload_that_changes_homes_is_refused(self):
        agent = self.start()
        config = dict(agent.config)
        before = agent.http("GET", "/v1/home?key=k").json()
        config["regions"] = {name: {} for name in self.WEIGHTS}
        config["policies"] = [{"name": "new", "limit": 1, "per": "1s"}]
        agent.reload(config)
        harness.wait_for(lambda: any("can't change while the agent runs" in line["message"] for line in agent.log_lines()),
                         "a refusal")
        self.assertEqual(before, agent.http("GET", "/v1/home?key=k").json())
        self.assertEqual([], agent.http("GET", "/v1/policies").json()["policies"])

    def test_a_reload_that_changes_what_was_before_is_refused(self):
        agent = self.start()
        config = dict(agent.config)
        config.update(regions_version=2, regions_before=[{"eu-west": 1}], policies=[{"name": "new", "limit": 1, "per": "1s"}])
        agent.reload(config)
        harness.wait_for(lambda: any("can't change while the agent runs" in line["message"] for line in agent.log_lines()),
                         "a refusal")
        self.assertEqual([], agent.http("GET", "/v1/policies").json()["policies"])


if __name__ == "__main__":
    harness.main()
