"""Who waits for the same limit takes turns by key; and nobody waits for one who can't be served."""
# Mostly waits.

import time

import harness
import load
import shapes

LEVELS = {"name": "user", "limit": 1000, "per": "1s", "burst": 1000}


def api(rate, room=1, **user):
    tenant = {"name": "tenant", "limit": rate, "per": "1s", "burst": room}
    return {"name": "api", "levels": [tenant, {**LEVELS, **user}]}


class Turns(harness.Case):
    def start(self, policy, count=1):
        self.agents = shapes.start_agents(self, "standalone", [policy], count=count)
        return self.agents[0]

    def line_up(self, swarm, key, count, *words):
        """Waiters of one key; their places in `swarm`."""
        wires = [wire for wire in swarm.wires if not wire.asked][:count]
        self.assertEqual(len(wires), count)
        return [swarm.send(wire, ("KOVA.TAKE", "api", key, "WAIT", 20000, *words)) for wire in wires]

    def waiters(self, agent, least):
        def there():
            for line in agent.http("GET", "/metrics").body.decode().splitlines():
                if line.startswith('kova_waiters{policy="api"}'):
                    return int(line.split()[-1]) >= least
            return False

        harness.wait_for(there, f"{least} waiters")

    def order(self, hits):
        """The keys in the order in which they were admitted."""
        for hit in hits:
            self.assertTrue(hit.admitted, hit)
        return [hit.words[2] for hit in sorted(hits, key=lambda hit: hit.received)]

    def test_keys_take_turns(self):
        agent = self.start(api(20))
        agent.call("KOVA.TAKE", "api", "t/x")
        with load.Swarm([agent.resp_address], 32) as swarm:
            hits = self.line_up(swarm, "t/x", 20)
            self.waiters(agent, 15)
            late = self.line_up(swarm, "t/y", 1)
            swarm.finish()
            between = [hit for hit in hits if late[0].sent < hit.received < late[0].received]
            self.assertLessEqual(len(between), 2, "it is next, when it has come")
            self.order(hits)
            agent.call("KOVA.TAKE", "api", "t/x", "WAIT", 5000)
            hits = self.line_up(swarm, "t/a", 8) + self.line_up(swarm, "t/b", 8) + self.line_up(swarm, "t/c", 8)
            swarm.finish()
        order = self.order(hits)
        for end in range(6, 24, 3):
            counts = [order[:end].count(key) for key in ("t/a", "t/b", "t/c")]
            self.assertLessEqual(max(counts) - min(counts), 2, order)

    def test_a_large_cost_is_not_starved_by_small_ones(self):
        agent = self.start(api(20, room=10))
        agent.call("KOVA.TAKE", "api", "t/x", "COST", 10)
        with load.Swarm([agent.resp_address], 42) as swarm:
            large = self.line_up(swarm, "t/large", 1, "COST", 8)
            self.waiters(agent, 1)
            small = self.line_up(swarm, "t/small", 40)
            swarm.finish()
        ahead = sum(hit.received < large[0].received for hit in small)
        self.assertLess(abs(ahead - 8), 4, "as much as it asks for")

    def test_a_newcomer_of_another_key_does_not_overtake(self):
        agent = self.start(api(10))
        agent.call("KOVA.TAKE", "api", "t/x")
        with load.Swarm([agent.resp_address], 12) as swarm:
            hits = self.line_up(swarm, "t/x", 8)
            self.waiters(agent, 5)
            with load.Swarm([agent.resp_address], 4) as newcomers:
                new = newcomers.run(0.5, ("KOVA.TAKE", "api", "t/new"))
            swarm.finish()
        self.assertEqual({hit.reason for hit in new}, {"limited:tenant"})
        self.assertTrue(all(hit.reply[3] >= 1 for hit in new))
        self.assertEqual(agent.call("KOVA.TAKE", "api", "other/x")[0], 1)
        self.assertEqual(len(self.order(hits)), 8)

    def test_nobody_waits_for_one_who_waits_in_vain(self):
        agent = self.start(api(10, room=20))
        agent.call("KOVA.TAKE", "api", "t/x", "COST", 20)
        with agent.resp() as large:
            large.send("KOVA.TAKE", "api", "t/large", "COST", 20, "WAIT", 800)
            begun = time.monotonic()
            self.waiters(agent, 1)
            small = agent.call("KOVA.TAKE", "api", "t/small", "WAIT", 700)
            self.assertEqual(small[0], 1)
            self.assertLess(time.monotonic() - begun, 0.6)
            reply = large.read()
            self.assertEqual((reply[0], reply[5]), (0, "wait_timeout"))
            self.assertGreaterEqual(time.monotonic() - begun, 0.79)

    def test_waiters_with_weights(self):
        agent = self.start(api(40, room=20, weight=1))
        agent.call("KOVA.TAKE", "api", "t/x", "COST", 20)
        with load.Swarm([agent.resp_address], 32) as swarm:
            hits = self.line_up(swarm, "t/x", 30)
            self.waiters(agent, 20)
            one = self.line_up(swarm, "t/y", 1)
            swarm.finish()
        self.assertEqual(len(self.order(hits + one)), 31)
        self.assertLess(one[0].received - one[0].sent, 0.15, "its share is 20 a second")

    def test_keys_at_two_agents(self):
        first, second = self.start(api(40), count=2), self.agents[1]
        first.call("KOVA.TAKE", "api", "t/x")
        with load.Swarm([first.resp_address], 60) as swarm, load.Swarm([second.resp_address], 4) as other:
            hits = self.line_up(swarm, "t/x", 50)
            self.waiters(first, 40)
            one = self.line_up(other, "t/y", 1)
            other.finish()
            swarm.finish()
        self.assertLess(one[0].received - one[0].sent, 0.6, "a part of the 1.2 s that the others take")


if __name__ == "__main__":
    harness.main()
