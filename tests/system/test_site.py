"""The documentation as a site: built strictly, so that a link which leads nowhere fails; whole, and readable without a network."""
# Runs no program of ours. Bears others.
import glob
import html.parser
import os
import re
import subprocess
import tempfile
import unittest

import harness

UNREACHABLE = 69


class Fetched(html.parser.HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self, text):
        super().__init__()
        self.addresses = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in ("script", "img", "iframe"):
            self.addresses.append(attributes.get("src"))
        elif tag == "link" and attributes.get("rel") in ("stylesheet", "icon", "preload"):
            self.addresses.append(attributes.get("href"))


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = subprocess.run([os.path.join(harness.SOURCE, "scripts", "docs"), harness.BUILD], stdin=subprocess.DEVNULL,
                                    capture_output=True, text=True, check=False)
        cls.site = os.path.join(harness.BUILD, "site")

    def setUp(self):
        if self.result.returncode == UNREACHABLE:
            self.skipTest("PyPI can't be reached, where the generator comes from")
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)

    def pages(self):
        for path in glob.glob(os.path.join(self.site, "**", "*.html"), recursive=True):
            with open(path, encoding="utf-8") as file:
                yield os.path.relpath(path, self.site), file.read()

    def test_every_page_of_the_documentation_is_there(self):
        there = {name for name, _ in self.pages()}
        wanted = {os.path.relpath(page, harness.SOURCE).removesuffix(".md") + ".html"
                  for page in glob.glob(os.path.join(harness.SOURCE, "docs", "**", "*.md"), recursive=True)}
        self.assertGreater(len(wanted), 25)
        self.assertEqual(wanted - there, set())

    def test_nothing_is_fetched_from_elsewhere(self):
        for name, text in self.pages():
            addresses = [address for address in Fetched(text).addresses if address]
            self.assertGreater(len(addresses), 2, name)
            self.assertEqual([address for address in addresses if re.match(r"(https?:)?//", address)], [], name)
        for path in glob.glob(os.path.join(self.site, "**", "*.css"), recursive=True):
            with open(path, encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r"""(url\(|@import )["']?(https?:)?//""", path)

    def test_a_link_that_leads_nowhere_fails(self):
        with tempfile.TemporaryDirectory(prefix="kova-site-") as directory:
            source = os.path.join(directory, "source")
            os.mkdir(source)
            copy = "git ls-files -z --cached --others --exclude-standard -- '*.md' docs/site scripts | xargs -0 cp --parents -t \"$0\"" \
                   " && git -C \"$0\" init -q"
            subprocess.run(["sh", "-c", copy, source], cwd=harness.SOURCE, check=True)
            with open(os.path.join(source, "docs", "quickstart.md"), "a", encoding="utf-8") as file:
                file.write("\n[nowhere](nowhere.md)\n")
            os.mkdir(os.path.join(source, "build"))
            for tools in glob.glob(os.path.join(harness.BUILD, "site-tools-*")):
                os.symlink(tools, os.path.join(source, "build", os.path.basename(tools)))
            result = subprocess.run([os.path.join(source, "scripts", "docs")], stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, check=False)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("nowhere.md", result.stderr)


if __name__ == "__main__":
    harness.main()
