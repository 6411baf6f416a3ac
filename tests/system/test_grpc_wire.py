"""HTTP/2 and gRPC by hand: what no library would send, and how much of it the agent bears."""
# Mostly waits.
import http.client
import socket
import struct

import harness

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE = 11, 4
PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
POLICIES = [{"name": "ip", "limit": 1000, "per": "1h", "burst": 1000,
             "envoy": {"domain": "edge", "descriptors": ["ip"]}}]


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def field(name, value):
    """A literal header field without indexing; names and values of more than 126 bytes are not needed but for one."""
    def text(value):
        data = value.encode()
        if len(data) < 127:
            return bytes((len(data),)) + data
        rest, length = len(data) - 127, b"\x7f"
        while rest >= 128:
            length, rest = length + bytes((rest % 128 + 128,)), rest // 128
        return length + bytes((rest,)) + data
    return b"\0" + text(name) + text(value)


def headers(stream, path=PATH, more=(), flags=END_HEADERS):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "kova"),
              ("content-type", "application/grpc"), ("te", "trailers"), *more]
    return frame(HEADERS, flags, stream, b"".join(field(*pair) for pair in fields))


def delimited(number, data):
    return bytes((number << 3 | 2, len(data))) + data


def request(value, domain="edge", key="ip"):
    entry = delimited(1, key.encode()) + delimited(2, value.encode())
    return delimited(1, domain.encode()) + delimited(2, delimited(1, entry))


def message(data):
    return b"\0" + struct.pack(">I", len(data)) + data


def window_update(stream, more):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", more))


def reflect():
    """Asks for the file of a service."""
    return message(delimited(4, b"envoy.service.ratelimit.v3.RateLimitService"))


def call(stream, value="x"):
    return headers(stream) + frame(DATA, END_STREAM, stream, message(request(value)))


