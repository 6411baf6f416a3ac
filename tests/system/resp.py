"""A RESP2 and RESP3 client over a socket, small enough to be trusted by tests."""
import socket


class RespError(Exception):
    """An error reply; str() is its whole text, e.g. `ERR unknown command`."""


class Resp:
    """One connection. `address` is a (host, port) pair or the path of a unix socket; `tls` an ssl.SSLContext."""

    def __init__(self, address, timeout=10.0, tls=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self.input = self.socket.makefile("rb")

    def close(self):
        self.input.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def encode(*words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        return b"".join(parts)

    def send(self, *words):
        self.socket.sendall(self.encode(*words))

    def send_raw(self, data):
        self.socket.sendall(data)

    def call(self, *words):
        """The reply, texts as str where they are UTF-8. An error reply is raised as RespError."""
        self.send(*words)
        return self.read()

    def pipeline(self, commands):
        """The replies of several commands sent at once; an error reply stands in the list as a RespError."""
        self.socket.sendall(b"".join(self.encode(*words) for words in commands))
        return [self.read(raise_error=False) for _ in commands]

    def read(self, raise_error=True):
        reply = self._read()
        if raise_error and isinstance(reply, RespError):
            raise reply
        return reply

    def _line(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed by the server" if not line else f"half a line: {line!r}")
        return line[:1], line[1:-2]

    def _bulk(self, size):
        data = self.input.read(size + 2)
        if len(data) != size + 2:
            raise ConnectionError("closed in the middle of a string")
        return data[:-2]

    def _read(self):
        kind, rest = self._line()
        if kind == b"+":
            return _text(rest)
        if kind == b"-":
            return RespError(rest.decode(errors="replace"))
        if kind in (b":", b"("):
            return int(rest)
        if kind == b",":
            return float(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"_":
            return None
        if kind in (b"$", b"=", b"!"):
            return None if rest == b"-1" else _text(self._bulk(int(rest)))
        if kind in (b"*", b"~", b">"):
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        if kind == b"%":
            return {self._read(): self._read() for _ in range(int(rest))}
        raise ValueError(f"not RESP: {kind + rest!r}")


def _text(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
