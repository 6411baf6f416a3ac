"""TCP proxies. Before a redis-server: one loses what it is told to lose, as networks and crashes do, one is a long link. Before a
Kafka: one refuses what it is told to refuse."""

import collections
import contextlib
import random
import select
import socket
import struct
import threading
import time

import load


class LossyProxy:
    """Forwards to `target`. `lose` is the part of Redis's replies that it swallows (0 at first), whole replies only:

    the command was carried out, and its answer never comes. `lost` counts them. While `stalled`, each connection stops in
    the middle of its next reply; the rest comes afterwards.
    """

    def __init__(self, target, seed=1):
        self.target = target
        self.lose = 0.0
        self.stalled = False
        self.lost = 0
        self.passed = 0
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.url = f"redis://127.0.0.1:{self.address[1]}"
        self._connections = set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def kill(self):
        """Ends the proxy and every connection (the name is what harness.Case calls)."""
        if not self._closed:
            self._closed = True
            self._listener.shutdown(socket.SHUT_RDWR)  # close() alone lets an accept() in progress take one more
            self._listener.close()
        self.cut()

    def cut(self):
        """Resets every connection."""
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        with client, server:
            self._connections |= {client, server}
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._forward(client, server)
            except OSError:
                pass
            self._connections -= {client, server}

    def _forward(self, client, server):
        held, waiting, cut = bytearray(), bytearray(), False
        while True:
            ready, _, _ = select.select([client, server], [], [], 0.02 if waiting else None)
            for end in ready:
                data = end.recv(1 << 16)
                if not data:
                    return
                if end is client:
                    server.sendall(data)
                else:
                    held += data
                    waiting += self._replies(held)
            some = len(waiting)
            if self.stalled:
                some = 0 if cut else some // 2
                cut = cut or some > 0
            if some and waiting:
                client.sendall(waiting[:some])
                del waiting[:some]
            if not waiting:
                cut = False

    def _replies(self, held):
        """Takes the complete replies from `held`; returns those that get through."""
        out, at = bytearray(), 0
        while True:
            found = load.parse(held, at)
            if found is None:
                break
            if self._random.random() < self.lose:
                self.lost += 1
            else:
                self.passed += 1
                out += held[at : found[1]]
            at = found[1]
        del held[:at]
        return bytes(out)


class SlowProxy(LossyProxy):
    """Forwards to `target`, each way after `delay` seconds, in order."""

    def __init__(self, target, delay):
        self.delay = delay
        super().__init__(target)

    def _forward(self, client, server):
        there = threading.Thread(target=self._pass_all, args=(client, server), daemon=True)
        there.start()
        self._pass_all(server, client)
        there.join()

    def _pass_all(self, source, sink):
        try:
            self._pass(source, sink)
        except OSError:
            pass

    def _pass(self, source, sink):
        """Reads on while what was read before is still on its way."""
        due = collections.deque()
        while True:
            wait = max(0.0, due[0][0] - time.monotonic()) if due else None
            if select.select([source], [], [], wait)[0]:
                data = source.recv(1 << 16)
                if not data:
                    sink.shutdown(socket.SHUT_RDWR)
                    return
                due.append((time.monotonic() + self.delay, data))
            while due and due[0][0] <= time.monotonic():
                sink.sendall(due.popleft()[1])


class KafkaProxy:
    """Forwards to `target`, a broker's listener for it (kafka.Broker sets it). A connection on which a request comes of a kind that is
    in `refused` (Kafka's API keys), or any while `is_away`, ends. `passed` counts the others by kind."""

    FETCH = 1

    def __init__(self):
        self.target = None
        self.refused = set()
        self.is_away = False
        self.passed = collections.Counter()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.bootstrap = f"127.0.0.1:{self.address[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def kill(self):
        self.is_away = True
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(self.target) as server:
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
            requests = client.makefile("rb")
            while True:
                head = requests.read(6)  # length, API key
                if len(head) < 6:
                    break
                length, kind = struct.unpack(">iH", head)
                if self.is_away or kind in self.refused:
                    break
                self.passed[kind] += 1
                server.sendall(head + requests.read(length - 2))
            for end in (client, server):
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
