"""What the system tests share: the agent under test, redis-servers in every shape, and a test case that cleans up.

A test file is `import harness`, classes derived from harness.Case, and `harness.main()` at its end. Binaries come from
$KOVA_BUILD_DIR (default: build/). Every process is a child that dies with the test, and is stopped by its pid.
"""
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from resp import Resp, RespError  # noqa: F401  (re-exported)

SOURCE = os.environ.get("KOVA_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("KOVA_BUILD_DIR", os.path.join(SOURCE, "build"))
SANITIZED = os.environ.get("KOVA_SANITIZE", "none") != "none"
SANITIZER_REPORT = re.compile(r"ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error:")

# Loops of each agent that does not say itself: every test can be run with more than one.
THREADS = int(os.environ.get("KOVA_TEST_THREADS", "1"))

# A sanitized program is several times slower, and so is a machine that does other things meanwhile.
PATIENCE = 60.0 if SANITIZED else 20.0

# Of each Redis of which a test doesn't say it: a store that is slow is not one that is down.
PATIENT = {"timeout": "5s", "connect_timeout": "5s"}


def program(name):
    path = os.path.join(BUILD, name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not built")
    return path


# Ports below the ephemeral range. Tests that run at once have a block each: while they live they hold a name that says so.
PORT_MIN, PORTS, PORT_BLOCKS = 10000, 500, 36
_block = _block_name = None
_given = 0


def _take_block():
    name = socket.socket(socket.AF_UNIX)
    for block in range(PORT_BLOCKS):
        try:
            name.bind(f"\0kova-test-ports-{block}")
            return block, name
        except OSError:
            continue
    raise RuntimeError("too many tests at once: no ports are left")


def free_port():
    """A loopback port that nobody listens on now (nor on port + 10000, which a cluster's bus takes)."""
    global _block, _block_name, _given
    if _block is None:
        _block, _block_name = _take_block()
    for _ in range(PORTS):
        port = PORT_MIN + _block * PORTS + _given % PORTS
        _given += 1
        if unused(port) and unused(port + 10000):
            return port
    raise RuntimeError("no free port")


def unused(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_for(condition, what, timeout=None):
    """Polls until condition() is true and returns its value. Failures to connect count as "not yet"."""
    deadline = time.monotonic() + (timeout or PATIENCE)
    last = None
    while time.monotonic() < deadline:
        try:
            value = condition()
            if value:
                return value
        except (OSError, RespError, http.client.HTTPException) as error:
            last = error
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what}" + (f" (last: {last})" if last else ""))


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Process:
    """A child process whose output goes to `log_path`."""

    def __init__(self, command, log_path, env=None, cwd=None):
        self.log_path = log_path
        self.log_file = open(log_path, "ab")
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file, cwd=cwd,
            env={**os.environ, **(env or {})}, preexec_fn=die_with_parent)
        self.pid = self.child.pid

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def running(self):
        return self.child.poll() is None

    def send_signal(self, number):
        if self.running():
            self.child.send_signal(number)

    def wait(self, timeout=None):
        return self.child.wait(timeout or PATIENCE)

    def stop(self, number=signal.SIGTERM):
        """Signals, waits and returns the exit status; kills what does not end in time."""
        self.send_signal(number)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end after signal {number}: {self.child.args[0]}") from None
        finally:
            self.log_file.close()

    def kill(self):
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGKILL)
        self.child.wait()
        self.log_file.close()


class Redis(Process):
    """A standalone redis-server on a loopback port, without persistence unless asked for."""

    def __init__(self, directory, port=None, options=()):
        self.port = port or free_port()
        self.address = ("127.0.0.1", self.port)
        self.url = f"redis://127.0.0.1:{self.port}"
        self.directory = os.path.join(directory, f"redis-{self.port}")
        os.makedirs(self.directory, exist_ok=True)
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory,
                   "--save", "", "--daemonize", "no", *options]
        super().__init__(command, os.path.join(self.directory, "log"))

    def call(self, *words):
        with Resp(self.address) as connection:
            return connection.call(*words)

    def wait_ready(self):
        wait_for(lambda: self.call("PING") == "PONG", f"redis-server on {self.port}")
        return self


