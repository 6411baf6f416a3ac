"""--check-config, --help, --version and errors at the start: exit statuses and what they say."""
# Mostly waits.
import json
import os
import re

import harness

GOOD = {"node": "n1", "policies": [{"name": "p", "limit": 10, "per": "1s"}]}


class CheckConfig(harness.Case):
    def refused(self, config, *words):
        """Exit status 1, and one line FILE:LINE:COLUMN: … that has each of `words`."""
        result = self.run_agent("--check-config", config=config)
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode, 1, output)
        self.assertRegex(output, r"(?m)config\.json:\d+:\d+: .+")
        for word in words:
            self.assertIn(word, output)
        return output

    def test_good(self):
        result = self.run_agent("--check-config", config=GOOD)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_demonstration_and_the_defaults(self):
        path = os.path.join(harness.SOURCE, "deploy", "demo.json")
        result = self.run_agent("--check-config", "--config", path)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.run_agent("--check-config", config={}).returncode, 0)

    def test_not_json_names_the_place(self):
        output = self.refused('{\n  "node": "a",\n  "policies": [ }\n')
        self.assertIn("config.json:3:", output)

    def test_unknown_field_names_the_nearest(self):
        self.refused('{ "polices": [] }', "polices", "policies")

    def test_every_error_is_said_at_once(self):
        output = self.refused('{\n "policies": [\n  { "name": "a", "limit": -1, "per": "1s" },\n'
                              '  { "name": "b", "limit": 1, "per": "1 fortnight" } ] }')
        self.assertRegex(output, r"config\.json:3:\d+: ")
        self.assertRegex(output, r"config\.json:4:\d+: ")

    def test_columns_are_of_the_value(self):
        output = self.refused('{\n  "threads": 1,\n  "state_dir": 17\n}\n', "state_dir")
        line, column = map(int, re.search(r"config\.json:(\d+):(\d+)", output).groups())
        self.assertEqual(line, 3)
        self.assertIn(column, (3, 16))

    def test_ranges(self):
        for policy in ({"limit": 1000000001, "per": "1s"}, {"limit": 1, "per": "500us"}, {"limit": 1, "per": "401d"},
                       {"limit": 1, "per": "1s", "burst": 0}, {"limit": 1.5, "per": "1s"}, {"limit": "1", "per": "1s"}):
            with self.subTest(policy=policy):
                self.refused(json.dumps({"policies": [{"name": "p", **policy}]}))

    def test_what_is_not_available_yet_is_refused(self):
        level = {"name": "l", "limit": 1, "per": "1s", "adaptive": {}}
        self.refused(json.dumps({"policies": [{"name": "p", "levels": [level]}]}), "adaptive")

    def test_a_list_of_none_of_it_asks_for_nothing(self):
        self.assertEqual(self.run_agent("--check-config", config={"pools": []}).returncode, 0)

    def test_a_front_can_be_turned_off(self):
        config = {"listen": {"resp": "127.0.0.1:7411", "http": None, "grpc": None}}
        self.assertEqual(self.run_agent("--check-config", config=config).returncode, 0)

    def test_beyond_loopback_needs_tokens(self):
        self.refused(json.dumps({"listen": {"resp": "0.0.0.0:7411"}}), "auth")

    def test_no_such_file(self):
        result = self.run_agent("--check-config", "--config", os.path.join(self.directory, "missing.json"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing.json", result.stdout + result.stderr)

    def test_a_bad_file_does_not_start(self):
        result = self.run_agent(config='{ "polices": [] }')
        self.assertEqual(result.returncode, 1)
        self.assertIn("polices", result.stderr)

    def test_help_and_version(self):
        result = self.run_agent("--help")
        self.assertEqual(result.returncode, 0)
        for option in ("--config", "--check-config", "--log", "--version"):
            self.assertIn(option, result.stdout)
        result = self.run_agent("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\d+\.\d+\.\d+")

    def test_a_wrong_option(self):
        result = self.run_agent("--cofnig", "x")
        self.assertNotIn(result.returncode, (0, -6, -11))
        self.assertIn("cofnig", result.stderr)
        self.assertIn("Try 'kova-agent --help'", result.stderr)


if __name__ == "__main__":
    harness.main()
