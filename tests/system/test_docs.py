"""What the documentation shows is true: configurations load, shell examples run, commands answer as printed, and no block is left out.
Links are checked by scripts/lint."""
import json
import os
import re
import shlex
import tempfile

import certificates
import harness
import pages
from pages import PAGES, read

CONFIGURATION = {"policies", "overrides", "pools", "redis", "listen", "node", "auth", "state_dir", "threads", "insecure", "region",
                 "regions", "regions_version", "regions_before", "kafka", "gossip", "clock", "tracing", "tls"}
DEMO = os.path.join(harness.SOURCE, "deploy", "demo.json")
# The agent that a page of examples has beside it, unless it starts one.
AGENT = """jq '.redis.timeout = "2s"' deploy/demo.json >demo.json     # a busy machine is no outage
kova-agent --config demo.json >agent.log 2>&1 &
until kovactl doctor >/dev/null 2>&1; do sleep 0.1; done
"""


def demo():
    return {**json.loads(read(DEMO)), "node": "docs", "redis": {"mode": "embedded"}}


def json_value(text):
    """The object that it is, or whose members it is; None: neither."""
    for candidate in (text, "{" + text + "}"):
        try:
            return json.loads(candidate)
        except ValueError:
            continue
    return None


def json_values(text):
    """Every JSON object of a page that is one: in fences and in code spans."""
    fences = re.findall(r"```json\n(.*?)```", text, flags=re.S)
    for candidate in (*fences, *re.findall(r"`(\{[^`\n]*\})`", re.sub(r"```.*?```", "", text, flags=re.S))):
        value = json_value(candidate)
        if value is not None:
            yield value


def as_configuration(value):
    """The configuration that `value` is or is a part of; None for what is none (verdicts, request bodies)."""
    if {"name", "levels"} <= value.keys() or "algorithm" in value or ("per" in value and "limit" in value and "policy" not in value) or "plan" in value:
        beyond = {"region": "here", "regions": {"here": {}}} if value.get("scope") == "home" else {}
        return {**beyond, "policies": [{"name": "example", **value}]}
    if "mode" in value:
        return {"redis": value}
    return value if value.keys() <= CONFIGURATION and value else None