class Cluster:
    """Redis Cluster of n masters and, for each, `replicas` replicas."""

    def __init__(self, directory, masters=3, replicas=0, options=()):
        self.nodes = [Redis(directory, options=["--cluster-enabled", "yes", "--cluster-node-timeout", "1500", *options])
                      for _ in range(masters * (1 + replicas))]
        self.addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
        for node in self.nodes:
            node.wait_ready()
        subprocess.run(["redis-cli", "--cluster", "create", *self.addresses, "--cluster-replicas", str(replicas),
                        "--cluster-yes"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for node in self.nodes:
            wait_for(lambda n=node: "cluster_state:ok" in n.call("CLUSTER", "INFO"), "cluster_state:ok")

    def config(self):
        return {"mode": "cluster", "nodes": self.addresses}

    def stop(self):
        for node in self.nodes:
            node.stop()

    def kill(self):
        for node in self.nodes:
            node.kill()


class Sentinel:
    """A primary, its replicas, and sentinels that watch it under the name `kova`."""

    def __init__(self, directory, replicas=1, sentinels=3, down_after_ms=1000):
        self.primary = Redis(directory).wait_ready()
        self.replicas = [Redis(directory, options=["--replicaof", "127.0.0.1", str(self.primary.port),
                                                   "--repl-diskless-sync-delay", "0"]) for _ in range(replicas)]
        for replica in self.replicas:
            wait_for(lambda r=replica: "master_link_status:up" in r.call("INFO", "replication"), "replica in step")
        self.sentinels = [self._start(directory, down_after_ms) for _ in range(sentinels)]
        for sentinel in self.sentinels:
            wait_for(lambda s=sentinel: self._sees(s, replicas, sentinels), "sentinels that know each other")

    def _start(self, directory, down_after_ms):
        port = free_port()
        path = os.path.join(directory, f"sentinel-{port}.conf")
        quorum = 2
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"port {port}\nbind 127.0.0.1\ndir {directory}\n"
                       f"sentinel monitor kova 127.0.0.1 {self.primary.port} {quorum}\n"
                       f"sentinel down-after-milliseconds kova {down_after_ms}\n"
                       "sentinel failover-timeout kova 5000\n")
        process = Process(["redis-server", path, "--sentinel"], path + ".log")
        process.port = port
        return process

    @staticmethod
    def _sees(sentinel, replicas, sentinels):
        with Resp(("127.0.0.1", sentinel.port)) as connection:
            flat = connection.call("SENTINEL", "MASTER", "kova")
        info = dict(zip(flat[::2], flat[1::2]))
        return int(info["num-slaves"]) >= replicas and int(info["num-other-sentinels"]) >= sentinels - 1

    def config(self):
        return {"mode": "sentinel", "master": "kova", "sentinels": [f"127.0.0.1:{s.port}" for s in self.sentinels]}

    def kill(self):
        for process in (*self.sentinels, *self.replicas, self.primary):
            process.kill()


class Agent(Process):
    """A kova-agent with `config` (a dict); what it does not name of listen and state_dir goes to free ports and `directory`.

    `tls`: an ssl.SSLContext, with which call() and http() speak to it.
    """

    def __init__(self, directory, config, options=(), env=None, tls=None):
        self.tls = tls
        self.directory = directory
        self.config_path = os.path.join(directory, "agent.json")
        config = dict(config)
        config.setdefault("listen", {"resp": f"127.0.0.1:{free_port()}", "http": f"127.0.0.1:{free_port()}"})
        config.setdefault("state_dir", os.path.join(directory, "state"))
        config["redis"] = _patient(config.get("redis", {"mode": "embedded"}))
        if "regions" in config:
            config["regions"] = {name: {**region, "redis": _patient(region["redis"])} if "redis" in region else region
                                 for name, region in config["regions"].items()}
        config.setdefault("threads", THREADS)
        self.config = config
        self.resp_address = _host_port(config["listen"].get("resp"))
        self.http_address = _host_port(config["listen"].get("http"))
        self.grpc_address = _host_port(config["listen"].get("grpc"))
        self.write_config(config)
        super().__init__([program("kova-agent"), "--config", self.config_path, *options],
                         os.path.join(directory, "agent.log"), env=env)

    def write_config(self, config):
        """Replaces the file as an editor would: whole."""
        text = config if isinstance(config, str) else json.dumps(config, indent=1)
        with open(self.config_path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.config_path + ".new", self.config_path)

    def wait_ready(self, timeout=None):
        """Until it answers /readyz with 200, or PING where HTTP is off. An agent that has ended is a failure at once."""
        def ready():
            if not self.running():
                raise AssertionError(f"the agent ended with {self.child.returncode}:\n{self.log()}")
            if self.http_address:
                return self.http("GET", "/readyz").status == 200
            with self.resp() as connection:
                return connection.call("PING") == "PONG"
        wait_for(ready, "an agent that is ready", timeout)
        return self

    def resp(self, timeout=None):
        return Resp(self.resp_address, timeout or PATIENCE, self.tls)

    def call(self, *words):
        with self.resp() as connection:
            return connection.call(*words)

    def http(self, method, path, body=None, headers=None):
        return http_request(self.http_address, method, path, body, headers, self.tls)

    def log_lines(self):
        """The JSON objects of the log; other lines (sanitizers, asserts) are left out."""
        lines = []
        for line in self.log().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines

    def children(self):
        """The pids of the agent's own children (the embedded redis-server)."""
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
                return [int(pid) for pid in file.read().split()]
        except FileNotFoundError:
            return _children_by_ppid(self.pid)

    def reload(self, config):
        self.write_config(config)
        self.send_signal(signal.SIGHUP)


def _children_by_ppid(parent):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry))
        except FileNotFoundError:
            continue
    return found


