"""Redis Cluster under load: slots that move, masters that die; every check passes, and never CROSSSLOT."""
# Mostly waits.

import subprocess
import threading
import time

import harness
import load
import shapes

# Windows, so that what was charged can be counted to the unit.
POLICIES = [
    {"name": "w", "algorithm": "sliding-window", "limit": 1000000, "per": "1h"},
    {"name": "b", "limit": 1000000, "per": "24h", "burst": 1000000},
    {
        "name": "levels",
        "algorithm": "sliding-window",
        "levels": [{"name": "one", "limit": 1000000, "per": "1h"}, {"name": "two", "limit": 1000000, "per": "1h"}],
    },
]


class Moving(harness.Case):
    def setUp(self):
        super().setUp()
        self.cluster = self.start_cluster()
        self.agents = [
            self.start_agent(
                {
                    "redis": self.cluster.config(),
                    "policies": [{**policy, "on_outage": "deny"} for policy in POLICIES],
                }
            )
            for _ in range(2)
        ]

    def node_of(self, slot):
        for begin, end, master, *_ in self.cluster.nodes[0].call("CLUSTER", "SLOTS"):
            if begin <= slot <= end:
                return next(node for node in self.cluster.nodes if node.port == master[1])
        raise AssertionError(f"nobody has slot {slot}")

    def slot_of(self, key):
        return self.cluster.nodes[0].call("CLUSTER", "KEYSLOT", "{%s}" % key)

    def begin_move(self, slot):
        source = self.node_of(slot)
        target = next(node for node in self.cluster.nodes if node is not source)
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.call("CLUSTER", "MYID"))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.call("CLUSTER", "MYID"))
        return source, target

    @staticmethod
    def move_keys(source, target, slot, at_most=1 << 30):
        """How many keys went over."""
        moved = 0
        while moved < at_most:
            names = source.call("CLUSTER", "GETKEYSINSLOT", slot, min(10, at_most - moved))
            if not names:
                break
            source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *names)
            moved += len(names)
        return moved

    def end_move(self, source, target, slot):
        name = target.call("CLUSTER", "MYID")
        for node in (target, source, *self.cluster.nodes):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", name)

    def load(self, words_of, during):
        stop = threading.Event()
        with load.Swarm(shapes.addresses(self.agents), 20) as swarm:
            running = load.Background(swarm.run, 60, words_of, rate=800, stop=stop)
            try:
                time.sleep(0.3)
                during()
                time.sleep(0.3)
            finally:
                stop.set()
            hits = running.result()
        self.assertEqual(load.replies(hits), {"ok": len(hits)})
        for agent in self.agents:
            self.assertNotIn("CROSSSLOT", agent.log())
        return hits

    def charged(self, policy, key):
        return 1000000 - self.agents[0].call("KOVA.PEEK", policy, key)[1]

    def test_single_keys_while_slots_move(self):
        keys = [f"k{n}" for n in range(40)]

        def during():
            for key in keys[:12]:
                slot = self.slot_of(key)
                source, target = self.begin_move(slot)
                time.sleep(0.05)
                self.move_keys(source, target, slot)
                time.sleep(0.05)
                self.end_move(source, target, slot)

        hits = self.load(lambda n: ("KOVA.TAKE", "w", keys[n % 40]), during)
        for key in keys:
            self.assertEqual(self.charged("w", key), sum(hit.words[2] == key for hit in hits), key)

    def test_levels_pairs_and_ids_while_slots_move(self):
        """Several keys of a slot in one step, some of them already on the other side."""
        roots = [f"r{n}" for n in range(10)]

        def words(n):
            root = roots[n % 10]
            return (
                ("KOVA.TAKE", "levels", f"{root}/u{n % 3}"),
                ("KOVA.TAKE", "w", f"{root}/a", "AND", "w", f"{root}/b"),
                ("KOVA.TAKE", "w", f"{root}/a", "AND", "w", f"{roots[(n + 1) % 10]}/b", "ID", f"id-{n}"),
                ("KOVA.TAKE", "b", f"{root}/c", "RECEIPT"),
            )[n // 10 % 4]

        def during():
            for root in roots[:6]:
                slot = self.slot_of(root)
                source, target = self.begin_move(slot)
                self.move_keys(source, target, slot, 2)
                time.sleep(0.05)
                self.move_keys(source, target, slot)
                self.end_move(source, target, slot)

        hits = self.load(words, during)
        for root in roots:
            for key in (f"{root}/a", f"{root}/b"):
                self.assertEqual(self.charged("w", key), sum(key in hit.words for hit in hits), key)
            self.assertEqual(
                self.charged("levels", root),
                sum(hit.words[1] == "levels" and hit.words[2].startswith(root + "/") for hit in hits),
            )

    def test_whole_ranges_by_redis_cli(self):
        """redis-cli --cluster reshard, as an operator does it."""

        keys = [f"k{n}" for n in range(200)]

        def during():
            source, target = (self.cluster.nodes[n].call("CLUSTER", "MYID") for n in (0, 1))
            done = subprocess.run(
                [
                    "redis-cli",
                    "--cluster",
                    "reshard",
                    self.cluster.addresses[0],
                    "--cluster-from",
                    source,
                    "--cluster-to",
                    target,
                    "--cluster-slots",
                    "500",
                    "--cluster-yes",
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stdout[-500:] + done.stderr[-500:])

        hits = self.load(lambda n: ("KOVA.TAKE", "w", keys[n % 200], "AND", "w", keys[(n * 7 + 1) % 200]), during)
        total = sum(self.charged("w", key) for key in keys)
        self.assertEqual(total, 2 * len(hits))

    def test_script_flush_on_every_node(self):
        def during():
            for _ in range(15):
                for node in self.cluster.nodes:
                    node.call("SCRIPT", "FLUSH")
                time.sleep(0.1)

        hits = self.load(lambda n: ("KOVA.TAKE", "w", f"f{n % 10}"), during)
        self.assertEqual(sum(self.charged("w", f"f{n}") for n in range(10)), len(hits))


class Masters(harness.Case):
    def test_a_master_dies_and_its_replica_takes_over(self):
        cluster = self.start_cluster(masters=3, replicas=1)
        agent = self.start_agent(
            {
                "redis": {**cluster.config(), "timeout": "200ms"},
                "policies": [{**policy, "on_outage": "deny"} for policy in POLICIES],
            }
        )
        keys = [f"k{n}" for n in range(60)]

        def by_redis():
            return [agent.call("KOVA.TAKE", "w", key)[5] for key in keys]

        self.assertEqual(set(by_redis()), {"ok"})
        harness.wait_for(
            lambda: all(
                "master_link_status:up" in node.call("INFO", "replication")
                for node in cluster.nodes
                if "role:slave" in node.call("INFO", "replication")
            ),
            "replicas in step",
        )
        victim = next(node for node in cluster.nodes if "role:master" in node.call("INFO", "replication"))
        left = [node for node in cluster.nodes if node is not victim]
        victim.kill()
        answers = by_redis()
        self.assertIn("ok", answers, "the other masters' keys are decided all the time")
        self.assertEqual(set(answers) - {"ok", "outage"}, set())
        harness.wait_for(
            lambda: sum("role:master" in node.call("INFO", "replication") for node in left) == 3,
            "a replica's promotion",
        )
        harness.wait_for(lambda: "cluster_state:ok" in left[0].call("CLUSTER", "INFO"), "cluster_state:ok")
        begun = time.monotonic()
        harness.wait_for(lambda: set(by_redis()) == {"ok"}, "decisions by Redis for every key")
        self.assertLess(time.monotonic() - begun, 5.0)
        self.assertNotIn("CROSSSLOT", agent.log())


if __name__ == "__main__":
    harness.main()
