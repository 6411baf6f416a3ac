"""The stream of numbers for those who watch: what it says, who may see it, and that viewers cost no more than they are meant to."""
# Mostly waits.

import http.client
import json
import socket
import time

import harness
import mesh

POLICY = {"name": "p", "limit": 5, "per": "1h", "burst": 5}
HOT = {"name": "q", "limit": 100, "per": "1s", "burst": 100}
VIEWERS_MAX = 64
EVENTS_KEPT = 100


class Viewer:
    """One who watches; events come as (name, value)."""

    def __init__(self, address, token=None, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(30)
        self.socket.connect(address)
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self.socket.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: x\r\n{bearer}\r\n".encode())
        self.file = self.socket.makefile("rb")

    def head(self):
        status = int(self.file.readline().split()[1])
        fields = http.client.parse_headers(self.file)
        return status, fields

    def event(self):
        name = self.file.readline()
        if not name:
            return None
        data = self.file.readline()
        assert name.startswith(b"event: ") and data.startswith(b"data: "), (name, data[:100])
        assert self.file.readline() == b"\n"
        return name[7:-1].decode(), json.loads(data[6:])

    def next(self, wanted):
        for _ in range(50):
            name, value = self.event()
            if name == wanted:
                return value
        raise AssertionError(f"no event {wanted}")

    def close(self):
        self.file.close()
        self.socket.close()


class Stream(harness.Case):
    def watch(self, agent, **more):
        viewer = Viewer(agent.http_address, **more)
        self.addCleanup(viewer.close)
        return viewer

    def metric(self, agent, name, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for line in agent.http("GET", "/metrics", headers=headers).body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return None

    def test_it_tells_what_happens(self):
        agent = self.start_agent({"policies": [POLICY], "threads": 2})
        viewer = self.watch(agent)
        status, fields = viewer.head()
        self.assertEqual(status, 200)
        self.assertEqual(fields["Content-Type"], "text/event-stream; charset=utf-8")
        self.assertEqual(fields["Cache-Control"], "no-store")
        members = viewer.next("members")["members"]
        self.assertEqual([member["state"] for member in members], ["alive"])
        first = viewer.next("stats")
        self.assertEqual(first["health"]["status"], "ready")
        for _ in range(8):
            agent.call("KOVA.TAKE", "p", "key")
        second = viewer.next("stats")
        if second["policies"][0]["allowed"] < 5 or second["policies"][0]["refused"] < 3:
            second = viewer.next("stats")
        policy = second["policies"][0]
        self.assertEqual((policy["policy"], policy["allowed"], policy["refused"]), ("p", 5, 3))

    def test_the_keys_that_are_refused_most(self):
        """Merged over the loops, named to who may see keys, and without names in metrics."""
        agent = self.start_agent({"policies": [POLICY, HOT], "threads": 4})
        viewer = self.watch(agent)
        viewer.head()
        connections = [agent.resp() for _ in range(8)]
        for i, connection in enumerate(connections):
            for _ in range(20):
                connection.call("KOVA.TAKE", "p", "greedy")
            connection.call("KOVA.TAKE", "q", f"key-{i}", "COST", 101)
            connection.close()
        top = agent.http("GET", "/v1/top?policy=p").json()
        self.assertEqual(top["refused"], [{"policy": "p", "key": "greedy", "count": 155, "error": 0}])
        self.assertEqual(top["asked"], [{"policy": "p", "key": "greedy", "count": 160, "error": 0}])
        every = agent.http("GET", "/v1/top?limit=3").json()["refused"]
        self.assertEqual([(one["policy"], one["count"]) for one in every], [("p", 155), ("q", 101), ("q", 101)])
        harness.wait_for(lambda: viewer.next("top")["refused"][:1] == top["refused"], "the page to show it")
        metrics = agent.http("GET", "/metrics").body.decode()
        self.assertIn('kova_top_refused{policy="p",rank="1"} 155', metrics)
        self.assertNotIn("greedy", metrics)
        self.assertEqual(agent.http("GET", "/v1/top?policy=none").status, 404)
        self.assertEqual(agent.http("GET", "/v1/top?limit=101").status, 400)

    def test_a_change_of_the_configuration_is_news(self):
        agent = self.start_agent({"policies": [POLICY]})
        viewer = self.watch(agent)
        viewer.head()
        before = viewer.next("stats")["config"]
        agent.http("PUT", "/v1/overrides", {"policy": "p", "key": "k", "banned": True})
        harness.wait_for(lambda: viewer.next("stats")["config"] > before, "news")

    def test_what_happened_is_told_to_all_and_whose_keys_is_not(self):
        """Without Kafka, too; whoever comes later gets the same."""
        redis = self.start_redis()
        pool = {"name": "exits", "threshold": 2, "endpoints": [{"id": "one", "url": "http://user:hunter2@127.0.0.1:9"},
                                                               {"id": "two", "url": "http://127.0.0.1:10"}]}
        agent = self.start_agent({"policies": [POLICY], "pools": [pool], "threads": 2,
                                  "redis": {"mode": "standalone", "url": redis.url, "timeout": "2s"}})
        viewer = self.watch(agent)
        viewer.head()
        self.assertEqual(viewer.next("events"), [])
        agent.http("PUT", "/v1/overrides", {"policy": "p", "key": "whose", "limit": 77, "per": "1s"})
        for _ in range(4):
            given = agent.http("POST", "/v1/pools/exits/next", {}).json()
            agent.http("POST", "/v1/pools/exits/report", {"ticket": given["ticket"], "outcome": "refused"})
        redis.stop()

        def kinds(of):
            return [event["event"] for event in of.next("events")]

        wanted = {"config_changed", "endpoint_cooled", "outage_begun"}
        harness.wait_for(lambda: agent.http("POST", "/v1/take", {"policy": "p", "key": "k"}) and wanted <= set(kinds(viewer)), "all to be told")
        late = self.watch(agent)
        late.head()
        events = {event["event"]: event for event in late.next("events")}
        change = events["config_changed"]
        self.assertEqual((change["kind"], change["name"], change["who"]), ("override", "p", "local"))
        self.assertEqual(events["outage_begun"]["part"], "redis")
        self.assertEqual(set(change), {"event", "at", "node", "region", "hlc", "kind", "name", "who"})
        for secret in ("whose", "hunter2"):
            self.assertNotIn(secret, json.dumps(events))

    def test_events_are_bounded(self):
        agent = self.start_agent({"policies": [POLICY]})
        for limit in range(1, EVENTS_KEPT + 21):
            agent.http("PUT", "/v1/overrides", {"policy": "p", "key": "k", "limit": limit, "per": "1s"})
        viewer = self.watch(agent)
        viewer.head()
        events = viewer.next("events")
        self.assertEqual(len(events), EVENTS_KEPT)
        stamps = [event["hlc"] for event in events]
        self.assertEqual(stamps, sorted(stamps), "the oldest first")

    def test_pools_are_shown_without_secrets(self):
        endpoint = {"id": "one", "url": "http://user:hunter2@127.0.0.1:9"}
        agent = self.start_agent({"policies": [], "pools": [{"name": "exits", "endpoints": [endpoint]}]})
        viewer = self.watch(agent)
        viewer.head()
        pools = viewer.next("pools")["pools"]
        self.assertEqual(pools[0]["endpoints"][0]["state"], "active")
        self.assertNotIn("hunter2", json.dumps(pools))

    def test_a_token_is_needed_where_there_are_tokens(self):
        directory = self.subdirectory("tokens")
        with open(f"{directory}/tokens", "w", encoding="utf-8") as file:
            file.write("boss boss-token admin\nworker worker-token check\n")
        agent = self.start_agent({"policies": [POLICY], "auth": {"tokens_file": f"{directory}/tokens"}})
        self.assertEqual(self.watch(agent).head()[0], 401)
        self.assertEqual(self.watch(agent, token="wrong").head()[0], 401)
        for token in ("boss-token", "worker-token"):
            viewer = self.watch(agent, token=token)
            self.assertEqual(viewer.head()[0], 200)
            viewer.next("stats")
            names = [viewer.event()[0] for _ in range(6)]
            self.assertEqual("top" in names, token == "boss-token", "keys are for administrators")
        worker = {"Authorization": "Bearer worker-token"}
        self.assertEqual(agent.http("GET", "/v1/top", headers=worker).status, 403)
        self.assertEqual(agent.http("GET", "/").status, 200, "the page itself is no secret")

    def test_a_token_that_is_taken_away_ends_the_stream(self):
        tokens = f"{self.subdirectory('tokens')}/tokens"

        def write(lines):
            with open(tokens, "w", encoding="utf-8") as file:
                file.write(lines)
        write("boss boss-token admin\nchief chief-token admin\nworker worker-token check\n")
        agent = self.start_agent({"policies": [POLICY], "threads": 2, "auth": {"tokens_file": tokens}})
        boss, chief, worker = (self.watch(agent, token=f"{name}-token") for name in ("boss", "chief", "worker"))
        for viewer in (boss, chief, worker):
            self.assertEqual(viewer.head()[0], 200)
        chief.next("top")
        write("boss boss-token admin\nchief chief-token check\n")
        agent.reload(agent.config)
        harness.wait_for(lambda: '"event":"reloaded"' in agent.log(), "a file read again")
        self.assertIn(None, (worker.event() for _ in range(50)), "the end")
        boss.next("top")
        while chief.event()[0] != "stats":
            pass  # what was on its way
        chief.next("stats")
        self.assertNotIn("top", [chief.event()[0] for _ in range(6)])

    def test_viewers_are_bounded_and_leave(self):
        agent = self.start_agent({"policies": [POLICY], "threads": 2})
        viewers = [self.watch(agent) for _ in range(VIEWERS_MAX)]
        for viewer in viewers:
            self.assertEqual(viewer.head()[0], 200)
        status, fields = self.watch(agent).head()
        self.assertEqual((status, fields["Retry-After"]), (503, "5"))
        harness.wait_for(lambda: viewers[0].next("stats")["viewers"] == VIEWERS_MAX, "all to be counted")
        for viewer in viewers:
            viewer.close()
        harness.wait_for(lambda: self.metric(agent, "kova_stream_viewers") == 0, "all to be gone")
        self.assertEqual(self.metric(agent, "kova_stream_refused_total"), 1)
        again = self.watch(agent)
        self.assertEqual(again.head()[0], 200)
        again.next("stats")

    def test_nothing_is_computed_while_nobody_looks(self):
        agent = self.start_agent({"policies": [POLICY]})
        self.assertEqual(self.metric(agent, "kova_stream_events_total"), 0)
        viewer = self.watch(agent)
        viewer.head()
        viewer.next("stats")
        viewer.close()
        harness.wait_for(lambda: self.metric(agent, "kova_stream_viewers") == 0, "him to be gone")
        before = self.metric(agent, "kova_stream_events_total")
        time.sleep(2.5)
        self.assertLessEqual(self.metric(agent, "kova_stream_events_total"), before + 1)

    def test_one_who_does_not_read_is_left_out_and_keeps_nobody_up(self):
        pools = [{"name": f"pool-{n}", "endpoints": [{"id": f"endpoint-{i}-{'x' * 40}", "url": f"http://127.0.0.1:{i + 1}"}
                                                     for i in range(240)]} for n in range(8)]
        agent = self.start_agent({"policies": [POLICY], "pools": pools})  # some hundred KB each two seconds
        slow = self.watch(agent, receive_bytes=4096)
        quick = self.watch(agent)
        quick.head()
        slow.head()
        harness.wait_for(lambda: quick.next("stats") and self.metric(agent, "kova_stream_skipped_total") > 0,
                         "the slow one to be left out", timeout=60)
        harness.wait_for(lambda: quick.next("stats") and self.metric(agent, "kova_stream_cut_off_total") == 1,
                         "the slow one to be cut off", timeout=60)
        self.assertEqual(quick.next("stats")["viewers"], 1)

    def test_the_end_of_the_agent_ends_the_stream(self):
        agent = self.start_agent({"policies": [POLICY, HOT], "threads": 2})
        viewers = [self.watch(agent) for _ in range(4)]
        for viewer in viewers:
            viewer.head()
            viewer.next("stats")
        begun = time.monotonic()
        self.assertEqual(agent.stop(), 0)
        self.assertLess(time.monotonic() - begun, 4, "they are not waited for")
        for viewer in viewers:
            while viewer.event() is not None:
                pass


class Seen(mesh.Case):
    def test_what_others_change_is_told_too(self):
        a, b = self.mesh(2)
        viewer = Viewer(a.http_address)
        self.addCleanup(viewer.close)
        viewer.head()
        self.assertEqual(mesh.put(b, "p", 10).status, 200)

        def changes():
            return [event for event in viewer.next("events") if event["event"] == "config_changed"]

        harness.wait_for(lambda: [(one["node"], one["kind"], one["name"]) for one in changes()] == [("b", "policy", "p")], "the change")
        self.assertNotIn("after", changes()[0])
        self.assertEqual(mesh.put(a, "p", 11).status, 200)
        harness.wait_for(lambda: [one["node"] for one in changes()] == ["b", "a"], "each once")


if __name__ == "__main__":
    harness.main()
