"""The peers as bench/compare starts and asks them: each on loopback, with a limit of `limit` permits in `per` seconds, on `nodes` nodes
where it has such, and with a redis-server of its own where it keeps its state in one."""
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "system"), os.path.join(ROOT, "bench", "compared")]
import caller  # noqa: E402  (its directory is known only now)
import harness  # noqa: E402

KEY = "key:{key}"  # bench/load.c puts a random number in


class Front:
    """One way to ask: its protocol, the nodes' ports, and how a decision on `key` is asked for and read."""

    def __init__(self, front, ports, words=None, verdict=None):
        """`words(key)`: those of bench/load.c; `verdict(reply)`: of what caller.py has read."""
        self.front, self.ports, self.words, self.read = front, ports, words, verdict
        self.key = "hot"

    def bytes_of(self, _number):
        """A request on `key`, for caller.py."""
        words = self.words(self.key)
        if self.front == "resp":
            return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in map(str.encode, words))
        body = (words[2] if len(words) > 2 else "").encode()
        return (f"{words[0]} {words[1]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def verdict(self, reply):
        answer = self.read(reply)
        return caller.FAILED if answer is None else caller.ADMITTED if answer else caller.REFUSED


def first_is(admitted):
    return lambda reply: None if reply is None else reply == admitted


def by_status(reply):
    return {200: True, 429: False}.get(reply[0])


class Service:
    """Processes that serve, node by node, and the Redis behind them or None."""

    def __init__(self, nodes, fronts, store=None, owner=lambda key: 0):
        """`owner(key)`: the node that a key depends on most, where there is such."""
        self.nodes, self.store, self.owner = nodes, store, owner
        self.fronts = {front.front: front for front in fronts}

    @property
    def pids(self):
        return [process.pid for process in self.nodes + ([self.store] if self.store else [])]

    def alive(self, node):
        return self.nodes[node].running()

    def stop(self):
        for process in self.nodes + ([self.store] if self.store else []):
            process.kill()


def serve(case, name, command, ports, env=None):
    process = case.keep(harness.Process(command, os.path.join(case.subdirectory(f"{name}-{ports[0]}"), "log"), env=env))
    harness.wait_for(lambda: not any(map(harness.unused, ports)), name, 60)
    return process


def free_ports(count):
    return [harness.free_port() for _ in range(count)]


def kova(case, _directory, nodes, limit, per):
    store = case.start_redis()
    policy = {"name": "bench", "limit": limit, "per": f"{per}s", "burst": limit}
    agents = []
    for at in range(nodes):
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http")}
        agents.append(case.start_agent({"node": f"agent-{at}", "listen": listen, "policies": [policy],
                                        "redis": {"mode": "standalone", "url": store.url, "timeout": "50ms", "connect_timeout": "1s"}}))
    return Service(agents, [
        Front("resp", [a.resp_address[1] for a in agents], lambda key: ["KOVA.TAKE", "bench", key], first_is(1)),
        Front("http", [a.http_address[1] for a in agents], lambda key: ["GET", f"/v1/check?policy=bench&key={key}"], by_status)], store)


def redis_cell(case, directory, _nodes, limit, per):
    store = case.start_redis(options=["--loadmodule", os.path.join(directory, "redis_cell.so")])
    rate = [str(limit), str(limit), str(per)]
    return Service([], [Front("resp", [store.port], lambda key: ["CL.THROTTLE", key, *rate], first_is(0))], store)


def throttlecrab(case, directory, _nodes, limit, per):
    ports = free_ports(3)
    rate = {"max_burst": limit, "count_per_period": limit, "period": per}
    words = [str(value) for value in rate.values()]
    server = serve(case, "throttlecrab", [os.path.join(directory, "bin", "throttlecrab-server"), "--store-capacity", "200000"]
                   + [word for front, port in zip(("redis", "http", "grpc"), ports)
                      for word in (f"--{front}", f"--{front}-host", "127.0.0.1", f"--{front}-port", str(port))], ports)

    def allowed(reply):
        return json.loads(reply[1])["allowed"] if reply[0] == 200 else None

    return Service([server], [
        Front("resp", ports[:1], lambda key: ["THROTTLE", key, *words], first_is(1)),
        Front("http", ports[1:2], lambda key: ["POST", "/throttle", json.dumps({"key": key, **rate})], allowed)])


def gubernator(case, directory, nodes, limit, per, behavior=0):
    """`behavior`: of its protocol, 0 what it does by default, 2 GLOBAL."""
    gossip, web, rpc = free_ports(nodes), free_ports(nodes), free_ports(nodes)
    named = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--uts", "sh", "-c", 'hostname "$0" && exec "$1"']
    # Nodes know each other by their host's name and address, so each needs ones of its own.
    gossip = [f"127.0.0.{2 + at}:{port}" for at, port in enumerate(gossip)]
    servers = [serve(case, "gubernator", [*named, f"node-{at}", os.path.join(directory, "bin", "gubernator")], [web[at], rpc[at]], {
        "GUBER_HTTP_ADDRESS": f"127.0.0.1:{web[at]}", "GUBER_GRPC_ADDRESS": f"127.0.0.1:{rpc[at]}",
        "GUBER_ADVERTISE_ADDRESS": f"127.0.0.1:{rpc[at]}", "GUBER_CACHE_SIZE": "200000", "GUBER_LOG_LEVEL": "error",
        "GUBER_PEER_DISCOVERY_TYPE": "member-list", "GUBER_MEMBERLIST_ADDRESS": gossip[at],
        "GUBER_MEMBERLIST_BIND_ADDRESS": gossip[at],
        "GUBER_MEMBERLIST_KNOWN_NODES": ",".join(gossip)}) for at in range(nodes)]

    def health(port):
        return json.loads(harness.http_request(("127.0.0.1", port), "GET", "/v1/HealthCheck").body)

    harness.wait_for(lambda: all(int(health(port).get("peer_count", 0)) == nodes for port in web), "gubernator's nodes", 60)

    def words(key):
        return ["POST", "/v1/GetRateLimits", json.dumps({"requests": [{
            "name": "bench", "unique_key": key, "hits": 1, "limit": limit, "duration": 1000 * per, "behavior": behavior}]})]

    def read(reply):
        answer = json.loads(reply[1])["responses"][0] if reply[0] == 200 else {"error": "no answer"}
        return None if answer.get("error") else answer.get("status", "UNDER_LIMIT") == "UNDER_LIMIT"

    def owner(key):
        method, path, data = words(key)
        answer = json.loads(harness.http_request(("127.0.0.1", web[0]), method, path, data, {"Content-Type": "application/json"}).body)
        said = answer["responses"][0].get("metadata", {}).get("owner", f"127.0.0.1:{rpc[0]}")  # a node does not name itself
        return rpc.index(int(said.rpartition(":")[2]))

    return Service(servers, [Front("http", web, words, read)], owner=owner)


def gubernator_global(*arguments):
    return gubernator(*arguments, behavior=2)


UNITS = {1: "second", 60: "minute", 3600: "hour"}


def ratelimit(case, directory, nodes, limit, per):
    store, servers, web, rpc = case.start_redis(), [], free_ports(nodes), free_ports(nodes)
    root = case.subdirectory(f"ratelimit-{store.port}")
    os.makedirs(os.path.join(root, "ratelimit", "config"))
    with open(os.path.join(root, "ratelimit", "config", "bench.yaml"), "w", encoding="utf-8") as file:
        file.write(f"domain: edge\ndescriptors:\n  - key: ip\n    rate_limit: {{unit: {UNITS[per]}, requests_per_unit: {limit}}}\n")
    for at in range(nodes):
        servers.append(serve(case, "ratelimit", [os.path.join(directory, "bin", "ratelimit")], [web[at], rpc[at]], {
            "HOST": "127.0.0.1", "PORT": str(web[at]), "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(rpc[at]), "DEBUG_HOST": "127.0.0.1",
            "DEBUG_PORT": str(harness.free_port()), "USE_STATSD": "false", "LOG_LEVEL": "error", "RUNTIME_ROOT": root,
            "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false", "BACKEND_TYPE": "redis", "REDIS_SOCKET_TYPE": "tcp",
            "REDIS_URL": f"127.0.0.1:{store.port}"}))

    def words(key):
        return ["POST", "/json", json.dumps({"domain": "edge", "descriptors": [{"entries": [{"key": "ip", "value": key}]}]})]

    return Service(servers, [Front("http", web, words, by_status)], store)


# name: how it starts, what of bench/peers it needs, by which name bench/peers builds it
SERVICES = {
    "Kova": (kova, None, None),
    "redis-cell": (redis_cell, "redis_cell.so", "redis-cell"),
    "throttlecrab": (throttlecrab, "bin/throttlecrab-server", "throttlecrab"),
    "gubernator": (gubernator, "bin/gubernator", "gubernator"),
    "gubernator GLOBAL": (gubernator_global, "bin/gubernator", "gubernator"),
    "envoyproxy/ratelimit": (ratelimit, "bin/ratelimit", "ratelimit"),
}

# name: the command of its driver, but for the numbers
LIBRARIES = {
    "limits (Python)": ("python/bin/python", "library.py", "limits", "python"),
    "throttled-py (Python)": ("python/bin/python", "library.py", "throttled-py", "python"),
    "rate-limiter-flexible (Node.js)": ("node/node_modules/rate-limiter-flexible", "library.mjs", None, "node"),
}


def command_of_library(name, directory):
    need, driver, argument, _ = LIBRARIES[name]
    driver = os.path.join(ROOT, "bench", "compared", driver)
    if argument is None:
        return ["node", driver, os.path.join(directory, "node")]
    return [os.path.join(directory, need), driver, argument]


def available(directory, names=None):
    """(services, libraries, why the others are left out) of those that `names` asks for, or of all."""
    left_out, found = {}, []
    for table, build in ((SERVICES, lambda entry: (entry[1], entry[2])), (LIBRARIES, lambda entry: (entry[0], entry[3]))):
        found.append([])
        for name, entry in table.items():
            need, builder = build(entry)
            if names and name != "Kova" and name not in names:
                continue
            if need is None or os.path.exists(os.path.join(directory, need)):
                found[-1].append(name)
            else:
                left_out[name] = f"bench/peers has not built it here (bench/peers {directory} {builder})"
    return found[0], found[1], left_out
