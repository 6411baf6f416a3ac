"""More than Redis can do at once: callers wait their turn in the agent, and nothing is taken for an outage."""
import collections
import os

import harness
import load

LEVELS = [{"name": f"l{i}", "limit": 1000000000, "per": "1h"} for i in range(8)]
POLICIES = [{"name": "w", "algorithm": "sliding-window", "levels": LEVELS, "on_outage": "deny"},
            {"name": "p", "limit": 1000000000, "per": "1s", "burst": 1000000000, "on_outage": "deny"}]
DEEP = "/b/c/d/e/f/g/h"


def resident_mib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // (1 << 20)


class Overload(harness.Case):
    # A single call must never come near this, all of them together by far.
    TIMEOUT = "250ms" if not harness.SANITIZED else "1s"

    def start(self):
        self.redis = self.keep(harness.Redis(self.directory)).wait_ready()
        return self.start_agent({"redis": {"mode": "standalone", "url": self.redis.url, "timeout": self.TIMEOUT},
                                 "policies": POLICIES})

    def flood(self, agent, connections, commands):
        """All commands on each of `connections`, sent at once; how often each kind of answer came."""
        with load.Swarm([agent.resp_address], connections, patience=120) as swarm:
            hits = []
            for wire in swarm.wires:
                hits += [swarm.send(wire, words) for words in commands]
            swarm.finish()
        return load.replies(hits)

    def test_many_small_requests(self):
        agent = self.start()
        commands = [("KOVA.TAKE", "w", f"k{i % 500}{DEEP}") for i in range(1000)]
        self.assertEqual(self.flood(agent, 20, commands), {"ok": 20000})
        taken = 1000000000 - agent.call("KOVA.PEEK", "w", "k1")[1]
        self.assertEqual(taken, 40, "each is charged once")

    def test_few_large_requests(self):
        """16 pairs of 8 levels each: a call holds as many as Redis does in a moment, not a fixed number."""
        agent = self.start()
        commands = []
        for i in range(150):
            pairs = [word for j in range(16) for word in ("AND", "w", f"r{i}.{j}{DEEP}{'z' * 900}")]
            commands.append(("KOVA.TAKE", *pairs[1:]))
        self.assertEqual(self.flood(agent, 2, commands), {"ok": 300})
        before = resident_mib(agent.pid)
        self.assertEqual(self.flood(agent, 4, commands), {"ok": 600})
        if not harness.SANITIZED:  # which keeps what is freed
            self.assertLess(resident_mib(agent.pid) - before, 100)

    def test_others_are_served_meanwhile(self):
        agent = self.start()
        commands = [("KOVA.TAKE", "w", f"k{i}{DEEP}") for i in range(1000)]
        flood = load.Background(self.flood, agent, 10, commands)
        others = collections.Counter()
        with agent.resp() as connection:
            while flood.running():
                others[connection.call("KOVA.TAKE", "p", "k")[5]] += 1
        self.assertEqual(flood.result(), {"ok": 10000})
        self.assertEqual(set(others), {"ok"})


if __name__ == "__main__":
    harness.main()
