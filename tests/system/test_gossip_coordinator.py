"""Coordinators that gossip: one more node that agrees on policies with the agents."""
# Mostly waits.
import json
import os
import signal
import time

import clock
import coordinator
import harness
import mesh
from mesh import limit, members, policies, put

NOWHERE = "127.0.0.1:1"  # a Kafka that can't be reached


class Case(mesh.Case):
    def coordinate(self, node, seeds=(), env=None, **more):
        self.ports.setdefault(node, harness.free_port())
        config = {"node": node, "kafka": {"bootstrap": NOWHERE}, "state_dir": "state",
                  "gossip": {"listen": f"127.0.0.1:{self.ports[node]}", "seeds": list(seeds), "secret_file": self.secrets}, **more}
        process = self.keep(coordinator.Coordinator(self.subdirectory(node), config, env=env))
        process.config = config

        def answers():
            assert process.running(), process.log()
            return process.http("/healthz").status == 200
        harness.wait_for(answers, "a coordinator")
        return process


def members_of(process):
    return {m["node"]: m for m in process.http("/v1/members").json()["members"]}


def kept(process):
    """The items that are on its disk, by name; the newest of each."""
    items = {}
    for name in ("control.json", "control.journal"):
        path = os.path.join(process.directory, "state", name)
        with open(path, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)[1]
                item = record.get("item") or record.get("deleted")
                if item is not None and "name" in item:
                    items[item["name"]] = record
    return {name: (record["item"]["limit"], record["who"]) for name, record in items.items() if "item" in record}


class Coordinators(Case):
    def test_a_coordinator_is_a_member_and_knows_what_agents_change(self):
        a, b = self.mesh(2)
        put(a, "p", 10)
        c = self.coordinate("c", self.seed("a"))
        harness.wait_for(lambda: members(b).get("c", {}).get("state") == "alive", "the coordinator is a member")
        self.assertEqual(members(b)["c"]["role"], "coordinator")
        harness.wait_for(lambda: {n: m["role"] for n, m in members_of(c).items()} ==
                         {"c": "coordinator", "a": "agent", "b": "agent"}, "it knows the members")
        harness.wait_for(lambda: kept(c).get("p") == (10, "local"), "what was there before it")
        put(b, "p", 20)
        a.http("PUT", "/v1/overrides", {"policy": "p", "key": "vip", "limit": 99, "per": "1s"})
        harness.wait_for(lambda: kept(c).get("p") == (20, "local"), "a change")
        harness.wait_for(lambda: c.metric("kova_gossip_items") == 2, "the override as well")
        a.http("DELETE", "/v1/policies/p")
        harness.wait_for(lambda: "p" not in kept(c), "a deletion")
        c.stop()
        harness.wait_for(lambda: members(a)["c"]["state"] == "dead", "its farewell")

    def test_its_file_is_a_write_like_any_other(self):
        a, b = self.mesh(2)
        put(a, "theirs", 1)
        c = self.coordinate("c", self.seed("a"), policies=[{"name": "ours", "limit": 5, "per": "1s"},
                                                           {"name": "theirs", "limit": 9, "per": "1s"}])
        harness.wait_for(lambda: (limit(b, "ours"), limit(b, "theirs")) == (5, 1), "what a fresh node has in its file")
        harness.wait_for(lambda: kept(c).get("theirs") == (1, "local"), "an operator's change is not undone")
        c.config["policies"] = [{"name": "ours", "limit": 6, "per": "1s"}, {"name": "theirs", "limit": 9, "per": "1s"}]
        c.write_config(dict(c.config, http="%s:%d" % c.http_address))
        c.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: limit(b, "ours") == 6, "what changed in the file")
        self.assertEqual(policies(b)["ours"]["who"], "file")
        self.assertEqual(limit(b, "theirs"), 1, "what did not change there")

    def test_what_came_is_there_after_a_restart_and_goes_on_from_there(self):
        a = self.start_node("a")
        c = self.coordinate("c", self.seed("a"))
        put(a, "p", 10)
        harness.wait_for(lambda: kept(c).get("p") == (10, "local"), "a change")
        a.stop()
        c.kill()
        c = self.coordinate("c")
        fresh = self.start_node("fresh", self.seed("c"))
        harness.wait_for(lambda: limit(fresh, "p") == 10, "one who joins learns from a coordinator alone")
        put(fresh, "p", 11)
        harness.wait_for(lambda: kept(c).get("p") == (11, "local"), "a change after that")

    def test_one_whose_clock_is_off_takes_no_changes_from_its_file(self):
        wrong = clock.Clock(self.directory)
        a, b = self.mesh(2)
        c = self.coordinate("c", self.seed("a"), env=wrong.env())
        harness.wait_for(lambda: members(b).get("c", {}).get("state") == "alive", "the coordinator is a member")
        wrong.shift(10)
        harness.wait_for(lambda: '"event":"clock_skew"' in c.log(), "it finds out")
        c.config["policies"] = [{"name": "p", "limit": 6, "per": "1s"}]
        c.write_config(dict(c.config, http="%s:%d" % c.http_address))
        c.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: "clock_skew: this node" in c.log(), "a refusal")
        wrong.shift(0)
        harness.wait_for(lambda: '"event":"clock_agrees"' in c.log(), "its clock is right again")
        time.sleep(1)
        self.assertIsNone(limit(a, "p"))
        c.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: limit(a, "p") == 6, "the file is in force")

    def test_secrets_are_read_again(self):
        a = self.start_node("a")
        c = self.coordinate("c", self.seed("a"))
        harness.wait_for(lambda: "a" in members_of(c), "both are there")
        for secrets in ((mesh.SECRET, "a new secret for the whole mesh"), ("a new secret for the whole mesh",)):
            mesh.write_secrets(self.directory, *secrets)
            for process in (a, c):
                process.send_signal(signal.SIGHUP)
                harness.wait_for(lambda p=process, n=len(secrets): p.log().count('"reloaded"') == 3 - n, "a reload")
        put(a, "p", 5)
        harness.wait_for(lambda: kept(c).get("p") == (5, "local"), "a change under the new one")


class Configuration(Case):
    def check(self, **more):
        path = os.path.join(self.directory, "coordinator.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"node": "c", "kafka": {"bootstrap": NOWHERE}, **more}, file)
        return harness.subprocess.run([harness.program("kova-coordinator"), "--config", path, "--check-config"],
                                      capture_output=True, text=True, check=False)

    def test_what_is_wrong_is_said(self):
        for more, why in (({"gossip": {"listen": "0.0.0.0:7414"}}, "that needs a `secret_file`\n"),
                          ({"gossip": {"listn": "127.0.0.1:7414"}}, "listen"),
                          ({"gossip": {}, "policies": [{"name": "p", "limit": 1, "per": "1s", "hold": "1s"}]}, "hold"),
                          ({"clock": {"max_skew": "5s"}}, "max_skew")):
            result = self.check(**more)
            self.assertEqual(result.returncode, 1, more)
            self.assertIn(why, result.stdout + result.stderr)
        self.assertEqual(self.check(gossip={}, policies=[{"name": "p", "limit": 1, "per": "1s"}]).returncode, 0)


if __name__ == "__main__":
    harness.main()
