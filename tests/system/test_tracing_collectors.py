"""Collectors that are slow, refuse, or are not there: no decision waits for them, and each span is accounted for."""
# Mostly waits.

import os
import socket
import time

import harness
import otlp
from tracing import Traced


class Collectors(Traced):
    def test_none_is_there(self):
        gone = otlp.Collector()
        gone.kill()
        self.start(collector=gone, queue=20)
        for i in range(50):
            self.assertEqual(self.take("api", f"k{i}").status, 200)
        harness.wait_for(lambda: self.metric("dropped") >= 80 and "traces_not_taken" in self.agent.log(), "spans were dropped")
        self.assertEqual(self.metric("exported"), 0)
        back = self.keep(otlp.Collector(port=gone.port))
        harness.wait_for(lambda: back.spans(), "what was kept is sent when it is back")
        self.collector = back
        self.take("api", "last")
        harness.wait_for(lambda: "traces_taken" in self.agent.log(), "the log says so")

    def test_one_that_is_slow(self):
        slow = self.keep(otlp.Collector())
        slow.delay = 3
        self.start(collector=slow, timeout="500ms", queue=10)
        begun = time.monotonic()
        for i in range(30):
            self.assertEqual(self.take("api", f"k{i}").status, 200)
        self.assertLess(time.monotonic() - begun, harness.PATIENCE)
        harness.wait_for(lambda: len(slow.requests) >= 2, "it is tried again")
        self.assertGreater(self.metric("dropped"), 0)

    def test_one_that_wants_a_pause(self):
        busy = self.keep(otlp.Collector())
        busy.answer = lambda number: (429, {"Retry-After": "2"}, b"") if number == 0 else (200, {}, b"")
        self.start(collector=busy)
        self.take()
        self.call()
        self.assertGreaterEqual(busy.requests[1][3] - busy.requests[0][3], 2)
        self.assertEqual(busy.requests[0][2], busy.requests[1][2], "the same once more")
        self.assertEqual((self.metric("exported"), self.metric("failed")), (2, 0))

    def test_one_that_refuses(self):
        refusing = self.keep(otlp.Collector())
        refusing.answer = lambda number: (400, {}, b"") if number == 0 else (200, {}, b"")
        self.start(collector=refusing)
        self.take()
        harness.wait_for(lambda: self.metric("failed") == 2, "it is not sent again")
        self.take()
        self.call()
        self.assertEqual(len(refusing.requests), 2)

    def test_one_that_rejects_some(self):
        some = self.keep(otlp.Collector())
        some.answer = (200, {}, b"\x0a\x07\x08\x01\x12\x03why")  # partial_success {rejected_spans: 1, error_message}
        self.start(collector=some)
        self.take()
        harness.wait_for(lambda: (self.metric("rejected"), self.metric("exported")) == (1, 1), "one of two")

    def test_fields_of_a_file(self):
        path = os.path.join(self.directory, "headers")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# for the collector\nAuthorization: Bearer HIDDEN\n\nX-Scope-OrgID: me\n")
        self.start(headers_file=path)
        self.take()
        self.call()
        _, headers, _, _ = self.collector.requests[0]
        self.assertEqual((headers["Authorization"], headers["X-Scope-OrgID"]), ("Bearer HIDDEN", "me"))
        self.assertNotIn("HIDDEN", self.agent.log())

    def test_the_last_spans_are_sent_at_the_end(self):
        self.start()
        self.take()
        self.assertEqual(self.agent.stop(), 0)
        self.assertEqual([s.name for s in self.collector.spans()], ["kova.take", "kova.redis"])

    def test_the_end_does_not_wait_for_a_collector(self):
        hole = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(hole.close)
        self.start()
        self.collector.url = "http://127.0.0.1:%d/" % hole.getsockname()[1]
        self.start(collector=self.collector)
        self.take()
        begun = time.monotonic()
        self.assertEqual(self.agent.stop(), 0)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertIn("traces_lost", self.agent.log())

    def test_a_connection_is_kept(self):
        self.start()
        for n in range(1, 4):
            self.take()
            self.spans(n)
        self.assertEqual(len(self.collector.requests), 3)


class Configuration(harness.Case):
    def errors(self, tracing):
        done = self.run_agent("--check-config", config={"tracing": tracing})
        self.assertEqual(done.returncode, 1, done)
        return done.stderr + done.stdout

    def test_what_is_wrong(self):
        self.assertIn("`endpoint` is missing", self.errors({"sample": 0.1}))
        self.assertIn("http:// or https://", self.errors({"endpoint": "127.0.0.1:4318"}))
        said = self.errors({"endpoint": "http://user:HIDDEN@127.0.0.1:4318/v1/traces"})
        self.assertIn("headers_file", said)
        self.assertNotIn("HIDDEN", said)
        self.assertIn("0 to 1", self.errors({"endpoint": "http://x/", "sample": 1.5}))
        path = os.path.join(self.directory, "headers")
        self.assertIn("headers_file", self.errors({"endpoint": "http://x/", "headers_file": path}))
        for line in ("no colon HIDDEN", "Content-Type: HIDDEN", "A b: HIDDEN", "Empty:", "X: a\x01HIDDEN"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"Good: 1\n{line}\n")
            said = self.errors({"endpoint": "http://x/", "headers_file": path})
            self.assertIn("line 2", said)
            self.assertNotIn("HIDDEN", said)


if __name__ == "__main__":
    harness.main()
