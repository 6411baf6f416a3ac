"""Runs decisions of a Python library on Redis in a closed loop of one, for bench/compare, in the environment that has the library.

usage: library.py (limits | throttled-py) PORT KEYS (COUNT | SECONDSs) LIMIT PER_SECONDS

Prints one JSON object: decisions, admitted, failed, seconds, this process's CPU (cpu_us) and the longest decision, and percentiles.
KEYS 1: always the same key.
"""
import datetime
import json
import random
import sys
import time


def limits_of(port, limit, seconds):
    import limits  # pylint: disable=import-outside-toplevel,import-error
    strategy = limits.strategies.FixedWindowRateLimiter(limits.storage.storage_from_string(f"redis://127.0.0.1:{port}"))
    item = limits.RateLimitItemPerSecond(limit, seconds)
    return lambda key: strategy.hit(item, key)


def throttled_of(port, limit, seconds):
    import throttled  # pylint: disable=import-outside-toplevel,import-error
    quota = throttled.per_duration(datetime.timedelta(seconds=seconds), limit, burst=limit)
    limiter = throttled.Throttled(using="gcra", store=throttled.RedisStore(server=f"redis://127.0.0.1:{port}/0"), quota=quota)
    return lambda key: not limiter.limit(key).limited


def main():
    name, port, keys, amount, limit, seconds = sys.argv[1:]
    decide = {"limits": limits_of, "throttled-py": throttled_of}[name](int(port), int(limit), int(seconds))
    admitted = failed = 0
    took = []
    begun = time.monotonic()
    end, count = (begun + float(amount[:-1]), sys.maxsize) if amount.endswith("s") else (float("inf"), int(amount))
    decide("key:0")
    begun, cpu = time.monotonic(), time.process_time()
    while len(took) < count and time.monotonic() < end:
        key = "key:hot" if keys == "1" else f"key:{random.randrange(int(keys)):012d}"
        before = time.monotonic()
        try:
            admitted += decide(key)
        except Exception:  # pylint: disable=broad-except
            failed += 1
        took.append(time.monotonic() - before)
    seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
    took.sort()
    print(json.dumps({
        "decisions": len(took), "admitted": admitted, "failed": failed, "seconds": seconds, "rps": len(took) / seconds,
        "cpu_us": cpu / len(took) * 1e6, "max_us": took[-1] * 1e6,
        **{f"{label}_us": took[int(len(took) * part)] * 1e6 for label, part in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))}}))


main()
