"""What is in deploy/ for containers, Kubernetes, systemd and Traefik: it is what the tools want, its configurations load, and the
image's tree runs without anything else of this machine."""

# Mostly waits.
import glob
import json
import os
import re
import shutil
import subprocess
import unittest

import yaml

import harness

DEPLOY = os.path.join(harness.SOURCE, "deploy")
KUBERNETES = os.path.join(DEPLOY, "kubernetes")
PROGRAM = {"agent.json": "kova-agent", "demo.json": "kova-agent", "coordinator.json": "kova-coordinator"}


def path(*parts):
    return os.path.join(DEPLOY, *parts)


def read(*parts):
    with open(path(*parts), encoding="utf-8") as file:
        return file.read()


def documents(*parts):
    return [document for document in yaml.safe_load_all(read(*parts)) if document]


def compose():
    return yaml.safe_load(read("compose.yaml"))


class Case(harness.Case):
    def make_secrets(self):
        """The directory of compose's secrets, with those of Kubernetes's names beside them."""
        secrets = os.path.join(self.directory, "secrets")
        subprocess.run([path("compose", "secrets"), secrets], check=True)
        shutil.copy(os.path.join(secrets, "agent-tokens"), os.path.join(secrets, "tokens"))
        return secrets

    def configured(self, file, secrets, **changes):
        """The path of a copy whose secrets are in `secrets`, with some of its text changed."""
        text = re.sub(r"/run/secrets|/etc/kova/secrets", secrets, read(file))
        for old, new in changes.items():
            text = text.replace(old.replace("_", ":"), new)
        copy = os.path.join(self.directory, os.path.basename(file))
        with open(copy, "w", encoding="utf-8") as out:
            out.write(text)
        return copy


