"""Points of a coordinator's transaction at which a test stops or kills it, by phase_shim.c.

    point = phases.Point(directory)
    daemon = coordinator.Coordinator(…, env=point.env())
    point.arm("before commit", signal.SIGKILL)
    point.wait()
"""
import mmap
import os
import struct

import harness
import shim

NAMES = ("before grants", "after grants", "before offsets", "after offsets", "before commit", "after commit")

class Point:
    def __init__(self, directory):
        self.path = os.path.join(directory, "phase")
        with open(self.path, "wb") as file:
            file.write(bytes(12))
        with open(self.path, "r+b") as file:
            self.words = mmap.mmap(file.fileno(), 12)

    def env(self):
        return shim.env("phase_shim.c", "-ldl", KOVA_PHASE_FILE=self.path)

    def arm(self, name, number):
        self.sent = self._words()[2]
        self.words[4:8] = struct.pack("=I", number)
        self.words[0:4] = struct.pack("=I", 1 + NAMES.index(name))

    def _words(self):
        return struct.unpack("=III", self.words[:12])

    def wait(self, timeout=60):
        harness.wait_for(lambda: self._words()[2] > self.sent, "a process that is at the point", timeout)
