"""The Debian package: installed on a machine of its own (machine.py), used, upgraded, removed, purged. This machine is left alone."""
# Runs no program of ours but those that it packs, which are not for sanitizers. Bears others.
import functools
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

import harness
from machine import Machine, why_not

CONFIGURATION = "/etc/kova/agent.json"
# A bucket that is as good as never refilled.
SLOW = {"name": "slow", "limit": 1, "per": "400d", "burst": 5}
# What dpkg, systemd and useradd write for themselves, whatever is installed.
OTHERS = ("/var/lib/dpkg/", "/var/log/", "/var/cache/", "/var/lib/systemd/", "/etc/.pwd.lock", "/etc/passwd-", "/etc/group-",
          "/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-")


def pack(directory, version):
    """The package of what is built, as if it were of `version`."""
    target = os.path.join(directory, version)
    result = subprocess.run(["cpack", "-G", "DEB", "-B", target, "-D", f"CPACK_PACKAGE_VERSION={version}"], cwd=harness.BUILD,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = [name for name in os.listdir(target) if name.endswith(".deb")] if result.returncode == 0 else []
    if len(found) != 1:
        raise AssertionError(f"cpack: {result.stdout}{result.stderr}")
    return os.path.join(target, found[0])


@functools.cache
def packages():
    """Two versions, for all tests."""
    for command in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
        harness.require(command, {"cpack": "cmake"}.get(command, "dpkg-dev"))
    directory = tempfile.mkdtemp(prefix="kova-package-")
    unittest.addModuleCleanup(shutil.rmtree, directory)
    return pack(directory, "1.0.0"), pack(directory, "1.1.0")


class Contents(unittest.TestCase):
    def test_the_package_is_as_debian_wants_it(self):
        harness.require("lintian")
        result = subprocess.run(
            ["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs",
             packages()[0]], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Installation(unittest.TestCase):
    def setUp(self):
        reason = why_not()
        if reason:
            self.skipTest(reason)
        self.first, self.second = packages()
        self.machine = Machine()
        self.addCleanup(self.machine.stop)
        self.machine.boot()
        self.run_there = self.machine.run
        self.run_there("dpkg", "--purge", "kova", check=False)  # this machine may have one

    def dpkg(self, package):
        there = "/run/" + os.path.basename(package)
        shutil.copy(package, self.machine.path(there))
        result = self.run_there("dpkg", "--force-unsafe-io", "--install", there)
        os.unlink(self.machine.path(there))
        return result.stdout + result.stderr

    def show(self, unit, name):
        return self.run_there("systemctl", "show", "--value", "--property", name, unit).stdout.strip()

    def agent_is_ready(self):
        def answers():
            return self.run_there("kovactl", "doctor", check=False).returncode == 0
        try:
            harness.wait_for(answers, "an agent that is well")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.journal()}") from None

    def journal(self):
        return self.run_there("journalctl", "--no-pager", "--lines", "20", check=False).stdout

    def configure(self, text):
        with open(self.machine.path(CONFIGURATION), "r+", encoding="utf-8") as file:
            file.truncate()
            file.write(text if isinstance(text, str) else json.dumps(text))

    def remaining(self, policy):
        return json.loads(self.run_there("kovactl", "peek", policy, "k", "--json", check=False).stdout)["remaining"]

    def written(self):
        """Names of files that the machine has written or removed."""
        names = self.run_there("find", "/run/written", "-mindepth", "1", "-printf", "/%P\n").stdout.splitlines()
        return {name for name in names if not name.startswith(OTHERS)}

    def run_files(self):
        return set(self.run_there("find", "/run", "-xdev", "-path", "/run/systemd", "-prune", "-o", "-print").stdout.splitlines())

    def nothing_is_left(self, written, run_files):
        """Compared with what there was before the installation, of which nothing was taken away either."""
        names = self.written() - written
        there = {name for name in names if os.path.lexists(self.machine.path(name))}
        before = {name for name in names if os.path.lexists(name)}  # this machine's files are what it began with
        self.assertEqual(there, before)
        self.assertEqual(self.run_files(), run_files)
        for database in ("passwd", "group"):
            self.assertNotEqual(self.run_there("getent", database, "kova", check=False).returncode, 0, database)
        units = self.run_there("systemctl", "list-units", "--all", "--no-legend", "--plain", "kova*").stdout
        self.assertEqual(units, "")

    def owner(self, path):
        """(user, group, mode) of a file there."""
        return tuple(self.run_there("stat", "--format", "%U %G %a", path).stdout.split())

    def test_from_installation_to_purge(self):
        before = self.written(), self.run_files()
        self.dpkg(self.first)
        self.begins_safely()
        self.leaves_this_machine_alone()
        self.configure({"policies": [SLOW]})
        self.run_there("systemctl", "reload", "kova-agent")
        harness.wait_for(lambda: self.run_there("kovactl", "take", "slow", "k", "--cost", "5", check=False).returncode == 0,
                         "a configuration that was reloaded")
        self.upgrades()
        self.keeps_what_works()
        self.removal_keeps_state()
        self.run_there("dpkg", "--purge", "kova")
        self.nothing_is_left(*before)

    def begins_safely(self):
        self.agent_is_ready()
        pid = self.show("kova-agent", "MainPID")
        user = self.run_there("stat", "--format", "%U", f"/proc/{pid}").stdout.strip()
        self.assertEqual(user, "kova")
        self.assertEqual(self.owner("/etc/kova"), ("root", "kova", "750"))
        self.assertEqual(self.owner(CONFIGURATION), ("root", "kova", "640"))
        self.assertEqual(self.owner("/var/lib/kova"), ("kova", "kova", "700"))
        listening = self.run_there("ss", "--no-header", "--listening", "--tcp", "--numeric").stdout
        addresses = [line.split()[3] for line in listening.splitlines()]
        self.assertIn("127.0.0.1:7411", addresses)
        self.assertTrue(all(address.startswith(("127.0.0.1:", "[::1]:")) for address in addresses), listening)
        self.assertEqual(self.show("kova-agent", "UnitFileState"), "enabled")
        self.assertEqual(self.show("kova-coordinator", "ActiveState"), "inactive")
        self.assertNotEqual(self.show("kova-coordinator", "UnitFileState"), "enabled")
        self.run_there("kovactl", "take", "example", "k")
        for path in ("man/man1/kovactl.1.gz", "man/man8/kova-agent.8.gz", "bash-completion/completions/kovactl",
                     "doc/kova/copyright", "doc/kova/changelog.Debian.gz"):
            self.assertTrue(os.path.exists(self.machine.path("/usr/share/" + path)), path)

    def leaves_this_machine_alone(self):
        outside = subprocess.run(["dpkg-query", "--show", "kova"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertNotIn(b"1.0.0-1", outside.stdout)
        if outside.returncode != 0:
            with self.assertRaises(KeyError):
                pwd.getpwnam("kova")

    def upgrades(self):
        pid = self.show("kova-agent", "MainPID")
        self.dpkg(self.second)
        self.assertNotEqual(self.show("kova-agent", "MainPID"), pid)
        self.agent_is_ready()
        self.assertEqual(self.remaining("slow"), 0)  # the state, and the configuration that names the policy
        version = self.run_there("dpkg-query", "--show", "--showformat", "${Version}", "kova").stdout
        self.assertEqual(version, "1.1.0-1")

    def keeps_what_works(self):
        """Installed again over itself, with a configuration that is wrong: what runs goes on, and what is wrong is said."""
        pid = self.show("kova-agent", "MainPID")
        self.configure('{ "polices": [] }')
        self.assertIn("did you mean `policies`?", self.dpkg(self.second))
        self.assertEqual(self.show("kova-agent", "MainPID"), pid)
        self.assertEqual(self.remaining("slow"), 0)
        self.configure({"policies": [SLOW]})

    def removal_keeps_state(self):
        self.run_there("dpkg", "--remove", "kova")
        self.assertFalse(os.path.exists(self.machine.path("/usr/bin/kova-agent")))
        self.assertEqual(self.run_there("ss", "--no-header", "--listening", "--tcp").stdout, "")
        self.dpkg(self.second)
        self.agent_is_ready()
        self.assertEqual(self.remaining("slow"), 0)


if __name__ == "__main__":
    harness.main()
