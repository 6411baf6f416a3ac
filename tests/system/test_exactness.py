"""The limit, exactly: many callers at once on fresh, used and idle keys, in every algorithm and shape of Redis."""
# Bears others.

import calendar

import checker
import clock
import harness
import load
import shapes

HOUR, DAY = 3600, 86400
LIMIT, CALLERS = 100, 200

POLICIES = (
    {"name": "token-bucket", "limit": LIMIT, "per": "1h", "burst": LIMIT},
    {"name": "gcra", "algorithm": "gcra", "limit": LIMIT, "per": "1h", "burst": LIMIT},
    {"name": "sliding-window", "algorithm": "sliding-window", "limit": LIMIT, "per": "1h"},
    {"name": "sliding-counter", "algorithm": "sliding-counter", "limit": LIMIT, "per": "1h"},
    {"name": "calendar", "algorithm": "calendar", "limit": LIMIT, "per": "day"},
    {"name": "concurrency", "algorithm": "concurrency", "limit": LIMIT, "hold": "1h"},
)
PERIOD = {policy["name"]: DAY if policy["name"] == "calendar" else HOUR for policy in POLICIES}
STATES = ("absent", "warm", "idle for 1", "idle for 2", "idle for 10")


def ask(policy, key):
    return ("KOVA.ACQUIRE" if policy == "concurrency" else "KOVA.TAKE", policy, key)


class AtOnce(harness.Case):
    """200 callers at once on a limit of 100. The clock jumps over idle periods; each is long beside a burst."""

    # 30 minutes and 18 seconds into an hour: the sliding counter still counts 49.5 % of the hour before.
    BEGIN_US = calendar.timegm((2026, 3, 2, 12, 30, 18)) * 1_000_000
    COUNTED_AFTER_ONE_PERIOD = 50

    def admitted(self, swarm, policy, key):
        hits = swarm.burst(ask(policy, key))
        self.assertEqual(load.errors(hits), [])
        return [hit.reply for hit in hits if hit.admitted]

    def round(self, swarm, policy, state, number):
        key = f"key-{policy}-{number}"
        self.clock.run_from(self.BEGIN_US + number * 20 * DAY * 1_000_000)
        if state == "absent":
            admitted = self.admitted(swarm, policy, key)
            self.assertEqual(sorted(reply[1] for reply in admitted), list(range(LIMIT)), "what remained, of each")
            return
        if state == "warm":
            for _ in range(30):
                self.assertEqual(self.agents[0].call(*ask(policy, key))[0], 1)
            self.assertEqual(len(self.admitted(swarm, policy, key)), LIMIT - 30)
            return
        self.assertEqual(len(self.admitted(swarm, policy, key)), LIMIT)
        periods = int(state.split()[-1])
        self.clock.advance(periods * PERIOD[policy])
        expected = self.COUNTED_AFTER_ONE_PERIOD if (policy, periods) == ("sliding-counter", 1) else LIMIT
        self.assertEqual(len(self.admitted(swarm, policy, key)), expected)

    def rounds(self, shape):
        self.clock = clock.Clock(self.directory)
        self.clock.run_from(self.BEGIN_US)
        self.agents = shapes.start_agents(self, shape, POLICIES, shifted=self.clock)
        with load.Swarm(shapes.addresses(self.agents), CALLERS) as swarm:
            for number in range(shapes.ROUNDS):
                for policy in PERIOD:
                    state = STATES[number % len(STATES)]
                    with self.subTest(policy=policy, state=state, round=number):
                        self.round(swarm, policy, state, number)

    def test_embedded(self):
        self.rounds("embedded")

    def test_standalone(self):
        self.rounds("standalone")

    def test_cluster(self):
        self.rounds("cluster")

    def test_callers_that_have_just_connected(self):
        agents = shapes.start_agents(self, "standalone", POLICIES)
        for number in range(5):
            with load.Swarm(shapes.addresses(agents), CALLERS) as swarm:
                self.assertEqual(len(self.admitted(swarm, "sliding-window", f"fresh-{number}")), LIMIT)


