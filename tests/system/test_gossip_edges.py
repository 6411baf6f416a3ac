"""Gossip at its edges: disks that are full, processes that are killed while they write, IPv6, address translation, clocks that nobody can judge."""
# Mostly waits.
import json
import os
import random
import subprocess
import sys
import time

import clock
import harness
import mesh
from mesh import limit, members, metric, policies, put


class Clocks(mesh.Case):
    def test_two_nodes_that_differ_both_take_no_changes_until_they_agree(self):
        wrong = clock.Clock(self.directory)
        a = self.start_node("a")
        b = self.start_node("b", self.seed("a"), env=wrong.env())
        self.wait_members(2)
        put(a, "p", 10)
        harness.wait_for(lambda: limit(b, "p") == 10, "a change while they agree")
        wrong.shift(10)
        for agent in (a, b):
            harness.wait_for(lambda x=agent: put(x, "p", 11).status == 503, "refused, whoever is right")
        harness.wait_for(lambda: (limit(a, "p"), limit(b, "p")) in ((10, 10), (11, 11)), "the same on both")
        third = self.start_node("c", self.seed("a"))
        self.wait_members(3)
        harness.wait_for(lambda: put(a, "p", 12).status == 200, "a third one decides it")
        self.assertEqual(put(b, "p", 13).status, 503)
        harness.wait_for(lambda: [limit(x, "p") for x in (a, b, third)] == [12] * 3, "the same on all")

    def test_who_comes_when_the_time_of_a_refused_stamp_has_come_is_told(self):
        wrong = clock.Clock(self.directory)
        wrong.shift(8)
        a, b = self.mesh(2)
        put(a, "p", 10)
        bad = self.start_node("z", env=wrong.env())
        put(bad, "p", 666)
        put(bad, "only-there", 5)
        bad.stop()
        bad.config["gossip"]["seeds"] = self.seed("a")
        bad = self.again("z", env=wrong.env())
        harness.wait_for(lambda: metric(a, "kova_gossip_rejected_total", reason="clock_skew") > 0, "refused and counted")
        time.sleep(9)  # its time has come
        late = self.start_node("late", self.seed("z"))
        harness.wait_for(lambda: limit(late, "p") == 10, "the write that the others have")
        self.assertEqual(limit(bad, "p"), 666, "its clock is still off: it can't tell")
        wrong.shift(0)
        harness.wait_for(lambda: [limit(x, "p") for x in (a, b, late, bad)] == [10] * 4, "its clock is right: the same on all")
        self.assertIn('"event":"gossip_item_withdrawn"', bad.log())
        harness.wait_for(lambda: [limit(x, "only-there") for x in (a, b, late, bad)] == [5] * 4,
                         "what nobody else has written stands, as the oldest of all writes")
        put(b, "only-there", 6)
        harness.wait_for(lambda: [limit(x, "only-there") for x in (a, b, late, bad)] == [6] * 4, "a write after that")


