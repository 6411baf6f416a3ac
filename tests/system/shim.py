"""Libraries that tests preload into the programs (LD_PRELOAD), compiled once a process."""
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

_built = {}


def compiled(source, *options):
    """The path of tests/system/SOURCE, compiled."""
    if source not in _built:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            raise unittest.SkipTest(f"no C compiler for {source} (package gcc)")
        directory = tempfile.TemporaryDirectory(prefix="kova-shim-")
        path = os.path.join(directory.name, "shim.so")
        subprocess.run([compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", path,
                        os.path.join(harness.SOURCE, "tests", "system", source), *options], check=True)
        _built[source] = (directory, path)  # the directory goes with the process
    return _built[source][1]


def env(source, *options, **more):
    """The environment of a process into which tests/system/SOURCE is preloaded."""
    made = {"LD_PRELOAD": compiled(source, *options), **more}
    if harness.SANITIZED:
        made["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return made