class Timeline(shapes.Frozen):
    def test_of_the_source(self):
        """Capacity 20, refill 10/s."""
        agent = self.start([{"name": "p", "limit": 10, "per": "1s", "burst": 20}])

        def take(count):
            return [agent.call("KOVA.TAKE", "p", "k")[:2] for _ in range(count)]

        self.assertEqual(take(15), [[1, left] for left in range(19, 4, -1)])
        self.clock.advance(1)
        self.assertEqual(take(15), [[1, left] for left in range(14, -1, -1)])
        self.clock.advance(1)
        self.assertEqual(take(10), [[1, left] for left in range(9, -1, -1)])
        with self.agent.resp(timeout=0.4) as waiter:
            waiter.send("KOVA.TAKE", "p", "k", "WAIT", 20000)
            with self.assertRaises(TimeoutError):
                waiter.read()
        with self.agent.resp() as waiter:
            waiter.send("KOVA.TAKE", "p", "k", "WAIT", 20000)
            self.clock.advance(0.1)
            self.assertEqual(waiter.read()[:2], [1, 0])


class SameInstant(shapes.Frozen):
    def test_500_hits_in_the_same_microsecond_count_as_500(self):
        agent = self.start(
            [
                {"name": "w", "algorithm": "sliding-window", "limit": 1000, "per": "1h"},
                {"name": "c", "algorithm": "concurrency", "limit": 1000, "hold": "1h"},
            ]
        )
        for policy, command in (("w", "KOVA.TAKE"), ("c", "KOVA.ACQUIRE")):
            for reply in agent.pipeline([(command, policy, "k")] * 250):
                self.assertEqual(reply[0], 1)
            for _ in range(250):
                self.assertEqual(agent.call(command, policy, "k")[0], 1)
            self.assertEqual(agent.call("KOVA.PEEK", policy, "k")[1], 500)
        self.clock.advance(HOUR - 1e-6)
        self.assertEqual(agent.call("KOVA.PEEK", "w", "k")[1], 500)
        self.clock.advance(1e-6)
        self.assertEqual([agent.call("KOVA.PEEK", p, "k")[1] for p in "wc"], [1000, 1000])


class Refusals(shapes.Frozen):
    """A rejected request costs nothing."""

    def test_hammered_at_ten_times_the_limit(self):
        agent = self.start(POLICIES[:5])
        for policy in POLICIES[:5]:
            name = policy["name"]
            self.clock.freeze(calendar.timegm((2026, 3, 2, 0, 0, 0)) * 1_000_000)
            per_window = []
            for _ in range(3):
                admitted = 0
                for _ in range(10 * LIMIT):
                    admitted += agent.call("KOVA.TAKE", name, "k")[0]
                    self.clock.advance(PERIOD[name] / LIMIT / 10)
                per_window.append(admitted)
            with self.subTest(policy=name):
                if name in ("token-bucket", "gcra"):
                    # The burst, and what came beside it.
                    self.assertIn(per_window[0], (2 * LIMIT - 1, 2 * LIMIT))
                    self.assertTrue(all(n in (LIMIT - 1, LIMIT) for n in per_window[1:]), per_window)
                elif name == "sliding-counter":
                    self.assertEqual(per_window[0], LIMIT)
                    self.assertTrue(all(LIMIT * 0.9 <= n <= LIMIT for n in per_window[1:]), per_window)
                else:
                    self.assertEqual(per_window, [LIMIT] * 3)

    def test_refusals_of_a_large_cost_leave_no_debt(self):
        agent = self.start(POLICIES[:5])
        for policy in POLICIES[:5]:
            name = policy["name"]
            with self.subTest(policy=name):
                self.assertEqual(agent.call("KOVA.TAKE", name, "k", "COST", 51)[:2], [1, 49])
                refused = agent.pipeline([("KOVA.TAKE", name, "k", "COST", 50)] * 1000)
                self.assertTrue(all(reply == refused[0] for reply in refused), "the same answer each time")
                self.assertEqual(refused[0][:3], [0, 49, LIMIT])
                self.assertEqual(agent.call("KOVA.TAKE", name, "k", "COST", 49)[:2], [1, 0])


def ideal(instants, rate, burst):
    """What a bucket that was full admits of callers at these instants. No other choice of callers within the limit is
    larger."""
    level, last, admitted = burst, instants[0], 0
    for instant in instants:
        level = min(burst, level + (instant - last) * rate)
        last = instant
        if level >= 1:
            level -= 1
            admitted += 1
    return admitted


