"""A machine of its own for a test: the files of this one, of which it can change none, with processes, a network and a systemd that
nobody else sees. Namespaces, and an overlay in memory (tests/support/machine.sh); as root."""
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

SCRIPT = os.path.join(harness.SOURCE, "tests", "support", "machine.sh")
SPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup")


def cgroup2():
    """Where the cgroups of version 2 are mounted; None: nowhere."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return next((words[1] for words in map(str.split, file) if words[2] == "cgroup2"), None)


def why_not():
    """Why there can't be one here; None: there can."""
    if os.geteuid() != 0:
        return "needs root: the package is installed on a machine of its own, made of namespaces"
    missing = [name for name in ("unshare", "nsenter", "setpriv", "ip", "dpkg") if not shutil.which(name)]
    if missing or not os.path.exists("/lib/systemd/systemd"):
        return f"needs {', '.join(missing) or 'systemd'}"
    mounted = cgroup2()
    if mounted is None or not os.access(mounted, os.W_OK):
        return "needs cgroups of version 2 that can be changed"
    return None


class Machine:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="kova-machine-")
        self.cgroup = os.path.join(cgroup2(), os.path.basename(self.directory))
        os.mkdir(self.cgroup)
        self.log_path = self.directory + ".log"
        with open(self.log_path, "wb") as log:
            self.child = subprocess.Popen(["unshare", *SPACES, "--fork", "--kill-child", "sh", SCRIPT, self.directory],
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self._enter)

    def _enter(self):
        harness.die_with_parent()
        with open(os.path.join(self.cgroup, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def boot(self):
        """Until its systemd has begun. What this machine can't do at all skips the test."""
        def begun():
            if self.child.poll() is not None:
                raise unittest.SkipTest(f"no machine of its own here: {self.log().strip()[-300:]}")
            return self.pid() and self.run("systemctl", "is-active", "machine.target", check=False).stdout == "active\n"
        harness.wait_for(begun, "a machine that has booted")
        return self

    def pid(self):
        """Its first process, as seen from here; None: not yet."""
        with open(f"/proc/{self.child.pid}/task/{self.child.pid}/children", encoding="ascii") as file:
            pids = file.read().split()
        if not pids:
            return None
        with open(f"/proc/{pids[0]}/comm", encoding="ascii") as file:
            return pids[0] if file.read() == "systemd\n" else None

    def run(self, *command, check=True):
        """Runs a command in the machine, to its end: the finished process, with both outputs as text."""
        inside = ["nsenter", "--target", self.pid(), *SPACES, "--root", "--wd=/", "env", "-i", "LC_ALL=C.UTF-8",
                  "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command]
        result = subprocess.run(inside, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                timeout=6 * harness.PATIENCE)
        if check and result.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {result.returncode}\n{result.stdout}{result.stderr}")
        return result

    def path(self, inside):
        return f"/proc/{self.pid()}/root{inside}"

    def stop(self):
        self.child.kill()
        self.child.wait()
        harness.wait_for(self._cgroup_removed, "the end of the machine's processes")
        os.unlink(self.log_path)
        os.rmdir(self.directory)

    def _cgroup_removed(self):
        for path, _, _ in os.walk(self.cgroup, topdown=False):
            os.rmdir(path)
        return not os.path.exists(self.cgroup)
