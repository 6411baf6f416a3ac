"""kovactl from outside: every subcommand against a real agent; `wait` and `take` also against a scripted server, for
answers that a healthy agent seldom gives (a lost reply, a full queue, an agent that goes away)."""
# Mostly waits.
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import harness

POLICIES = [
    {"name": "captcha-submit", "limit": 10, "per": "1s", "burst": 20},
    {"name": "slow", "limit": 1, "per": "1h", "burst": 2},
    {"name": "quick", "limit": 10, "per": "1s", "burst": 1, "wait": {"max_wait": "100ms"}},
    {"name": "api", "levels": [{"name": "tenant", "limit": 100, "per": "1s", "burst": 200},
                               {"name": "user", "limit": 5, "per": "1s", "burst": 10}]},
    {"name": "shared", "levels": [{"name": "t", "limit": 9, "per": "1s"},
                                  {"name": "u", "limit": 9, "per": "1s", "weight": 1}]},
]
ALLOWED, REFUSED, USAGE, UNREACHABLE = 0, 1, 2, 3


class Kovactl(harness.Case):
    """Runs kovactl with an environment that has only what the test gives."""

    agent_address = "127.0.0.1:1"

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KOVA_") and name != "NO_COLOR"}
        return {**kept, "KOVA_AGENT": self.agent_address, "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}

    def start(self, *words, env=None, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen([harness.program("kovactl"), *words], text=True, env=self.environment(**(env or {})),
                                **more)

    def kovactl(self, *words, expect=ALLOWED, **more):
        """(standard output, standard error) of a run that must end with the status `expect`."""
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=harness.PATIENCE)
        self.assertIsNone(harness.SANITIZER_REPORT.search(err), err)
        self.assertEqual(process.returncode, expect, f"{words}: {out}{err}")
        return out, err

    def json(self, *words, **more):
        out, _ = self.kovactl(*words, "--json", **more)
        self.assertEqual(out.count("\n"), 1, out)
        return json.loads(out)


class CommandLine(Kovactl):
    """What needs no agent."""

    def test_help_and_version(self):
        out, _ = self.kovactl("--help")
        commands = re.findall(r"^  ([a-z]+) {2,}[A-Z]", out, re.M)
        self.assertLessEqual({"take", "peek", "wait", "watch", "policies", "override", "usage", "plan", "doctor",
                              "config", "home", "members", "pool"}, set(commands))
        for command in commands:
            text, _ = self.kovactl(command, "--help")
            self.assertIn(f"\n  kovactl {command}", text)
            self.assertIn("--token-file", text)
            self.assertEqual(text, self.kovactl("help", command)[0])
            self.assertTrue(all(len(line) <= 100 for line in text.splitlines()), text)
        out, _ = self.kovactl("--version")
        self.assertRegex(out, r"^kovactl \d+\.\d+\.\d+\n$")

    def test_mistakes_are_usage_errors_that_say_what_is_meant(self):
        for words, said in (
                ((), "which command"), (("tkae",), "did you mean take?"), (("frobnicate",), "no command frobnicate"),
                (("take",), "POLICY KEY"), (("take", "p"), "POLICY KEY"), (("take", "p", "k", "x"), "one word too many"),
                (("take", "p", "k", "--coast", "1"), "did you mean --cost?"),
                (("take", "p", "k", "--cost"), "needs a value"), (("take", "p", "k", "--json=1"), "takes no value"),
                (("take", "p", "k", "-x"), "no option -x"),
                (("take", "p", ""), "1 to 1024 bytes"), (("take", "p", "k" * 1025), "1 to 1024 bytes"),
                (("take", "p", "k", "--and", "q"), "POLICY KEY"), (("take", "--and", "p", "k"), "POLICY KEY"),
                (("take", "p", "k", "--wait", "10"), "250ms, 10s, 5m, 1h or 7d"),
                (("take", "p", "k", "--wait", "2d"), "from 0ms to 1d"), (("take", "p", "k", "--id", ""), "1 to 256"),
                (("take", "p", "k", *["--and", "p", "k"] * 16), "at most 16"),
                (("wait", "p", "k", "curl"), "put -- before the command"), (("policies", "lsit"), "did you mean list?"),
                (("policies", "show"), "name of one policy"), (("override", "set", "p", "k"), "--limit"),
                (("override", "set", "p", "k", "--banned", "--unlimited"), "one of"),
                (("override", "set", "p", "k", "--banned", "--per", "1s"), "go with --limit"),
                (("plan", "50"), "SLOTS and HOLD"), (("plan", "0", "10s"), "from 1 to"),
                (("plan", "5", "10s", "--name", "a b"), "A-Z"), (("watch", "p", "k", "--every", "1ms"), "from 50ms"),
                (("members", "x"), "too many"), (("config", "check"), "one file"),
                (("--cost", "2", "take"), "may precede the command"),
                (("peek", "p", "k", "--agent", "nonsense"), "HOST:PORT"),
                (("peek", "p", "k", "--agent", "host:99999"), "HOST:PORT"),
                (("peek", "p", "k", "--token-file", "/nowhere"), "No such file"),
        ):
            with self.subTest(words=words):
                out, err = self.kovactl(*words, expect=USAGE)
                self.assertEqual(out, "")
                self.assertIn(said, err)

    def test_every_bad_cost(self):
        for cost in ("0", "-5", "1e3", "", "1000000001", "9223372036854775807", "1.5", " 1"):
            with self.subTest(cost=cost):
                self.assertIn("1 to 1000000000", self.kovactl("take", "p", "k", f"--cost={cost}", expect=USAGE)[1])

    def test_nobody_there_is_unreachable(self):
        for words in (("take", "p", "k"), ("peek", "p", "k"), ("wait", "p", "k", "--", "true"), ("policies",),
                      ("watch", "p", "k"), ("usage", "p", "k"), ("doctor",), ("config", "show")):
            with self.subTest(words=words):
                self.kovactl(*words, expect=UNREACHABLE)
        _, err = self.kovactl("peek", "p", "k", "--agent", f"unix:{self.directory}/none", expect=UNREACHABLE)
        self.assertIn("No such file", err)

    def test_plan(self):
        plan = self.json("plan", "50", "10s", "--name", "captcha")
        self.assertEqual(plan["rate_per_second"], 5)
        self.assertEqual(plan["burst"], 10)
        self.assertEqual(plan["policy"], {"name": "captcha", "plan": {"slots": 50, "hold": "10s"}})
        self.assertEqual(self.json("plan", "1", "1h")["burst"], 1)
        out, _ = self.kovactl("plan", "50", "10s", "--policy")
        self.assertEqual(json.loads(out)["plan"], {"slots": 50, "hold": "10s"})
        self.assertEqual(self.json("plan", "50", "10s", "--policy")["plan"], {"slots": 50, "hold": "10s"})
        self.assertIn("5 per second", self.kovactl("plan", "50", "10s")[0])

    def test_a_command_that_cannot_run_is_found_before_anything_is_asked(self):
        plain = os.path.join(self.directory, "plain")
        with open(plain, "w", encoding="utf-8"):
            pass
        for command, status in (("no-such-command", 127), (f"{self.directory}/none", 127), (plain, 126),
                                (self.directory, 126), ("", 127)):
            with self.subTest(command=command):
                self.assertIn("nothing was taken", self.kovactl("wait", "p", "k", "--", command, expect=status)[1])


class Documents(Kovactl):
    """The man page and the completions know what --help tells."""

    def read(self, name):
        with open(os.path.join(harness.SOURCE, name), encoding="utf-8") as file:
            return file.read()

    def test_every_command_and_option(self):
        man = self.read("docs/man/kovactl.1").replace("Fl -", "--")
        bash = self.read("kovactl/completion/kovactl.bash")
        zsh = self.read("kovactl/completion/_kovactl")
        fish = self.read("kovactl/completion/kovactl.fish")
        for command in re.findall(r"^  ([a-z]+) {2,}[A-Z]", self.kovactl("--help")[0], re.M):
            self.assertRegex(man, rf"(?m)^\.It Cm {command}\b")
            self.assertRegex(bash, rf"commands='.*\b{command}\b")
            self.assertIn(f"'{command}:", zsh)
            self.assertIn(f"-a {command} ", fish)
            for option in re.findall(r"^  --([a-z-]+)", self.kovactl(command, "--help")[0], re.M):
                with self.subTest(command=command, option=option):
                    self.assertRegex(man, rf"--{option}\b|\| -{option}\b")
                    self.assertIn(f"--{option}", bash)
                    self.assertIn(f"--{option}[", zsh)
                    self.assertRegex(fish, rf"-l {option}\b")

    def test_bash_completes(self):
        harness.require("bash")
        script = os.path.join(harness.SOURCE, "kovactl/completion/kovactl.bash")
        for line, expected in ((["kovactl", "ov"], "override"), (["kovactl", "policies", "sh"], "show"),
                               (["kovactl", "override", "set", "p", "k", "--unt"], "--until"),
                               (["kovactl", "take", "--rec"], "--receipt"), (["kovactl", "take", "p"], "")):
            with self.subTest(line=line):
                done = subprocess.run(["bash", "-c", f'. "{script}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                                       '_kovactl; echo "${COMPREPLY[*]}"', "bash", *line], check=True,
                                      capture_output=True, text=True, env=self.environment(), timeout=harness.PATIENCE)
                self.assertEqual((done.stdout.strip(), done.stderr), (expected, ""))


class WithAgent(Kovactl):
    def setUp(self):
        super().setUp()
        self.agent = self.start_agent({"policies": POLICIES})
        self.agent_address = "%s:%d" % self.agent.resp_address

    def test_take_and_peek(self):
        self.assertEqual(self.json("peek", "slow", "k")["remaining"], 2)
        verdict = self.json("take", "slow", "k")
        self.assertEqual((verdict["allowed"], verdict["remaining"], verdict["limit"], verdict["reason"]),
                         (True, 1, 2, "ok"))
        self.assertEqual(self.json("take", "slow", "k", "--cost", "2", expect=REFUSED)["allowed"], False)
        out, _ = self.kovactl("take", "slow", "k")
        self.assertRegex(out, r"^allowed  ░{20}  0 of 2 left, full again in ")
        out, _ = self.kovactl("take", "slow", "k", expect=REFUSED)
        self.assertRegex(out, r"^refused  ░{20}  0 of 2 left, again in .*\(limited by slow\)\n$")
        self.assertIn("never fits", self.kovactl("take", "slow", "k", "--cost", "3", expect=REFUSED)[0])
        self.assertEqual(self.json("peek", "slow", "k", expect=REFUSED)["remaining"], 0)

    def test_all_pairs_or_none(self):
        self.kovactl("take", "slow", "a", "--cost", "2")
        verdict = self.json("take", "slow", "b", "--cost", "2", "--and", "slow", "a", expect=REFUSED)
        self.assertEqual(verdict["reason"], "limited:slow")
        self.assertEqual(self.json("peek", "slow", "b")["remaining"], 2)
        self.kovactl("take", "slow", "b", "--and", "slow", "c", "--cost", "2")
        self.assertEqual(self.json("peek", "slow", "b")["remaining"], 1)
        self.assertEqual(self.json("peek", "slow", "c", expect=REFUSED)["remaining"], 0)

    def test_id_and_receipt(self):
        first = self.json("take", "slow", "k", "--cost", "2", "--id", "x", "--receipt")
        again = self.json("take", "slow", "k", "--cost", "2", "--id", "x", "--receipt")
        self.assertEqual(first["receipt"], again["receipt"])
        refused = self.json("take", "slow", "k", "--cost", "2", "--receipt", expect=REFUSED)
        self.assertIsNone(refused["receipt"])
        self.assertNotIn("receipt", self.json("take", "slow", "k", "--cost", "2", expect=REFUSED))
        self.assertEqual(self.json("peek", "slow", "k", expect=REFUSED)["remaining"], 0)
        self.assertEqual(self.agent.call("KOVA.REFUND", first["receipt"], 1), 1)
        self.assertRegex(self.kovactl("take", "slow", "k", "--receipt")[0], r"(?m)^receipt  \S{22,}$")

    def test_keys_that_look_like_options_and_bytes_that_are_no_text(self):
        self.kovactl("take", "slow", "--", "--cost")
        self.assertEqual(self.agent.call("KOVA.PEEK", "slow", "--cost")[1], 1)
        key = b"\xff\x1b[2J"
        self.kovactl("take", "slow", key)
        self.assertEqual(self.agent.call("KOVA.PEEK", "slow", key)[1], 1)

    def test_an_invalid_request_says_what_is_there(self):
        _, err = self.kovactl("take", "nothing", "k", expect=USAGE)
        self.assertIn("NOPOLICY", err)
        self.assertIn("kovactl policies", err)
        for words in (("next", "nothing"), ("show", "nothing"), ("enable", "nothing", "e"), ("disable", "nothing", "e")):
            self.assertIn("kovactl pool shows", self.kovactl("pool", *words, expect=USAGE)[1])

    def test_wait_runs_the_command_once_it_may(self):
        self.kovactl("take", "captcha-submit", "k", "--cost", "20")
        began = time.monotonic()
        out, err = self.kovactl("wait", "captcha-submit", "k", "--cost", "5", "--", "sh", "-c", "echo ran $0; exit 7", "x",
                                expect=7)
        self.assertGreater(time.monotonic() - began, 0.35)
        self.assertEqual((out, err), ("ran x\n", ""))

    def test_wait_outlasts_the_policys_max_wait(self):
        self.kovactl("take", "quick", "k")
        waiting = [self.start("wait", "quick", "k", "--", "echo", "ran") for _ in range(4)]
        for process in waiting:
            with process:
                self.assertEqual(process.communicate(timeout=harness.PATIENCE)[0], "ran\n")
                self.assertEqual(process.returncode, ALLOWED)

    def test_wait_gives_up_in_time(self):
        self.kovactl("take", "slow", "k", "--cost", "2")
        began = time.monotonic()
        out, err = self.kovactl("wait", "slow", "k", "--timeout", "300ms", "--", "echo", "ran", expect=REFUSED)
        self.assertLess(time.monotonic() - began, harness.PATIENCE / 4)
        self.assertEqual(out, "")
        self.assertIn("not allowed in time", err)
        out, err = self.kovactl("wait", "slow", "k", "--cost", "3", "--", "echo", "ran", expect=REFUSED)
        self.assertIn("waiting does not help", err)

    def test_wait_json(self):
        self.assertTrue(self.json("wait", "slow", "k")["allowed"])
        out, err = self.kovactl("wait", "slow", "k", "--json", "--", "echo", "ran")
        self.assertEqual(out, "ran\n")
        self.assertTrue(json.loads(err)["allowed"])

    def test_the_command_gets_an_ordinary_sigpipe(self):
        out, _ = self.kovactl("wait", "slow", "k", "--", "sh", "-c", "grep SigIgn /proc/self/status")
        self.assertEqual(int(out.split()[1], 16) >> (signal.SIGPIPE - 1) & 1, 0)

    def test_top(self):
        for _ in range(3):
            self.agent.call("KOVA.TAKE", "slow", "top-key", "COST", "5")
        out, _ = self.kovactl("top", "slow", "--json")
        keys = {one["key"]: one["count"] for one in json.loads(out)["asked"]}
        self.assertEqual(keys["top-key"], 15)
        out, _ = self.kovactl("top", "slow", "--limit", "100")
        self.assertIn("Asked for most", out)
        self.assertIn("top-key", out)
        self.kovactl("top", "slow", "--limit", "101", expect=USAGE)

    def test_watch(self):
        out, _ = self.kovactl("watch", "slow", "k", "--every", "50ms", "--count", "3")
        self.assertEqual(len(out.splitlines()), 3)
        self.assertRegex(out, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  allowed  2 of 2 left\n")
        out, _ = self.kovactl("watch", "slow", "k", "--every", "50ms", "--count", "2", "--json")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([(line["policy"], line["key"], line["remaining"]) for line in lines], [("slow", "k", 2)] * 2)
        self.assertEqual(self.agent.call("KOVA.PEEK", "slow", "k")[1], 2)

    def test_watch_ends_well_at_ctrl_c_and_at_a_closed_pipe(self):
        with self.start("watch", "slow", "k", "--every", "50ms") as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(harness.PATIENCE), ALLOWED)
        with self.start("watch", "slow", "k", "--every", "50ms") as process:
            process.stdout.readline()
            process.stdout.close()
            process.wait(harness.PATIENCE)
        with self.start("watch", "nothing", "k") as process:
            self.assertEqual(process.wait(harness.PATIENCE), USAGE)

    def test_policies(self):
        out, _ = self.kovactl("policies")
        self.assertRegex(out, r"(?m)^captcha-submit +token-bucket +10 per 1s, burst 20 +region +local")
        self.assertEqual(sorted(self.kovactl("policies", "list", "--names")[0].split()),
                         sorted(policy["name"] for policy in POLICIES))
        self.assertEqual(sorted(self.json("policies", "list", "--names")["names"]),
                         sorted(policy["name"] for policy in POLICIES))
        names = [policy["name"] for policy in self.json("policies")["policies"]]
        self.assertEqual(sorted(names), sorted(policy["name"] for policy in POLICIES))

        path = os.path.join(self.directory, "p.json")
        out, _ = self.kovactl("policies", "show", "slow")
        policy = json.loads(out)
        self.assertNotIn("version", policy)
        policy["burst"] = 7
        with open(path, "w", encoding="utf-8") as file:
            json.dump([policy, {"name": "new", "limit": 1, "per": "1s"}], file)
        self.assertIn("2 policies put", self.kovactl("policies", "put", path)[0])
        self.assertEqual(self.json("peek", "slow", "fresh")["limit"], 7)
        self.assertIn("version", self.json("policies", "show", "new"))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(self.json("policies", "put", "-", stdin=file), {"put": 2})
        self.kovactl("policies", "delete", "new")
        self.kovactl("take", "new", "k", expect=USAGE)
        self.assertIn("no policy new", self.kovactl("policies", "show", "new", expect=USAGE)[1])
        self.kovactl("policies", "delete", "new", expect=USAGE)

    def test_a_bad_policy_file_changes_nothing_and_says_where(self):
        path = os.path.join(self.directory, "p.json")
        for text, said in (('{"name": "x",\n "limit": }', f"{path}:2:"), ("3", f"{path}:1:1:"),
                           ('{"limit": 1}', '"name"'), ('{"name": "slow", "limit": -1, "per": "1s"}', "limit"),
                           ('{"name": "slow", "limmit": 1}', "limmit")):
            with self.subTest(text=text):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertIn(said, self.kovactl("policies", "put", path, expect=USAGE)[1])
        self.assertEqual(self.json("peek", "slow", "fresh")["limit"], 2)
        self.assertIn("No such file", self.kovactl("policies", "put", f"{path}.none", expect=USAGE)[1])

    def test_overrides(self):
        self.assertIn("no overrides", self.kovactl("override")[0])
        self.kovactl("override", "set", "captcha-submit", "k", "--limit", "500", "--per", "1s", "--burst", "600")
        self.assertEqual(self.json("peek", "captcha-submit", "k")["limit"], 600)
        self.kovactl("override", "set", "captcha-submit", "bad/", "--banned", "--prefix", "--for", "1h")
        self.assertEqual(self.json("peek", "captcha-submit", "bad/one", expect=REFUSED)["reason"], "banned")
        _, err = self.kovactl("wait", "captcha-submit", "bad/one", "--timeout", "1ms", "--", "true", expect=REFUSED)
        self.assertIn("the key is banned", err)
        self.kovactl("override", "set", "api", "vip", "--unlimited", "--until", "2099-01-01T00:00:00Z")
        out, _ = self.kovactl("override", "list")
        self.assertRegex(out, r"(?m)^captcha-submit +k +500 per 1s, burst 600")
        self.assertRegex(out, r"(?m)^captcha-submit +bad/\* +banned +20\d\d-")
        self.assertRegex(out, r"(?m)^api +vip +unlimited +2099-01-01T00:00:00")
        self.assertEqual(len(self.json("override", "list", "api")["overrides"]), 1)
        self.kovactl("override", "set", "shared", "t/gold", "--weight", "3")
        self.assertRegex(self.kovactl("override", "list")[0], r"(?m)^shared +t/gold +weight 3")
        self.kovactl("override", "delete", "captcha-submit", "k")
        self.kovactl("override", "delete", "captcha-submit", "bad/", "--prefix")
        self.kovactl("override", "delete", "captcha-submit", "k", expect=USAGE)
        self.assertEqual(self.json("peek", "captcha-submit", "k")["limit"], 20)
        self.assertEqual(self.json("peek", "captcha-submit", "bad/one")["reason"], "ok")
        self.assertIn("UTF-8", self.kovactl("override", "set", "api", b"\xff", "--banned", expect=USAGE)[1])
        self.kovactl("override", "set", "api", "k", "--banned", "--until", "tomorrow", expect=USAGE)
        self.kovactl("override", "set", "captcha-submit", "k", "--limit", "30")
        self.assertEqual(self.json("peek", "captcha-submit", "k")["limit"], 60)
        for until, over in (("2020-01-01T00:00:00Z", True), ("2098-01-01T00:00:00Z", False)):
            out, _ = self.kovactl("override", "set", "slow", "k", "--banned", "--until", until)
            self.assertEqual(out, f"slow k: banned, until {until}{', which is over already' if over else ''}\n")
            self.assertEqual(f"{until[:4]}-01-01T00:00:00Z (over)" in self.kovactl("override", "list", "slow")[0], over)
            self.kovactl("peek", "slow", "k", expect=ALLOWED if over else REFUSED)

    def test_usage(self):
        self.kovactl("take", "slow", "k", "--cost", "2")
        self.kovactl("take", "slow", "k", expect=REFUSED)
        usage = self.json("usage", "slow", "k")
        self.assertEqual((usage["admitted"], usage["refused"]), (2, 1))
        self.assertRegex(self.kovactl("usage", "slow", "k")[0], r"^admitted +2\nrefused +1\nwaited +0\nsince ")
        self.assertEqual(self.kovactl("usage", "slow", "other")[0], "this agent has not seen this key\n")
        self.assertIsNone(self.json("usage", "slow", "other")["since"])

    def test_pools(self):
        path = os.path.join(self.directory, "exits.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# two\n192.0.2.7:3128:user:p@ss\n192.0.2.8:3128\n")
        definition = os.path.join(self.directory, "pool.json")
        with open(definition, "w", encoding="utf-8") as file:
            json.dump({"select": "least-loaded", "lease": "1m"}, file)
        self.assertEqual(self.json("pool", "import", "exits", path, "--definition", definition), {"imported": 2})
        self.assertEqual(self.json("pool"), {"pools": ["exits"]})
        shown = self.json("pool", "show", "exits")
        self.assertEqual((shown["select"], shown["active"]), ("least-loaded", 2))
        given = self.json("pool", "next", "exits", "--target", "shop.example", "--session", "s", "--tier", "1", "--wait", "1s")
        self.assertEqual((given["session"], given["lease_ms"]), ("s", 60000))
        self.assertIn("reported", self.kovactl("pool", "report", "exits", given["ticket"], "ok", "--status", "200")[0])
        self.kovactl("pool", "report", "exits", "1.2.3", "ok", expect=USAGE)
        for i, action in ((0, "disable"), (1, "drain")):
            self.kovactl("pool", action, "exits", shown["endpoints"][i]["id"])
        out, _ = self.kovactl("pool", "next", "exits", expect=REFUSED)
        self.assertIn("empty", out)
        ids = [endpoint["id"] for endpoint in shown["endpoints"]]
        self.assertEqual(self.kovactl("pool", "enable", "exits", ids[0])[0], f"{ids[0]} enabled\n")
        out, _ = self.kovactl("pool", "watch", "exits", "--count", "1")
        self.assertIn("exits: 1 active, 0 cooling, 0 disabled, 1 drained\n", out)
        self.assertRegex(out, rf"(?m)^{ids[1]} +192.0.2.8:3128 +drained ")
        self.assertEqual(self.kovactl("pool", "enable", "exits", ids[1])[0], f"{ids[1]} enabled, weight 1\n")
        self.assertEqual(self.json("pool", "enable", "exits", ids[1]), {"endpoint": ids[1], "done": "enabled"})
        out, _ = self.kovactl("pool", "show", "exits")
        self.assertIn("exits: 2 active, 0 cooling, 0 disabled\n", out)
        self.assertIn("192.0.2.7:3128", out)
        self.assertNotIn("p@ss", out + json.dumps(shown))
        with open(path, "w", encoding="utf-8") as file:
            file.write("192.0.2.7:3128\nuser:s3cret@192.0.2.9\n")
        err = self.kovactl("pool", "import", "exits", path, expect=USAGE)[1]
        self.assertIn("exits.txt:2:22: ", err)
        self.assertNotIn("s3cret", err)

    def test_pool_import_changes_the_endpoints_only(self):
        path = os.path.join(self.directory, "exits.txt")

        def imports(text, expect=ALLOWED):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return self.kovactl("pool", "import", "exits", path, expect=expect)

        self.assertEqual(imports("192.0.2.1:3128\n192.0.2.2:3128\n")[0], "2 endpoints imported; the pool is new\n")
        pool = {"select": "least-loaded", "lease": "77s", "target_policy": "slow", "endpoints": [
            {"id": "one", "url": "http://192.0.2.1:3128", "weight": 3, "tier": 2}, "http://192.0.2.2:3128"]}
        self.assertEqual(self.agent.http("PUT", "/v1/pools/exits", pool).status, 200)
        self.assertEqual(imports("192.0.2.3:3128\n192.0.2.1:3128\n")[0], "2 endpoints imported\n")
        shown = self.json("pool", "show", "exits")
        self.assertEqual([(e["host"], e["weight"], e["tier"]) for e in shown["endpoints"]],
                         [("192.0.2.3:3128", 1, 1), ("192.0.2.1:3128", 3, 2)])
        self.assertEqual((shown["select"], shown["endpoints"][1]["id"]), ("least-loaded", "one"))
        self.assertEqual(self.json("pool", "next", "exits")["lease_ms"], 77000)
        for text in ("", "# none\n\n"):
            self.assertIn("no endpoint in it", imports(text, expect=USAGE)[1])
        self.assertEqual(self.json("pool", "show", "exits")["active"], 2)
        imports("192.0.2.3:3128\n")
        self.assertEqual(self.agent.http("PUT", "/v1/pools/keys", {"kind": "key", "endpoints": ["sk-1"]}).status, 200)
        self.assertIn("a `key` pool", self.kovactl("pool", "import", "keys", path, expect=USAGE)[1])

    def test_pool_show_tells_what_is_kept_from_a_target(self):
        pool = {"threshold": 2, "endpoints": [{"id": f"e{i}", "url": f"http://192.0.2.{i}:1"} for i in (1, 2, 3)]}
        keys = {"kind": "key", "endpoints": [{"id": "k1", "key": "sk-1"}]}
        for name, definition in (("exits", pool), ("keys", keys)):
            self.assertEqual(self.agent.http("PUT", f"/v1/pools/{name}", definition).status, 200)
        self.assertNotIn("TARGET", self.kovactl("pool", "show", "exits")[0])
        for _ in range(6):
            given = self.json("pool", "next", "exits", "--target", "shop.example")
            self.assertEqual((given["moved"], given["trial"]), (False, False))
            outcome = "blocked" if given["endpoint"] == "e1" else "ok"
            self.kovactl("pool", "report", "exits", given["ticket"], outcome, "--status", "403")
        out, _ = self.kovactl("pool", "show", "exits")
        self.assertRegex(out, r"(?m)^ENDPOINT +TARGET +RETURNS MS\ne1 +shop.example +\d{4,5}$")
        given = self.json("pool", "next", "keys")
        self.kovactl("pool", "report", "keys", given["ticket"], "blocked", "--retry-after", "3600")
        self.assertRegex(self.kovactl("pool", "show", "keys")[0], r"(?m)^k1 +held +3\d{6} .* 100.0 %$")

    def test_home_and_members(self):
        self.json("home", "acme/u7")
        self.json("members")
        self.assertIn("NODE", self.kovactl("members")[0])

    def test_config_show_can_stand_in_a_configuration(self):
        self.kovactl("override", "set", "api", "k", "--banned")
        shown = json.loads(self.kovactl("config", "show")[0])
        path = os.path.join(self.directory, "shown.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(shown, file)
        self.assertEqual(len(shown["policies"]), len(POLICIES))
        self.kovactl("config", "check", path)

    def test_config_rollback_knows_a_pool_from_a_policy(self):
        self.assertEqual(self.agent.http("PUT", "/v1/pools/slow", {"endpoints": ["http://192.0.2.1:1"]}).status, 200)
        change = self.json("config", "log")["changes"][0]
        self.assertEqual((change["kind"], change["name"], change["before"]), ("pool", "slow", None))
        for more in ((), ("--force",)):
            self.assertIn("a pool", self.kovactl("config", "rollback", str(change["version"]), *more, expect=USAGE)[1])
        self.assertEqual(self.json("take", "slow", "k")["reason"], "ok")
        self.assertEqual(self.agent.http("GET", "/v1/pools").json(), {"pools": ["slow"]})

    def test_doctor(self):
        out, _ = self.kovactl("doctor")
        self.assertIn("All is well", out)
        self.assertIn("given, but none is needed", self.kovactl("doctor", env={"KOVA_TOKEN": "any"})[0])
        self.assertTrue(self.json("doctor")["healthy"])
        checks = [check["check"] for check in self.json("doctor")["checks"]]
        for check in ("RESP", "token", "version", "PING", "HTTP", "ready", "Redis", "clock", "policies"):
            self.assertIn(check, checks)

    def test_doctor_names_the_pools_that_give_nothing(self):
        one = {"id": "e", "url": "http://192.0.2.1:1"}
        self.assertEqual(self.agent.http("PUT", "/v1/pools/fine", {"endpoints": [one]}).status, 200)
        self.assertRegex(self.kovactl("doctor")[0], r"✓ pools +1, none paused\n\nAll is well")
        for name, endpoint, why in (("none", [], "empty"), ("drained", [{**one, "weight": 0}], "empty"), ("cold", [one], "floor")):
            self.assertEqual(self.agent.http("PUT", f"/v1/pools/{name}", {"threshold": 2, "endpoints": endpoint}).status, 200)
            for _ in range(2 if why == "floor" else 0):
                given = self.json("pool", "next", name)
                self.kovactl("pool", "report", name, given["ticket"], "refused")
            self.assertRegex(self.kovactl("doctor")[0], rf"(?m)^! pool +{name} is paused: {why}$")
        self.assertIn("3 things are worth a look", self.kovactl("doctor")[0])

    def test_doctor_names_a_redis_that_is_away(self):
        redis = self.start_redis()
        agent = self.start_agent({"policies": POLICIES, "redis": {"mode": "standalone", "url": redis.url}})
        address = "%s:%d" % agent.resp_address
        self.kovactl("doctor", "--agent", address)
        redis.stop()
        harness.wait_for(lambda: b"degraded" in agent.http("GET", "/readyz").body and
                         agent.http("GET", "/readyz").json()["degraded"], "an agent that misses its Redis")
        out, _ = self.kovactl("doctor", "--agent", address, expect=REFUSED)
        self.assertRegex(out, r"✗ Redis +not reachable")
        self.assertIn("1 problem found", out)

    def test_the_http_address_by_mistake(self):
        address = "%s:%d" % self.agent.http_address
        self.assertIn("HTTP address?", self.kovactl("take", "slow", "k", "--agent", address, expect=UNREACHABLE)[1])
        out, _ = self.kovactl("doctor", "--agent", address, expect=UNREACHABLE)
        self.assertIn("HTTP address", out)
        self.assertNotIn("token", out)

    def test_everything_over_a_unix_socket(self):
        path = os.path.join(self.directory, "a.sock")
        config = {"policies": POLICIES,
                  "listen": {"resp": None, "http": f"127.0.0.1:{harness.free_port()}", "unix": path}}
        self.start_agent(config)
        for words in (("take", "slow", "k"), ("policies",), ("doctor",)):
            self.kovactl(*words, "--agent", f"unix:{path}")

    def test_without_http(self):
        agent = self.start_agent({"policies": POLICIES,
                                  "listen": {"resp": f"127.0.0.1:{harness.free_port()}", "http": None}})
        address = "%s:%d" % agent.resp_address
        self.kovactl("take", "slow", "k", "--agent", address)
        self.assertIn("no HTTP", self.kovactl("policies", "--agent", address, expect=UNREACHABLE)[1])
        self.assertIn("no HTTP", self.kovactl("doctor", "--agent", address)[0])

    def test_a_terminal_has_colours_and_a_live_line_unless_no_color(self):
        for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            with self.subTest(more=more):
                text = self.on_terminal("take", "captcha-submit", "k", env=more)
                self.assertEqual("\x1b[32m" in text, coloured, text)
        self.assertNotIn("\x1b", self.kovactl("take", "captcha-submit", "k")[0])
        text = self.on_terminal("watch", "captcha-submit", "k", "--every", "50ms", "--count", "3")
        self.assertEqual(text.count("\r\x1b[K"), 3)
        self.assertTrue(text.rstrip().endswith("\x1b[?25h"), text)

    def test_no_colour_in_a_pipe_and_no_control_character_from_a_key(self):
        self.kovactl("override", "set", "api", "a\x1b[31mb", "--banned")
        self.assertIn("a\\x1b[31mb", self.kovactl("override")[0])

    def on_terminal(self, *words, env=None):
        """What a terminal of 90 columns gets."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
        text = b""
        with self.start(*words, env=env, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            while True:
                try:
                    chunk = os.read(ours, 4096)
                except OSError:  # the terminal is closed
                    break
                if not chunk:
                    break
                text += chunk
            process.wait(harness.PATIENCE)
        os.close(ours)
        return text.decode()


class Tokens(Kovactl):
    def setUp(self):
        super().setUp()
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("worker s3cret-check check\nops s3cret-admin check admin\nonly s3cret-only admin\n")
        self.agent = self.start_agent({"policies": POLICIES, "auth": {"tokens_file": tokens}}, ready=False)
        self.agent_address = "%s:%d" % self.agent.resp_address
        harness.wait_for(lambda: self.agent.http("GET", "/readyz").status == 200, "an agent that is ready")

    def token_file(self, text):
        path = os.path.join(self.directory, "token")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_token_is_needed_and_never_shown(self):
        for env, words, status, said in (
                ({}, ("take", "slow", "k"), USAGE, "wants a token"),
                ({"KOVA_TOKEN": "s3cret-wrong"}, ("take", "slow", "k"), USAGE, "does not know this token"),
                ({"KOVA_TOKEN": "s3cret-check"}, ("take", "slow", "k"), ALLOWED, "allowed"),
                ({"KOVA_TOKEN": "s3cret-check"}, ("policies",), USAGE, "lacks the scope `admin`"),
                ({"KOVA_TOKEN": "s3cret-admin"}, ("policies",), ALLOWED, "captcha-submit"),
                ({"KOVA_TOKEN": "s3cret-check"}, ("doctor",), ALLOWED, "scope admin"),
                ({"KOVA_TOKEN": "s3cret-wrong"}, ("doctor",), REFUSED, "does not know this token"),
                ({"KOVA_TOKEN": "s3cret-admin"}, ("doctor",), ALLOWED, "All is well"),
                ({"KOVA_TOKEN": "s3cret-admin"}, ("doctor",), ALLOWED, "token     accepted\n"),
                ({"KOVA_TOKEN": "s3cret-only"}, ("doctor",), ALLOWED, "scope check"),
                ({"KOVA_TOKEN": "s3cret-only"}, ("take", "slow", "k"), USAGE, "scope 'check'"),
                ({}, ("doctor",), REFUSED, "wants a token"),
                ({"KOVA_TOKEN": "s3cret two"}, ("peek", "slow", "k"), USAGE, "one token"),
        ):
            with self.subTest(env=env, words=words):
                out, err = self.kovactl(*words, env=env, expect=status)
                self.assertIn(said, out + err)
                self.assertNotIn("s3cret", out + err)
                self.assertNotIn("WRONGPASS", out + err)
                self.assertLessEqual((out + err).count("the scope"), 1)

    def test_token_file(self):
        path = self.token_file("s3cret-admin\n")
        self.kovactl("take", "slow", "k", "--token-file", path)
        self.kovactl("policies", "--token-file", path, env={"KOVA_TOKEN": "s3cret-wrong"})
        for text in ("", "two words\n", "a\nb\n", "x" * 5000):
            with self.subTest(text=text[:10]):
                _, err = self.kovactl("peek", "slow", "k", "--token-file", self.token_file(text), expect=USAGE)
                self.assertIn(path, err)

    def test_no_proxy_sees_it(self):
        proxy = f"http://127.0.0.1:{harness.free_port()}"
        self.kovactl("policies", env={"KOVA_TOKEN": "s3cret-admin", "http_proxy": proxy, "ALL_PROXY": proxy})


class ConfigCheck(Kovactl):
    """kova-agent is found beside kovactl."""

    def check(self, text, *words, expect):
        path = os.path.join(self.directory, "a.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path, self.kovactl("config", "check", path, *words, expect=expect)

    def test_valid(self):
        self.check('{"policies": [{"name": "a", "limit": 1, "per": "1s"}]}', expect=ALLOWED)
        path, (out, _) = self.check("{}", "--json", expect=ALLOWED)
        self.assertEqual(json.loads(out), {"file": path, "valid": True, "errors": []})

    def test_invalid(self):
        path, (out, err) = self.check('{"policies":\n [{"name": "a", "limmit": 1}]}', expect=REFUSED)
        self.assertIn(f"{path}:2:", out + err)
        path, (out, _) = self.check('{"policies":\n [{"name": "a", "limmit": 1}]}', "--json", expect=REFUSED)
        answer = json.loads(out)
        self.assertFalse(answer["valid"])
        self.assertEqual({error["line"] for error in answer["errors"]}, {2})
        self.assertTrue(any("limmit" in error["text"] for error in answer["errors"]))


class Script:
    """A RESP server on a loopback port that answers by `answers`: for each connection the list of its replies, bytes, or None: it is
    closed instead. What was asked is in `asked`, a list of words for each command."""

    def __init__(self, *answers):
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, args=(answers,), daemon=True)
        self.thread.start()

    def _serve(self, answers):
        for replies in answers:
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as lines:
                for reply in replies:
                    self.asked.append(self._command(lines))
                    if reply is None:
                        break
                    connection.sendall(reply)
        self.listener.close()

    @staticmethod
    def _command(lines):
        words = []
        for _ in range(int(lines.readline()[1:])):
            size = int(lines.readline()[1:])
            words.append(lines.read(size + 2)[:size].decode())
        return words


def verdict(allowed, reason, retry_ms=0):
    return b"*6\r\n:%d\r\n:0\r\n:1\r\n:%d\r\n:0\r\n$%d\r\n%s\r\n" % (allowed, retry_ms, len(reason), reason)


class Scripted(Kovactl):
    def script(self, *answers):
        script = Script(*answers)
        self.agent_address = script.address
        return script

    @staticmethod
    def id_of(words):
        return words[words.index("ID") + 1]

    def test_wait_asks_again_after_a_time_out_and_a_full_queue(self):
        script = self.script([verdict(0, b"wait_timeout", 50), verdict(0, b"queue_full", 20), verdict(0, b"outage", -1),
                              verdict(1, b"ok")])
        began = time.monotonic()
        self.assertEqual(self.kovactl("wait", "p", "k", "--", "echo", "ran")[0], "ran\n")
        self.assertGreater(time.monotonic() - began, 1.1)  # 100 ms, 100 ms at least, 1 s
        self.assertEqual(len(script.asked), 4)

    def test_wait_after_a_lost_reply_asks_with_the_same_id(self):
        script = self.script([None], [verdict(1, b"ok")])
        self.assertEqual(self.kovactl("wait", "p", "k", "--", "echo", "ran")[0], "ran\n")
        ids = {self.id_of(words) for words in script.asked}
        self.assertEqual(len(script.asked), 2)
        self.assertEqual(len(ids), 1)
        self.assertEqual(script.asked[0][:5], ["KOVA.TAKE", "p", "k", "COST", "1"])

    def test_two_runs_have_two_ids(self):
        script = self.script([verdict(1, b"ok")], [verdict(1, b"ok")])
        self.kovactl("wait", "p", "k")
        self.kovactl("wait", "p", "k")
        self.assertNotEqual(self.id_of(script.asked[0]), self.id_of(script.asked[1]))

    def test_wait_for_an_agent_that_stays_away_ends_at_the_timeout(self):
        self.script([None])
        began = time.monotonic()
        self.kovactl("wait", "p", "k", "--timeout", "700ms", "--", "echo", "ran", expect=UNREACHABLE)
        self.assertLess(time.monotonic() - began, harness.PATIENCE / 2)

    def test_a_last_try_is_made_at_the_timeout(self):
        script = self.script([verdict(0, b"queue_full", 60000), verdict(1, b"ok")])
        self.kovactl("wait", "p", "k", "--timeout", "300ms")
        self.assertEqual(script.asked[1][script.asked[1].index("WAIT") + 1], "0")

    def test_an_answer_of_another_form_is_no_verdict(self):
        for reply in (b"+OK\r\n", b"*2\r\n:1\r\n:1\r\n", b"!nonsense\r\n", b"$5\r\nhel", None):
            with self.subTest(reply=reply):
                self.script([reply])
                self.kovactl("take", "p", "k", expect=UNREACHABLE)

    def test_a_redis_server_is_no_agent(self):
        info = b"# Server\r\nredis_version:7\r\n"
        self.script([b"$%d\r\n%s\r\n" % (len(info), info), *[b"+PONG\r\n"] * 20])
        out, _ = self.kovactl("doctor", expect=REFUSED)
        self.assertIn("kova-agent listens on port 7411", out)

    def test_watch_looks_for_a_lost_agent_again(self):
        self.script([verdict(1, b"ok"), None], [verdict(1, b"ok")])
        out, err = self.kovactl("watch", "p", "k", "--every", "50ms", "--count", "3")
        self.assertEqual(len(out.splitlines()), 2)
        self.assertIn("no answer", err)


if __name__ == "__main__":
    harness.main()
