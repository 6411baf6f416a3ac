"""Both dashboards in a real browser (tests/clients/browser): what happens is seen, what is changed is in force, and they stay small."""
# Mostly waits.

import json
import os
import shutil
import subprocess
import threading

import coordinator
import harness
import operated

BROWSER = os.path.join(harness.SOURCE, "build", "clients", "browser")
KEY = "<b>greedy</b>"
TOKEN = "boss-token-0123456789"
POLICY = {"name": "p", "limit": 5, "per": "1h", "burst": 5}
POOL = {"name": "exits", "endpoints": [{"id": "one", "url": "http://user:hunter2@127.0.0.1:9"}, {"id": "two", "url": "http://127.0.0.1:10"}]}


class Browsing:
    def chromium(self):
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            self.skipTest("chromium is not installed")
        if not os.path.exists(f"{BROWSER}.done"):
            self.skipTest("the browser's driver is not installed (scripts/clients says why)")
        return chromium

    def browse(self, script, job, restart=None):
        """What `script` has found, its last line; `restart` is called for each line that says so."""
        driver = subprocess.Popen(["node", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  cwd=BROWSER, preexec_fn=harness.die_with_parent)
        watch = threading.Timer(harness.PATIENCE * 6, driver.kill)
        watch.start()
        try:
            driver.stdin.write(json.dumps({**job, "chromium": self.chromium()}))
            driver.stdin.close()
            found = None
            for line in driver.stdout:
                if line == "restart\n":
                    restart()
                else:
                    found = line
            errors = driver.stderr.read()
            self.assertEqual(driver.wait(), 0, errors)
        finally:
            watch.cancel()
            driver.kill()
            driver.wait()
            driver.stdout.close()
            driver.stderr.close()
        return json.loads(found)

    def check(self, found):
        """What is true of each page."""
        self.assertEqual(found["errors"], [])
        self.assertIn("default-src 'self'", found["policy"])
        self.assertNotIn("unsafe", found["policy"])
        self.assertGreater(found["bytes"], 10000)
        self.assertLessEqual(found["bytes"], 100 * 1024, "on the wire")
        self.assertLess(found["growth"]["heap"], 1 << 20)
        self.assertLessEqual(found["width"], 390)
        self.assertEqual(found["first_stop"], ["skip", True])
        self.assertEqual((found["unnamed"], found["heads"], found["titles"]), ([], 0, 1))
        for least in found["contrast"]:
            self.assertGreaterEqual(least["ratio"], 4.5, least["what"])


class Dashboard(Browsing, harness.Case):
    def test_the_page(self):
        self.chromium()
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"boss {TOKEN} check admin\n")
        agent = self.start_agent({"policies": [POLICY], "pools": [POOL], "auth": {"tokens_file": tokens}, "threads": 2})
        found = self.browse("dashboard.js", {"url": "http://%s:%d/" % agent.http_address, "token": TOKEN, "key": KEY, "pid": agent.pid})
        self.assertNotIn("hunter2", json.dumps(found))
        self.check(found)
        self.assertEqual(found["stored"], [[TOKEN], []], "the token is in the tab's storage and nowhere else")
        self.assertEqual(found["status"], "All is well")
        self.assertEqual(found["reason"], "Over the limit")
        self.assertTrue(found["allowed"], "the override is in force")
        self.assertEqual(found["markup"], 0, "a key is text")
        self.assertLessEqual(abs(found["growth"]["nodes"]), 5)


class World(Browsing, operated.Case):
    SECRET = "tenant-nobody-is-told-of"

    def setUp(self):
        self.chromium()
        super().setUp()
        self.ends = threading.Event()
        self.user = threading.Thread(target=self.use_until_the_end)
        self.user.start()

    def use_until_the_end(self):
        while not self.ends.wait(0.2):
            for agent in self.agents.values():
                self.use(agent)

    def tearDown(self):
        self.ends.set()
        self.user.join()
        super().tearDown()

    def restart(self):
        self.coordinator.stop()
        config = {**self.coordinator_config(), "http": "%s:%d" % self.coordinator.http_address}
        self.coordinator = self.keep(coordinator.Coordinator(self.subdirectory("c-again"), config))

    def test_the_page(self):
        change = {"policy": "own", "key": self.SECRET, "limit": 7, "per": "1s", "burst": 7}
        self.assertEqual(self.agents["eu"].http("PUT", "/v1/overrides", change).status, 200)
        job = {"url": "http://%s:%d/" % self.coordinator.http_address, "pid": self.coordinator.pid, "secret": self.SECRET}
        found = self.browse("world.js", job, self.restart)
        self.check(found)
        self.assertFalse(found["told"], "no key is shown where no token is asked for")
        self.assertLessEqual(found["growth"]["nodes"], 9 * found["growth"]["events"] + 5, "but for the events' rows")


if __name__ == "__main__":
    harness.main()
