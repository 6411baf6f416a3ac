"""CAPTCHAs by a solving service: submits are limited, over all workers that share a key; polls are not. Needs redis and requests.

usage: captcha.py <TASKS     a task of the service in JSON a line; a line {"task", "solution"} for each that was solved
                             Exit status 75: there is no key now; ask again later; 69: no agent; 1: some were not solved,
                             or the agent refuses
KOVA_HOST  KOVA_PORT         the agent, 127.0.0.1 and 7411 unless set
KOVA_TOKEN                   the token that it wants, if any
KOVA_WAIT_MS                 how long to wait for a turn: 60000 fits a batch job; 0 is for where somebody waits for the answer
SOLVER_URL  SOLVER_POLL_S    the service, and how often it is asked whether it is done
"""
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
import requests
from redis.backoff import NoBackoff
from redis.retry import Retry

WAIT_MS = int(os.environ.get("KOVA_WAIT_MS", "60000"))
SOLVER = os.environ.get("SOLVER_URL", "https://api.2captcha.com")
POLL_S = float(os.environ.get("SOLVER_POLL_S", "5"))
AT_ONCE = 4
SOLVED_IN_S = 180

# What the service says of a key or of itself, not of the task: another key may do better, this one after a while.
OF_THE_KEY = {"ERROR_NO_SLOT_AVAILABLE", "ERROR_ZERO_BALANCE", "ERROR_KEY_DOES_NOT_EXIST", "ERROR_WRONG_USER_KEY"}

# Not asked again where no answer came: a key may have been given away with it.
kova = redis.Redis(os.environ.get("KOVA_HOST", "127.0.0.1"), int(os.environ.get("KOVA_PORT", "7411")), protocol=3, decode_responses=True,
                   password=os.environ.get("KOVA_TOKEN"), socket_timeout=WAIT_MS / 1000 + 5, retry=Retry(NoBackoff(), 0))


class Paused(Exception):
    """There is no key now: why, and in how many ms to ask again, -1 where nobody knows."""


class Refused(Exception):
    """The service's error code."""


def ask_solver(method, key, **body):
    """A key goes in a body, never in a URL: those are logged."""
    answer = requests.post(f"{SOLVER}/{method}", json={"clientKey": key, **body}, timeout=30).json()
    if answer["errorId"]:
        raise Refused(answer["errorCode"])
    return answer


def next_key():
    """The pool's `permit` is taken with it: this is what waits until another submit may go out."""
    given = kova.execute_command("KOVA.POOL.NEXT", "captcha", "WAIT", WAIT_MS)
    if given["paused"]:
        raise Paused(given["paused"], given["retry_in_ms"])
    return given


def report(given, outcome, code=None):
    try:
        kova.execute_command("KOVA.POOL.REPORT", "captcha", given["ticket"], outcome, *(("HEADER", "error", code) if code else ()))
    except redis.RedisError:
        pass  # the ticket's lease ends by itself


def solve(task):
    """The solution. The key's slot is taken until then: it is reported when the service is done."""
    given, outcome, code = next_key(), "cancelled", None
    try:
        job = ask_solver("createTask", given["address"], task=task)["taskId"]
        until = time.monotonic() + SOLVED_IN_S
        while time.monotonic() < until:
            time.sleep(POLL_S)
            answer = ask_solver("getTaskResult", given["address"], taskId=job)
            if answer["status"] == "ready":
                outcome = "ok"
                return answer["solution"]
        outcome = "timeout"
        raise TimeoutError
    except Refused as refused:
        code = str(refused)
        outcome = "blocked" if code in OF_THE_KEY else "target"
        raise
    except (requests.RequestException, ValueError, KeyError):
        outcome = "target"  # nothing that makes sense: the service's own trouble
        raise
    finally:
        report(given, outcome, code)


def patiently(task):
    while True:
        try:
            return solve(task)
        except Paused as paused:
            if WAIT_MS == 0:
                raise
            time.sleep(max(paused.args[1], 1000) / 1000)
        except Refused as refused:
            if str(refused) not in OF_THE_KEY:
                raise


def main():
    tasks = [json.loads(line) for line in sys.stdin]
    status = 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for task, solved in [(task, threads.submit(patiently, task)) for task in tasks]:
            try:
                print(json.dumps({"task": task, "solution": solved.result()}), flush=True)
            except Paused as paused:
                print("paused: {}, retry in {} ms".format(*paused.args), file=sys.stderr)
                status = 75
            except (redis.AuthenticationError, redis.ResponseError) as error:  # the former is a ConnectionError as well
                print(f"the agent refuses: {error}", file=sys.stderr)
                status = 1
            except redis.RedisError:
                # Yours to choose: this stops. To submit without it is to exceed what the service allows as soon as others do the same.
                print("the agent is away", file=sys.stderr)
                status = 69
            except (Refused, TimeoutError, requests.RequestException, ValueError, KeyError) as error:
                print(f"not solved: {type(error).__name__} {error if isinstance(error, Refused) else ''}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
