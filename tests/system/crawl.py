"""A site that limits and bans by address, and forward proxies that each reach it from an address of their own."""
import base64
import collections
import http.server
import os
import select
import socket
import socketserver
import ssl
import subprocess
import threading
import time

Hit = collections.namedtuple("Hit", "at address path status")


class Server(socketserver.ThreadingTCPServer):
    """Serves from its creation to kill(), each connection in a thread, at `address`."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.address = "127.0.0.1:%d" % self.server_address[1]
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that hung up

    def kill(self):
        self.shutdown()
        self.server_close()


def certificate(directory):
    """A self-signed one for 127.0.0.1: (certificate, key)."""
    paths = os.path.join(directory, "site.pem"), os.path.join(directory, "site.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]],
                   check=True, capture_output=True)
    return paths


class Site(Server):
    """`answer(address, path)` says what a visitor gets: status, body, headers. With a `certificate` it speaks TLS."""

    def __init__(self, answer, cert=None):
        self.hits, self.answer = [], answer
        self.tls = None
        if cert:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*cert)
        super().__init__(_Page)
        self.url = f"http{'s' if cert else ''}://{self.address}"

    def get_request(self):
        connection, address = super().get_request()
        if self.tls:  # the handshake is the connection's thread's
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def by(self, address):
        return [hit for hit in self.hits if hit.address == address]

    def most_in(self, seconds, hits):
        """The most of these times that lie in any interval of that length."""
        times, most, first = sorted(hit.at for hit in hits), 0, 0
        for last, at in enumerate(times):
            while times[first] < at - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


class _Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self):
        size = int(self.headers.get("Content-Length", 0))
        self.sent = self.rfile.read(size)
        status, body, headers = self.server.answer(self.client_address[0], self.path, self.sent)
        self.server.hits.append(Hit(time.monotonic(), self.client_address[0], self.path, status))
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", "Content-Length": len(body), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class ForwardProxy(Server):
    """Asks for `user:password`, if given; reaches what it is asked for from `source`; `tunnel_status`: what CONNECT is refused with."""

    def __init__(self, source, credentials=None, tunnel_status=None):
        self.source, self.tunnel_status, self.times = source, tunnel_status, []
        self.expected = credentials and "Basic " + base64.b64encode(credentials.encode()).decode()
        super().__init__(_Way)


class _Way(socketserver.StreamRequestHandler):
    def handle(self):
        first = self.rfile.readline().decode("latin-1").split()
        if not first:
            return
        self.server.times.append(time.monotonic())
        head = []
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head.append(line)
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.decode("latin-1").partition(":") for line in head)}
        method, target = first[0], first[1]
        if self.server.expected and fields.get("proxy-authorization") != self.server.expected:
            self.refuse("407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x")
        elif method == "CONNECT" and self.server.tunnel_status:
            self.refuse(f"{self.server.tunnel_status} Refused")
        elif method == "CONNECT":
            with self.reach(target) as there:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self.carry(there)
        else:
            host, _, path = target.partition("://")[2].partition("/")
            with self.reach(host) as there:
                kept = [line for line in head if not line.lower().startswith((b"proxy-", b"connection:"))]
                there.sendall(f"{method} /{path} HTTP/1.1\r\n".encode() + b"".join(kept) + b"Connection: close\r\n\r\n")
                self.carry(there)

    def refuse(self, status):
        self.wfile.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    def reach(self, host):
        name, _, port = host.rpartition(":")
        return socket.create_connection((name, int(port)), 5, (self.server.source, 0))

    def carry(self, there):
        ways = {self.connection: there, there: self.connection}
        while True:
            ready, _, _ = select.select(list(ways), [], [], 30)
            for end in ready:
                data = end.recv(65536)
                if not data:
                    return
                ways[end].sendall(data)
            if not ready:
                return
