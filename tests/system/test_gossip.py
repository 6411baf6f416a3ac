"""Agents that gossip: a change made on any is in force on all, whoever dies, is cut off, lies or has a wrong clock."""
# Mostly waits.
import json
import os
import signal
import time

import clock
import harness
import mesh
from mesh import limit, members, metric, policies, put, states


class Changes(mesh.Case):
    def test_a_change_on_any_node_is_in_force_on_all(self):
        agents = self.mesh(4)
        for i, agent in enumerate(agents):
            self.assertEqual(put(agent, f"p{i}", 10 + i).status, 200)
        for agent in agents:
            for i in range(4):
                harness.wait_for(lambda a=agent, n=i: limit(a, f"p{n}") == 10 + n, f"p{i} everywhere")
                self.assertEqual(agent.call("KOVA.PEEK", f"p{i}", "k")[0], 1)
        stamps = {json.dumps([(p["version"], p["who"]) for _, p in sorted(policies(a).items())]) for a in agents}
        self.assertEqual(len(stamps), 1, "version and who are the same everywhere")
        self.assertEqual(policies(agents[0])["p3"]["who"], "local")

        body = {"policy": "p0", "key": "vip", "limit": 99, "per": "1s"}
        self.assertEqual(agents[3].http("PUT", "/v1/overrides", body).status, 200)
        for agent in agents:
            harness.wait_for(lambda a=agent: a.call("KOVA.PEEK", "p0", "vip")[2] == 198, "the override everywhere")

    def test_the_last_writer_wins_and_a_deletion_stays(self):
        a, b, c = self.mesh(3)
        for i in range(5):
            put((a, b, c)[i % 3], "p", 100 + i)
            harness.wait_for(lambda n=i: all(limit(x, "p") == 100 + n for x in (a, b, c)), "the last write")
        c.kill()
        self.assertEqual(a.http("DELETE", "/v1/policies/p").status, 204)
        harness.wait_for(lambda: limit(b, "p") is None, "the deletion")
        c = self.again("c")
        harness.wait_for(lambda: limit(c, "p") is None, "the deletion where it was not heard")
        time.sleep(2)
        self.assertEqual([limit(x, "p") for x in (a, b, c)], [None] * 3)

    def test_one_who_joins_learns_all_from_one_seed_and_keeps_it(self):
        a = self.start_node("a", policies=[{"name": f"p{i}", "limit": i + 1, "per": "1s"} for i in range(50)])
        put(a, "p7", 777)
        a.http("DELETE", "/v1/policies/p8")
        b = self.start_node("b", self.seed("a"))
        harness.wait_for(lambda: len(policies(b)) == 49 and limit(b, "p7") == 777, "everything")
        c = self.start_node("c", self.seed("b"))
        harness.wait_for(lambda: policies(c) == policies(a), "everything from b")
        self.wait_members(3)
        for agent in (a, b, c):
            agent.stop()
        alone = self.again("c")
        self.assertEqual((len(policies(alone)), limit(alone, "p7"), limit(alone, "p8")), (49, 777, None))

    def test_one_joins_many_overrides_and_decides_meanwhile(self):
        many = 10_000 if harness.SANITIZED else 100_000
        overrides = [{"policy": "p", "key": f"key-{i}", "limit": 1 + i % 1000, "per": "1s"} for i in range(many)]
        policy = [{"name": "p", "limit": 5, "per": "1s"}]
        a = self.start_node("a", policies=policy, overrides=overrides)
        b = self.start_node("b", self.seed("a"), policies=policy)
        connection, last = b.resp(), many - 1
        until = time.monotonic() + harness.PATIENCE
        while connection.call("KOVA.PEEK", "p", f"key-{last}")[2] != 2 * (1 + last % 1000):
            self.assertIn(connection.call("KOVA.TAKE", "p", "another")[0], (0, 1))
            self.assertLess(time.monotonic(), until)
        harness.wait_for(lambda: metric(b, "kova_gossip_items") == many + 1, "all overrides")
        connection.close()
        put(b, "p", 6)
        harness.wait_for(lambda: limit(a, "p") == 6, "a change after that")

    def test_a_large_item_gets_through(self):
        a, b = self.mesh(2)
        levels = [{"name": f"level-{i}-" + "x" * 40, "limit": 10 + i, "per": "1s", "burst": 20 + i} for i in range(8)]
        self.assertEqual(a.http("PUT", "/v1/policies/wide", {"levels": levels}).status, 200)
        key = "k" * 1000
        a.http("PUT", "/v1/overrides", {"policy": "wide", "key": key, "limit": 5, "per": "1s"})
        harness.wait_for(lambda: policies(b).get("wide") == policies(a)["wide"], "a policy of more than a kilobyte")
        harness.wait_for(lambda: len(b.http("GET", "/v1/overrides").json()["overrides"]) == 1, "its override")

    def test_with_several_loops_every_connection_has_the_change(self):
        a, b = self.mesh(2, threads=3)
        put(a, "p", 10)
        harness.wait_for(lambda: limit(b, "p") == 10, "the change")
        connections = [b.resp() for _ in range(6)]
        for connection in connections:
            harness.wait_for(lambda c=connection: c.call("KOVA.PEEK", "p", "k")[0] == 1, "the change on each loop")
            connection.close()
        self.assertEqual([len(members(b)) for _ in range(6)], [2] * 6)


