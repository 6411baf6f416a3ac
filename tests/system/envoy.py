"""Envoy's rate limit quota filter, as it treats what it is told: a client of StreamRateLimitQuotas that admits by it.

What is particular of it: the seconds of an assignment's time to live count, no fractions; a token bucket that takes the place
of another begins with the same part of its tokens, and one that takes the place of a blanket rule is full; whatever has
expired, or was never assigned, is denied here, as deploy/envoy says it should be.
"""
import queue
import threading
import time

SERVICE = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"
METHOD = f"/{SERVICE}/StreamRateLimitQuotas"


class Bucket:
    """What the filter keeps of one bucket id."""

    def __init__(self):
        self.allowed = self.denied = 0
        self.reported = time.monotonic()
        self.rule = None  # "allow", "deny", or None: a token bucket
        self.tokens = self.most = self.fill_rate = 0.0
        self.strategy = None
        self.filled = self.until = 0.0

    def assign(self, assignment, now):
        strategy = assignment.rate_limit_strategy
        kind = strategy.WhichOneof("strategy")
        if kind == "token_bucket":
            new = strategy.token_bucket
            same = (new.max_tokens, new.tokens_per_fill.value, new.fill_interval.nanos)
            if self.strategy != same:
                part = 1.0
                if self.strategy is not None:
                    self.fill(now)
                    part = self.tokens / self.most
                self.most = float(new.max_tokens)
                self.tokens = float(int(self.most * part))
                self.fill_rate = new.tokens_per_fill.value / new.fill_interval.seconds
                self.filled = now
            self.strategy, self.rule = same, None
        elif kind == "blanket_rule":
            self.strategy, self.rule = None, "deny" if strategy.blanket_rule == 1 else "allow"
        else:
            raise AssertionError(f"the filter knows no {kind}")
        self.until = now + assignment.assignment_time_to_live.seconds

    def fill(self, now):
        self.tokens = min(self.most, self.tokens + (now - self.filled) * self.fill_rate)
        self.filled = now

    def admits(self, now):
        admitted = False
        if now < self.until:
            if self.strategy is not None:
                self.fill(now)
                admitted = self.tokens >= 1
                self.tokens -= admitted
            else:
                admitted = self.rule == "allow"
        self.allowed += admitted
        self.denied += not admitted
        return admitted


class Filter:
    """One Envoy. `messages` are the classes of the service; it talks to one address at a time: connect()."""

    def __init__(self, grpc, messages, domain="edge", interval=0.5):
        self.grpc, self.messages, self.domain, self.interval = grpc, messages, domain, interval
        self.lock = threading.Lock()
        self.buckets = {}
        self.admitted = []  # (bucket id, when)
        self.abandoned = []
        self.error = None
        self.stopped = threading.Event()
        self.channel = self.outgoing = self.answers = None
        self.reporter = threading.Thread(target=self._report_always, daemon=True)

    def connect(self, address):
        if self.channel is not None:
            self.channel.close()
        self.channel = self.grpc.insecure_channel("%s:%d" % address, [("grpc.use_local_subchannel_pool", 1)])
        reports, response = self.messages
        call = self.channel.stream_stream(METHOD, reports.SerializeToString, response.FromString)
        self.outgoing = queue.Queue()
        self.answers = call(iter(self.outgoing.get, None))
        threading.Thread(target=self._listen, args=(self.answers,), daemon=True).start()
        if not self.reporter.is_alive():
            self.reporter.start()
        return self

    def _listen(self, answers):
        try:
            for response in answers:
                now = time.monotonic()
                with self.lock:
                    for action in response.bucket_action:
                        key = frozenset(action.bucket_id.bucket.items())
                        bucket = self.buckets.get(key)
                        if action.WhichOneof("bucket_action") == "abandon_action":
                            self.buckets.pop(key, None)
                            self.abandoned.append(key)
                        elif bucket is not None:
                            bucket.assign(action.quota_assignment_action, now)
        except self.grpc.RpcError as error:
            self.error = error

    def ask(self, **bucket_id):
        """Whether a request of that bucket is admitted."""
        key = frozenset(bucket_id.items())
        with self.lock:
            now = time.monotonic()
            bucket = self.buckets.get(key)
            new = bucket is None
            if new:
                bucket = self.buckets[key] = Bucket()
            admitted = bucket.admits(now)
            if admitted:
                self.admitted.append((key, now))
            if new:
                self._report([key])
        return admitted

    def _report(self, keys):
        message = self.messages[0](domain=self.domain)
        now = time.monotonic()
        for key in keys:
            bucket = self.buckets[key]
            usage = message.bucket_quota_usages.add(num_requests_allowed=bucket.allowed,
                                                    num_requests_denied=bucket.denied)
            usage.bucket_id.bucket.update(dict(key))
            usage.time_elapsed.seconds = int(now - bucket.reported)
            bucket.allowed = bucket.denied = 0
            bucket.reported = now
        self.outgoing.put(message)

    def _report_always(self):
        while not self.stopped.wait(self.interval):
            with self.lock:
                if self.buckets:
                    self._report(list(self.buckets))

    def assigned(self, **bucket_id):
        """"allow", "deny", a number of tokens, or None: nothing that lasts."""
        with self.lock:
            bucket = self.buckets.get(frozenset(bucket_id.items()))
            if bucket is None or time.monotonic() >= bucket.until:
                return None
            return bucket.rule if bucket.strategy is None else bucket.tokens

    def vanish(self):
        """As one whose process is killed: nothing is reported any more."""
        self.stopped.set()
        self.channel.close()
