"""Keys are independent whatever they are made of; bad numbers are errors and change nothing."""
# Mostly waits.

import itertools

import harness
import load
import shapes

SMALL = {"limit": 3, "per": "1h"}
ALGORITHMS = ("token-bucket", "gcra", "sliding-window", "sliding-counter")


def policy(name, algorithm="token-bucket", **more):
    burst = {"burst": 3} if algorithm in ("token-bucket", "gcra") else {}
    return {"name": name, "algorithm": algorithm, **SMALL, **burst, **more}


LEVELS = [{"name": "one", **SMALL, "burst": 3}, {"name": "two", **SMALL, "burst": 3}]

# Pairs of policy and key that some way of joining the two, or of making a Redis key of them, would take for one.
ALIKE = (
    ("a_b", "c"),
    ("a", "b_c"),
    ("aa", "b"),
    ("a", "ab"),
    ("a", "b"),
    ("a-b", "c"),
    ("a", "b-c"),
    ("a.b", "c"),
    ("a", "b.c"),
    ("a", "{b}"),
    ("a", "{b"),
    ("a", "b}"),
    ("a", "{}"),
    ("a", "}{"),
    ("a", "{b}c"),
    ("a", "{b}d"),
    ("a", "{c}b"),
    ("a", "{{b}}"),
    ("a", "b:c"),
    ("a", ":b"),
    ("a", "b:"),
    ("a", ":"),
    ("a", "::"),
    ("a", "0:b"),
    ("a", "b:0"),
    ("a", "1:b"),
    ("a", "é"),
    ("a", "e\u0301"),
    ("a", "日本"),
    ("a", b"\xff\xfe"),
    ("a", b"\xff"),
    ("a", b"\x00"),
    ("a", b"\x00\x00"),
    ("a", "b\r\nc"),
    ("a", "b c"),
    ("a", " b"),
    ("a", "b "),
    ("a", "B"),
    ("A", "b"),
    ("a", "*"),
    ("a", "%"),
    ("a", "%25"),
    ("a", "%7D"),
    ("a", "%7d"),
    ("a", "b%7D"),
    ("a", "%2F"),
    ("a", "%2f"),
    ("a", "/"),
    ("a", "//"),
    ("a", "b/"),
    ("a", "/b"),
    ("a", "b/c"),
    ("a", "b//c"),
    ("a", "b%2Fc"),
    ("a", "x" * 1024),
    ("a", "x" * 1023),
    ("a", "x" * 1023 + "y"),
    ("a", "{" * 1024),
    ("a", "}" * 1024),
    ("a", "/" * 1024),
    ("a", b"\xff" * 1024),
    ("a", "k:b{b}a:0"),
    ("a", "-1"),
    ("a", "0"),
)
NAMES = sorted({name for name, _ in ALIKE})

# Paths of a policy with two levels: the first level by root, the second by the whole.
PATHS = (
    "t/u",
    "t/v",
    "t/{u",
    "t/u}",
    "t}/u",
    "{t/u",
    "t{}/u",
    "t:0/u",
    "t/0:u",
    "%2F/u",
    "//u",
    "/u/",
    "t%/u",
    "t%7D/u",
)