class Configurations(Case):
    def test_all_load(self):
        secrets = self.make_secrets()
        files = [
            os.path.relpath(file, DEPLOY)
            for file in glob.glob(path("**", "*.json"), recursive=True)
            if os.path.basename(file) in PROGRAM
        ]
        self.assertGreaterEqual(len(files), 6)
        for file in files:
            with self.subTest(file=file):
                program = harness.program(PROGRAM[os.path.basename(file)])
                done = subprocess.run(
                    [program, "--config", self.configured(file, secrets), "--check-config"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_secrets_are_made_once(self):
        secrets = self.make_secrets()
        before = {name: read(secrets, name) for name in os.listdir(secrets)}
        self.make_secrets()
        self.assertEqual({name: read(secrets, name) for name in os.listdir(secrets)}, before)
        self.assertNotIn(before["redis-password"].strip(), before["redis-acl"])
        self.assertEqual(os.stat(secrets).st_mode & 0o777, 0o700)


class Compose(Case):
    def test_each_service_is_hardened(self):
        whole = compose()
        for name, service in whole["services"].items():
            with self.subTest(service=name):
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertIn("no-new-privileges:true", service["security_opt"])
                self.assertNotIn("privileged", service)
                self.assertIn("healthcheck", service)
                self.assertGreaterEqual(set(service["deploy"]["resources"]["limits"]), {"cpus", "memory", "pids"})
                self.assertRegex(service["image"], r"^kova$|:[v0-9][0-9.a-z-]+$", "no tag that moves")
                for port in service.get("ports", ()):
                    self.assertTrue(port.startswith("127.0.0.1:"), port)
                self.assertLessEqual(set(service.get("secrets", ())), set(whole["secrets"]))
                self.assertLessEqual(set(service.get("networks", ())), set(whole["networks"]))
                self.assertLessEqual(set(service.get("depends_on", ())), set(whole["services"]))
                for volume in service.get("volumes", ()):
                    source = volume.split(":")[0]
                    there = (
                        os.path.exists(path(source))
                        if source.startswith(".")
                        else source in whole["volumes"]
                    )
                    self.assertTrue(there, volume)
        for secret in whole["secrets"].values():
            self.assertEqual(list(secret), ["file"])
        for service in whole["services"].values():
            for name, value in service.get("environment", {}).items():
                self.assertTrue("PASSWORD" not in name or value.startswith("/run/secrets/"), name)

    def test_prometheus_reads_its_configuration(self):
        harness.require("promtool", "prometheus")
        shutil.copy(path("prometheus", "alerts.yml"), self.directory)
        shutil.copy(path("compose", "prometheus.yml"), self.directory)
        done = subprocess.run(
            ["promtool", "check", "config", "--syntax-only", "prometheus.yml"],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_redis_agent_and_health_check_as_they_are_there(self):
        """Redis by its ACL file, the agent by its configuration, asked as the health check does."""
        secrets = self.make_secrets()
        redis = self.keep(harness.Redis(self.directory, options=["--aclfile", os.path.join(secrets, "redis-acl")]))
        ports = {front: harness.free_port() for front in ("resp", "http", "grpc", "gossip")}
        file = self.configured(
            "compose/agent.json", secrets, **{"redis:6379": f"127.0.0.1:{redis.port}", "kafka:9092": "127.0.0.1:9"}
        )
        config = json.loads(read(file))
        config["listen"] = {front: f"127.0.0.1:{ports[front]}" for front in ("resp", "http", "grpc")}
        config["redis"]["timeout"] = "2s"  # a busy machine is no outage
        config["gossip"].update(listen=f"127.0.0.1:{ports['gossip']}", seeds=[])
        config["state_dir"] = os.path.join(self.directory, "state")
        agent = self.start_agent(config)
        token = read(secrets, "client-token").strip()
        with agent.resp() as connection:
            self.assertEqual(connection.call("AUTH", token), "OK")
            for policy in ("captcha-submit", "api"):
                harness.wait_for(
                    lambda p=policy: connection.call("KOVA.TAKE", p, "a/b")[5] == "ok", "an answer of Redis's"
                )
        service = compose()["services"]["agent"]
        command = [
            word.replace("/usr/bin", harness.BUILD).replace("/run/secrets", secrets)
            for word in service["healthcheck"]["test"][1:]
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KOVA_AGENT": f"127.0.0.1:{ports['resp']}"},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        agent.stop()
        self.assertNotEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)


class Image(Case):
    def instructions(self):
        text = re.sub(r"\\\n", " ", read("container", "Containerfile"))
        return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]

    def test_the_containerfile(self):
        lines = self.instructions()
        last = [i for i, (word, _) in enumerate(lines) if word == "FROM"][-1]
        final = dict(lines[last:])
        self.assertEqual(final["FROM"], "scratch")
        self.assertNotIn("RUN", final)
        self.assertRegex(final["USER"], r"^[1-9]\d*:[1-9]\d*$")
        for word in ("ENTRYPOINT", "CMD"):
            json.loads(final[word])
        self.assertIn('CMD ["/usr/bin/kovactl"', final["HEALTHCHECK"])
        for word, rest in lines[:last]:
            if word == "RUN":
                self.assertTrue(os.access(os.path.join(harness.SOURCE, rest.split()[0]), os.X_OK), rest)

    @unittest.skipIf(harness.SANITIZED, "a sanitizer's libraries want more of the machine than the image has")
    def test_its_tree_runs_alone(self):
        if os.geteuid() != 0:
            self.skipTest("only root may change its root")
        run = [rest.split() for word, rest in self.instructions() if word == "RUN"][-1]
        self.assertEqual((run[0], run[1]), ("deploy/container/root", "build"))
        tree = os.path.join(self.directory, "tree")
        subprocess.run([os.path.join(harness.SOURCE, run[0]), harness.BUILD, tree], check=True)
        os.chmod(self.directory, 0o755)
        programs = {name for _, _, names in os.walk(tree) for name in names}
        self.assertEqual(programs & {"sh", "bash", "dash", "busybox", "apt", "perl", "python3"}, set())
        self.assertEqual(
            sorted(os.listdir(os.path.join(tree, "usr", "bin"))), ["kova-agent", "kova-coordinator", "kovactl"]
        )
        redis, port, http = self.start_redis(), harness.free_port(), harness.free_port()
        config = {
            "redis": {"mode": "standalone", "url": redis.url},
            "state_dir": "/var/lib/kova",
            "listen": {"resp": f"127.0.0.1:{port}", "http": f"127.0.0.1:{http}", "grpc": None},
            "policies": [{"name": "day", "algorithm": "calendar", "limit": 2, "per": "day", "tz": "Europe/Istanbul"}],
        }
        with open(os.path.join(tree, "etc", "kova", "agent.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        inside = ["chroot", "--userspec=65532:65532", tree]
        entry = json.loads(dict(self.instructions())["ENTRYPOINT"]) + json.loads(dict(self.instructions())["CMD"])
        agent = self.keep(
            harness.Process([*inside, *entry], os.path.join(self.directory, "log"), env={"XDG_STATE_HOME": "/var/lib"})
        )
        health = json.loads(re.search(r"CMD (\[.*\])", dict(self.instructions())["HEALTHCHECK"]).group(1))

        def healthy():
            return (
                subprocess.run(
                    [*inside, *health],
                    env={**os.environ, "KOVA_AGENT": f"127.0.0.1:{port}"},
                    capture_output=True,
                    check=False,
                ).returncode
                == 0
            )

        harness.wait_for(healthy, f"an agent whose health check succeeds: {agent.log()}")
        with harness.Resp(("127.0.0.1", port)) as connection:
            self.assertEqual([connection.call("KOVA.TAKE", "day", "k")[0] for _ in range(3)], [1, 1, 0])
        self.assertEqual(agent.stop(), 0)
        self.assertFalse(healthy())
        for program in ("kova-coordinator", "kovactl"):
            subprocess.run([*inside, f"/usr/bin/{program}", "--version"], check=True, capture_output=True)


class Kubernetes(Case):
    def kustomizations(self):
        return sorted(glob.glob(os.path.join(KUBERNETES, "*", "kustomization.yaml")))

    def objects(self):
        for file in sorted(glob.glob(os.path.join(KUBERNETES, "*", "*.yaml"))):
            if os.path.basename(file) != "kustomization.yaml":
                for document in documents(file):
                    yield os.path.relpath(file, KUBERNETES), document

    def pods(self):
        for file, document in self.objects():
            if "template" in document.get("spec", {}):
                yield file, document, document["spec"]["template"]["spec"]

    def test_what_is_named_is_there(self):
        for file in self.kustomizations():
            (whole,) = documents(file)
            where = os.path.dirname(file)
            named = [*whole.get("resources", ()), *whole.get("components", ())]
            named += [one for made in whole.get("configMapGenerator", ()) for one in made["files"]]
            for name in named:
                self.assertTrue(os.path.exists(os.path.join(where, name)), f"{file}: {name}")
        ignored = subprocess.run(
            ["git", "check-ignore", "-q", "deploy/kubernetes/shared/secrets/tokens"], cwd=harness.SOURCE, check=False
        )
        self.assertNotEqual(ignored.returncode, 1, "secrets must not get into the repository")

    def test_schemas(self):
        python = os.path.join(harness.SOURCE, "build", "clients", "kubernetes", "bin", "kubernetes-validate")
        if not os.path.exists(python):
            self.skipTest("scripts/clients could not install kubernetes-validate")
        files = [
            os.path.join(KUBERNETES, file)
            for file in sorted({file for file, _ in self.objects()})
            if "monitoring" not in file
        ]
        for version in ("1.30.0", "1.34.0"):
            done = subprocess.run(
                [python, "--strict", "--quiet", "-k", version, *files], capture_output=True, text=True, check=False
            )
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stdout + done.stderr)

    def test_kustomize_itself_builds_them(self):
        kustomize = shutil.which("kustomize")
        if kustomize is None:
            self.skipTest("kustomize is not installed")
        copy = os.path.join(self.directory, "kubernetes")
        shutil.copytree(KUBERNETES, copy)
        for overlay in ("shared", "sidecar"):
            shutil.copytree(self.make_secrets(), os.path.join(copy, overlay, "secrets"))
            done = subprocess.run(
                [kustomize, "build", os.path.join(copy, overlay)], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotRegex(done.stdout, r"image: (kova|worker)$", "an image that has no registry")

    def test_pods_are_restricted(self):
        found = 0
        for file, _, pod in self.pods():
            with self.subTest(file=file):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(pod["automountServiceAccountToken"])
                for container in (*pod.get("initContainers", ()), *pod["containers"]):
                    own = container["securityContext"]
                    self.assertEqual(
                        (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"], own["capabilities"]),
                        (False, True, {"drop": ["ALL"]}),
                    )
                    self.assertIn("memory", container["resources"]["limits"])
                    if container["image"] == "kova":
                        found += 1
                        self.check_kova(container, pod)
        self.assertEqual(found, 3)

    def check_kova(self, container, pod):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe, paths in (
            ("livenessProbe", {"/healthz"}),
            ("readinessProbe", {"/readyz"}),
            ("startupProbe", {"/healthz", "/readyz"}),
        ):
            get = container[probe]["httpGet"]
            self.assertIn(get["path"], paths)
            self.assertIn(ports[get["port"]], (7412, 7422))
        self.assertLessEqual(
            {mount["name"] for mount in container["volumeMounts"]}, {volume["name"] for volume in pod["volumes"]}
        )
        self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], 60)

    def test_selectors_select(self):
        labels = [document["spec"]["template"]["metadata"]["labels"] for _, document, _ in self.pods()]
        for file, document in self.objects():
            spec = document.get("spec", {})
            selectors = [spec.get("podSelector", {}).get("matchLabels")] if document["kind"] == "NetworkPolicy" else []
            if document["kind"] == "Service":
                selectors.append(spec["selector"])
            if document["kind"] in ("PodDisruptionBudget", "StatefulSet", "Deployment"):
                selectors.append(spec["selector"]["matchLabels"])
            for selector in selectors:
                self.assertTrue(any(selector.items() <= of.items() for of in labels), f"{file}: {selector}")


class Systemd(Case):
    def test_units_are_hardened(self):
        harness.require("systemd-analyze", "systemd")
        for unit in glob.glob(path("systemd", "*.service")):
            done = subprocess.run(
                ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
                capture_output=True,
                text=True,
                check=False,
            )
            exposure = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
            self.assertIsNotNone(exposure, done.stdout + done.stderr)
            self.assertLessEqual(float(exposure.group(1)), 1.5, unit)


class Traefik(Case):
    def middlewares(self):
        return yaml.safe_load(read("traefik", "dynamic.yaml"))["http"]

    def test_what_is_named_is_there(self):
        whole = self.middlewares()
        entries = set(yaml.safe_load(read("traefik", "traefik.yaml"))["entryPoints"])
        for router in whole["routers"].values():
            self.assertLessEqual(set(router["middlewares"]), set(whole["middlewares"]))
            self.assertLessEqual(set(router["entryPoints"]), entries)
            self.assertIn(router["service"], whole["services"])

    def test_kova_answers_each_middleware(self):
        """Asked as Traefik asks: a GET of the address with the fields that authRequestHeaders names."""
        agent = self.start_agent(
            {
                "policies": [
                    {"name": "login", "limit": 2, "per": "1m", "burst": 2},
                    {"name": "api", "limit": 100, "per": "1s"},
                ]
            }
        )
        for middleware in self.middlewares()["middlewares"].values():
            asked = middleware["forwardAuth"]
            target = asked["address"].removeprefix("http://127.0.0.1:7412")
            for client, expected in (("192.0.2.1", (200, 200)), ("192.0.2.2", (200, 200))):
                fields = {name: client for name in asked["authRequestHeaders"]}
                answers = [agent.http("GET", target, headers=fields) for _ in range(2)]
                self.assertEqual(tuple(answer.status for answer in answers), expected)
            for name in asked.get("authResponseHeaders", ()):
                self.assertIn(name, answers[0].headers)
        answer = agent.http(
            "GET", "/v1/check?policy=login&key_field=X-Forwarded-For", headers={"X-Forwarded-For": "192.0.2.1"}
        )
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "30"))


if __name__ == "__main__":
    harness.main()
