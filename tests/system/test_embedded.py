"""The embedded default: a private redis-server child that lives and dies with the agent, and whose data survives."""
# Mostly waits.
import os
import signal
import socket
import subprocess
import time

import harness

POLICY = {"name": "slow", "limit": 10, "per": "1h", "burst": 10}


class Embedded(harness.Case):
    def test_starts_decides_and_stops(self):
        agent = self.start_agent({"policies": [POLICY]})
        self.assertEqual(agent.call("KOVA.TAKE", "slow", "a")[:3], [1, 9, 10])
        children = agent.children()
        self.assertEqual(len(children), 1, "one redis-server")
        self.assertEqual(agent.stop(), 0)
        self.assertFalse(harness.alive(children[0]), "the child ended with the agent")

    def test_listens_nowhere_but_on_its_unix_socket(self):
        agent = self.start_agent({"policies": [POLICY]})
        child = agent.children()[0]
        listening = subprocess.run(["ss", "-H", "-l", "-t", "-n", "-p"], capture_output=True, text=True, check=False)
        if listening.returncode != 0:
            self.skipTest("ss is not installed (package iproute2)")
        self.assertNotIn(f"pid={child},", listening.stdout)

    def test_the_child_dies_with_a_killed_agent(self):
        agent = self.start_agent({"policies": [POLICY]})
        child = agent.children()[0]
        agent.kill()
        harness.wait_for(lambda: not harness.alive(child), "the child's end after kill -9 of the agent")

    def test_a_killed_child_is_started_again(self):
        agent = self.start_agent({"policies": [POLICY]})
        self.assertEqual(agent.call("KOVA.TAKE", "slow", "a", "COST", 4)[1], 6)
        os.kill(agent.children()[0], signal.SIGKILL)
        answer = harness.wait_for(lambda: self._by_redis(agent), "decisions by Redis again")
        self.assertLessEqual(answer[1], 6, "what was taken stays taken")

    @staticmethod
    def _by_redis(agent):
        answer = agent.call("KOVA.PEEK", "slow", "a")
        return answer if answer[5] != "outage" and agent.http("GET", "/readyz").status == 200 else None

    def test_data_survives_a_restart(self):
        directory = self.subdirectory("kept")
        agent = self.start_agent({"policies": [POLICY]}, directory=directory)
        self.assertEqual(agent.call("KOVA.TAKE", "slow", "a", "COST", 7)[1], 3)
        self.assertEqual(agent.stop(), 0)
        agent = self.start_agent({"policies": [POLICY]}, directory=directory)
        self.assertEqual(agent.call("KOVA.PEEK", "slow", "a")[1], 3)

    def test_data_survives_kill_9(self):
        directory = self.subdirectory("kept")
        agent = self.start_agent({"policies": [POLICY]}, directory=directory)
        self.assertEqual(agent.call("KOVA.TAKE", "slow", "a", "COST", 7)[1], 3)
        time.sleep(1.5)  # the append-only file is synced every second
        child = agent.children()[0]
        agent.kill()
        harness.wait_for(lambda: not harness.alive(child), "the child's end")
        agent = self.start_agent({"policies": [POLICY]}, directory=directory)
        self.assertEqual(agent.call("KOVA.PEEK", "slow", "a")[1], 3)

    def test_two_agents_cannot_share_a_state_directory_by_mistake(self):
        first = self.start_agent({"policies": [POLICY]})
        other = {**POLICY, "name": "other"}
        second = self.start_agent({"policies": [other], "state_dir": first.config["state_dir"]}, ready=False)
        waiting = harness.wait_for(lambda: self._lines(second, "redis_child"), "a word of what it waits for", 4)
        self.assertNotEqual(second.wait(), 0)
        for line in (waiting[0], self._lines(second, "cannot_start")[0]):
            self.assertIn(f"{first.config['state_dir']} (pid {first.pid}): stop it, or set another `state_dir`", line["why"])
        self.assertEqual(first.call("KOVA.TAKE", "slow", "a")[0], 1)
        first.stop()
        first = self.start_agent(first.config, directory=first.directory)
        self.assertEqual(first.http("GET", "/v1/changes").json(), {"changes": []}, "the second has changed nothing")

    @staticmethod
    def _lines(agent, event):
        return [line for line in agent.log_lines() if line["event"] == event]

    def test_a_state_directory_that_cannot_be_made_is_named(self):
        agent = self.start_agent({"state_dir": "/proc/none"}, ready=False)
        self.assertEqual(agent.wait(), 1)
        self.assertIn("`state_dir` /proc/none: ", self._lines(agent, "cannot_start")[0]["why"])

    def test_a_port_in_use_is_said(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            agent = self.start_agent({"policies": [POLICY], "listen": {"resp": address, "http": None}}, ready=False)
            self.assertNotEqual(agent.wait(), 0)
            why = self._lines(agent, "cannot_start")[0]["why"]
            self.assertEqual(why, f"`listen.resp`: {address}: address already in use; stop what listens there, or set another address")


if __name__ == "__main__":
    harness.main()
