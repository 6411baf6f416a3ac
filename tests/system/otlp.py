"""A collector of spans: an HTTP server that reads OTLP's binary protobuf by itself, and answers as a test wants.

    collector = self.keep(Collector())      # .url; collector.spans() are those it took
    collector.answer = (503, {"Retry-After": "1"}, b"")
"""
import http.server
import threading
import time


def fields(message):
    """The fields of a protobuf message: (number, value), numbers as int and the rest as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        if at + size > len(message):
            raise ValueError("a field is longer than its message")
        value = message[at:at + size]
        at += size
        yield key >> 3, int.from_bytes(value, "little") if kind != 2 else value


def every(message, number):
    return [value for n, value in fields(message) if n == number]


def last(message, number, default=None):
    found = every(message, number)
    return found[-1] if found else default


def attributes(message, number):
    """opentelemetry.proto.common.v1.KeyValue."""
    found = {}
    for pair in every(message, number):
        kind, value = list(fields(last(pair, 2)))[0]
        signed = value - (1 << 64) if kind == 3 and value >> 63 else value
        found[last(pair, 1).decode()] = {1: lambda: value.decode(), 2: lambda: bool(value), 3: lambda: signed}[kind]()
    return found


class Span:
    """opentelemetry.proto.trace.v1.Span, with the resource that it is of."""

    def __init__(self, message, resource):
        self.resource = resource
        self.trace_id = last(message, 1).hex()
        self.span_id = last(message, 2).hex()
        self.trace_state = last(message, 3, b"").decode()
        self.parent_id = last(message, 4, b"").hex()
        self.name = last(message, 5).decode()
        self.kind = {1: "internal", 2: "server", 3: "client"}[last(message, 6)]
        self.start_ns, self.end_ns = last(message, 7), last(message, 8)
        self.attributes = attributes(message, 9)
        status = last(message, 15, b"")
        self.error = last(status, 2, b"").decode() if last(status, 3, 0) == 2 else None
        self.flags = last(message, 16, 0)

    def __repr__(self):
        return f"{self.name} {self.trace_id[:8]}/{self.span_id[:4]}<{self.parent_id[:4]} {self.attributes} {self.error}"


def read_request(body):
    """opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest."""
    return [Span(message, attributes(last(resource_spans, 1), 1))
            for resource_spans in every(body, 1)
            for scope_spans in every(resource_spans, 2)
            for message in every(scope_spans, 2)]


class Collector:
    def __init__(self, port=0):
        self.answer = (200, {}, b"")  # or a callable of the request's number, from 0 on, that returns one
        self.delay = 0
        self.requests = []  # (headers, body), whatever the answer was
        self._taken = []
        self._lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer._lock:
                    number = len(outer.requests)
                    outer.requests.append((self.path, dict(self.headers), body, time.monotonic()))
                answer = outer.answer(number) if callable(outer.answer) else outer.answer
                time.sleep(outer.delay)
                status, headers, said = answer
                if status == 200:
                    with outer._lock:
                        outer._taken += read_request(body)
                try:
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": str(len(said))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(said)
                except OSError:
                    pass  # the agent did not wait

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/traces"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def spans(self):
        with self._lock:
            return list(self._taken)

    def kill(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
