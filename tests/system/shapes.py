"""Agents on Redis in each of its shapes, for tests that must hold in all of them."""

import calendar
import os

import clock
import harness

SHAPES = ("embedded", "standalone", "cluster")

# How many rounds of each kind (algorithm, shape) a test of many rounds makes.
ROUNDS = int(os.environ.get("KOVA_ROUNDS", "50" if not harness.SANITIZED else "10"))


def standalone(redis, **more):
    return {"mode": "standalone", "url": redis.url, **more}


def start_store(case, shape, shifted=None):
    """The `redis` object of a configuration. `shifted`: a clock.Clock of the servers."""
    with (shifted or clock.Real()).around():
        if shape == "embedded":
            return {"mode": "embedded"}
        if shape == "standalone":
            return standalone(case.start_redis())
        # With a clock that jumps for hours every node would think that it had heard nothing of the others for long.
        return case.start_cluster(options=["--cluster-node-timeout", "864000000"]).config()


def start_agents(case, shape, policies, count=2, shifted=None, **config):
    """`count` agents on one Redis (one, if it is embedded: that Redis is its own). No outage decides anything."""
    policies = [{"on_outage": "deny", **policy} for policy in policies]
    config = {"redis": start_store(case, shape, shifted), "policies": policies, **config}
    with (shifted or clock.Real()).around():
        agents = [case.start_agent(config) for _ in range(1 if shape == "embedded" else count)]
    for agent in agents:
        wait_for_redis(agent)
    return agents


def wait_for_redis(agent):
    """Ready means that the agent can answer, if need be by `on_outage`. Here Redis is to: in every master of a cluster."""

    def decides():
        with agent.resp() as connection:
            return all(
                isinstance(reply, list)
                for reply in connection.pipeline([("CL.THROTTLE", f"probe{n}", 0, 1, 1, 0) for n in range(24)])
            )

    harness.wait_for(decides, "decisions by Redis")


def addresses(agents):
    return [agent.resp_address for agent in agents]


class Shared(harness.Case):
    """Tests that share the agents of their class, and each use keys of their own."""

    shape = ""
    policies = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = harness.Case()
        cls.home.setUp()
        try:
            cls.agents = start_agents(cls.home, cls.shape, cls.policies)
            cls.resp = cls.agents[0].resp()
        except BaseException:
            cls.home.tearDown()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.resp.close()
        cls.home.tearDown()
        super().tearDownClass()


class Frozen(harness.Case):
    """An agent on a Redis, both with a clock that stands still until the test moves it."""

    BEGIN_US = calendar.timegm((2026, 3, 2, 12, 30, 18)) * 1_000_000 + 123456

    def start(self, policies, begin_us=BEGIN_US, **config):
        """A connection to the agent."""
        self.clock = clock.Clock(self.directory)
        self.clock.freeze(begin_us)
        self.agent = start_agents(self, "standalone", policies, count=1, shifted=self.clock, **config)[0]
        connection = self.agent.resp()
        self.addCleanup(connection.close)
        return connection
