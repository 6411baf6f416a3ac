"""The coordinator's stream for those who watch: the rows, pools and events of all nodes, whoever looks since when, and nothing while nobody does."""
# Mostly waits.
import http.client
import json
import pathlib
import socket
import time

import coordinator
import harness
import kafka
import usage_topic

VIEWERS_MAX = 32


class Viewer:
    def __init__(self, address):
        self.socket = socket.create_connection(address, 30)
        self.socket.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.fields = http.client.parse_headers(self.file)

    def event(self):
        name, data, end = (self.file.readline() for _ in range(3))
        assert name.startswith(b"event: ") and data.startswith(b"data: ") and end == b"\n", (name, data[:100], end)
        return name[7:-1].decode(), json.loads(data[6:])

    def until(self, wanted, condition=lambda value: True, timeout=40):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            name, value = self.event()
            if name == wanted and condition(value):
                return value
        raise AssertionError(f"no such event {wanted} in time")

    def close(self):
        self.file.close()
        self.socket.close()


class Watching:
    def watch(self, daemon):
        viewer = Viewer(daemon.http_address)
        self.addCleanup(viewer.close)
        return viewer


class Rows(Watching, coordinator.Case):
    def test_rows_of_before_and_after(self):
        agent, daemon = self.start(self.redis, node="n", report="100ms"), self.coordinate()
        self.use(agent)
        before = self.wait_exact()[-1]
        viewer = self.watch(daemon)
        self.assertEqual((viewer.status, viewer.fields["Content-Type"]), (200, "text/event-stream; charset=utf-8"))
        stats = viewer.until("stats")
        self.assertEqual((stats["node"], stats["health"]["status"], stats["viewers"]), ("c", "ready", 0))
        told = viewer.until("rows", lambda rows: any(row["to"] == before["to"] for row in rows))
        self.assertIn(before, told)
        self.use(agent)
        after = self.wait_exact()[-1]
        self.assertIn(after, viewer.until("rows", lambda rows: any(row["to"] == after["to"] for row in rows)))
        late = self.watch(daemon)  # has at once what the other one was told
        name, rows = late.event()
        self.assertEqual(name, "rows")
        self.assertIn(before, rows)
        self.assertIn(after, rows)


class Topics(Watching, kafka.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker.create_topic(usage_topic.TOPIC, 2)

    def coordinate(self):
        config = {"node": "c", "kafka": {"bootstrap": self.broker.bootstrap}, "policies": []}
        return self.keep(coordinator.Coordinator(self.subdirectory("c"), config)).wait_ready()

    def clients_of(self, daemon):
        """What librdkafka has open, by its threads."""
        names = (pathlib.Path(task, "comm").read_text() for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir())
        return sum(name.startswith("rdk:main") for name in names)

    def test_pools_and_events_as_others_write_them(self):
        self.broker.create_topic("kova.events.v1", 1)
        self.broker.create_topic("kova.pool.v1", 1)
        daemon = self.coordinate()
        event = {"event": "outage_begun", "at": "2026-01-02T03:04:05.000Z", "node": "n", "hlc": 5, "part": "kafka", "policy_action": {}}
        spread = json.dumps(event, indent=2).encode()  # on several lines
        self.broker.produce("kova.events.v1", [(b"n", spread, {}), (b"n", b"{not JSON\n\ndata: x", {}), (b"n", b"[1]", {}),
                                               (b"n", b'{"long":"' + b"x" * 70000 + b'"}', {})])
        change = {"event": "config_changed", "kind": "override", "name": "p", "before": {"key": "k-1"}, "after": None,
                  "key": "k-1", "prefix": "k-", "parent": "k", "hlc": 9}
        pool = {"event": "pool_numbers", "pool": "p", "share": {"a": 1}}
        self.broker.produce("kova.pool.v1", [(b"p", json.dumps(pool).encode(), {})])
        viewer = self.watch(daemon)
        self.assertEqual(viewer.until("events"), [event])
        self.watch(daemon).until("pools", lambda pools: pools == [pool])
        self.broker.produce("kova.events.v1", [(b"n", json.dumps({**event, "hlc": 6}).encode(), {})])
        self.assertEqual(viewer.until("events"), [{**event, "hlc": 6}])
        self.broker.produce("kova.events.v1", [(b"n", json.dumps(change).encode(), {})])
        self.assertEqual(viewer.until("events"), [{"event": "config_changed", "kind": "override", "name": "p", "hlc": 9}])

    def test_nothing_is_read_while_nobody_watches(self):
        daemon = self.coordinate()
        idle = self.clients_of(daemon)
        viewer = self.watch(daemon)
        viewer.until("stats", lambda stats: stats["caught_up"])
        self.assertEqual(self.clients_of(daemon), idle + 3)
        viewer.close()
        harness.wait_for(lambda: self.clients_of(daemon) == idle, "the topics are let go", 60)
        self.watch(daemon).until("stats", lambda stats: stats["caught_up"])
        self.assertEqual(daemon.stop(), 0)  # while somebody watches

    def test_so_many_may_watch(self):
        daemon = self.coordinate()
        viewers = [self.watch(daemon) for _ in range(VIEWERS_MAX)]
        self.assertEqual({viewer.status for viewer in viewers}, {200})
        self.assertEqual(self.watch(daemon).status, 503)
        self.assertEqual(daemon.http("/healthz").status, 200)
        viewers[0].until("stats", lambda stats: stats["viewers"] == VIEWERS_MAX)
        viewers.pop().close()
        viewers[0].until("stats", lambda stats: stats["viewers"] == VIEWERS_MAX - 1)
        self.assertEqual(self.watch(daemon).status, 200)

    def test_the_page_and_what_it_needs(self):
        daemon = self.coordinate()
        page = daemon.http("/")
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'self'", page.headers["content-security-policy"])
        names = set(part.split('"')[0] for part in page.body.decode().split('="assets/')[1:])
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            self.assertEqual(daemon.http("/assets/" + name).status, 200, name)
        gone = daemon.http("/nothing")
        self.assertEqual(gone.status, 404)
        self.assertIn("/v1/stream", json.loads(gone.body)["detail"])


if __name__ == "__main__":
    harness.main()