class Files(mesh.Case):
    def test_a_fresh_container_does_not_undo_what_an_operator_changed(self):
        file = [{"name": "p", "limit": 10, "per": "1s"}]
        a = self.start_node("a", policies=file)
        put(a, "p", 500)
        b = self.start_node("b", self.seed("a"), policies=file)
        harness.wait_for(lambda: limit(b, "p") == 500, "the operator's")
        time.sleep(1)
        self.assertEqual((limit(a, "p"), limit(b, "p")), (500, 500))
        b.config["policies"] = [{"name": "p", "limit": 20, "per": "1s"}]
        b.reload(b.config)
        harness.wait_for(lambda: limit(a, "p") == 20, "a file that changed is a new write")
        self.assertEqual(policies(a)["p"]["who"], "file")
        put(a, "p", 30)
        harness.wait_for(lambda: limit(b, "p") == 30, "the write after that")
        b.reload(b.config)
        harness.wait_for(lambda: b.log().count('"reloaded"') == 2, "a reload")
        self.assertEqual((limit(a, "p"), limit(b, "p")), (30, 30), "a file that did not change leaves it alone")


class Trail(mesh.Case):
    def kovactl(self, agent, *words, status=0):
        done = harness.subprocess.run(
            [harness.program("kovactl"), "--agent", "%s:%d" % agent.resp_address, "config", *words],
            capture_output=True, text=True, check=False, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def log(self, agent):
        return json.loads(self.kovactl(agent, "log", "--json"))["changes"]

    def test_log_diff_and_rollback(self):
        a, b = self.mesh(2)
        self.assertEqual(put(a, "p", 10).status, 200)
        harness.wait_for(lambda: limit(b, "p") == 10, "the policy")
        self.assertEqual(put(b, "p", 20).status, 200)
        harness.wait_for(lambda: len(self.log(a)) == 2, "both changes, where the other made one")
        second, first = self.log(a)
        self.assertEqual((first["node"], second["node"], second["who"], second["kind"]), ("a", "b", "local", "policy"))
        self.assertEqual((first["before"], second["before"]["limit"], second["after"]["limit"]), (None, 10, 20))
        self.assertEqual(self.log(a), self.log(b))
        version = str(second["version"])
        self.assertIn(version, self.kovactl(a, "log"))
        diff = self.kovactl(a, "diff", version)
        self.assertIn("- limit: 10", diff)
        self.assertIn("+ limit: 20", diff)
        self.assertNotIn("per", diff, "what is the same")

        self.kovactl(a, "rollback", version)
        harness.wait_for(lambda: (limit(a, "p"), limit(b, "p")) == (10, 10), "what was before, everywhere")
        self.assertIn("--force", self.kovactl(a, "rollback", version, status=2))
        self.kovactl(a, "rollback", str(first["version"]), "--force")
        harness.wait_for(lambda: (limit(a, "p"), limit(b, "p")) == (None, None), "there was none")
        self.assertIn("no change of version 7", self.kovactl(a, "diff", "7", status=2))

        override = {"policy": "q", "prefix": "acme/", "limit": 5, "per": "1s"}
        put(a, "q", 1)
        self.assertEqual(a.http("PUT", "/v1/overrides", override).status, 200)
        harness.wait_for(lambda: self.log(b)[0]["kind"] == "override", "the override")
        self.kovactl(b, "rollback", str(self.log(b)[0]["version"]))
        harness.wait_for(lambda: a.http("GET", "/v1/overrides").json()["overrides"] == [], "no override")
        before = self.log(a)
        a.stop()
        self.assertEqual(self.log(self.again("a")), before, "it is kept")

    def test_what_the_file_changed_is_in_the_log(self):
        a = self.start_node("a", policies=[{"name": "p", "limit": 10, "per": "1s"}])
        self.assertEqual(self.log(a), [], "what a fresh node finds is no change")
        a.config["policies"][0]["limit"] = 11
        a.reload(a.config)
        harness.wait_for(lambda: [c["who"] for c in self.log(a)] == ["file"], "the reload")
        a.stop()
        a.config["policies"][0]["limit"] = 12
        a = self.again("a")
        self.assertEqual([(c["who"], c["before"]["limit"]) for c in self.log(a)], [("file", 11), ("file", 10)])


class Members(mesh.Case):
    def test_who_is_killed_is_lost_and_who_stops_says_so(self):
        a, b, c = self.mesh(3)
        self.assertEqual(
            {n: (m["region"], m["role"], m["address"]) for n, m in members(a).items()},
            {n: ("here", "agent", f"127.0.0.1:{self.ports[n]}") for n in "abc"})
        c.kill()
        for agent in (a, b):
            harness.wait_for(lambda x=agent: members(x)["c"]["state"] == "dead", "c is lost", 30)
        lost = [line for line in a.log_lines() if line.get("event") == "member_lost"]
        self.assertEqual([line["member"] for line in lost], ["c"])
        c = self.again("c")
        self.wait_members(3)
        begun = time.monotonic()
        c.stop()
        for agent in (a, b):
            harness.wait_for(lambda x=agent: members(x)["c"]["state"] == "dead", "c said farewell")
        self.assertLess(time.monotonic() - begun, 2.5, "nobody had to suspect it")

    def test_one_that_is_stopped_for_long_comes_back(self):
        a, b, c = self.mesh(3)
        c.send_signal(signal.SIGSTOP)
        harness.wait_for(lambda: members(a)["c"]["state"] == "dead", "c is thought dead", 40)
        put(b, "p", 11)
        c.send_signal(signal.SIGCONT)
        self.wait_members(3)
        harness.wait_for(lambda: limit(c, "p") == 11, "what it missed")

    def test_kovactl_members(self):
        a, _ = self.mesh(2)
        run = harness.subprocess.run
        out = run([harness.program("kovactl"), "--agent", "%s:%d" % a.resp_address, "members", "--json"],
                  capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(m["node"] for m in json.loads(out)["members"]), ["a", "b"])


class Networks(mesh.Case):
    def lossy(self, n, loss):
        relay = self.keep(mesh.Relay(loss))
        agents = []
        for i in range(n):
            name = chr(ord("a") + i)
            seeds = [agents[0].config["gossip"]["advertise"]] if agents else []
            agents.append(self.start_node(name, seeds, relay))
        self.wait_members(n, timeout=60)
        return relay, agents

    def test_changes_get_through_where_one_in_five_is_lost(self):
        relay, agents = self.lossy(6, 0.2)
        for i in range(10):
            put(agents[i % 6], f"p{i}", i + 1)
        for agent in agents:
            harness.wait_for(lambda a=agent: [limit(a, f"p{i}") for i in range(10)] == list(range(1, 11)), "all changes")
        self.assertGreater(relay.lost, 0)
        self.assertNotIn("dead", states(agents[0]))

    def test_a_network_that_was_cut_agrees_again(self):
        relay, agents = self.lossy(5, 0.0)
        here, there = agents[:2], agents[2:]
        relay.cut = {frozenset((a.config["node"], b.config["node"])) for a in here for b in there}
        put(here[0], "p", 1)
        put(here[0], "only-here", 1)
        time.sleep(0.05)
        put(there[0], "p", 2)
        put(there[0], "only-there", 2)
        harness.wait_for(lambda: states(here[0]).count("dead") == 3, "the others are thought dead", 60)
        harness.wait_for(lambda: limit(here[1], "p") == 1 and limit(there[2], "p") == 2, "each side has its own")
        relay.cut = set()
        self.wait_members(5, timeout=60)
        for agent in agents:
            harness.wait_for(lambda a=agent: (limit(a, "p"), limit(a, "only-here"), limit(a, "only-there")) == (2, 1, 2),
                             "all agree on the last write")


class Secrets(mesh.Case):
    def test_a_wrong_secret_changes_nothing_and_is_counted(self):
        a, b = self.mesh(2)
        wrong = mesh.write_secrets(self.subdirectory("wrong"), "some other secret, long enough")
        intruder = self.start_node("x", self.seed("a"), gossip={"secret_file": wrong})
        put(intruder, "evil", 1)
        harness.wait_for(lambda: metric(a, "kova_gossip_rejected_total", reason="hmac") > 2, "refused and counted")
        self.assertEqual(sorted(members(a)), ["a", "b"])
        self.assertEqual(sorted(members(intruder)), ["x"])
        self.assertIsNone(limit(a, "evil"))
        self.assertNotIn(mesh.SECRET, a.log() + b.log() + intruder.log())
        put(a, "good", 5)
        harness.wait_for(lambda: limit(b, "good") == 5, "the others go on")

    def test_secrets_are_changed_without_a_gap(self):
        a, b, c = self.mesh(3)
        new = "a new secret for the whole mesh"
        for number, secrets in enumerate([(mesh.SECRET, new), (new, mesh.SECRET), (new,)]):
            mesh.write_secrets(self.directory, *secrets)
            for agent in (a, b, c):
                agent.send_signal(signal.SIGHUP)
                harness.wait_for(lambda x=agent: x.log().count('"reloaded"') == number + 1, "a reload")
                put(agent, "p", 1000 + number)
                harness.wait_for(lambda: [limit(x, "p") for x in (a, b, c)] == [1000 + number] * 3, "a change in between")
        for agent in (a, b, c):
            self.assertEqual(metric(agent, "kova_gossip_rejected_total", reason="hmac"), 0)
        self.start_node("old", self.seed("a"),
                        gossip={"secret_file": mesh.write_secrets(self.subdirectory("old"), mesh.SECRET)})
        harness.wait_for(lambda: metric(a, "kova_gossip_rejected_total", reason="hmac") > 0, "the old one is out")

    def test_a_bad_secret_file_is_refused(self):
        short = mesh.write_secrets(self.directory, "too short")
        config = {"gossip": {"listen": "127.0.0.1:0", "secret_file": short}}
        result = self.run_agent("--check-config", config=config)
        self.assertEqual(result.returncode, 1)
        self.assertIn("16 to 256 bytes", result.stdout + result.stderr)
        result = self.run_agent("--check-config", config={"gossip": {"listen": "0.0.0.0:7414"}})
        self.assertEqual(result.returncode, 1)
        self.assertIn("secret_file", result.stdout + result.stderr)


def kept(agent):
    with open(os.path.join(agent.directory, "state", "gossip.json"), encoding="ascii") as file:
        return file.read()


class Clocks(mesh.Case):
    def test_a_node_that_is_ten_seconds_ahead_takes_no_changes_and_cannot_win(self):
        wrong = clock.Clock(self.directory)
        agents = self.mesh(3)
        put(agents[0], "p", 10)
        ahead = self.start_node("z", self.seed("a"), env=wrong.env())
        self.wait_members(4)
        harness.wait_for(lambda: limit(ahead, "p") == 10, "what the others have")
        wrong.shift(10)
        harness.wait_for(lambda: put(ahead, "p", 666).status == 503, "changes are refused")
        harness.wait_for(lambda: '"event":"clock_skew"' in ahead.log(), "the log says so")
        answer = put(ahead, "q", 666)
        self.assertEqual(answer.status, 503)
        self.assertIn("clock_skew", answer.json()["detail"])
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="ascii") as file:
            file.write("a-token-of-a-file-that-is-refused\n")
        ahead.reload({**ahead.config, "auth": {"tokens_file": tokens}})
        harness.wait_for(lambda: "clock_skew: this node" in ahead.log(), "a file is refused")
        self.assertEqual(ahead.http("GET", "/v1/policies").status, 200, "and nothing of it is in force")
        self.assertEqual(put(agents[1], "p", 20).status, 200, "the others take them")
        harness.wait_for(lambda: [limit(a, "p") for a in (*agents, ahead)] == [20] * 4, "the right write everywhere")
        harness.wait_for(lambda: abs(members(agents[0])["z"]["skew_ms"] - 10000) < 500, "the skew is said", 30)
        harness.wait_for(lambda: 9 < metric(agents[0], "kova_clock_skew_seconds", peer="z") < 11, "and measured")
        wrong.shift(0)
        harness.wait_for(lambda: put(ahead, "p", 30).status == 200, "it agrees again")
        harness.wait_for(lambda: [limit(a, "p") for a in (*agents, ahead)] == [30] * 4, "its write everywhere")

    def test_stamps_from_the_future_are_refused_now_and_later(self):
        """It writes before it has met anybody, so nobody tells it that its clock is off."""
        wrong = clock.Clock(self.directory)
        wrong.shift(10)
        a, b = self.mesh(2)
        put(a, "p", 10)
        bad = self.start_node("z", env=wrong.env())
        put(bad, "p", 666)
        bad.stop()
        bad.config["gossip"]["seeds"] = self.seed("a")
        bad = self.again("z", env=wrong.env())
        harness.wait_for(lambda: metric(a, "kova_gossip_rejected_total", reason="clock_skew") > 0, "refused and counted")
        harness.wait_for(lambda: '"refused":[[' in kept(a), "the refusal is kept")
        a.stop()
        a = self.again("a")
        time.sleep(11)  # its time has come
        self.assertEqual((limit(a, "p"), limit(b, "p")), (10, 10))
        self.assertGreater(metric(a, "kova_gossip_rejected_total", reason="clock_skew"), 0)
        put(a, "p", 20)
        harness.wait_for(lambda: limit(bad, "p") == 20, "a later write brings it back")


if __name__ == "__main__":
    harness.main()
