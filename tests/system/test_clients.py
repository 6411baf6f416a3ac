"""Real clients of other languages: the same commands, the same answers (tests/clients/, installed by scripts/clients)."""
import json
import os
import shutil
import subprocess

import harness

CLIENTS = os.path.join(harness.SOURCE, "build", "clients")
POLICIES = [{"name": "p", "limit": 1, "per": "1h", "burst": 100},
            {"name": "c", "algorithm": "concurrency", "limit": 2, "hold": "1m"}]

# Each command with what its answer must be; a function judges what varies.
COMMANDS = (
    (("KOVA.TAKE", "p", "{}", "COST", 3), lambda a: a[0] == 1 and a[2] == 100 and a[5] == "ok"),
    (("KOVA.PEEK", "p", "{}"), lambda a: a[0] == 1 and a[1] <= 97),
    (("KOVA.TAKE", "p", "{}", "COST", 101), lambda a: a[0] == 0 and a[3] == -1 and a[5] == "limited:p"),
    (("KOVA.ACQUIRE", "c", "{}"), lambda a: len(a) == 8 and a[0] in (0, 1)),
    (("KOVA.TAKE", "nope", "{}"), lambda a: a["error"].startswith("NOPOLICY")),
    (("KOVA.TAKE", "p", "{}", "COST", "1e3"), lambda a: "error" in a),
    (("CL.THROTTLE", "{}", 9, 1, 3600), lambda a: a[0] == 0 and a[1] == 10),
)


class Clients(harness.Case):
    def check(self, name, command, protocol, cwd=None):
        if not os.path.exists(os.path.join(CLIENTS, f"{name}.done")):
            self.skipTest(f"the {name} client is not installed (scripts/clients says why)")
        token = "t0ken"
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(token + "\n")
        agent = self.start_agent({"policies": POLICIES, "auth": {"tokens_file": tokens}})
        job = {"port": agent.resp_address[1], "protocol": protocol, "token": token,
               "commands": [[str(word).replace("{}", f"{name}{protocol}") for word in words] for words, _ in COMMANDS]}
        result = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, cwd=cwd, check=False,
                                timeout=harness.PATIENCE * 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = json.loads(result.stdout)
        for way in ("single", "pipeline"):
            for (words, judge), answer in zip(COMMANDS, answers[way], strict=True):
                self.assertTrue(judge(answer), f"{way} {words}: {answer}")

    def python(self, protocol):
        self.check("python", [os.path.join(CLIENTS, "python", "bin", "python"),
                              os.path.join(harness.SOURCE, "tests", "clients", "python", "client.py")], protocol)

    def test_redis_py_resp2(self):
        self.python(2)

    def test_redis_py_resp3(self):
        self.python(3)

    def test_ioredis(self):
        self.check("node", ["node", "client.js"], 2, cwd=os.path.join(CLIENTS, "node"))

    def test_go_redis_resp2(self):
        self.check("go", [os.path.join(CLIENTS, "go_client")], 2)

    def test_go_redis_resp3(self):
        self.check("go", [os.path.join(CLIENTS, "go_client")], 3)

    def test_redis_cli(self):
        harness.require("redis-cli", "redis-tools")
        agent = self.start_agent({"policies": POLICIES})
        for protocol in ("-2", "-3"):
            result = subprocess.run(["redis-cli", protocol, "-p", str(agent.resp_address[1]), "KOVA.TAKE", "p", "cli"],
                                    capture_output=True, text=True, check=True, timeout=harness.PATIENCE)
            self.assertEqual(result.stdout.split()[0], "1")

    def test_redis_benchmark(self):
        harness.require("redis-benchmark", "redis-tools")
        agent = self.start_agent({"policies": [{"name": "p", "limit": 1000000, "per": "1s", "burst": 1000000}]})
        result = subprocess.run(
            ["redis-benchmark", "-p", str(agent.resp_address[1]), "-n", "20000", "-r", "1000", "-P", "16", "-c", "20", "--csv",
             "KOVA.TAKE", "p", "user:__rand_int__"],
            capture_output=True, text=True, check=False, timeout=harness.PATIENCE * 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("ERR", result.stdout + result.stderr)
        counted = b'kova_decisions_total{policy="p",outcome="allowed"} 20000'
        self.assertIn(counted, agent.http("GET", "/metrics").body)

    def test_curl(self):
        harness.require("curl")
        agent = self.start_agent({"policies": POLICIES})
        url = "http://%s:%d/v1/take" % agent.http_address
        result = subprocess.run(["curl", "-sS", "-i", "--json", '{"policy":"p","key":"curl","cost":2}', url],
                                capture_output=True, text=True, check=True, timeout=harness.PATIENCE)
        head, _, body = result.stdout.partition("\n\n") if "\n\n" in result.stdout else result.stdout.partition("\r\n\r\n")
        self.assertIn(" 200 ", head.splitlines()[0])
        self.assertIn('ratelimit: "p";r=98', head.lower())
        self.assertEqual(json.loads(body)["remaining"], 98)


class NothingMissing(harness.Case):
    def test_tools(self):
        """Where CI runs every client must be there: a skipped one would not be noticed."""
        if not os.environ.get("CI"):
            self.skipTest("not in CI")
        for name in ("python", "node", "go", "examples_python", "examples_node", "examples_go"):
            self.assertTrue(os.path.exists(os.path.join(CLIENTS, f"{name}.done")), f"scripts/clients: {name}")
        self.assertIsNotNone(shutil.which("redis-benchmark"))


if __name__ == "__main__":
    harness.main()
