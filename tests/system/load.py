"""A load generator: many connections to agents, driven by one selector, every request with the times around it.

A Hit's `sent` is read before the request's first byte leaves and `received` after its last byte has come, so what the
store decided, it decided between the two. checker.py draws from that only what is certain.
"""

import collections
import os
import selectors
import socket
import threading
import time

from resp import Resp, RespError


def go_first():
    """Has this process and its children run before all ordinary ones, so that what others do on the machine is not measured.
    False: we may not."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    return True


class Hit:
    """One request: `words` as sent, `reply` as received: a list, a RespError, or None where the connection was lost."""

    __slots__ = ("words", "sent", "received", "reply")

    def __init__(self, words, sent):
        self.words = words
        self.sent = sent
        self.received = None
        self.reply = None

    @property
    def admitted(self):
        return isinstance(self.reply, list) and self.reply[0] == 1

    @property
    def refused(self):
        return isinstance(self.reply, list) and self.reply[0] == 0

    @property
    def lost(self):
        return self.reply is None

    @property
    def reason(self):
        return self.reply[5] if isinstance(self.reply, list) else str(self.reply)

    def __repr__(self):
        return f"Hit({self.words}, {self.sent:.6f}..{self.received or 0:.6f}, {self.reply})"


def parse(data, at):
    """(value, position behind it) of one reply (RESP2, or RESP3 as a server sends it) in `data` from `at` on, or None
    while it is incomplete."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, rest = data[at : at + 1], bytes(data[at + 1 : end])
    at = end + 2
    if kind == b":":
        return int(rest), at
    if kind == b"-":
        return RespError(rest.decode(errors="replace")), at
    if kind in (b"+", b"_", b"#", b",", b"("):
        return (None if kind == b"_" else rest.decode()), at
    size = int(rest)
    if size < 0:
        return None, at
    if kind in (b"$", b"=", b"!"):
        if len(data) < at + size + 2:
            return None
        return bytes(data[at : at + size]).decode(errors="surrogateescape"), at + size + 2
    if kind not in (b"*", b"~", b">", b"%"):
        raise ValueError(f"not RESP: {kind!r}")
    items = []
    for _ in range(size * (2 if kind == b"%" else 1)):
        item = parse(data, at)
        if item is None:
            return None
        items.append(item[0])
        at = item[1]
    return items, at


class _Wire:
    """A connection of a swarm: what was asked and not answered yet, oldest first."""

    __slots__ = ("address", "socket", "asked", "input")

    def __init__(self, address):
        self.address = address
        self.socket = None
        self.asked = collections.deque()
        self.input = bytearray()


