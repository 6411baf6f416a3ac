"""What the documentation shows is true: configurations load, commands answer as printed, links are checked by scripts/lint."""
import glob
import json
import os
import re
import shlex

import harness

PAGES = [os.path.join(harness.SOURCE, "README.md"), *sorted(glob.glob(os.path.join(harness.SOURCE, "docs", "*.md")))]
CONFIGURATION = {"policies", "overrides", "redis", "listen", "node", "auth", "state_dir", "threads", "insecure"}
POLICY = {"limit", "levels", "plan"}
DEMO = os.path.join(harness.SOURCE, "deploy", "demo.json")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def json_values(text):
    """Every JSON object of a page that is one: in fences and in code spans."""
    fences = re.findall(r"```json\n(.*?)```", text, flags=re.S)
    for candidate in (*fences, *re.findall(r"`(\{[^`\n]*\})`", re.sub(r"```.*?```", "", text, flags=re.S))):
        try:
            value = json.loads(candidate)
        except ValueError:
            continue
        yield value


def as_configuration(value):
    """The configuration that `value` is or is a part of; None for what is none (verdicts, request bodies)."""
    if "algorithm" in value or ("per" in value and "limit" in value and "policy" not in value) or "plan" in value:
        beyond = {"region": "here", "regions": {"here": {}}} if value.get("scope") == "home" else {}
        return {**beyond, "policies": [{"name": "example", **value}]}
    if "mode" in value:
        return {"redis": value}
    return value if value.keys() <= CONFIGURATION and value else None


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
        for where in (config.get("redis") or {}, config.get("auth") or {}):
            for option in where.keys() & {"ca", "cert", "key", "password_file", "tokens_file"}:
                with open(os.path.join(self.directory, where[option]), "w", encoding="utf-8") as file:
                    file.write("ops s3cret\n")

    def test_the_commands_answer_as_printed(self):
        """`> COMMAND` and the line after it, in order, against the demonstration's policies."""
        page = read(os.path.join(harness.SOURCE, "docs", "protocol-resp.md"))
        examples = re.findall(r"^> (.*)\n(.*)$", page, flags=re.M)
        self.assertGreater(len(examples), 3)
        agent = self.start_agent({**json.loads(read(DEMO)), "node": "docs"})
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

    def test_the_acl_user_may_what_it_must(self):
        page = read(os.path.join(harness.SOURCE, "docs", "operations.md"))
        setuser = re.search(r"^ACL SETUSER (\S+) .*>(\S+) .*$", page, flags=re.M)
        redis = self.start_redis()
        redis.call(*setuser.group(0).split())
        redis.call("CONFIG", "SET", "requirepass", "another")
        agent = self.start_agent({**json.loads(read(DEMO)), "node": "docs", "redis": {
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
        agent = self.start_agent({**json.loads(read(DEMO)), "node": "docs"})
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