class Blocks(harness.Case):
    def test_every_block_is_run_loaded_or_marked(self):
        unknown = []
        for page in PAGES:
            if pages.name(page) in pages.ELSEWHERE:
                continue
            text = read(page)
            self.assertEqual(len(re.findall(r"^ *```", text, flags=re.M)), 2 * len(pages.blocks(page)), f"{page}: a fence does not end")
            for block in pages.blocks(page):
                known = block.language in pages.RUN | pages.SHOWN or self.is_checked(block)
                if not known and not block.marked:
                    unknown.append(f"{block.place}: {block.language}")
        self.assertEqual(unknown, [])

    def is_checked(self, block):
        """Whether it is JSON that test_every_configuration_loads loads, or Python that compiles."""
        if block.language == "python":
            compile(block.text, block.place, "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT
            return True
        if block.language != "json":
            return False
        value = json_value(block.text)
        return value is not None and as_configuration(value) is not None

    def test_the_shell_examples_run(self):
        why = pages.can_run()
        if why:
            self.skipTest(why)
        for command in ("redis-cli", "curl", "jq"):
            harness.require(command)
        for page in PAGES:
            to_run = [block for block in pages.blocks(page) if block.language in pages.RUN and not block.marked]
            if to_run and pages.name(page) not in pages.ELSEWHERE:
                with self.subTest(page=pages.name(page)):
                    self.run_page(to_run)

    def run_page(self, to_run):
        directory = tempfile.mkdtemp(dir=self.directory)
        starts_its_own = any(re.search(r"^kova-agent .*&$", block.text, flags=re.M) for block in to_run)
        status, steps, output, failures = pages.Shell(directory).run(to_run, "" if starts_its_own else AGENT)
        self.assertEqual(status, 0, output)
        self.assertIsNone(harness.SANITIZER_REPORT.search(output), output)
        for (command, expected), printed in steps:
            if expected is not None:
                self.assertRegex(printed, re.compile(r"\A" + pages.as_pattern(expected) + r"\s*\Z", re.S), command)
        self.assertEqual(failures, sum(block.text.count("# exit status") for block in to_run), "an exit status that did not come")


class Docs(harness.Case):
    def test_every_configuration_loads(self):
        loaded = 0
        for page in PAGES:
            for value in json_values(read(page)):
                config = as_configuration(value)
                if config is None:
                    continue
                with self.subTest(page=os.path.basename(page), config=config):
                    self.make_files(config)
                    result = self.run_agent("--check-config", config=config)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    loaded += 1
        self.assertGreater(loaded, 3)

    def make_files(self, config):
        """The files that an example names must exist, as on its reader's machine."""
        if "tls" in config:
            made = certificates.Authority(self.directory).issue("agent")
            for option, path in zip(("cert", "key"), made):
                os.replace(path, os.path.join(self.directory, config["tls"][option]))
            if "client_ca" in config["tls"]:
                os.replace(os.path.join(self.directory, "ca.pem"), os.path.join(self.directory, config["tls"]["client_ca"]))
        for where in (config.get("redis") or {}, config.get("auth") or {}, config.get("gossip") or {}):
            for option in where.keys() & {"ca", "cert", "key", "password_file", "tokens_file", "secret_file"}:
                with open(os.path.join(self.directory, where[option]), "w", encoding="utf-8") as file:
                    file.write("a-secret-of-more-than-16-bytes\n" if option == "secret_file" else "ops s3cret\n")

    def test_the_commands_answer_as_printed(self):
        """`> COMMAND` and the line after it, in order, against the demonstration's policies."""
        page = read(os.path.join(harness.SOURCE, "docs", "protocol-resp.md"))
        examples = re.findall(r"^> (.*)\n(.*)$", page, flags=re.M)
        self.assertGreater(len(examples), 3)
        agent = self.start_agent(demo())
        with agent.resp() as connection:
            for command, expected in examples:
                with self.subTest(command=command):
                    connection.send(*shlex.split(command))
                    answer = connection.read(raise_error=False)
                    if expected.startswith("-"):
                        self.assertEqual(str(answer), expected[1:])
                    else:
                        self.alike(answer, json.loads(expected))

    def alike(self, answer, expected):
        """Equal but for times, which may be shorter by what passed between two commands, and their rounding."""
        self.assertEqual(len(answer), len(expected))
        for index, (got, want) in enumerate(zip(answer, expected)):
            if index in (3, 4) and want > 0:
                self.assertLessEqual(abs(got - want), max(2000, want // 10), f"item {index + 1}")
            else:
                self.assertEqual(got, want, f"item {index + 1} of {answer}")

    def test_the_tests_that_are_named_are_there(self):
        named = re.findall(r"`((?:unit|sim|lua|io|system)/[a-z0-9_]+)`", read(os.path.join(harness.SOURCE, "docs", "proofs.md")))
        self.assertGreater(len(named), 50)
        for test in named:
            kind, _, stem = test.partition("/")
            found = [os.path.join(harness.SOURCE, "tests", kind, f"test_{stem}.{ending}") for ending in ("c", "py")]
            self.assertTrue(any(map(os.path.exists, found)), test)

    def test_the_acl_user_may_what_it_must(self):
        page = read(os.path.join(harness.SOURCE, "docs", "operations.md"))
        setuser = re.search(r"^ACL SETUSER (\S+) .*>(\S+) .*$", page, flags=re.M)
        redis = self.start_redis()
        redis.call(*setuser.group(0).split())
        redis.call("CONFIG", "SET", "requirepass", "another")
        agent = self.start_agent({**demo(), "redis": {
            "mode": "standalone", "url": f"redis://{setuser[1]}:{setuser[2]}@127.0.0.1:{redis.port}"}})
        for policy in ("captcha-submit", "smooth", "login", "pages", "daily", "solver", "api"):
            self.assertEqual(agent.call("KOVA.TAKE", policy, "k", "ID", "i", "RECEIPT")[5], "ok", policy)
        permit = agent.call("KOVA.ACQUIRE", "exports", "k")[6]
        self.assertEqual(agent.call("KOVA.RELEASE", "exports", "k", permit), 1)
        self.assertEqual(agent.call("CL.THROTTLE", "k", 9, 1, 60)[0], 0)
        receipt = agent.call("KOVA.TAKE", "daily", "r", "RECEIPT")[6]
        self.assertEqual(agent.call("KOVA.REFUND", receipt), 1)
        self.assertNotIn("NOPERM", agent.log())

    def test_the_shell_examples_of_http(self):
        """Each curl line of docs/protocol-http.md is answered with 200 or 429."""
        page = read(os.path.join(harness.SOURCE, "docs", "protocol-http.md"))
        agent = self.start_agent(demo())
        lines = re.findall(r"^curl .*$", page, flags=re.M)
        self.assertGreater(len(lines), 2)
        for line in lines:
            with self.subTest(line=line):
                words = shlex.split(line)
                url = next(word for word in words if word.startswith("http://"))
                method = words[words.index("-X") + 1] if "-X" in words else "POST"
                option, media_type = ("--json", "application/json") if "--json" in words \
                    else ("-d", "application/x-www-form-urlencoded")
                body = words[words.index(option) + 1]
                answer = agent.http(method, url.split("7412", 1)[1], body, {"Content-Type": media_type})
                self.assertIn(answer.status, (200, 204, 429), answer.body)


if __name__ == "__main__":
    harness.main()