class Swarm:
    """`count` connections, spread evenly over `addresses`. A lost one is opened again when it is needed next.

    `clock` stamps the hits; the wall clock is Redis's own as long as all run on one machine.
    """

    def __init__(self, addresses, count, clock=time.time, patience=60.0):
        self.clock = clock
        self.patience = patience
        self.selector = selectors.DefaultSelector()
        self.wires = [_Wire(addresses[i % len(addresses)]) for i in range(count)]
        for wire in self.wires:
            self._open(wire)

    def close(self):
        for wire in self.wires:
            self._drop(wire)
        self.selector.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _open(self, wire):
        """True if it is connected now (loopback: at once or not at all)."""
        family = socket.AF_UNIX if isinstance(wire.address, str) else socket.AF_INET
        wire.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            wire.socket.settimeout(5)
            wire.socket.connect(wire.address)
        except OSError:
            wire.socket.close()
            wire.socket = None
            return False
        if family == socket.AF_INET:
            wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(wire.socket, selectors.EVENT_READ, wire)
        return True

    def _drop(self, wire):
        if wire.socket is None:
            return
        self.selector.unregister(wire.socket)
        wire.socket.close()
        wire.socket = None
        wire.input.clear()
        now = self.clock()
        for hit in wire.asked:
            hit.received = now
        wire.asked.clear()

    def hang_up(self, number):
        """Closes one of the connections; what was asked on it is lost."""
        self._drop(self.wires[number])

    def send(self, wire, words, data=None):
        """Sends on `wire` and returns the hit; a hit that could not be sent is lost at once."""
        data = data or Resp.encode(*words)
        if wire.socket is None and not self._open(wire):
            hit = Hit(words, self.clock())
            hit.received = hit.sent
            return hit
        hit = Hit(words, self.clock())
        wire.asked.append(hit)
        try:
            wire.socket.sendall(data)
        except OSError:
            self._drop(wire)
        return hit

    def _read(self, wire):
        """The hits that were answered."""
        try:
            data = wire.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._drop(wire)
            return []
        now = self.clock()
        wire.input += data
        answered, at = [], 0
        while wire.asked:
            value = parse(wire.input, at)
            if value is None:
                break
            hit = wire.asked.popleft()
            hit.reply, at = value
            hit.received = now
            answered.append(hit)
        del wire.input[:at]
        return answered

    def poll(self, timeout):
        """Reads what has come, waiting up to `timeout` seconds; (wire, hit) of each answer."""
        answered = []
        for key, _ in self.selector.select(timeout):
            answered += [(key.data, hit) for hit in self._read(key.data)]
        return answered

    def pending(self):
        return sum(len(wire.asked) for wire in self.wires)

    def finish(self):
        """Waits for every answer that is due."""
        deadline = time.monotonic() + self.patience
        while self.pending():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.pending()} requests were not answered in {self.patience} s")
            self.poll(0.1)

    def burst(self, words_of):
        """One request a connection, all sent before the first answer is read. `words_of(i)`, or words for all."""
        hits = []
        for i, wire in enumerate(self.wires):
            hits.append(self.send(wire, words_of(i) if callable(words_of) else words_of))
        self.finish()
        return hits

    def run(self, seconds, words_of, rate=None, stop=None):
        """Load for `seconds` (monotonic) or until `stop` (an Event) is set.

        Without `rate` each connection asks again as soon as it was answered; with `rate`, requests are sent at that
        many a second in all, whatever the answers.
        """
        if rate is None:
            return self._closed_loop(seconds, words_of, stop)
        return self._open_loop(seconds, words_of, rate, stop)

    @staticmethod
    def _over(end, stop):
        return time.monotonic() >= end or (stop is not None and stop.is_set())

    def _closed_loop(self, seconds, words_of, stop):
        end, hits = time.monotonic() + seconds, []

        def ask(wire):
            words = words_of(len(hits)) if callable(words_of) else words_of
            hits.append(self.send(wire, words))

        while not self._over(end, stop):
            idle = [wire for wire in self.wires if not wire.asked]
            for wire in idle:
                ask(wire)
            if not self.pending():
                time.sleep(0.005)  # nobody is there to be asked
            self.poll(0.05)
        self.finish()
        return hits

    def _open_loop(self, seconds, words_of, rate, stop):
        begun, hits = time.monotonic(), []
        while not self._over(begun + seconds, stop):
            due = int((time.monotonic() - begun) * rate)
            for n in range(len(hits), min(due, len(hits) + 256)):
                words = words_of(n) if callable(words_of) else words_of
                hits.append(self.send(self.wires[n % len(self.wires)], words))
            next_at = begun + (len(hits) + 1) / rate
            self.poll(max(0.0, min(0.05, next_at - time.monotonic())))
        self.finish()
        return hits


class Background:
    """Runs a function in a thread; result() waits for it and passes its exception on."""

    def __init__(self, function, *arguments, **more):
        self._result = None
        self._error = None

        def run():
            try:
                self._result = function(*arguments, **more)
            except BaseException as error:  # pylint: disable=broad-except
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def running(self):
        return self._thread.is_alive()

    def result(self, timeout=120):
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise AssertionError("the load did not end in time")
        if self._error is not None:
            raise self._error
        return self._result


def replies(hits):
    """How often each kind of answer came: reason, error text or "lost"."""
    return dict(collections.Counter("lost" if hit.lost else hit.reason for hit in hits))


def errors(hits):
    """The answers that are neither an admission nor a refusal by a limit."""
    return [
        hit
        for hit in hits
        if not isinstance(hit.reply, list) or not (hit.reason in ("ok", "shadow") or hit.reason.startswith("limited:"))
    ]
