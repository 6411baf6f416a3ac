"""SIGHUP: a good file is in force, a bad one changes nothing and says why."""
# Mostly waits.
import json
import threading

import harness


def policy(limit, **more):
    return {"name": "p", "limit": limit, "per": "1h", "burst": limit, **more}


class Reload(harness.Case):
    def start(self, policies, **more):
        redis = self.start_redis()
        return self.start_agent({"redis": {"mode": "standalone", "url": redis.url}, "policies": policies, **more})

    def reloaded(self, agent, **changes):
        """Writes the file with `changes` and signals; the caller waits for what it expects."""
        agent.config.update(changes)
        agent.reload(agent.config)

    def limit(self, agent, key="k"):
        return agent.call("KOVA.PEEK", "p", key)[2]

    def test_a_raised_limit_is_in_force_within_a_second(self):
        agent = self.start([policy(2)])
        self.assertEqual([agent.call("KOVA.TAKE", "p", "k")[0] for _ in range(3)], [1, 1, 0])
        self.reloaded(agent, policies=[policy(1000000, per="1s")])
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "p", "k")[0] == 1, "admission after the raise", 3)

    def test_policies_come_and_go(self):
        agent = self.start([policy(2)])
        self.reloaded(agent, policies=[{"name": "q", "limit": 1, "per": "1s"}])
        harness.wait_for(lambda: agent.call("KOVA.PEEK", "q", "k")[0] == 1, "the new policy")
        with self.assertRaisesRegex(harness.RespError, "^NOPOLICY"):
            agent.call("KOVA.PEEK", "p", "k")

    def test_a_bad_file_changes_nothing(self):
        agent = self.start([policy(5)])
        before = agent.log()
        for bad in ('{ "policies": [', json.dumps({"polices": []}),
                    json.dumps({**agent.config, "policies": [policy(7), {"name": "q", "limit": -1, "per": "1s"}]})):
            seen = len(agent.log())
            agent.reload(bad)
            harness.wait_for(lambda n=seen: "agent.json:" in agent.log()[n:], "the reason in the log")
            self.assertEqual(self.limit(agent), 5)
        self.assertNotEqual(before, agent.log())
        self.assertTrue(agent.running())
        self.reloaded(agent, policies=[policy(6)])
        harness.wait_for(lambda: self.limit(agent) == 6, "a good file after bad ones")

    def test_a_reload_keeps_what_was_taken(self):
        agent = self.start([policy(10)])
        agent.call("KOVA.TAKE", "p", "k", "COST", 8)
        self.reloaded(agent, policies=[policy(10), {"name": "q", "limit": 1, "per": "1s"}])
        harness.wait_for(lambda: agent.call("KOVA.PEEK", "q", "k")[0] == 1, "the new policy")
        self.assertEqual(agent.call("KOVA.PEEK", "p", "k")[1], 2)

    def test_no_answer_is_lost_or_mixed_under_load(self):
        """Two levels whose limits are always equal: a verdict that names two different ones has mixed two files."""
        def levels(n):
            return [{"name": "p", "levels": [{"name": "a", "limit": n, "per": "1s", "burst": n},
                                             {"name": "b", "limit": n, "per": "1s", "burst": n}]}]
        agent = self.start(levels(1000000))
        wrong, count, stop = [], [0], threading.Event()

        def load():
            with agent.resp() as connection:
                while not stop.is_set():
                    for answer in connection.pipeline([("KOVA.TAKE", "p", "x/y", "AND", "p", "x/z")] * 16):
                        count[0] += 1
                        if not isinstance(answer, list) or answer[2] not in (1000000, 2000000) or answer[0] != 1:
                            wrong.append(answer)
        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(20):
            limit = (2000000, 1000000)[turn % 2]
            self.reloaded(agent, policies=levels(limit))
            harness.wait_for(lambda n=limit: agent.call("KOVA.PEEK", "p", "x/y")[2] == n, "the reload")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong[:3], [])
        self.assertGreater(count[0], 100)


if __name__ == "__main__":
    harness.main()
