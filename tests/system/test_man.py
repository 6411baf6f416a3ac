"""The manual pages: two formatters find nothing to say of them, and what they claim to be documented is."""
# Runs no program of ours but those whose help it reads. Mostly waits.
import glob
import os
import re
import subprocess
import unittest

import harness

PAGES = sorted(glob.glob(os.path.join(harness.SOURCE, "docs", "man", "*.[1-9]")))


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANROFFOPT": ""})


def as_text(page):
    return re.sub(r".\x08", "", run("mandoc", "-Tutf8", page).stdout)


class Manual(unittest.TestCase):
    def test_the_pages_that_there_must_be(self):
        names = {os.path.basename(page) for page in PAGES}
        self.assertEqual(names, {"kova-agent.8", "kova-coordinator.8", "kovactl.1", "kova-agent.json.5", "kova-coordinator.json.5"})

    def test_mandoc_finds_nothing(self):
        harness.require("mandoc")
        for page in PAGES:
            with self.subTest(page=os.path.basename(page)):
                result = run("mandoc", "-Tlint", "-Wwarning", page)
                self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_groff_finds_nothing(self):
        harness.require("man", "man-db")
        for page in PAGES:
            with self.subTest(page=os.path.basename(page)):
                result = run("man", "--local-file", "--warnings", "--encoding", "utf8", page)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertGreater(len(result.stdout), 500)

    def test_every_option_of_a_program_is_in_its_page(self):
        harness.require("mandoc")
        for name, section in (("kova-agent", 8), ("kova-coordinator", 8), ("kovactl", 1)):
            with self.subTest(program=name):
                text = as_text(os.path.join(harness.SOURCE, "docs", "man", f"{name}.{section}"))
                options = set(re.findall(r"--[a-z][a-z-]+", run(harness.program(name), "--help").stdout))
                self.assertGreater(len(options), 2)
                self.assertEqual({option for option in options if option not in text}, set())

    def test_every_command_of_kovactl_is_in_its_page(self):
        harness.require("mandoc")
        text = as_text(os.path.join(harness.SOURCE, "docs", "man", "kovactl.1"))
        listed = run(harness.program("kovactl"), "--help").stdout
        commands = set(re.findall(r"^  ([a-z]+) ", listed, flags=re.M))
        self.assertGreater(len(commands), 10)
        self.assertEqual({command for command in commands if not re.search(rf"^ *{command}\b", text, flags=re.M)}, set())


if __name__ == "__main__":
    harness.main()
