"""examples/python/captcha.py: three workers that share a key submit as fast together as one may; their polls nobody limits."""
# Mostly waits.
import itertools
import json
import os
import signal
import subprocess
import threading

import crawl
import examples
import harness

KEY, OTHER = "k3y-0ne-s3cret", "k3y-tw0-s3cret"
SUBMIT, POLL = "/createTask", "/getTaskResult"
AT_ONCE = 4  # of captcha.py


class Solver(crawl.Site):
    """The service: done at the n-th poll of a job. `refuses`: keys, and what each is told."""

    def __init__(self, polls=1, refuses=()):
        self.polls, self.refuses, self.jobs = polls, dict(refuses), {}
        self.serial, self.keys, self.lock = itertools.count(1), [], threading.Lock()
        super().__init__(self.service)

    def service(self, _, path, sent):
        request = json.loads(sent)
        with self.lock:
            return 200, json.dumps({"errorId": 0, **self.submit(request)} if path == SUBMIT else self.poll(request)).encode(), {}

    def submit(self, request):
        self.keys.append(request["clientKey"])
        if request["clientKey"] in self.refuses:
            return {"errorId": 1, "errorCode": self.refuses[request["clientKey"]]}
        job = next(self.serial)
        self.jobs[job] = 0
        return {"taskId": job}

    def poll(self, request):
        self.jobs[request["taskId"]] += 1
        if self.jobs[request["taskId"]] < self.polls:
            return {"errorId": 0, "status": "processing"}
        return {"errorId": 0, "status": "ready", "solution": {"text": "k0va"}}

    def on(self, path):
        return [hit for hit in self.hits if hit.path == path]


class Captcha(examples.Case):
    command = [examples.PYTHON, os.path.join(examples.EXAMPLES, "python", "captcha.py")]

    def setUp(self):
        examples.installed("examples_python")
        super().setUp()

    def agent(self, **pool):
        config = self.config()
        captcha = next(p for p in config["pools"] if p["name"] == "captcha")
        captcha.update({"endpoints": [{"id": "account-1", "key": KEY, "slots": 50}], **pool})
        next(p for p in config["policies"] if p["name"] == "captcha-submit").update(burst=1)
        return self.start_agent(config)

    def worker(self, agent, solver, tasks, **env):
        path = os.path.join(self.directory, "tasks")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(json.dumps({"type": "ImageToTextTask", "body": str(i)}) + "\n" for i in range(tasks))
        with open(path, encoding="ascii") as file:
            worker = subprocess.Popen(
                self.command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "KOVA_PORT": str(agent.resp_address[1]), "KOVA_TOKEN": examples.TOKEN,
                     "SOLVER_URL": solver.url, "SOLVER_POLL_S": "0.05", **env})
        self.addCleanup(worker.kill)
        return worker

    def end(self, worker, agent):
        said = worker.communicate(timeout=harness.PATIENCE * 3)
        for text in (*said, agent.log()):
            for secret in (KEY, OTHER, examples.TOKEN):
                self.assertNotIn(secret, text)
        return worker.returncode, *said

    def test_three_workers_that_share_a_key(self):
        tasks, polls = 14, 5
        solver = self.keep(Solver(polls))
        agent = self.agent()
        for worker in [self.worker(agent, solver, tasks) for _ in range(3)]:
            status, out, err = self.end(worker, agent)
            self.assertEqual((status, len(out.splitlines())), (0, tasks), err)
        submits, polled = solver.on(SUBMIT), solver.on(POLL)
        self.assertEqual((len(submits), len(polled)), (3 * tasks, 3 * tasks * polls))
        # What is on its way to the service when an interval begins was let through before: of each thread one submit at most.
        late = 3 * AT_ONCE
        for seconds in (0.5, 1, 2, 4):
            self.assertLessEqual(solver.most_in(seconds, submits), 1 + 10 * seconds + late, f"submits in {seconds} s")
        self.assertEqual(self.decisions(agent, "captcha-submit")["allowed"], len(submits), "polls are not limited")
        self.assertEqual(self.outcomes(agent, "captcha"), {"ok": 3 * tasks})
        self.assertEqual(self.shown(agent, "captcha")["account-1"]["in_flight"], 0)

    def test_a_key_without_money_is_left_alone(self):
        solver = self.keep(Solver(refuses={OTHER: "ERROR_ZERO_BALANCE"}))
        agent = self.agent(endpoints=[{"id": "account-1", "key": OTHER, "slots": 1}, {"id": "account-2", "key": KEY, "slots": 1}])
        status, out, err = self.end(self.worker(agent, solver, 6), agent)
        self.assertEqual((status, len(out.splitlines())), (0, 6), err)
        self.assertEqual((solver.keys.count(OTHER), solver.keys.count(KEY)), (1, 6))
        self.assertEqual(self.outcomes(agent, "captcha"), {"blocked": 1, "ok": 6})
        self.assertLessEqual(self.shown(agent, "captcha")["account-1"]["held_ms"], 60000)

    def test_who_can_not_wait_is_told(self):
        solver = self.keep(Solver(refuses={KEY: "ERROR_ZERO_BALANCE"}))
        agent = self.agent()
        status, out, err = self.end(self.worker(agent, solver, 1, KOVA_WAIT_MS="0"), agent)
        self.assertEqual((status, out, len(solver.keys)), (75, "", 1), err)
        self.assertIn("paused: held, retry in ", err)

    def test_without_an_agent_nothing_is_submitted(self):
        solver, agent = self.keep(Solver()), self.agent()
        agent.stop()
        status, _, err = self.end(self.worker(agent, solver, 2), agent)
        self.assertEqual((status, solver.hits), (69, []), err)

    def test_an_agent_that_does_not_answer_is_away(self):
        solver, agent = self.keep(Solver()), self.agent()
        agent.send_signal(signal.SIGSTOP)
        status, _, err = self.end(self.worker(agent, solver, 2, KOVA_WAIT_MS="0"), agent)
        agent.send_signal(signal.SIGCONT)
        self.assertEqual((status, solver.hits, err), (69, [], "the agent is away\n" * 2))

    def test_an_agent_that_refuses_is_not_away(self):
        solver, agent = self.keep(Solver()), self.agent()
        status, _, err = self.end(self.worker(agent, solver, 1, KOVA_TOKEN="another"), agent)
        self.assertEqual((status, solver.hits), (1, []))
        self.assertRegex(err, "^the agent refuses: .*\n$")


if __name__ == "__main__":
    harness.main()