class Disks(mesh.Case):
    def small_disk(self, name):
        path = self.subdirectory(name)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", path], capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("may not mount a small tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False)
        return path

    def test_what_can_not_be_kept_is_not_in_force_and_comes_again(self):
        disk = self.small_disk("disk")
        a = self.start_node("a")
        b = self.start_node("b", self.seed("a"), state_dir=disk)
        self.wait_members(2)
        put(a, "p", 10)
        harness.wait_for(lambda: limit(b, "p") == 10, "a change")
        filler = os.path.join(disk, "filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 512):
                    pass
            except OSError:
                pass
        for i in range(100):  # the last page of its journal has room
            answer = put(b, f"own-{i}", 1)
            if answer.status != 200:
                break
        self.assertEqual(answer.status, 503)
        self.assertIn("No space left on device", answer.json()["detail"])
        for i in range(100):
            put(a, "p", 20 + i)
            if metric(b, "kova_gossip_not_kept_total") > 0:
                break
        harness.wait_for(lambda: metric(b, "kova_gossip_not_kept_total") > 1, "counted, again and again")
        self.assertIn('"event":"gossip_not_kept"', b.log())
        before = limit(b, "p")
        self.assertLess(before, limit(a, "p"), "what was in force stays")
        b.kill()
        b = self.again("b")
        self.assertEqual(limit(b, "p"), before, "what was kept is whole")
        os.remove(filler)
        harness.wait_for(lambda: limit(b, "p") == limit(a, "p"), "there is room: it came again", 30)

    def test_killed_at_any_time_it_has_what_it_acknowledged(self):
        dice = random.Random(7)
        a = self.start_node("a")
        self.start_node("b", self.seed("a"))
        self.wait_members(2)
        for turn in range(12):
            b, last, written = self.nodes["b"], None, 0
            overrides = [{"policy": "p", "key": f"{turn}-{i}", "limit": 1, "per": "1s"} for i in range(200)]
            put(a, "p", 1000 + turn)
            b.reload({**b.config, "policies": [{"name": "p", "limit": 1, "per": "1s"}], "overrides": overrides})
            until = time.monotonic() + dice.random() * 0.4
            while time.monotonic() < until:
                put(a, f"from-a-{written}", turn * 1000 + written + 1)
                if put(b, "own", turn * 1000 + written).status == 200:
                    last = turn * 1000 + written
                written += 1
            b.kill()
            b = self.again("b")
            left = [name for name in os.listdir(os.path.join(b.directory, "state")) if name.endswith(".corrupt")]
            self.assertEqual(left, [])
            if last is not None:
                self.assertGreaterEqual(limit(b, "own"), last)
            harness.wait_for(lambda: {n: p["limit"] for n, p in policies(b).items()} ==
                             {n: p["limit"] for n, p in policies(a).items()}, "both have the same")


class Addresses(mesh.Case):
    def pair(self, host, other):
        """a listens to both families, b to one; they meet by that."""
        ports = [harness.free_port() for _ in range(2)]
        a = self.start_node("a", gossip={"listen": f"[::]:{ports[0]}"})
        b = self.start_node("b", gossip={"listen": f"{host}:{ports[1]}", "advertise": f"{host}:{ports[1]}",
                                         "seeds": [f"{host}:{ports[0]}"]})
        self.wait_members(2)
        self.assertEqual(members(a)["b"]["address"], f"{host}:{ports[1]}")
        self.assertEqual(members(b)["a"]["address"], f"{host}:{ports[0]}")
        put(a, "p", 6)
        put(b, "q", 4)
        for agent in (a, b):
            harness.wait_for(lambda x=agent: (limit(x, "p"), limit(x, "q")) == (6, 4), f"changes both ways by {other}")

    def test_over_ipv6(self):
        self.pair("[::1]", "IPv6")

    def test_a_listener_to_both_is_reached_over_ipv4(self):
        self.pair("127.0.0.1", "IPv4")


LOOK = """
import json, sys, urllib.request
body = json.loads(sys.argv[3]) if len(sys.argv) > 3 else None
r = urllib.request.Request(sys.argv[2], method=sys.argv[1], data=None if body is None else json.dumps(body).encode())
print(urllib.request.urlopen(r, timeout=5).read().decode())
"""


class Translated(mesh.Case):
    """Two networks and a router that translates addresses; the agents find their Redis by its socket."""

    def run_ip(self, *words, check=True):
        return subprocess.run(words, capture_output=True, text=True, check=check)

    def setUp(self):
        super().setUp()
        harness.require("nft", "nftables")
        harness.require("ip", "iproute2")
        tag = f"kg{os.getpid() % 100000}"
        self.inside, self.outside, self.router = (f"{tag}{x}" for x in "ior")
        for ns in (self.inside, self.outside, self.router):
            if self.run_ip("ip", "netns", "add", ns, check=False).returncode != 0:
                self.skipTest("may not make network namespaces")
            self.addCleanup(self.run_ip, "ip", "netns", "del", ns, check=False)
            self.run_ip("ip", "-n", ns, "link", "set", "lo", "up")
        for ns, net in ((self.inside, 1), (self.outside, 2)):
            self.run_ip("ip", "link", "add", "eth", "netns", ns, "type", "veth", "peer", "name", f"net{net}", "netns", self.router)
            self.run_ip("ip", "-n", ns, "addr", "add", f"10.99.{net}.2/24", "dev", "eth")
            self.run_ip("ip", "-n", self.router, "addr", "add", f"10.99.{net}.1/24", "dev", f"net{net}")
            self.run_ip("ip", "-n", ns, "link", "set", "eth", "up")
            self.run_ip("ip", "-n", self.router, "link", "set", f"net{net}", "up")
        self.run_ip("ip", "-n", self.inside, "route", "add", "default", "via", "10.99.1.1")
        self.run_ip("ip", "netns", "exec", self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        rules = ("table ip nat {\n"
                 " chain pre { type nat hook prerouting priority dstnat; iif net2 udp dport 7414 dnat to 10.99.1.2:7500;"
                 " iif net2 tcp dport 7414 dnat to 10.99.1.2:7500; }\n"
                 " chain post { type nat hook postrouting priority srcnat; oif net2 masquerade; }\n}\n")
        loaded = subprocess.run(["ip", "netns", "exec", self.router, "nft", "-f", "-"], input=rules, capture_output=True, text=True,
                                check=False)
        if loaded.returncode != 0:
            self.skipTest(f"no address translation here: {loaded.stderr.strip()}")

    def node(self, ns, name, **gossip):
        directory = self.subdirectory(name)
        path = os.path.join(directory, "agent.json")
        config = {"node": name, "region": "here", "redis": {"mode": "embedded"}, "state_dir": os.path.join(directory, "state"),
                  "listen": {"resp": None, "http": "127.0.0.1:7412"}, "gossip": {"secret_file": self.secrets, **gossip}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        process = self.keep(harness.Process(["ip", "netns", "exec", ns, harness.program("kova-agent"), "--config", path],
                                            os.path.join(directory, "agent.log")))
        process.ns = ns
        harness.wait_for(lambda: self.ask(process, "GET", "/v1/members"), "an agent")
        return process

    def ask(self, process, method, path, body=None):
        assert process.running(), process.log()
        command = ["ip", "netns", "exec", process.ns, sys.executable, "-c", LOOK, method, "http://127.0.0.1:7412" + path]
        answer = self.run_ip(*command, *([json.dumps(body)] if body is not None else []), check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def members(self, process):
        return {m["node"]: (m["state"], m["address"]) for m in self.ask(process, "GET", "/v1/members")["members"]}

    def limits(self, process):
        return {p["name"]: p["limit"] for p in self.ask(process, "GET", "/v1/policies")["policies"]}

    def test_one_behind_address_translation_is_reached_at_what_it_advertises(self):
        inner = self.node(self.inside, "inner", listen="0.0.0.0:7500", advertise="10.99.2.1:7414", seeds=["10.99.2.2:7414"])
        for i in range(3):
            self.ask(inner, "PUT", f"/v1/policies/p{i}", {"limit": i + 1, "per": "1s"})
        # Whoever comes first speaks: the outer one finds the inner one, and fetches what it has, at the advertised address alone.
        outer = self.node(self.outside, "outer", listen="10.99.2.2:7414", seeds=["10.99.2.1:7414"])
        for process in (inner, outer):
            harness.wait_for(lambda p=process: self.members(p).get("inner") == ("alive", "10.99.2.1:7414") and
                             self.members(p).get("outer") == ("alive", "10.99.2.2:7414"), "both know both")
        harness.wait_for(lambda: self.limits(outer) == {"p0": 1, "p1": 2, "p2": 3}, "what was there before")
        self.ask(outer, "PUT", "/v1/policies/p0", {"limit": 10, "per": "1s"})
        harness.wait_for(lambda: self.limits(inner)["p0"] == 10, "a change inwards")
        self.ask(inner, "PUT", "/v1/policies/p1", {"limit": 20, "per": "1s"})
        harness.wait_for(lambda: self.limits(outer)["p1"] == 20, "a change outwards")
        time.sleep(8)
        self.assertEqual({state for state, _ in self.members(outer).values()}, {"alive"})
        self.assertEqual({state for state, _ in self.members(inner).values()}, {"alive"})


if __name__ == "__main__":
    harness.main()
