"""Places with a long way between them: network namespaces, joined by tests/support/wire.c.

    wire = self.keep(Wire(["eu", "us", "hub"], delay=0.0375))
    with wire.inside("eu"):            # what is started, and every socket that is made, is there
        redis = self.start_redis(...)
    wire.cut("eu", "us")
"""
import contextlib
import ctypes
import itertools
import os
import subprocess
import unittest

import harness

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SKIPPED = 77


def _enter(namespace):
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Wire:
    """Skips the test where there can be none. `delay` is that of each direction, in seconds."""

    def __init__(self, places, delay=0.0):
        self.places = list(places)
        self.address, self._namespace = {}, {}
        self.child = subprocess.Popen([harness.program("tests/wire"), *self.places], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, bufsize=1, preexec_fn=harness.die_with_parent)
        self._begin()
        for a, b in itertools.combinations(self.places, 2):
            self.delay(a, b, delay)

    def _begin(self):
        for line in self.child.stdout:
            kind, _, rest = line.strip().partition(" ")
            if kind == "ready":
                return
            if kind == "place":
                name, address, path = rest.split()
                self.address[name] = address
                self._namespace[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            elif kind == "skip":
                self.kill()
                raise unittest.SkipTest(f"no network namespaces joined by TUN devices, which takes root: {rest}")
        self.kill()
        raise AssertionError("the wire has ended")

    def kill(self):
        """Ends all ways; the namespaces end with what is in them."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()
        while self._namespace:
            os.close(self._namespace.popitem()[1])

    def running(self):
        return self.child.poll() is None

    @contextlib.contextmanager
    def inside(self, place):
        """This thread is there, with what it starts; threads that were there before are not."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(self._namespace[place])
            yield self.address[place]
        finally:
            _enter(before)
            os.close(before)

    def tell(self, *words):
        """One command, in force when this returns; its answer's words."""
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        kind, *rest = self.child.stdout.readline().split()
        if kind == "error":
            raise ValueError(" ".join(rest))
        return rest

    def _each(self, a, b, one_way, verb, *words):
        for pair in [(a, b)] if one_way else [(a, b), (b, a)]:
            self.tell(verb, *pair, *words)

    def delay(self, a, b, seconds, one_way=False):
        self._each(a, b, one_way, "delay", 1000 * seconds)

    def lose(self, a, b, part, one_way=False):
        self._each(a, b, one_way, "lose", part)

    def double(self, a, b, part, one_way=False):
        self._each(a, b, one_way, "double", part)

    def cut(self, a, b, one_way=False):
        """With `one_way` only what goes from a to b."""
        self._each(a, b, one_way, "cut")

    def join(self, a, b):
        self._each(a, b, False, "join")

    def cut_off(self, place):
        for other in self.places:
            if other != place:
                self.cut(place, other)

    def join_all(self):
        for a, b in itertools.combinations(self.places, 2):
            self.join(a, b)

    def count(self, a, b):
        """Packets from a to b: (arrived, lost, without room in the queue)."""
        return tuple(map(int, self.tell("count", a, b)))
