"""Endpoints of a pool that are real proxies on loopback, and the service that says from where it is asked.

A proxy's exit is the address that it connects from: 127.0.0.1 and its neighbours.
"""
import base64
import http.server
import itertools
import os
import select
import socket
import ssl
import subprocess
import threading
import time


def certificate(directory, *names):
    """A certificate of these names that vouches for itself, with its key, in one file."""
    path = os.path.join(directory, f"{names[0]}.pem")
    alternatives = ",".join(("IP:" if name[0].isdigit() else "DNS:") + name for name in names)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={alternatives}", "-keyout", path + ".key",
                    "-out", path], check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(path, "a", encoding="ascii") as file, open(path + ".key", encoding="ascii") as key:
        file.write(key.read())
    return path


def tls_server(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


class Echo:
    """Answers with the address of who asks; `answers`: what it says to an address instead, (status, body)."""

    def __init__(self, certificate_path=None, host="127.0.0.1"):
        echo = self
        self.answers, self.asked = {}, []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # whoever wants to could ask twice

            def do_GET(self):
                host = self.client_address[0]
                echo.asked.append(host)
                status, body = echo.answers.get(host, (200, host))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server((host, 0), Handler)
        if certificate_path:
            self.server.socket = tls_server(certificate_path).wrap_socket(self.server.socket, server_side=True,
                                                                          do_handshake_on_connect=False)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kill(self):
        self.server.shutdown()
        self.server.server_close()


class Exit:
    """A proxy that speaks CONNECT, SOCKS 4, 4a and 5, whatever it is asked in.

    `names` is what it knows of names; `credentials` are (user, password) that it wants. `says`: "yes"; "no" (CONNECT: `status`);
    "silent": nothing, ever; "hangs up"; "cuts": yes, and then it hangs up; "forwards": plain requests only. `sources` are the
    addresses that it connects from, in turn. `asked` has (protocol, host, user name) of each time it was asked.
    """

    def __init__(self, names=None, credentials=None, says="yes", status=403, sources=("127.0.0.1",), tls=None, host="127.0.0.1"):
        self.names, self.credentials, self.says, self.status = names or {}, credentials, says, status
        self.sources = itertools.cycle(sources)
        self.asked, self.connections = [], 0
        self._tls = tls_server(tls) if tls else None
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self._listener.getsockname()[1]
        self.host = f"[{host}]" if ":" in host else host
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, scheme, credentials=""):
        return f"{scheme}://{credentials}{self.host}:{self.port}"

    def kill(self):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was already
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        client.settimeout(20)
        try:
            if self._tls:
                client = self._tls.wrap_socket(client, server_side=True)
            with client, client.makefile("rb") as source:
                self._talk(client, source)
        except (OSError, ValueError, IndexError):
            pass  # whoever asked has gone

    def _talk(self, client, source):
        if self.says == "hangs up":
            return
        first = source.read(1)
        if self.says == "silent":
            time.sleep(20)
        elif first == b"\4":
            self._socks4(client, source)
        elif first == b"\5":
            self._socks5(client, source)
        elif first:
            self._http(client, source, first)

    def _tunnel(self, client, source, protocol, host, port, user, yes, no):
        self.asked.append((protocol, host, user))
        if self.says == "no":
            client.sendall(no)
            return
        client.sendall(yes)
        if self.says == "cuts":
            return
        with socket.create_connection((self.names.get(host, host), port), timeout=20,
                                      source_address=None if ":" in host else (next(self.sources), 0)) as target:
            self._pump(client, target)

    @staticmethod
    def _pump(client, target):
        while True:
            ready = [client] if isinstance(client, ssl.SSLSocket) and client.pending() else \
                select.select([client, target], [], [], 20)[0]
            for one, other in ((client, target), (target, client)):
                data = one.recv(65536) if one in ready else None
                if data:
                    other.sendall(data)
                elif data is not None or not ready:
                    return

    # ---- CONNECT ----

    def _http(self, client, source, first):
        method, target, _ = (first + source.readline()).decode().split(" ")
        fields = {}
        while (line := source.readline().decode().strip()):
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        said = base64.b64decode(fields.get("proxy-authorization", "Basic ").partition(" ")[2]).decode().partition(":")
        if self.credentials and self.credentials != (said[0], said[2]):
            client.sendall(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 2\r\n\r\nno")
        elif method != "CONNECT" or self.says == "forwards":
            self.asked.append((method, target, said[0]))
            client.sendall(b"HTTP/1.1 405 Plain requests only\r\nContent-Length: 0\r\n\r\n")
        else:
            host, _, port = target.rpartition(":")
            self._tunnel(client, source, "connect", host.strip("[]"), int(port), said[0], b"HTTP/1.1 200 OK\r\n\r\n",
                         f"HTTP/1.1 {self.status} No\r\nContent-Length: 2\r\n\r\nno".encode())

    # ---- SOCKS (RFC 1928, RFC 1929) ----

    @staticmethod
    def _text(source):
        text = b""
        while (c := source.read(1)) not in (b"\0", b""):
            text += c
        return text.decode()

    def _socks4(self, client, source):
        head = source.read(7)
        port, address = int.from_bytes(head[1:3], "big"), head[3:]
        user, host, protocol = self._text(source), socket.inet_ntoa(address), "socks4"
        if address[:3] == b"\0\0\0":
            host, protocol = self._text(source), "socks4a"
        if self.credentials and self.credentials[0] != user:
            client.sendall(b"\0\x5d" + bytes(6))
        else:
            self._tunnel(client, source, protocol, host, port, user, b"\0\x5a" + bytes(6), b"\0\x5b" + bytes(6))

    def _socks5(self, client, source):
        methods, user = source.read(source.read(1)[0]), ""
        wanted = 2 if self.credentials else 0
        if wanted not in methods:
            client.sendall(b"\5\xff")
            return
        client.sendall(bytes((5, wanted)))
        if wanted == 2:
            source.read(1)
            user, password = (source.read(source.read(1)[0]).decode() for _ in range(2))
            good = self.credentials == (user, password)
            client.sendall(b"\1\0" if good else b"\1\1")
            if not good:
                return
        kind = source.read(4)[3]
        if kind == 3:
            host = source.read(source.read(1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, source.read(size))
        port = int.from_bytes(source.read(2), "big")
        self._tunnel(client, source, "socks5h" if kind == 3 else "socks5", host, port, user, b"\5\0\0\1" + bytes(6),
                     b"\5\2\0\1" + bytes(6))
