"""What the figures were measured on and with."""
import glob
import os
import platform
import re
import subprocess


def _first(path, pattern):
    with open(path, encoding="utf-8") as file:
        found = re.search(pattern, file.read(), re.M)
    return found.group(1).strip() if found else "unknown"


def describe(peers):
    """Cores, memory, systems, versions; of the peers what bench/peers has noted in its directory."""
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    versions = {}
    for path in sorted(glob.glob(os.path.join(peers, "*.version"))):
        with open(path, encoding="utf-8") as file:
            versions[os.path.basename(path).removesuffix(".version")] = file.read().strip()
    return {"cpu": _first("/proc/cpuinfo", r"^model name\s*:(.*)$"), "cores": os.cpu_count(),
            "memory_gb": round(int(_first("/proc/meminfo", r"^MemTotal:\s*(\d+)")) / 1e6, 1),
            "system": _first("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'), "kernel": platform.release(),
            "redis": re.search(r"v=(\S+)", redis).group(1), "load_before": round(os.getloadavg()[0], 1), "peers": versions}