def alive(pid):
    """Whether a process that may be nobody's child of ours runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def _patient(redis):
    return {**PATIENT, **redis}


def _host_port(address):
    if not address:
        return None
    host, _, port = address.rpartition(":")
    return host, int(port)


class Answer:
    """An HTTP response: status, headers (case-insensitive get), body as bytes, json()."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


def http_request(address, method, path, body=None, headers=None, tls=None):
    connection = (http.client.HTTPSConnection(*address, timeout=PATIENCE, context=tls) if tls is not None
                  else http.client.HTTPConnection(*address, timeout=PATIENCE))
    headers = dict(headers or {})
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, body, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Case(unittest.TestCase):
    """A test with a temporary directory, whose processes are gone at its end. A sanitizer's report fails it."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="kova-")
        self._processes = []
        self._agents = 0

    def tearDown(self):
        logs = []
        for process in reversed(self._processes):
            if isinstance(process, Agent) and process.running():
                process.stop()  # not killed: LeakSanitizer reports at exit
            elif not isinstance(process, Agent):
                process.kill()
            if isinstance(process, Agent):
                process.log_file.close()
                logs.append(process.log())
        if self._failed():
            for log in logs:
                sys.stderr.write("---- agent's log, its end ----\n" + log[-6000:] + "\n")
        shutil.rmtree(self.directory, ignore_errors=True)
        for log in logs:
            self.assertIsNone(SANITIZER_REPORT.search(log), log[-6000:])

    def _failed(self):
        outcome = getattr(self, "_outcome", None)
        result = getattr(outcome, "result", None)
        bad = list(getattr(result, "failures", ())) + list(getattr(result, "errors", ()))
        return any(test is self for test, _ in bad) or not getattr(outcome, "success", True)

    def keep(self, process):
        """Has `process` ended at the end of the test."""
        self._processes.append(process)
        return process

    def subdirectory(self, name):
        path = os.path.join(self.directory, name)
        os.makedirs(path, exist_ok=True)
        return path

    def start_agent(self, config, ready=True, directory=None, **more):
        """A running agent of its own directory (give one back to start again on the same state)."""
        self._agents += 1
        agent = self.keep(Agent(directory or self.subdirectory(f"agent-{self._agents}"), config, **more))
        return agent.wait_ready() if ready else agent

    def start_redis(self, **more):
        return self.keep(Redis(self.directory, **more)).wait_ready()

    def start_cluster(self, **more):
        return self.keep(Cluster(self.directory, **more))

    def start_sentinel(self, **more):
        return self.keep(Sentinel(self.directory, **more))

    def run_agent(self, *options, config=None, env=None):
        """Runs kova-agent to its end (--help, --check-config, an error at start)."""
        command = [program("kova-agent"), *options]
        if config is not None:
            path = os.path.join(self.directory, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(config if isinstance(config, str) else json.dumps(config, indent=1))
            command += ["--config", path]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                              check=False, env={**os.environ, **(env or {})})


def require(command, package=None):
    """Skips the test when `command` is not installed, saying so."""
    if shutil.which(command) is None and not os.path.exists(f"/usr/sbin/{command}"):
        raise unittest.SkipTest(f"{command} is not installed (package {package or command})")


def main():
    """Runs the file's tests. Exit status 77 when every one was skipped; each skip is said in a line of its own."""
    runner = unittest.main(exit=False, verbosity=2)
    result = runner.result
    for test, reason in result.skipped:
        print(f"SKIPPED: {test.id().removeprefix('__main__.')}: {reason}")
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
