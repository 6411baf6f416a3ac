"""The dashboard in a real browser (tests/clients/browser): what happens is seen, what is changed is in force, and it stays small."""
# Mostly waits.

import json
import os
import shutil
import subprocess

import harness

BROWSER = os.path.join(harness.SOURCE, "build", "clients", "browser")
KEY = "<b>greedy</b>"
TOKEN = "boss-token-0123456789"
POLICY = {"name": "p", "limit": 5, "per": "1h", "burst": 5}
POOL = {"name": "exits", "endpoints": [{"id": "one", "url": "http://user:hunter2@127.0.0.1:9"}, {"id": "two", "url": "http://127.0.0.1:10"}]}


class Dashboard(harness.Case):
    def browse(self):
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            self.skipTest("chromium is not installed")
        if not os.path.exists(f"{BROWSER}.done"):
            self.skipTest("the browser's driver is not installed (scripts/clients says why)")
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"boss {TOKEN} check admin\n")
        agent = self.start_agent({"policies": [POLICY], "pools": [POOL], "auth": {"tokens_file": tokens}, "threads": 2})
        job = {"url": "http://%s:%d/" % agent.http_address, "token": TOKEN, "key": KEY, "pid": agent.pid, "chromium": chromium}
        result = subprocess.run(["node", "dashboard.js"], input=json.dumps(job), capture_output=True, text=True, check=False,
                                cwd=BROWSER, timeout=harness.PATIENCE * 6)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("hunter2", result.stdout)
        return json.loads(result.stdout)

    def test_the_page(self):
        found = self.browse()
        self.assertEqual(found["errors"], [])
        self.assertIn("default-src 'self'", found["policy"])
        self.assertNotIn("unsafe", found["policy"])
        self.assertEqual(found["stored"], [[TOKEN], []], "the token is in the tab's storage and nowhere else")
        self.assertEqual(found["status"], "All is well")
        self.assertEqual(found["reason"], "Over the limit")
        self.assertTrue(found["allowed"], "the override is in force")
        self.assertEqual(found["markup"], 0, "a key is text")
        self.assertGreater(found["bytes"], 10000)
        self.assertLessEqual(found["bytes"], 100 * 1024, "on the wire")
        self.assertLessEqual(abs(found["growth"]["nodes"]), 5)
        self.assertLess(found["growth"]["heap"], 1 << 20)
        self.assertLessEqual(found["width"], 390)
        self.assertEqual(found["first_stop"], ["skip", True])
        self.assertEqual((found["unnamed"], found["heads"], found["titles"]), ([], 0, 1))
        for least in found["contrast"]:
            self.assertGreaterEqual(least["ratio"], 4.5, least["what"])


if __name__ == "__main__":
    harness.main()
