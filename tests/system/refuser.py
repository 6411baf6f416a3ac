"""A proxy before a redis-server that answers with an error what it is told to refuse, as the server itself would."""

import io
import socket
import threading

WRITES = {b"EVAL", b"EVALSHA", b"SET"}


class Refuser:
    """One command after the other. `slots`, if set: it says that it serves all slots of a Cluster, on that port; and
    answers a plain MOVED with the slot and `moved_to`, a port."""

    def __init__(self, target):
        self.target = target
        self.error = None
        self.writes_only = False
        self.slots = self.moved_to = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.url = f"redis://127.0.0.1:{self.address[1]}"
        self._sockets = {self._listener}
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self, error, writes_only=False):
        """None: nothing."""
        self.writes_only = writes_only
        self.error = error

    def kill(self):
        for each in list(self._sockets):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.create_connection(self.target)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets |= {client, server}
        requests, replies = client.makefile("rb"), server.makefile("rb")
        try:
            while command := _value(requests):
                answer = self._own_answer(command)
                if answer is None:
                    server.sendall(command)
                    answer = _value(replies)
                client.sendall(answer)
        except (OSError, ValueError):
            pass
        finally:
            self._sockets -= {client, server}
            client.close()
            server.close()

    def _own_answer(self, command):
        words = _words(command)
        if self.slots and words[:2] == [b"CLUSTER", b"SLOTS"]:
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.slots
        if self.error is None or (self.writes_only and words[0].upper() not in WRITES):
            return None
        if self.error == "MOVED":
            return b"-MOVED 1 127.0.0.1:%d\r\n" % self.moved_to
        return b"-%s\r\n" % self.error.encode()


def _value(stream):
    """One RESP value, as its bytes; empty at the end of the stream."""
    line = stream.readline()
    kind = line[:1]
    if kind in (b"$", b"*") and line[1:2] != b"-":
        n = int(line[1:])
        return line + (stream.read(n + 2) if kind == b"$" else b"".join(_value(stream) for _ in range(n)))
    return line


def _words(command):
    stream = io.BytesIO(command)
    words = []
    for _ in range(int(stream.readline()[1:])):
        size = int(stream.readline()[1:])
        words.append(stream.read(size + 2)[:-2])
    return words
