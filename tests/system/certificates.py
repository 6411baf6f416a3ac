"""Authorities and certificates for tests, made by the command openssl."""
import os
import ssl
import subprocess


class Authority:
    """An authority in `directory`; issue() writes NAME.pem and NAME.key there."""

    def __init__(self, directory, name="ca"):
        self.directory, self.name = directory, name
        self.cert, self.key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                  "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    def path(self, name):
        return os.path.join(self.directory, name)

    @staticmethod
    def _run(*words):
        subprocess.run(["openssl", *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def issue(self, name, alternative="DNS:localhost,IP:127.0.0.1", days=2, write_as=None):
        """(cert, key): the paths. `days` below 0: expired."""
        cert, key = self.path(f"{write_as or name}.pem"), self.path(f"{write_as or name}.key")
        request, extensions = self.path("request.pem"), self.path("extensions")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={alternative}\n")
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                  "-keyout", key, "-out", request)
        if days < 0:  # `x509 -req` knows no past
            self._past(cert, request, extensions)
        else:
            self._run("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial",
                      "-days", str(days), "-extfile", extensions, "-out", cert)
        return cert, key

    def _past(self, cert, request, extensions):
        config, index = self.path("ca.cnf"), self.path("index")
        open(index, "w", encoding="ascii").close()
        with open(config, "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca = d\n[d]\ndatabase = {index}\nrand_serial = yes\ndefault_md = sha256\n"
                       f"new_certs_dir = {self.directory}\npolicy = p\nunique_subject = no\n"
                       "[p]\ncommonName = supplied\n")
        self._run("ca", "-batch", "-notext", "-config", config, "-cert", self.cert, "-keyfile", self.key,
                  "-in", request, "-out", cert, "-extfile", extensions,
                  "-startdate", "20200101000000Z", "-enddate", "20200201000000Z")

    def context(self, identity=None):
        """A client's ssl.SSLContext that believes this authority, and shows `identity` (cert, key)."""
        context = ssl.create_default_context(cafile=self.cert)
        if identity is not None:
            context.load_cert_chain(*identity)
        return context
