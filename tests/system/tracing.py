"""What the tests of tracing share: an agent whose spans go to a collector of the test."""
import harness
import otlp

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TAKEN = f"00-{TRACE}-{PARENT}-01"
NOT_TAKEN = f"00-{TRACE}-{PARENT}-00"
SECRET = "a-key-that-nobody-may-see"

POLICIES = [
    {"name": "api", "levels": [{"name": "tenant", "limit": 10, "per": "1h", "burst": 10},
                               {"name": "user", "limit": 2, "per": "1h", "burst": 2}], "lease": "off"},
    {"name": "slow", "limit": 5, "per": "1s", "burst": 1, "lease": "off"},
    {"name": "hot", "limit": 1000000, "per": "1s", "burst": 1000000, "lease": {"max": 10000, "ttl": "1s"}},
    {"name": "slots", "algorithm": "concurrency", "limit": 2, "hold": "60s"},
    {"name": "rls", "limit": 5, "per": "1h", "burst": 5, "envoy": {"domain": "edge", "descriptors": ["ip"]}},
]
POOLS = [{"name": "exits", "endpoints": [{"id": "one", "url": "http://user:hidden@127.0.0.1:9"}]}]


class Traced(harness.Case):
    def start(self, collector=None, sample=0, agent=None, **tracing):
        self.collector = collector or self.keep(otlp.Collector())
        config = {"node": "n1", "region": "eu-west", "policies": POLICIES, "pools": POOLS,
                  "tracing": {"endpoint": self.collector.url, "sample": sample, **tracing}, **(agent or {})}
        self.agent = self.start_agent(config)

    def take(self, policy="api", key="acme/alice", parent=TAKEN, state=None, path="/v1/take", **body):
        headers = {"Traceparent": parent} if parent else {}
        if state is not None:
            headers["Tracestate"] = state
        return self.agent.http("POST", path, {"policy": policy, "key": key, **body}, headers)

    def spans(self, n=1):
        """Once there are `n` traces' calls: all spans."""
        def there():
            spans = self.collector.spans()
            return spans if sum(s.kind == "server" for s in spans) >= n else None
        return harness.wait_for(there, f"{n} traces; there are {self.collector.spans()}")

    def call(self):
        """The one trace's: the span of its call, and those below it."""
        spans = self.spans()
        calls = [s for s in spans if s.kind == "server"]
        self.assertEqual(len(calls), 1, spans)
        below = [s for s in spans if s.kind != "server"]
        for span in below:
            self.assertEqual((span.trace_id, span.parent_id), (calls[0].trace_id, calls[0].span_id))
            self.assertLessEqual(calls[0].start_ns, span.start_ns)
            self.assertLessEqual(span.start_ns, span.end_ns)
            self.assertLessEqual(span.end_ns, calls[0].end_ns)
        self.assertEqual(len({s.span_id for s in spans}), len(spans))
        return calls[0], below

    def metric(self, outcome):
        for line in self.agent.http("GET", "/metrics").body.decode().splitlines():
            if line.startswith(f'kova_trace_spans_total{{outcome="{outcome}"}}'):
                return int(float(line.split()[1]))
        return None
