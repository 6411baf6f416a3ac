"""What an agent answers whose Redis is not there: by each policy's on_outage, in the form of every other answer."""
import time

import harness

POLICIES = [
    {"name": "local", "limit": 1000, "per": "1s", "burst": 100},
    {"name": "deny", "limit": 10, "per": "1s", "on_outage": "deny"},
    {"name": "allow", "limit": 10, "per": "1s", "on_outage": "allow"},
    {"name": "permits", "algorithm": "concurrency", "limit": 3, "hold": "20s", "on_outage": "allow"},
]


class Outage(harness.Case):
    def setUp(self):
        super().setUp()
        url = f"redis://127.0.0.1:{harness.free_port()}"
        self.agent = self.start_agent({"policies": POLICIES, "redis": {"mode": "standalone", "url": url}})
        self.resp = self.agent.resp()
        self.addCleanup(self.resp.close)

    def test_reasons(self):
        for policy, allowed in (("deny", 0), ("allow", 1)):
            for command in ("KOVA.TAKE", "KOVA.PEEK"):
                reply = self.resp.call(command, policy, "k")
                self.assertEqual((len(reply), reply[0], reply[5]), (6, allowed, "outage"), (command, policy))

    def test_a_look_shows_what_is_there(self):
        self.assertEqual(self.resp.call("KOVA.TAKE", "local", "k")[:3], [0, 0, 100], "it begins empty")
        time.sleep(0.5)
        for _ in range(3):
            self.assertEqual(self.resp.call("KOVA.PEEK", "local", "k"), [1, 100, 100, 0, 0, "outage"])
        remaining = self.resp.call("KOVA.TAKE", "local", "k", "COST", 100)[1]
        self.assertLess(remaining, 100)

    def test_an_admission_brings_a_receipt_and_a_permit(self):
        self.assertIsInstance(self.resp.call("KOVA.TAKE", "allow", "k", "RECEIPT")[6], str)
        self.assertIsNone(self.resp.call("KOVA.TAKE", "deny", "k", "RECEIPT")[6])
        reply = self.resp.call("KOVA.ACQUIRE", "permits", "k")
        self.assertEqual((reply[0], reply[5], reply[7]), (1, "outage", 20000))
        self.assertIsInstance(reply[6], str)
        answer = self.agent.http("POST", "/v1/acquire", {"policy": "permits", "key": "k"}).json()
        self.assertIsInstance(answer["permit"], str)
        self.assertEqual(answer["hold_ms"], 20000)


if __name__ == "__main__":
    harness.main()