class Separate(harness.Case):
    def check(self, shape):
        policies = [policy(name) for name in NAMES]
        policies += [policy(f"alg{i}", algorithm) for i, algorithm in enumerate(ALGORITHMS)]
        policies += [{"name": "levels", "levels": LEVELS}]
        agent = self.connect(shapes.start_agents(self, shape, policies, count=1)[0])
        self.assertEqual(len(set(ALIKE)), len(ALIKE))
        pairs = list(ALIKE) + [
            (f"alg{i}", key) for i in range(len(ALGORITHMS)) for key in ("b", "{b}", "b/", b"\xff", "y" * 1024)
        ]
        # In turns, so that a pair that shares its state with an earlier one is found whichever comes first.
        for left in (2, 1, 0):
            answers = agent.pipeline([("KOVA.TAKE", name, key) for name, key in pairs])
            for pair, answer in zip(pairs, answers):
                self.assertEqual(answer[:3], [1, left, 3], pair)
        for pair, answer in zip(pairs, agent.pipeline([("KOVA.TAKE", name, key) for name, key in pairs])):
            self.assertEqual((answer[0], answer[5]), (0, f"limited:{pair[0]}"), pair)

    def connect(self, agent):
        connection = agent.resp()
        self.addCleanup(connection.close)
        return connection

    def test_standalone(self):
        self.check("standalone")

    def test_cluster(self):
        self.check("cluster")

    def test_embedded(self):
        self.check("embedded")

    def test_parts_of_a_path(self):
        policies = [
            {"name": "levels", "levels": [{"name": "one", "limit": 1000, "per": "1h", "burst": 1000}, LEVELS[1]]}
        ]
        agent = self.connect(shapes.start_agents(self, "cluster", policies, count=1)[0])
        for left in (2, 1, 0):
            for path, answer in zip(PATHS, agent.pipeline([("KOVA.TAKE", "levels", path) for path in PATHS])):
                self.assertEqual(answer[:3], [1, left, 3], path)
        roots = {path.split("/")[0] for path in PATHS if path[0] != "/"}
        for root in roots:
            taken = 3 * sum(path.split("/")[0] == root for path in PATHS)
            self.assertEqual(agent.call("KOVA.PEEK", "levels", root)[1], 1000 - taken, root)
        # A whole key of one level is not the level of another policy's path.
        self.assertEqual(agent.call("KOVA.PEEK", "levels", "t%2Fu")[1], 1000)

    def test_take_throttle_id_and_receipt_do_not_meet(self):
        agent = self.connect(shapes.start_agents(self, "standalone", [policy("a"), policy("g", "gcra")], count=1)[0])
        self.assertEqual(agent.call("CL.THROTTLE", "b", 2, 3, 3600), [0, 3, 2, -1, 1200])
        self.assertEqual(agent.call("KOVA.TAKE", "g", "b")[:2], [1, 2])
        self.assertEqual(agent.call("KOVA.TAKE", "a", "b", "ID", "b", "RECEIPT")[:2], [1, 2])
        self.assertEqual(agent.call("KOVA.TAKE", "a", "b", "ID", "b{b}")[:2], [1, 1])
        self.assertEqual(agent.call("CL.THROTTLE", "b", 2, 3, 3600)[:3], [0, 3, 1])
        self.assertEqual(agent.call("KOVA.PEEK", "g", "b")[1], 2)

    def test_keys_too_short_and_too_long(self):
        agent = self.connect(shapes.start_agents(self, "standalone", [policy("a")], count=1)[0])
        for key in ("", "x" * 1025):
            for command in ("KOVA.TAKE", "KOVA.PEEK"):
                with self.assertRaisesRegex(harness.RespError, "^(ERR|RANGE) "):
                    agent.call(command, "a", key)
        self.assertEqual(agent.call("PING"), "PONG")


