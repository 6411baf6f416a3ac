"""Agents that gossip over a network that loses: each is reached at a relay's port, which drops some datagrams and streams."""

import os
import random
import select
import socket
import threading

import harness

SECRET = "one secret for the whole mesh"


def write_secrets(directory, *secrets):
    path = os.path.join(directory, "gossip-secrets")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(secret + "\n" for secret in secrets))
    return path


class Relay:
    """Stands before each node: `outside` is where others reach it. What comes there leaves from the sender's own relay port."""

    def __init__(self, loss=0.0, seed=1):
        self.loss = loss
        self.cut = set()  # of pairs of names, both ways round
        self.random = random.Random(seed)
        self.sockets = {}  # socket: name
        self.names = {}  # the node's own address: name
        self.inside = {}
        self.outside = {}
        self.lost = self.carried = 0
        self.ends = False
        self.wake, self.waker = socket.socketpair()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def add(self, name, inside_port):
        """The port at which others reach the node `name` that listens at `inside_port`."""
        front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        front.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = harness.free_port()
        front.bind(("127.0.0.1", port))
        listener.bind(("127.0.0.1", port))
        listener.listen(16)
        front.setblocking(False)
        self.inside[name] = ("127.0.0.1", inside_port)
        self.names[("127.0.0.1", inside_port)] = name
        self.outside[name] = front
        self.sockets[front] = name
        threading.Thread(target=self._streams, args=(listener, name), daemon=True).start()
        self.waker.send(b"x")
        return port

    def drops(self, a, b):
        return frozenset((a, b)) in self.cut or self.random.random() < self.loss

    def _run(self):
        while not self.ends:
            ready, _, _ = select.select([self.wake, *list(self.sockets)], [], [], 1)
            for sock in ready:
                if sock is self.wake:
                    self.wake.recv(1024)
                else:
                    self._carry(sock)

    def _carry(self, sock):
        to = self.sockets[sock]
        for _ in range(64):
            try:
                data, source = sock.recvfrom(2048)
            except OSError:
                return
            sender = self.names.get(source)
            if sender is None or self.drops(sender, to):
                self.lost += 1
                continue
            self.carried += 1
            self.outside[sender].sendto(data, self.inside[to])

    def _streams(self, listener, name):
        while not self.ends:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._stream, args=(client, name), daemon=True).start()

    def _stream(self, client, name):
        if any(name in pair for pair in self.cut):
            client.close()
            return
        try:
            server = socket.create_connection(self.inside[name], 5)
        except OSError:
            client.close()
            return
        pairs = {client: server, server: client}
        while pairs:
            ready, _, _ = select.select(list(pairs), [], [], 10)
            if not ready:
                break
            for sock in ready:
                data = sock.recv(65536)
                if not data:
                    pairs = {}
                    break
                pairs[sock].sendall(data)
        client.close()
        server.close()

    def kill(self):
        self.ends = True
        self.waker.send(b"x")
        self.thread.join(5)
        for sock in self.sockets:
            sock.close()


class Case(harness.Case):
    """A test of agents that gossip, on one Redis."""

    def setUp(self):
        super().setUp()
        self.redis = self.start_redis()
        self.secrets = write_secrets(self.directory, SECRET)
        self.ports = {}
        self.nodes = {}

    def config(self, name, seeds=(), relay=None, **more):
        port = self.ports.get(name) or harness.free_port()
        self.ports[name] = port
        gossip = {"listen": f"127.0.0.1:{port}", "seeds": list(seeds), "secret_file": self.secrets}
        if relay is not None:
            gossip["advertise"] = f"127.0.0.1:{relay.add(name, port)}"
        gossip.update(more.pop("gossip", {}))
        return {"node": name, "region": "here", "redis": {"mode": "standalone", "url": self.redis.url}, "gossip": gossip, **more}

    def start_node(self, name, seeds=(), relay=None, ready=True, env=None, **more):
        agent = self.start_agent(self.config(name, seeds, relay, **more), ready=ready, directory=self.subdirectory(name), env=env)
        self.nodes[name] = agent
        return agent

    def again(self, name, env=None):
        """The node once more, with the state that it left."""
        old = self.nodes[name]
        agent = self.start_agent(old.config, directory=old.directory, env=env)
        self.nodes[name] = agent
        return agent

    def seed(self, name):
        return [f"127.0.0.1:{self.ports[name]}"]

    def mesh(self, n, **more):
        """n nodes a, b, c, …; a is everybody's seed."""
        names = [chr(ord("a") + i) for i in range(n)]
        for name in names:
            self.start_node(name, self.seed("a") if name != "a" else (), **more)
        self.wait_members(n)
        return [self.nodes[name] for name in names]

    def wait_members(self, n, agents=None, timeout=None):
        for agent in agents or self.nodes.values():
            harness.wait_for(lambda a=agent: states(a).count("alive") == n, f"{n} live members", timeout)


def members(agent):
    return {m["node"]: m for m in agent.http("GET", "/v1/members").json()["members"]}


def states(agent):
    return [m["state"] for m in members(agent).values()]


def policies(agent):
    return {p["name"]: p for p in agent.http("GET", "/v1/policies").json()["policies"]}


def put(agent, name, limit, **more):
    return agent.http("PUT", f"/v1/policies/{name}", {"limit": limit, "per": "1s", **more})


def limit(agent, name):
    return policies(agent).get(name, {}).get("limit")


def metric(agent, name, **labels):
    """The sum of the samples of `name` that have these labels."""
    total = 0.0
    for line in agent.http("GET", "/metrics").body.decode().splitlines():
        if line.startswith(name) and line[len(name)] in " {" and all(f'{k}="{v}"' in line for k, v in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total