class Wire:
    """A connection that has said its preface and its settings."""

    def __init__(self, address, settings=b""):
        self.socket = socket.create_connection(address, timeout=harness.PATIENCE)
        self.buffer = b""
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def send(self, data):
        self.socket.sendall(data)

    def frame(self):
        """The next frame: kind, flags, stream, payload; None: the end."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.buffer += data
        length = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        return kind, flags, stream, payload

    def until(self, kind, stream=None):
        """The first frame of that kind, whatever comes before it; None: the connection has ended."""
        while True:
            got = self.frame()
            if got is None or (got[0] == kind and stream in (None, got[2])):
                return got

    def close(self):
        self.socket.close()


class GrpcWire(harness.Case):
    def setUp(self):
        super().setUp()
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
        self.agent = self.start_agent({"listen": listen, "policies": POLICIES})

    def wire(self, settings=b""):
        wire = Wire(self.agent.grpc_address, settings)
        self.addCleanup(wire.close)
        return wire

    def serves(self):
        """A new connection is served as any."""
        wire = self.wire()
        wire.send(call(1))
        self.assertEqual(wire.until(DATA)[2], 1)
        wire.close()

    def test_what_is_no_http2_is_shown_out(self):
        with socket.create_connection(self.agent.grpc_address, timeout=harness.PATIENCE) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: kova\r\n\r\n")
            answer = http.client.HTTPResponse(client)
            answer.begin()
            self.assertEqual(answer.status, 400)
            self.assertIn(b"`listen.http`", answer.read())
        self.serves()

    def test_rapid_reset(self):
        wire = self.wire()
        try:
            for first in range(1, 20001, 200):
                wire.send(b"".join(call(stream) + frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                                   for stream in range(first, first + 200, 2)))
        except OSError:
            pass  # shown out meanwhile
        goaway = wire.until(GOAWAY)
        self.assertTrue(goaway is None or struct.unpack(">I", goaway[3][4:8])[0] != 0, goaway)
        self.assertIsNone(wire.until(99), "the connection ends")
        self.serves()

    def test_ping_flood(self):
        wire = self.wire()
        try:
            wire.send(frame(PING, 0, 0, b"12345678") * 5000)
        except OSError:
            pass
        self.assertEqual(struct.unpack(">I", wire.until(GOAWAY)[3][4:8])[0], ENHANCE_YOUR_CALM)
        self.assertIn('kova_grpc_cut_total{reason="flood"} 1', self.agent.http("GET", "/metrics").body.decode())
        self.serves()

    def test_oversized_message_ends_its_call_alone(self):
        wire = self.wire()
        wire.send(headers(1) + frame(DATA, 0, 1, b"\0" + struct.pack(">I", 1 << 20)) + call(3))
        self.assertIn(b"8", wire.until(HEADERS, 1)[3])
        self.assertIsNotNone(wire.until(DATA, 3))

    def test_oversized_metadata_ends_its_call_alone(self):
        wire = self.wire()
        wire.send(headers(1, more=[("x", "y" * 16000)], flags=END_HEADERS | END_STREAM) + call(3))
        self.assertIsNotNone(wire.until(DATA, 3))

    def test_frame_larger_than_allowed(self):
        wire = self.wire()
        wire.send(frame(DATA, 0, 1, bytes(20000)))
        self.assertEqual(wire.until(GOAWAY)[0], GOAWAY)
        self.serves()

    def test_window_of_0(self):
        wire = self.wire(settings=struct.pack(">HI", INITIAL_WINDOW_SIZE, 0))
        wire.send(call(1))
        self.assertIsNotNone(wire.until(HEADERS, 1))
        wire.send(frame(PING, 0, 0, bytes(8)))
        self.assertEqual(wire.frame()[0], PING, "no DATA before there is a window")
        wire.send(window_update(1, 1000))
        self.assertIsNotNone(wire.until(DATA, 1))

    def ask_and_fetch_later(self, count):
        """Asks `count` times in one call with no window for the answers, then opens it: the answers, and the trailers."""
        wire, data, windows = self.wire(struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)), reflect() * count, {0: 65535, 1: 65535}
        wire.send(headers(1, REFLECTION))
        for at in range(0, len(data), 16384):
            piece = data[at:at + 16384]
            while min(windows.values()) < len(piece):
                _, _, stream, more = wire.until(WINDOW_UPDATE)
                windows[stream] += int.from_bytes(more, "big")
            wire.send(frame(DATA, END_STREAM if at + 16384 >= len(data) else 0, 1, piece))
            windows = {stream: window - len(piece) for stream, window in windows.items()}
        wire.send(window_update(0, 1 << 30) + window_update(1, 1 << 30))
        answers = b""
        while True:
            kind, flags, _, payload = wire.frame()
            answers += payload if kind == DATA else b""
            if flags & END_STREAM and kind == HEADERS:
                return answers, payload

    def test_answers_wait_for_a_window(self):
        answers, trailers = self.ask_and_fetch_later(500)
        size = 5 + int.from_bytes(answers[1:5], "big")
        self.assertEqual(answers, answers[:size] * 500)
        self.assertGreater(len(answers), 1 << 18, "more than is kept for a client")
        self.assertIn(b"0", trailers)

    def test_who_asks_and_never_fetches_is_bounded(self):
        answers, trailers = self.ask_and_fetch_later(20000)
        self.assertLess(len(answers), 1 << 19)
        self.assertIn(b"8", trailers)
        self.serves()

    def test_drain_says_goaway_and_watchers_hear_the_last(self):
        wire = self.wire()
        wire.send(call(1))
        wire.until(HEADERS, 1), wire.until(HEADERS, 1)
        wire.send(headers(3, WATCH) + frame(DATA, END_STREAM, 3, message(b"")))
        self.assertEqual(wire.until(DATA, 3)[3], message(b"\x08\x01"))
        self.agent.send_signal(15)
        frames = []
        while (got := wire.frame()) is not None:
            frames.append(got)
        kinds = [got[0] for got in frames]
        self.assertIn(GOAWAY, kinds)
        self.assertEqual(struct.unpack(">II", frames[kinds.index(GOAWAY)][3][:8]), (3, 0))
        self.assertIn(message(b"\x08\x02"), [got[3] for got in frames], "NOT_SERVING")
        self.assertEqual(self.agent.wait(), 0)

    def test_a_client_that_says_nothing_holds_nobody_up(self):
        silent = socket.create_connection(self.agent.grpc_address, timeout=harness.PATIENCE)
        self.addCleanup(silent.close)
        self.serves()
        self.agent.send_signal(15)
        self.assertEqual(self.agent.wait(), 0)

    def test_decisions_are_those_of_the_other_fronts(self):
        wire = self.wire()
        wire.send(b"".join(call(stream, "a/b") for stream in range(1, 21, 2)))
        for stream in range(1, 21, 2):
            self.assertIsNotNone(wire.until(DATA, stream))
        answer = self.agent.http("POST", "/v1/peek", {"policy": "ip", "key": "a%2Fb"}).json()
        self.assertEqual(answer["remaining"], 990)


if __name__ == "__main__":
    harness.main()
