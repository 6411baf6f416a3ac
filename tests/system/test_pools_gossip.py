"""Pools of agents that gossip: one that is made, changed or deleted on any is in force on all, and no log has what is secret in it."""
# Mostly waits.
import glob
import os
import stat

import harness
import mesh

USER, PASSWORD, KEY = "us3r", "p4ss-S3cret", "sk-S3cret"


def endpoints(n, **more):
    return [{"id": f"e{i}", "url": f"http://{USER}:{PASSWORD}@192.0.2.{i}:3128", **more} for i in range(1, n + 1)]


class Pools(mesh.Case):
    def tearDown(self):
        for agent in self.nodes.values():
            for text in (agent.log(), self.page(agent, "/metrics"), self.page(agent, "/v1/changes"), self.page(agent, "/v1/pools/x")):
                for secret in (USER, PASSWORD, KEY):
                    self.assertNotIn(secret, text)
        super().tearDown()

    @staticmethod
    def page(agent, path):
        return agent.http("GET", path).body.decode() if agent.running() else ""

    def endpoints_of(self, agent, pool="x"):
        """Those that six NEXT give, None where there are none; "NOPOOL" where there is no pool."""
        try:
            given = [agent.call("KOVA.POOL.NEXT", pool) for _ in range(6)]
        except harness.RespError as error:
            return str(error).split()[0]
        for reply in given:
            if reply[1] is not None:
                self.assertIn(reply[3].split("//")[1], {e["url"].split("//")[1] for e in endpoints(9)}, "with its credentials")
                agent.call("KOVA.POOL.REPORT", pool, reply[1], "cancelled")
        return {reply[5] for reply in given}

    def wait_everywhere(self, endpoints_there, pool="x"):
        for name, agent in self.nodes.items():
            harness.wait_for(lambda a=agent: self.endpoints_of(a, pool) == endpoints_there, f"{endpoints_there} at {name}")

    def put(self, agent, pool, name="x"):
        self.assertEqual(agent.http("PUT", f"/v1/pools/{name}", pool).status, 200)

    def test_made_changed_and_deleted_on_different_nodes(self):
        a, b, c = self.mesh(3)
        self.put(a, {"endpoints": endpoints(2)})
        self.wait_everywhere({"e1", "e2"})
        given = a.call("KOVA.POOL.NEXT", "x")
        self.assertEqual(c.call("KOVA.POOL.REPORT", "x", given[1], "ok"), "OK", "a ticket of one is any's to report")
        self.put(b, {"endpoints": endpoints(3)})
        self.wait_everywhere({"e1", "e2", "e3"})
        self.assertEqual(c.http("PATCH", "/v1/pools/x/endpoints/e2", {"state": "disabled"}).status, 200)
        self.wait_everywhere({"e1", "e3"})
        self.assertEqual(a.http("PATCH", "/v1/pools/x/endpoints/e3", {"weight": 0}).status, 200)
        self.wait_everywhere({"e1"})
        last = b.http("GET", "/v1/changes").json()["changes"][0]
        self.assertEqual((last["kind"], last["name"], last["node"]), ("pool", "x", "a"))
        self.assertEqual({p["id"]: (p.get("state", "active"), p.get("weight", 1)) for p in last["after"]["endpoints"]},
                         {"e1": ("active", 1), "e2": ("disabled", 1), "e3": ("active", 0)})
        self.assertEqual(b.http("DELETE", "/v1/pools/x").status, 204)
        self.wait_everywhere("NOPOOL")

    def test_a_cooldown_outlives_a_change(self):
        a, b = self.mesh(2)
        self.put(a, {"threshold": 2, "endpoints": endpoints(3)})
        self.wait_everywhere({"e1", "e2", "e3"})
        for _ in range(6):
            given = a.call("KOVA.POOL.NEXT", "x")
            a.call("KOVA.POOL.REPORT", "x", given[1], "refused" if given[5] == "e1" else "ok")
        self.put(b, {"threshold": 2, "endpoints": endpoints(4)})
        self.wait_everywhere({"e2", "e3", "e4"})

    def test_one_who_joins_and_one_who_comes_back(self):
        # Of a file, with loops: who was away for the change has it, and keeps it in a file that only it may read.
        a = self.start_node("a", threads=2, pools=[{"name": "x", "endpoints": endpoints(1)},
                                                   {"name": "k", "kind": "key", "endpoints": [{"id": "e1", "key": KEY}]}])
        b = self.start_node("b", self.seed("a"), threads=2)
        harness.wait_for(lambda: b.call("KOVA.POOL.NEXT", "k")[3] == KEY, "the key")
        b.stop()
        self.put(a, {"endpoints": endpoints(2)})
        self.again("b")
        c = self.start_node("c", self.seed("b"))
        self.wait_everywhere({"e1", "e2"})
        a.stop()
        c.stop()
        del self.nodes["a"]
        c = self.again("c")
        self.wait_everywhere({"e1", "e2"})
        secret = 0
        for path in glob.glob(os.path.join(c.directory, "state", "*")):
            with open(path, "rb") as file:
                if PASSWORD.encode() in file.read():
                    secret += 1
                    self.assertEqual(stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077, 0, path)
        self.assertGreater(secret, 0, "it is kept")

    def test_who_is_cut_off_has_what_was_decided_afterwards(self):
        relay = self.keep(mesh.Relay())
        a = self.start_node("a", relay=relay)
        outside = relay.outside["a"].getsockname()[1]
        b = self.start_node("b", [f"127.0.0.1:{outside}"], relay=relay)
        self.wait_members(2)
        self.put(a, {"endpoints": endpoints(1)})
        self.wait_everywhere({"e1"})
        relay.cut.add(frozenset(("a", "b")))
        self.put(a, {"endpoints": endpoints(2)})
        self.put(b, {"endpoints": endpoints(3)})
        self.assertEqual((self.endpoints_of(a), self.endpoints_of(b)), ({"e1", "e2"}, {"e1", "e2", "e3"}))
        relay.cut.clear()
        self.wait_everywhere({"e1", "e2", "e3"})


if __name__ == "__main__":
    harness.main()
