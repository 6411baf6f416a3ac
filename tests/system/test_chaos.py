"""Every fault of the other tests in random combination, on the world of three regions, with pools: made from a seed beforehand.

A round of it runs with the other tests. `scripts/chaos` goes on for an hour, or for as long as it is told, with the seed that it is
told, or through the plan of a log again. chaos_plan.py says what may happen, chaos_judge.py what must hold.

KOVA_CHAOS_SECONDS, KOVA_CHAOS_SEED, KOVA_CHAOS_LOG (where the plan and what became of it is written), KOVA_CHAOS_REPLAY (a log).
"""
# Bears others.
import contextlib
import heapq
import itertools
import json
import os
import shutil
import signal
import time
import unittest

import chaos_callers as callers
import chaos_plan
import clock
import harness
import load
import usage_topic
import world
from chaos_judge import Judge
from world import HUB, REGIONS

SECONDS = float(os.environ.get("KOVA_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("KOVA_CHAOS_SEED", "339"))  # in the round of this one is nearly each kind of fault
LOG, REPLAY = os.environ.get("KOVA_CHAOS_LOG"), os.environ.get("KOVA_CHAOS_REPLAY")
MOVED, MOVES_WITHIN = 0.8, 40.0  # of the limit, s
LONGEST_PAUSE = 9.0  # of a region: after ten seconds it would lend its floor, and its Redis forget that it has
AFTER_BROKER, AFTER_WAY = 10.0, 5.0  # until all talk to Kafka again


class Log:
    """What is planned, and what is done when, a line each."""

    def __init__(self, path, seed, faults):
        chaos_plan.write(path, seed, faults)
        self.file = open(path, "a", encoding="utf-8")
        self.lines = []

    def did(self, what, **more):
        self.lines.append(json.dumps({"at": round(time.time(), 3), "did": what, **more}))
        self.file.write(self.lines[-1] + "\n")
        self.file.flush()


class Chaos(world.Case):
    policies, pools = callers.POLICIES, [callers.POOL]

    def setUp(self):
        super().setUp()
        self.redis_clocks, self.loaded = {}, {(region, n): 100 for region in REGIONS for n in range(self.agents_each)}
        self.pauses, self.workers_pause = set(), False
        self.demand, self.hot = {region: callers.QUIET for region in REGIONS}, REGIONS[0]
        self.people, self.book = [], callers.Book()
        self.judge = Judge(self.book, REGIONS)
        self.broker_starts = None  # once one was killed, and has been started again
        self.addCleanup(lambda: [setattr(one, "over", True) for one in self.people])
        self.start_redises()
        self.start_hub()
        self.start_agents()

    # ---- the parts ----

    def paused(self, region):
        return region in self.pauses

    def resp_address(self, number):
        return "127.0.0.1", world.RESP + 10 * number

    def start_redis_of(self, region):
        """With a clock of its own, and where it was before with what it left."""
        if region not in self.redis_clocks:
            self.redis_clocks[region] = clock.Clock(self.directory, f"clock-redis-{region}")
        with self.redis_clocks[region].around():
            super().start_redis_of(region)

    def config(self, region, number):
        moving = {**callers.MOVING, "limit": self.loaded[region, number]}
        return {**super().config(region, number), "policies": [*self.policies, moving]}

    def gone(self, process):
        """It has ended, and another one takes its place."""
        process.log_file.close()
        self._processes.remove(process)

    def tell_redis(self, region, *words):
        with self.wire.inside(region):
            self.redis[region].call(*words)

    # ---- faults: each context has something away or wrong ----

    @contextlib.contextmanager
    def span(self, spans, what):
        begun = time.time()
        yield
        spans.append((what, begun, time.time()))

    def start_again(self, agent):
        self.gone(self.agents[agent])
        self.start_agent_of(*agent, ready=False)

    @contextlib.contextmanager
    def kill_agent(self, fault):
        agent = tuple(fault.where)
        self.agents[agent].kill()
        self.judge.ended.append((agent, time.time()))
        yield
        self.start_again(agent)

    @contextlib.contextmanager
    def drain_agent(self, fault):
        agent = tuple(fault.where)
        self.agents[agent].send_signal(signal.SIGTERM)
        begun = time.time()
        yield
        status = self.agents[agent].wait(30)
        self.assertEqual(status, 0, f"{agent} was drained")
        if self.judge.kafka_away(agent, begun, time.time()):
            self.judge.ended.append((agent, time.time()))  # it says so in its log (docs/kafka.md)
        self.start_again(agent)

    @contextlib.contextmanager
    def stop_agent(self, fault):
        agent = tuple(fault.where)
        with self.span(self.judge.stopped, agent):
            self.stopped.add(agent)
            self.agents[agent].send_signal(signal.SIGSTOP)
            yield
            self.agents[agent].send_signal(signal.SIGCONT)
            self.stopped.discard(agent)

    @contextlib.contextmanager
    def agent_clock(self, fault):
        shown = self.clocks["{}-{}".format(*fault.where)]
        shown.shift(fault.value)
        yield
        shown.shift(0)

    @contextlib.contextmanager
    def kill_redis(self, fault):
        (region,) = fault.where
        self.redis[region].kill()
        yield
        self.gone(self.redis[region])
        self.start_redis_of(region)

    @contextlib.contextmanager
    def stop_redis(self, fault):
        (region,) = fault.where
        self.redis[region].send_signal(signal.SIGSTOP)
        yield
        self.redis[region].send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def empty_redis(self, fault):
        """When its callers have paused for so long that nothing that it knows holds anybody back."""
        (region,) = fault.where
        self.pauses.add(region)
        begun = time.monotonic()
        yield
        if time.monotonic() - begun < LONGEST_PAUSE:
            self.redis[region].kill()
            self.gone(self.redis[region])
            shutil.rmtree(self.redis[region].directory)
            self.judge.emptied.append((region, time.time()))
            self.start_redis_of(region)
        self.pauses.discard(region)

    @contextlib.contextmanager
    def redis_clock(self, fault):
        (region,) = fault.where
        for seconds in (fault.value, -fault.value):
            self.judge.steps.append((region, time.time(), seconds))
            self.redis_clocks[region].advance(seconds)
            if seconds == fault.value:
                yield

    @contextlib.contextmanager
    def cut_connections(self, fault):
        self.tell_redis(*fault.where, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        yield

    @contextlib.contextmanager
    def forget_scripts(self, fault):
        self.tell_redis(*fault.where, "SCRIPT", "FLUSH")
        yield

    @contextlib.contextmanager
    def kill_coordinator(self, fault):
        (node,) = fault.where
        self.coordinators[node].kill()
        yield
        self.gone(self.coordinators[node])
        self.start_coordinator(node)

    @contextlib.contextmanager
    def stop_coordinator(self, fault):
        (node,) = fault.where
        self.coordinators[node].send_signal(signal.SIGSTOP)
        yield
        self.coordinators[node].send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def without_kafka(self, regions, after):
        begun = time.time()
        self.judge.no_kafka += [(region, begun, float("inf")) for region in regions]
        yield
        self.judge.kafka_is_back(regions, begun, time.time() + after)

    def _start_broker(self):
        with self.wire.inside(HUB):
            self.broker.restart()

    def wait_for_broker(self):
        """It takes some seconds to start, while other faults come and go."""
        if self.broker_starts is not None:
            self.broker_starts.result()

    @contextlib.contextmanager
    def kill_broker(self, _):
        with self.without_kafka(REGIONS, AFTER_BROKER):
            self.wait_for_broker()
            self.broker.kill()
            yield
            self.broker_starts = load.Background(self._start_broker)

    @contextlib.contextmanager
    def stop_broker(self, _):
        with self.without_kafka(REGIONS, AFTER_BROKER):
            self.wait_for_broker()
            self.broker.send_signal(signal.SIGSTOP)
            yield
            self.broker.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def way(self, fault, change, back, *words):
        a, b = fault.where
        with self.without_kafka([place for place in (a, b) if HUB in (a, b) and place != HUB], AFTER_WAY):
            change(a, b, *words)
            yield
            back(a, b)

    def _tell(self, *words):
        return lambda a, b: self.wire.tell(words[0], a, b, *words[1:])

    def cut_way(self, fault):
        return self.way(fault, self._tell("cut"), self._tell("join"))

    def cut_both_ways(self, fault):
        return self.way(fault, self.wire.cut, self.wire.join)

    def delay(self, fault):
        return self.way(fault, self._tell("delay", 1000 * fault.value), self._tell("delay", 1000 * world.ONE_WAY))

    def lose(self, fault):
        return self.way(fault, self._tell("lose", fault.value), self._tell("lose", 0))

    def double(self, fault):
        return self.way(fault, self._tell("double", fault.value), self._tell("double", 0))

    @contextlib.contextmanager
    def reload(self, fault):
        agent = tuple(fault.where)
        self.loaded[agent] = fault.value
        self.agents[agent].reload({**self.agents[agent].config, "policies": self.config(*agent)["policies"]})
        yield

    @contextlib.contextmanager
    def override(self, fault):
        """Refused where the agent's clock is wrong, or there is nobody to compare it with."""
        agent = tuple(fault.where)
        change = {"policy": "keyed", "key": "all", "limit": fault.value, "per": "1s", "burst": callers.LIMITS["keyed"]["burst"]}
        try:
            with self.wire.inside(agent[0]):
                self.log.did("answered", status=self.agents[agent].http("PUT", "/v1/overrides", change).status)
        except OSError as error:
            self.log.did("not answered", error=str(error))
        yield

    @contextlib.contextmanager
    def move(self, fault):
        self.go_to(*fault.where, callers.PEAK)
        yield

    def go_to(self, region, demand):
        self.demand[self.hot] = callers.QUIET
        self.hot = region
        self.demand[region] = demand

    # ---- rounds ----

    def go_through(self, faults):
        begun, order = time.monotonic(), itertools.count()
        events = [(fault.at, next(order), fault, None) for fault in faults]
        heapq.heapify(events)
        while events:
            at, _, fault, going = heapq.heappop(events)
            time.sleep(max(0.0, begun + at - time.monotonic()))
            if going is None:
                self.log.did("begins", fault=fault._asdict())
                going = getattr(self, fault.kind)(fault)
                going.__enter__()
                heapq.heappush(events, (fault.at + fault.seconds, next(order), fault, going))
            else:
                going.__exit__(None, None, None)
                self.log.did("ended", kind=fault.kind, where=fault.where)
        self.wait_for_broker()

    def in_flight(self, region):
        with self.wire.inside(region):
            shown = self.agents[region, 0].http("GET", "/v1/pools/exits").json()
        self.assertEqual(sorted(endpoint["id"] for endpoint in shown["endpoints"]), callers.ENDPOINTS)
        return sum(endpoint["in_flight"] for endpoint in shown["endpoints"])

    def agreed(self):
        """What all agents have of policies and overrides; None: they differ."""
        said = set()
        for (region, _), agent in self.agents.items():
            with self.wire.inside(region):
                said.add(json.dumps([agent.http("GET", path).json() for path in ("/v1/policies", "/v1/overrides")], sort_keys=True))
        return said.pop() if len(said) == 1 else None

    def quiet(self, number):
        """All is well: everything must work again, and soon."""
        self.judge.healed.append(time.time())
        self.log.did("all is well", round=number)
        self.workers_pause = True
        for name, process in [*self.agents.items(), *self.coordinators.items(), *self.redis.items()]:
            self.assertTrue(process.running(), f"{name} has ended by itself")
        self.settle()
        for region in REGIONS:
            harness.wait_for(lambda r=region: self.in_flight(r) == 0, f"nothing in flight at {region}", 3 * callers.LEASE)
        harness.wait_for(self.agreed, "agents that agree on policies and overrides", 60)
        self.workers_pause = False
        self.use_all()

    def use_all(self):
        """Demand moves on, and the limit moves after it; at once, where the machine is not busy with other things."""
        hot = REGIONS[(REGIONS.index(self.hot) + 1) % len(REGIONS)]
        self.go_to(hot, callers.PEAK)
        time.sleep(3)
        self.demand[hot] = callers.BUSY
        time.sleep(3)
        begun = time.monotonic()
        harness.wait_for(lambda: (self.sample()[hot] or 0) >= MOVED, f"most of the limit at {hot}, where it is wanted", MOVES_WITHIN)
        self.log.did("the limit has moved", after=round(6 + time.monotonic() - begun, 1))
        time.sleep(2)
        begun = time.time()
        time.sleep(3)
        self.judge.uses.append((hot, begun, time.time()))

    def read_usage(self):
        """When all that agents have counted has arrived."""
        time.sleep(1)
        for agent in self.agents:
            harness.wait_for(lambda a=agent: self.metric(*a, "kova_usage_unpublished") == 0, f"usage of {agent} in Kafka", 60)
        with self.wire.inside(HUB), self.broker.reader(usage_topic.TOPIC) as reader:
            return reader.until_end(60 + SECONDS / 10)

    def go(self, faults):
        rounds = [list(part) for _, part in itertools.groupby(faults, lambda fault: fault.round)]
        self.people = callers.start(self, self.book)
        self.settle(0)
        for number, part in enumerate(rounds):
            self.go_through(part)
            self.quiet(number)
            print(f"round {number + 1} of {len(rounds)}: {len(part)} faults, all is well again", flush=True)
        callers.stop(self.people)

    def verdict(self, records):
        judge = self.judge
        return {"limits": judge.limits(), "lost": judge.lost(), "not serving": judge.not_serving(), "unused": judge.unused(),
                "usage": judge.usage(records)}

    def begin(self, seed, faults):
        self.log = Log(LOG or os.path.join(self.directory, "chaos.log"), seed, faults)
        self.addCleanup(self.log.file.close)


class All(Chaos):
    def test_whatever_happens_every_promise_is_kept(self):
        seed, faults = chaos_plan.read(REPLAY) if REPLAY else (SEED, chaos_plan.make(SEED, SECONDS))
        self.begin(seed, faults)
        begun = time.monotonic()
        self.go(faults)
        found = {name: what for name, what in self.verdict(self.read_usage()).items() if what}
        print(f"seed {seed}: {len(faults)} faults in {time.monotonic() - begun:.0f} s, {self.book.requests} requests, "
              f"{len(self.book.permits)} permits, {len(self.book.tickets)} tickets", flush=True)
        self.log.did("judged", found=repr(found))
        self.assertEqual(found, {}, "\n".join(self.log.lines))


class Seeded(Chaos):
    @unittest.skipIf(LOG, "this run is for what is planned")
    def test_redises_that_forget_are_found_out(self):
        """Emptied with what they have given out still in use: outside of the promises, and so not in a plan."""
        forgets = [chaos_plan.Fault(0, 3 * n + at, "empty_redis", [region], 0.1, None)
                   for n in range(3) for at, region in enumerate(REGIONS, 1)]
        self.begin(0, forgets)
        self.people = callers.start(self, self.book)
        time.sleep(3)
        for _ in range(5):  # at once, where nothing else keeps the callers from asking
            self.go_through(forgets)
            time.sleep(5)
            found = self.judge.limits()
            if found:
                break
        callers.stop(self.people)
        print(f"found: {found}", flush=True)
        self.assertTrue(found)


if __name__ == "__main__":
    harness.main()