def possible(hits, rate, burst):
    """What can be admitted of `hits`, of which each was decided at an instant from `sent` to `received`: the less of what
    an ideal bucket admits at the one and at the other."""
    return min(ideal(sorted(instants), rate, burst) for instants in zip(*((hit.sent, hit.received) for hit in hits)))


class Rate(harness.Case):
    def test_offered_ten_times_the_rate(self):
        """1000/s for 10 s against 100/s, burst 1 (CL.THROTTLE's max_burst 0) and 10: all that comes in time for a token."""
        policies = [
            {"name": f"{algorithm}-{burst}", "algorithm": algorithm, "limit": 100, "per": "1s", "burst": burst}
            for algorithm in ("token-bucket", "gcra")
            for burst in (1, 10)
        ]
        agents = shapes.start_agents(self, "standalone", policies)
        names = [policy["name"] for policy in policies]
        with load.Swarm(shapes.addresses(agents), 20) as swarm:
            hits = swarm.run(10, lambda n: ("KOVA.TAKE", names[n % 4], "k"), rate=4000)
        self.assertEqual(load.errors(hits), [])
        for policy in policies:
            burst = policy["burst"]
            mine = [hit for hit in hits if hit.words[1] == policy["name"]]
            admitted = sum(hit.admitted for hit in mine)
            seconds, most = mine[-1].received - mine[0].sent, possible(mine, 100, burst)
            print(f"{policy['name']}: {len(mine)} offered, {admitted} admitted in {seconds:.3f} s, {most} possible", flush=True)
            with self.subTest(policy=policy["name"]):
                self.assertIsNone(checker.bucket_violation(checker.admissions(mine), 100, burst))
                self.assertIsNone(checker.needless_refusal(mine, 100, burst))
                # An instant is neither that of sending nor that of receiving: of what is possible then, a burst of 1 misses more.
                self.assertGreaterEqual(admitted, most * (0.99 if burst > 1 else 0.98))

    def test_a_window_under_load(self):
        policies = [
            {"name": "w", "algorithm": "sliding-window", "limit": 50, "per": "1s"},
            {"name": "c", "algorithm": "sliding-counter", "limit": 50, "per": "1s"},
        ]
        agents = shapes.start_agents(self, "standalone", policies)
        with load.Swarm(shapes.addresses(agents), 20) as swarm:
            hits = swarm.run(4, lambda n: ("KOVA.TAKE", "wc"[n % 2], "k"), rate=1000)
        self.assertEqual(load.errors(hits), [])
        taken = {name: checker.admissions([hit for hit in hits if hit.words[1] == name]) for name in "wc"}
        self.assertIsNone(checker.window_violation(taken["w"], 50, 1.0))
        first = int(hits[0].sent)
        self.assertIsNone(checker.fixed_violation(taken["c"], 50, range(first, first + 10)))
        for name in "wc":
            self.assertGreater(len(taken[name]), 3 * 50 * 0.8, name)

    def test_three_agents_send_what_one_may(self):
        """Workers that share a key, beside three agents: 10/s together, and all of it."""
        seconds, rate, burst = 30, 10, 20
        agents = shapes.start_agents(self, "standalone", [{"name": "p", "limit": rate, "per": "1s"}], count=3)
        self.assertEqual(agents[0].call("KOVA.TAKE", "p", "k", "COST", burst)[:3], [1, 0, burst])
        with load.Swarm(shapes.addresses(agents), 12) as swarm:
            hits = swarm.run(seconds, ("KOVA.TAKE", "p", "k", "WAIT", 20000))
        self.assertEqual(load.errors(hits), [])
        begun = hits[0].sent
        in_time = [hit for hit in hits if hit.admitted and hit.received <= begun + seconds]
        print(f"three agents: {len(in_time)} admitted in {seconds} s of {rate * seconds}", flush=True)
        self.assertIsNone(checker.bucket_violation(checker.admissions(hits), rate, burst))
        self.assertLessEqual(len(in_time), rate * seconds + 1, "drained before")
        self.assertGreaterEqual(len(in_time), rate * seconds * 0.99)
        self.assertTrue(all(hit.admitted for hit in hits), load.replies(hits))


if __name__ == "__main__":
    harness.main()