class BadNumbers(harness.Case):
    POLICIES = [
        policy("p"),
        {"name": "c", "algorithm": "concurrency", "limit": 3, "hold": "1h"},
        {"name": "zero", "limit": 0, "per": "1s"},
        {"name": "zw", "algorithm": "sliding-window", "limit": 0, "per": "1s"},
        {"name": "zc", "algorithm": "concurrency", "limit": 0, "hold": "1s"},
        {"name": "zd", "algorithm": "calendar", "limit": 0, "per": "day"},
    ]
    OUT_OF_RANGE = ("0", "-5", "9223372036854775807", "1000000001", "-9223372036854775808")
    NO_NUMBER = ("1e3", "", "1.0", " 1", "1 ", "+", "-", "0x10", "one", "1_000", "٣", "NaN", "inf", b"\x00", b"1\x00")
    EITHER = ("9223372036854775808", "99999999999999999999999", "-0", "+1", "01")

    def setUp(self):
        super().setUp()
        self.agent = shapes.start_agents(self, "standalone", self.POLICIES, count=1)[0]
        self.resp = self.agent.resp()
        self.addCleanup(self.resp.close)

    def test_costs(self):
        self.assertEqual(self.resp.call("KOVA.TAKE", "p", "k")[1], 2)
        for text, code in itertools.chain(
            ((t, "RANGE ") for t in self.OUT_OF_RANGE),
            ((t, "ERR ") for t in self.NO_NUMBER),
            ((t, ("RANGE ", "ERR ")) for t in self.EITHER),
        ):
            for words in (
                ("KOVA.TAKE", "p", "k", "COST", text),
                ("KOVA.TAKE", "p", "o", "AND", "p", "k", "COST", text),
            ):
                with self.subTest(cost=text):
                    reply = self.resp.pipeline([words])[0]
                    self.assertIsInstance(reply, harness.RespError)
                    self.assertTrue(str(reply).startswith(code), reply)
        self.assertEqual(self.resp.call("KOVA.PEEK", "p", "k")[:2], [1, 2])
        self.assertEqual(self.resp.call("KOVA.PEEK", "p", "o")[:2], [1, 3])

    def test_waits(self):
        for text in ("-1", "86400001", "9223372036854775807", "1e3", "", "x"):
            reply = self.resp.pipeline([("KOVA.TAKE", "p", "w", "WAIT", text)])[0]
            self.assertIsInstance(reply, harness.RespError, text)
        self.assertEqual(self.resp.call("KOVA.PEEK", "p", "w")[1], 3)

    def test_http_costs(self):
        for cost in (0, -5, 9223372036854775807, 10**30, 1.5, 1e3, "1", "", None, True, [1], {}):
            with self.subTest(cost=cost):
                answer = self.agent.http("POST", "/v1/take", {"policy": "p", "key": "h", "cost": cost})
                self.assertEqual(answer.status, 400, answer.body)
                self.assertIn("application/problem+json", answer.headers["Content-Type"])
        self.assertEqual(self.agent.http("POST", "/v1/peek", {"policy": "p", "key": "h"}).json()["remaining"], 3)

    def test_the_largest_cost(self):
        self.assertEqual(self.resp.call("KOVA.TAKE", "p", "l", "COST", 10**9)[:4], [0, 3, 3, -1])

    def test_limit_zero_denies(self):
        for name in ("zero", "zw", "zd"):
            with self.subTest(policy=name):
                reply = self.resp.call("KOVA.TAKE", name, "k")
                self.assertEqual(reply[:4] + [reply[5]], [0, 0, 0, -1, f"limited:{name}"])
                self.assertEqual(self.resp.call("KOVA.PEEK", name, "k")[:4], [0, 0, 0, -1])
        reply = self.resp.call("KOVA.ACQUIRE", "zc", "k")
        self.assertEqual(reply[:4] + reply[5:], [0, 0, 0, -1, "limited:zc", None, None])

    def test_syntax_is_checked_before_anything_is_taken(self):
        for words in (
            ("KOVA.TAKE", "p", "s", "COST"),
            ("KOVA.TAKE", "p", "s", "AND", "p"),
            ("KOVA.TAKE", "p", "s", "COST", "1", "COST", "1"),
            ("KOVA.TAKE", "p", "s", "NOPE"),
            ("KOVA.TAKE", "p"),
            ("KOVA.TAKE",),
            ("KOVA.PEEK", "p", "s", "x"),
            ("KOVA.TAKE", "p", "s", "RECEIPT", "RECEIPT"),
            ("KOVA.TAKE", "p", "s", "ID", ""),
            ("KOVA.TAKE", "p", "s", "ID", "x" * 257),
            ("KOVA.TAKE", "c", "s"),
            ("KOVA.ACQUIRE", "p", "s"),
            ("KOVA.RELEASE", "p", "s", "x"),
            ("KOVA.REFUND", "nonsense"),
        ):
            with self.subTest(words=words):
                self.assertIsInstance(self.resp.pipeline([words])[0], harness.RespError)
        self.assertEqual(self.resp.call("KOVA.PEEK", "p", "s")[1], 3)
        with self.assertRaisesRegex(harness.RespError, "ACQUIRE"):
            self.resp.call("KOVA.TAKE", "c", "s")
        with self.assertRaisesRegex(harness.RespError, "^NOPOLICY"):
            self.resp.call("KOVA.TAKE", "none", "s")

    def test_a_bad_command_leaves_its_neighbours_alone(self):
        replies = self.resp.pipeline(
            [("KOVA.TAKE", "p", "n"), ("KOVA.TAKE", "p", "n", "COST", "x"), ("KOVA.TAKE", "p", "n")]
        )
        self.assertEqual([replies[0][1], replies[2][1]], [2, 1])
        self.assertIsInstance(replies[1], harness.RespError)

    def test_under_load_errors_do_not_leak_into_answers(self):
        with load.Swarm([self.agent.resp_address], 20) as swarm:
            hits = swarm.run(1, lambda n: ("KOVA.TAKE", "p", f"mix{n}") + ("COST", "0") * (n % 2))
        for hit in hits:
            self.assertEqual(hit.admitted, len(hit.words) == 3, hit)


if __name__ == "__main__":
    harness.main()
