"""Clocks that a test moves: the wall clock of redis-servers and agents, by clock_shim.c."""

import contextlib
import mmap
import os
import struct
import time

import shim


class Real:
    """The clock that is there."""

    @contextlib.contextmanager
    def around(self):
        yield self


class Clock:
    """One clock for every process that is started with env(), or inside `with clock.around():`."""

    def __init__(self, directory, name="clock"):
        self.path = os.path.join(directory, name)
        with open(self.path, "wb") as file:
            file.write(bytes(16))
        with open(self.path, "r+b") as file:
            self.words = mmap.mmap(file.fileno(), 16)

    def env(self):
        return shim.env("clock_shim.c", KOVA_CLOCK_FILE=self.path)

    @contextlib.contextmanager
    def around(self):
        """What is started inside has this clock."""
        before = {name: os.environ.get(name) for name in self.env()}
        os.environ.update(self.env())
        try:
            yield self
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def _set(self, at, us):
        struct.pack_into("=q", self.words, at, us)

    def _get(self, at):
        return struct.unpack_from("=q", self.words, at)[0]

    def now_us(self):
        return self._get(8) or time.time_ns() // 1000 + self._get(0)

    def shift(self, seconds):
        """Runs, `seconds` off the real time."""
        self._set(0, round(seconds * 1e6))
        self._set(8, 0)

    def run_from(self, at_us):
        """Runs on from `at_us` (µs since 1970)."""
        self._set(0, at_us - time.time_ns() // 1000)
        self._set(8, 0)

    def freeze(self, at_us=None):
        """Stands still, at `at_us` (µs since 1970) or where it is."""
        self._set(8, at_us or self.now_us())

    def advance(self, seconds):
        """Jumps; exact to the µs."""
        at = 8 if self._get(8) else 0
        self._set(at, self._get(at) + round(seconds * 1e6))
