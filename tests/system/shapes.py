"""Agents on Redis in each of its shapes, for tests that must hold in all of them."""
import os

import clock
import harness

SHAPES = ("embedded", "standalone", "cluster")

# How many rounds of each kind (algorithm, shape) a test of many rounds makes.
ROUNDS = int(os.environ.get("KOVA_ROUNDS", "50" if not harness.SANITIZED else "10"))

# What these tests prove has nothing to do with how fast this machine is: a store that is slow is not one that is down.
PATIENT = {"timeout": "5s", "connect_timeout": "5s"}


def standalone(redis, **more):
    return {"mode": "standalone", "url": redis.url, **PATIENT, **more}


def start_store(case, shape, shifted=None):
    """The `redis` object of a configuration. `shifted`: a clock.Clock of the servers."""
    with (shifted or clock.Real()).around():
        if shape == "embedded":
            return {"mode": "embedded", **PATIENT}
        if shape == "standalone":
            return standalone(case.start_redis())
        # With a clock that jumps for hours every node would think that it had heard nothing of the others for long.
        return {**case.start_cluster(options=["--cluster-node-timeout", "864000000"]).config(), **PATIENT}


def start_agents(case, shape, policies, count=2, shifted=None, **config):
    """`count` agents on one Redis (one, if it is embedded: that Redis is its own). No outage decides anything."""
    policies = [{"on_outage": "deny", **policy} for policy in policies]
    config = {"redis": start_store(case, shape, shifted), "policies": policies, **config}
    with (shifted or clock.Real()).around():
        return [case.start_agent(config) for _ in range(1 if shape == "embedded" else count)]


def addresses(agents):
    return [agent.resp_address for agent in agents]
